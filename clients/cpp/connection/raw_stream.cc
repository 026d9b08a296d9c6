#include "clients/cpp/connection/raw_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "protocol/data/message_id.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {

RawStream::RawStream(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), "cannot open " + file.string());
  struct stat status {};
  const bool known = ::fstat(descriptor, &status) == 0;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* mapped = known && size > 0 ? ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0) : nullptr;
  const int error = errno;
  ::close(descriptor);
  if (!known || mapped == MAP_FAILED)
    throw std::system_error(error, std::generic_category(), "cannot read " + file.string());
  if (size > 0) bytes_ = {static_cast<const std::byte*>(mapped), size};
}

RawStream::~RawStream() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::optional<RawMessage> RawStream::next() {
  closed_ = false;
  problem_.clear();
  const auto rest = bytes_.subspan(position_);
  if (rest.empty()) return std::nullopt;
  const auto extent = protocol::measure(rest, limits_);
  if (!extent) {
    problem_ = fmt::format("no message begins at byte {}: {}", position_, extent.error().message);
    return std::nullopt;
  }
  if (!extent->exact || extent->size > rest.size()) {
    problem_ = fmt::format("it ends inside a message, {} bytes after its beginning at byte {}", rest.size(), position_);
    return std::nullopt;
  }
  if (extent->id == static_cast<std::uint16_t>(protocol::MessageId::close)) {
    closed_ = true;
    return std::nullopt;
  }
  position_ += extent->size;
  return RawMessage{extent->id, rest.first(extent->size)};
}

}  // namespace echotrain::client
