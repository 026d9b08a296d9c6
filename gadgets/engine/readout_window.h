// A ReadoutWindow collects the readouts of a frame that has a fixed number of them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include "gadgets/api/items.h"
#include "gadgets/numerics/core/context.h"

namespace echotrain {

/// Readouts, oldest first, in memory that counts towards the session's budget. It grows with the readouts that have
/// come, never with the number asked for, and keeps none of the buffers in which they arrived. Throws ResourceError
/// when the budget is exhausted.
class ReadoutWindow {
 public:
  /// `most`: the largest number of readouts held at once.
  ReadoutWindow(numerics::Context& compute, std::int64_t most) : compute_(&compute), most_(most) {}

  void push(const protocol::Acquisition& readout);
  std::int64_t size() const { return size_; }
  const protocol::AcquisitionHeader& front() const { return chunks_.front().heads.data()[chunks_.front().begin]; }
  const protocol::AcquisitionHeader& back() const { return chunks_.back().heads.data()[chunks_.back().end - 1]; }

  /// Gives all readouts in order, in batches with first and last set, and drops the `leaving` oldest. Readouts that
  /// leave are handed over and those that stay are copied, so the receiver may write to the batches.
  void give(std::int64_t leaving, const std::function<void(Readouts&&)>& emit);
  /// Gives copies of the `count` newest in order, in batches; `first` and `last` apply to them as a whole.
  void give_newest(std::int64_t count, bool first, bool last, const std::function<void(Readouts&&)>& emit) const;
  /// Drops this many of the oldest.
  void drop(std::int64_t oldest);

 private:
  struct Chunk {
    HostArray<protocol::AcquisitionHeader> heads;
    HostArray<cfloat> data;       // [readout, channel, sample]
    HostArray<float> trajectory;  // [readout, sample, dimension]
    std::int64_t begin = 0, end = 0;
  };
  bool fits(const protocol::AcquisitionHeader& head) const;
  Chunk make_chunk(const protocol::AcquisitionHeader& head) const;
  Readouts batch(const Chunk& chunk, std::int64_t begin, bool leaves) const;

  numerics::Context* compute_;
  std::int64_t most_;
  std::int64_t size_ = 0;
  std::deque<Chunk> chunks_;
};

}  // namespace echotrain
