// The Framer is the entrance of a pipeline: it groups readouts into frames, and hands them on in batches that never mix
// frames or kinds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "config/pipeline_spec.h"
#include "gadgets/api/items.h"
#include "gadgets/api/scan.h"
#include "gadgets/engine/automatic_frames.h"
#include "gadgets/engine/explicit_frames.h"
#include "gadgets/engine/open_frames.h"
#include "gadgets/engine/window_frames.h"
#include "protocol/data/header.h"

namespace echotrain {

/// Groups acquisitions into frames by a pipeline's `frame:` rule (docs/pipelines.md, "Frames"). Grouping depends on the
/// readouts alone, never on how they arrived: any split of the same scan into batches gives the same frames. With
/// `when_behind: drop_oldest` some frames are left out, depending on the readouts that wait; the others are unchanged,
/// and note how many are missing before them. Data held between batches count towards the session's budget; throws
/// ResourceError when that is exhausted.
class Framer {
 public:
  using EmitReadouts = std::function<void(Readouts&&)>;

  explicit Framer(const config::FrameRule& rule)
      : drops_(rule.when_behind == config::WhenBehind::drop_oldest), frames_(rule_of(rule)) {}
  Framer(const Framer&) = delete;  // the rule refers to open_
  Framer& operator=(const Framer&) = delete;

  void start(const protocol::Header& header, Scan& scan);
  /// `waiting`: number of later readouts that wait outside; not given where nothing comes by itself, as from a file:
  /// then no frame is left out. While some wait, and none is left out, readouts that end no frame may be held back
  /// until they come.
  void push(std::vector<protocol::Acquisition>&& acquisitions, const EmitReadouts& emit,
            std::optional<std::int64_t> waiting = std::nullopt);
  /// Hands on the readouts that push() has held back.
  void flush(const EmitReadouts& emit);
  /// Complete: closes open frames. Truncated: drops them and tells how many.
  void finish(End how, const EmitReadouts& emit);

  std::uint64_t frames() const { return open_.begun(); }
  std::uint64_t late_readouts() const;

 private:
  using Rule = std::variant<AutomaticFrames, FlaggedFrames, CountedFrames, WindowFrames>;

  Rule rule_of(const config::FrameRule& rule);
  void add(protocol::Acquisition&& acquisition, std::optional<std::int64_t> behind, const EmitReadouts& emit);
  protocol::ReadoutKind kind_of(const protocol::AcquisitionHeader& head) const;
  void other_kind(protocol::ReadoutKind kind, std::vector<protocol::Acquisition>&& run, const EmitReadouts& emit);

  Scan* scan_ = nullptr;
  bool drops_ = false;
  int kept_back_ = 0;  // consecutive calls of push() that held something back
  Instant taken_{};    // time at which the pushed batch was taken
  OpenFrames open_;
  std::vector<protocol::Encoding> encodings_;
  Rule frames_;
};

}  // namespace echotrain
