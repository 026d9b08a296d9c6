#include "server/console/download/memory_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <limits>
#include <system_error>

namespace echotrain::server {

namespace {
int make_memory_file(std::string& path) {
  const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), "no file can be made in /dev/shm");
  return descriptor;
}
}  // namespace

MemoryFile::MemoryFile(std::shared_ptr<numerics::MemoryBudget> budget)
    : budget_(std::move(budget)), path_("/dev/shm/echotrain-XXXXXX"), descriptor_(make_memory_file(path_)) {
  budget_->add_evictable(*this);
}

MemoryFile::~MemoryFile() {
  budget_->remove_evictable(*this);
  hide();
  ::close(descriptor_);
  budget_->give(paid_);
}

void MemoryFile::hide() {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
}

std::uint64_t MemoryFile::size() const {
  struct stat status {};
  return ::fstat(descriptor_, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

std::uint64_t MemoryFile::room() const {
  struct statvfs status {};
  constexpr auto kNoBound = std::numeric_limits<std::uint64_t>::max();
  if (::fstatvfs(descriptor_, &status) != 0 || status.f_blocks == 0) return kNoBound;
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

bool MemoryFile::pay(std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  if (bytes <= paid_) return true;
  if (!budget_->take_if_it_fits(bytes - paid_)) return false;
  paid_ = bytes;
  return true;
}

void MemoryFile::seal() {
  const std::scoped_lock lock(mutex_);
  sealed_ = budget_->now();
}

std::optional<std::string> MemoryFile::read(std::uint64_t offset, std::size_t most) const {
  const std::scoped_lock lock(mutex_);
  if (gone_) return std::nullopt;
  std::string bytes(most, '\0');
  const ssize_t n = ::pread(descriptor_, bytes.data(), most, static_cast<off_t>(offset));
  bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return bytes;
}

std::optional<std::uint64_t> MemoryFile::unused_since() const {
  const std::scoped_lock lock(mutex_);
  if (sealed_ == 0 || gone_) return std::nullopt;
  return sealed_;
}

void MemoryFile::evict(std::uint64_t) {
  const std::scoped_lock lock(mutex_);
  if (sealed_ == 0 || gone_) return;
  gone_ = ::ftruncate(descriptor_, 0) == 0;
  if (!gone_) return;
  budget_->give(paid_);
  paid_ = 0;
}

}  // namespace echotrain::server
