// Channels leaves out channels: dead ones, and those that the pipeline names.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"

namespace echotrain {

/// Leaves out channels of all readouts: those that `drop` names, and dead ones, whose root mean square in the first
/// readout of noise, calibration or imaging is below `dead_below` of the median. It belongs before noise_adjust, which
/// cannot whiten a dead channel.
///
/// In:  Readouts [readout, channel, sample]. Kinds without a use for images (navigators) are changed too if they have
///      the same number of channels.
/// Out: readouts with the other channels, in their order. Images note channels_left_out.
///
/// Throws ClientError when `drop` is not a list of channels, when no channel is left, or when their number changes.
class Channels final : public Gadget<Readouts, Readouts> {
 public:
  struct Options {
    bool drop_dead = true;
    double dead_below = 0.01;
    std::string drop;
  };
  static constexpr std::string_view kName = "channels";
  static constexpr std::string_view kSummary = "Leaves out channels: dead ones, and those that are named.";
  static constexpr Delivery kDelivery = Delivery::windows;
  static Parameters<Options> parameters();

  explicit Channels(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override;

 private:
  void decide(const Readouts& readouts);
  std::vector<double> powers(const Readouts& readouts) const;

  Options options_;
  Scan* scan_ = nullptr;
  std::set<std::int64_t> named_;
  std::int64_t channels_ = 0;       // number of incoming channels; 0: not known yet
  std::vector<std::int64_t> kept_;  // numbers of the kept channels
  Array<cfloat> selection_;         // [kept, channel]
  std::string left_out_;            // "3 7"
};

}  // namespace echotrain
