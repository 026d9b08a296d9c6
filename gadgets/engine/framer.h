// The entrance of a pipeline: decides once what makes one image, and hands readouts on in batches that never mix frames
// or kinds.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "config/pipeline_spec.h"
#include "gadgets/api/gadget.h"
#include "gadgets/api/items.h"
#include "gadgets/engine/line_set.h"
#include "gadgets/engine/window_frames.h"
#include "protocol/data/header.h"

namespace echotrain {

/// Groups acquisitions into frames by a pipeline's `frame:` rule (docs/pipelines.md, "Frames"). Grouping depends on the
/// readouts alone, never on how they arrived: any split of the same scan into batches gives the same frames. Data held
/// between batches count towards the session's budget: ResourceError when that is exhausted.
class Framer {
 public:
  using EmitReadouts = std::function<void(Readouts&&)>;

  explicit Framer(config::FrameRule rule) : rule_(std::move(rule)), windows_(rule_.readouts, rule_.stride) {}

  void start(const protocol::Header& header, Scan& scan);
  void push(std::vector<protocol::Acquisition>&& acquisitions, const EmitReadouts& emit);
  /// Complete: closes open frames. Truncated: drops them and says how many.
  void finish(End how, const EmitReadouts& emit);

  std::uint64_t frames() const { return next_id_; }
  std::uint64_t late_readouts() const { return late_; }

 private:
  using Line = std::tuple<std::uint16_t, std::uint16_t, std::uint16_t>;  // step 1, step 2, average
  struct Expected {
    std::size_t lines = 0;  // of a whole frame; 0: not known
    bool averages = false;  // the header says how many averages there are, so each counts
  };
  struct Open {
    explicit Open(numerics::Context& compute) : lines(compute) {}
    std::shared_ptr<Frame> frame;
    std::vector<protocol::Acquisition> waiting;  // readouts of the batch being pushed that are not yet handed on
    LineSet lines;                               // that have arrived
    std::size_t announced = 0;                   // how many of them the header counts
    bool started = false;                        // a first batch has been handed on
    bool last_seen = false;                      // a last-in flag has come
  };

  void add_imaging(protocol::Acquisition&& acquisition, const EmitReadouts& emit);
  void add_counted(protocol::Acquisition&& acquisition, const EmitReadouts& emit);
  void other_kind(protocol::ReadoutKind kind, std::vector<protocol::Acquisition>&& run, const EmitReadouts& emit);
  Open& open(const FrameKey& key, const protocol::AcquisitionHeader& head);
  const Expected& expected(const FrameKey& key) const { return expected_.at(key.encoding); }
  bool complete(const Open& open) const;
  bool looks_finished(const Open& open, const FrameKey& next) const;
  bool is_late(const FrameKey& key, const Line& line) const;
  void close_finished(const FrameKey& next, const EmitReadouts& emit);
  void close_until(const FrameKey& key, std::uint64_t flags, const EmitReadouts& emit);
  void flush(Open& open, bool last, const EmitReadouts& emit);
  void flush_all(const EmitReadouts& emit);
  std::vector<FrameKey> open_keys() const;  // in the order in which they were opened
  void close(const FrameKey& key, const EmitReadouts& emit);

  config::FrameRule rule_;
  std::uint64_t until_mask_ = 0;
  Scan* scan_ = nullptr;
  std::vector<Expected> expected_;  // per encoding
  std::map<FrameKey, Open> open_;
  struct Closed {
    FrameKey key;
    Line first;
  };
  std::deque<Closed> closed_incomplete_;           // most recent last, bounded
  std::map<std::uint16_t, std::uint16_t> newest_;  // latest repetition so far, by encoding
  WindowFrames windows_;
  Instant taken_{};  // when the batch being pushed was taken
  std::uint64_t next_id_ = 0;
  std::uint64_t late_ = 0;
};

}  // namespace echotrain
