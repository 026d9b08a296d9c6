#include "gadgets/steps/arrays/shared_area.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "gadgets/api/errors.h"

#ifndef F_SEAL_FUTURE_WRITE  // Linux 5.1
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace echotrain {
namespace {

[[noreturn]] void no_area(const char* what) {
  throw ResourceError(fmt::format("no memory can be shared with a python step: {}: {}", what, std::strerror(errno)));
}

std::size_t aligned(std::size_t bytes) {
  return std::max<std::size_t>(1, (bytes + SharedArea::kAligned - 1) / SharedArea::kAligned) * SharedArea::kAligned;
}

}  // namespace

SharedArea::Mapped SharedArea::make(const char* name, std::size_t bytes, unsigned seals) {
  Mapped made;
  made.file = OwnDescriptor(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (made.file.get() < 0) no_area("memfd_create");
  if (::ftruncate(made.file.get(), static_cast<off_t>(bytes)) != 0) no_area("ftruncate");
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made.file.get(), 0);
  if (memory == MAP_FAILED) no_area("mmap");
  made.memory = static_cast<std::byte*>(memory);
  // A process that could shorten the file would end this one by SIGBUS.
  if (::fcntl(made.file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | seals) != 0) {
    ::munmap(memory, bytes);
    no_area("sealing");
  }
  return made;
}

SharedArea::SharedArea(std::size_t bytes, std::shared_ptr<numerics::MemoryAccount> account)
    : bytes_(bytes), share_(std::move(account)) {
  share_.grow_to(2 * bytes);
  inputs_ = make("echotrain_inputs", bytes, F_SEAL_FUTURE_WRITE);
  try {
    results_ = make("echotrain_results", bytes, 0);
  } catch (...) {
    ::munmap(inputs_.memory, bytes);
    throw;
  }
  free_.emplace(0, bytes);
}

SharedArea::~SharedArea() {
  ::munmap(inputs_.memory, bytes_);
  ::munmap(results_.memory, bytes_);
}

std::shared_ptr<void> SharedArea::take(std::size_t bytes) {
  if (bytes > bytes_) return nullptr;
  const std::size_t wanted = aligned(bytes);
  std::size_t place = 0;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = std::find_if(free_.begin(), free_.end(), [&](const auto& gap) { return gap.second >= wanted; });
    if (found == free_.end()) return nullptr;
    place = found->first;
    const std::size_t rest = found->second - wanted;
    free_.erase(found);
    if (rest > 0) free_.emplace(place + wanted, rest);
  }
  return {inputs_.memory + place, [area = shared_from_this(), place, wanted](void*) {
            const std::scoped_lock lock(area->mutex_);
            auto next = area->free_.emplace(place, wanted).first;
            if (next != area->free_.begin()) {
              const auto before = std::prev(next);
              if (before->first + before->second == place) {
                before->second += wanted;
                area->free_.erase(next);
                next = before;
              }
            }
            const auto after = std::next(next);
            if (after != area->free_.end() && next->first + next->second == after->first) {
              next->second += after->second;
              area->free_.erase(after);
            }
          }};
}

std::int64_t SharedArea::place_of(const void* memory) const {
  const auto* const at = static_cast<const std::byte*>(memory);
  // Pointers of different objects have no order but by std::less.
  const std::less<> before;
  if (before(at, inputs_.memory) || !before(at, inputs_.memory + bytes_)) return -1;
  return at - inputs_.memory;
}

std::shared_ptr<void> SharedArea::result(std::uint64_t place, std::uint64_t bytes) {
  if (place % kAligned != 0 || place > bytes_ || bytes > bytes_ - place) return nullptr;
  return {results_.memory + place, [area = shared_from_this(), place](void*) {
            const std::scoped_lock lock(area->mutex_);
            area->released_.push_back(place);
          }};
}

std::vector<std::uint64_t> SharedArea::released() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(released_, {});
}

}  // namespace echotrain
