// The readouts that a frame of a fixed number of readouts is made of, while they wait for each other.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include "gadgets/api/items.h"
#include "gadgets/numerics/core/context.h"

namespace echotrain {

/// Readouts, oldest first, in memory of the session's budget. It grows with what has come, never with what is asked
/// for, and holds nothing of the buffers in which readouts arrived. ResourceError when the budget is exhausted.
class ReadoutWindow {
 public:
  /// `most`: how many readouts there will ever be at once.
  ReadoutWindow(numerics::Context& compute, std::int64_t most) : compute_(&compute), most_(most) {}

  void push(const protocol::Acquisition& readout);
  const protocol::AcquisitionHeader& front() const { return chunks_.front().heads.data()[chunks_.front().begin]; }
  const protocol::AcquisitionHeader& back() const { return chunks_.back().heads.data()[chunks_.back().end - 1]; }

  /// Gives all readouts in order, in batches with first and last set, and drops the `leaving` oldest. What leaves is
  /// handed over and what stays is copied, so batches are free to be written to.
  void give(std::int64_t leaving, const std::function<void(Readouts&&)>& emit);
  /// Gives copies of the `count` newest in order, in batches; `first` and `last` hold for them together.
  void give_newest(std::int64_t count, bool first, bool last, const std::function<void(Readouts&&)>& emit) const;
  /// Forgets the oldest.
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
