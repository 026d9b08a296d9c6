// The reader of records of a one-dimensional HDF5 dataset. All calls need hdf5::Lock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "protocol/files/hdf5_types.h"

namespace echotrain::protocol::hdf5 {

/// Returns the sizes of a dataset, slowest dimension first; empty for a single value.
std::vector<hsize_t> shape_of(const Handle& dataset);

/// A dataset of records, open as long as this lives.
class Records {
 public:
  Records() = default;
  /// An invalid `dataset` has no records. `type` is the type of a record in memory.
  Records(Handle dataset, Handle type);

  std::size_t count() const { return count_; }
  /// Reads `n` records from `index` on; false when HDF5 cannot. Lists and texts inside them live until release().
  bool read(std::size_t index, std::size_t n, void* to) const;
  /// Frees the memory of what was read, also after a read that failed half-way.
  void release();

 private:
  // Memory that HDF5 asks for while it reads. HDF5 loses track of it when a read fails, and asks for any length that a
  // damaged file claims. Lists handles both.
  class Lists;
  struct ListsDeleter {
    void operator()(Lists* lists) const;
  };

  Handle dataset_;
  Handle type_;
  std::unique_ptr<Lists, ListsDeleter> lists_;
  Handle transfer_;  // tells HDF5 to use lists_
  std::size_t count_ = 0;
};

inline std::size_t list_bytes(const AcquisitionRecord& record) {
  return sizeof(float) * (record.trajectory.len + record.data.len);
}
inline std::size_t list_bytes(const WaveformRecord& record) { return sizeof(std::uint32_t) * record.data.len; }

/// Records that are mostly read in order. A call of HDF5 costs far more than a record, so several are read at once.
template <class Record>
class ReadAhead {
 public:
  ReadAhead() = default;
  ReadAhead(Handle dataset, Handle type) : records_(std::move(dataset), std::move(type)) {}
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ReadAhead& operator=(ReadAhead&& other) noexcept {
    std::swap(records_, other.records_);
    std::swap(block_, other.block_);
    std::swap(first_, other.first_);
    return *this;
  }

  std::size_t count() const { return records_.count(); }

  /// Returns record `index` < count(), valid until the next call; null when it cannot be read.
  const Record* at(std::size_t index) {
    if (index >= first_ && index - first_ < block_.size()) return &block_[index - first_];
    const bool in_order = !block_.empty() && index == first_ + block_.size();
    const std::size_t ahead = in_order ? std::min(affordable(), count() - index) : 1;
    drop();
    // A damaged record must not hide its neighbours.
    if (!fill(index, ahead) && (ahead == 1 || !fill(index, 1))) return nullptr;
    return block_.data();
  }

 private:
  static constexpr std::size_t kMostRecords = 64;
  static constexpr std::size_t kMostBytes = 4 << 20;

  // Returns how many records like those in block_ may be read at once.
  std::size_t affordable() const {
    std::size_t bytes = 1;
    for (const Record& record : block_) bytes += sizeof(Record) + list_bytes(record);
    return std::clamp<std::size_t>(kMostBytes * block_.size() / bytes, 1, kMostRecords);
  }

  bool fill(std::size_t index, std::size_t n) {
    block_.assign(n, Record{});
    first_ = index;
    if (records_.read(index, n, block_.data())) return true;
    drop();
    return false;
  }

  void drop() {
    records_.release();
    block_.clear();
  }

  Records records_;
  std::vector<Record> block_;
  std::size_t first_ = 0;
};

}  // namespace echotrain::protocol::hdf5
