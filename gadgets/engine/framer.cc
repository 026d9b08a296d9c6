#include "gadgets/engine/framer.h"

#include <chrono>
#include <string>
#include <utility>

#include "gadgets/engine/readout_batch.h"
#include "gadgets/shared/prescan/receive_prescan.h"
#include "protocol/data/acquisition_check.h"

namespace echotrain {
namespace {

using protocol::Acquisition;
using protocol::AcquisitionHeader;
using protocol::ReadoutKind;

const char* kind_name(ReadoutKind kind) {
  switch (kind) {
    case ReadoutKind::navigator:
      return "navigator";
    case ReadoutKind::phase_correction:
      return "phase correction";
    default:
      return "special";
  }
}

}  // namespace

Framer::Rule Framer::rule_of(const config::FrameRule& rule) {
  using Kind = config::FrameRule::Kind;
  if (rule.kind == Kind::automatic) return Rule(std::in_place_type<AutomaticFrames>, open_);
  if (rule.kind == Kind::until) return Rule(std::in_place_type<FlaggedFrames>, open_, rule.until);
  if (rule.stride < rule.readouts) return Rule(std::in_place_type<WindowFrames>, rule.readouts, rule.stride);
  return Rule(std::in_place_type<CountedFrames>, open_, rule.readouts);
}

void Framer::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  open_.start(scan);
  encodings_ = header.encodings;
  ReceivePrescan::of(scan) = {};  // a context may outlive a scan
  if (auto* automatic = std::get_if<AutomaticFrames>(&frames_)) automatic->start(header, scan);
  if (auto* counted = std::get_if<CountedFrames>(&frames_)) counted->start(header);
}

void Framer::push(std::vector<Acquisition>&& acquisitions, const EmitReadouts& emit,
                  std::optional<std::int64_t> waiting) {
  taken_ = std::chrono::steady_clock::now();
  open_.batch_begins(taken_);
  for (std::size_t i = 0; i < acquisitions.size();) {
    scan_->compute.check_stop();  // a batch may hold ten thousand readouts
    const ReadoutKind kind = kind_of(acquisitions[i].head);
    if (kind == ReadoutKind::imaging) {
      std::optional<std::int64_t> behind;
      if (drops_ && waiting) behind = static_cast<std::int64_t>(acquisitions.size() - i - 1) + *waiting;
      add(std::move(acquisitions[i++]), behind, emit);
      continue;
    }
    std::vector<Acquisition> run;
    const auto same = [&](const Acquisition& a) {
      const AcquisitionHeader& first = run.front().head;
      return kind_of(a.head) == kind && a.head.number_of_samples == first.number_of_samples &&
             a.head.active_channels == first.active_channels &&
             a.head.trajectory_dimensions == first.trajectory_dimensions &&
             a.head.encoding_space_ref == first.encoding_space_ref;
    };
    do run.push_back(std::move(acquisitions[i++]));
    while (i < acquisitions.size() && same(acquisitions[i]));
    open_.flush_all(emit);  // readouts before a noise scan are not whitened by it
    other_kind(kind, std::move(run), emit);
  }
  // Larger batches cost less per readout. Few calls may hold readouts back, because these keep slabs of messages alive.
  constexpr int kMostKept = 4;
  constexpr std::size_t kEnough = 1 << 20;
  const bool more = !drops_ && waiting.value_or(0) > 0;
  if (!more || ++kept_back_ == kMostKept || open_.waiting_bytes() >= kEnough) flush(emit);
}

void Framer::flush(const EmitReadouts& emit) {
  kept_back_ = 0;
  open_.flush_all(emit);
}

ReadoutKind Framer::kind_of(const AcquisitionHeader& head) const {
  const std::size_t encoding = head.encoding_space_ref;
  return protocol::readout_kind(
      head, encoding < encodings_.size() ? encodings_[encoding].trajectory : protocol::Trajectory::other);
}

/// `behind`: number of later readouts that wait, if frames may be left out.
void Framer::add(Acquisition&& acquisition, std::optional<std::int64_t> behind, const EmitReadouts& emit) {
  if (auto* automatic = std::get_if<AutomaticFrames>(&frames_))
    automatic->add(std::move(acquisition), emit);
  else if (auto* flagged = std::get_if<FlaggedFrames>(&frames_))
    flagged->add(std::move(acquisition), emit);
  else if (auto* counted = std::get_if<CountedFrames>(&frames_))
    counted->add(std::move(acquisition), behind, *scan_, emit);
  else
    std::get<WindowFrames>(frames_).push(*scan_, acquisition, taken_, behind, open_.next_id(), emit);
}

void Framer::other_kind(ReadoutKind kind, std::vector<Acquisition>&& run, const EmitReadouts& emit) {
  const bool calibration = kind == ReadoutKind::calibration;
  if (auto* automatic = std::get_if<AutomaticFrames>(&frames_); calibration && automatic != nullptr)
    for (const Acquisition& acquisition : run) automatic->calibration_came(acquisition.head);
  const std::size_t encoding = run.front().head.encoding_space_ref;
  const bool corrects = kind == ReadoutKind::phase_correction && encoding < encodings_.size() &&
                        encodings_[encoding].trajectory == protocol::Trajectory::epi;
  if (const auto lines = ReceivePrescan::of(*scan_).lines; lines && kind == ReadoutKind::other) {
    std::erase_if(run, [&](const Acquisition& each) {
      scan_->compute.check_stop();
      return encoding < encodings_.size() && lines->take(each, encodings_[encoding]);
    });
    if (run.empty()) return;
  }
  if (kind != ReadoutKind::noise && !calibration && !corrects)
    scan_->info(std::string("the scan holds ") + kind_name(kind) + " readouts; they are not used for images");
  // Noise stays on the host, where its statistics are summed in float64. A gadget that drops calibration tells the
  // client.
  Readouts readouts = make_batch(scan_->compute, run, calibration);
  readouts.kind = kind;
  emit(std::move(readouts));
}

std::uint64_t Framer::late_readouts() const {
  const auto* automatic = std::get_if<AutomaticFrames>(&frames_);
  return automatic != nullptr ? automatic->late_readouts() : 0;
}

void Framer::finish(End how, const EmitReadouts& emit) {
  open_.batch_begins(std::chrono::steady_clock::now());
  WindowFrames::LeftOver left;
  if (auto* windows = std::get_if<WindowFrames>(&frames_)) left = windows->finish();
  if (how == End::truncated) {
    if (const std::size_t partial = open_.all().size() + left.windows; partial > 0)
      scan_->warn(std::to_string(partial) + " unfinished frame(s) dropped: the scan ended before they were whole");
    open_.clear();
    return;
  }
  if (std::holds_alternative<CountedFrames>(frames_)) {
    for (const auto& [key, open] : open_.all()) left.readouts += open.frame->readouts;
    open_.clear();
  }
  if (left.readouts > 0)
    scan_->warn("the last " + std::to_string(left.readouts) + " readouts do not make a whole frame and are left out");
  for (const FrameKey& key : open_.keys()) open_.close(key, emit);
}

}  // namespace echotrain
