// Passthrough sends images back unchanged and counts everything else: for connection tests and throughput.
#pragma once

#include <cstdint>

#include "gadgets/api/gadget.h"

namespace echotrain {

/// Takes readouts as they arrive, before any framing, and touches no sample of them.
class Passthrough final : public Gadget<RawBatch, Image> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "passthrough";
  static constexpr std::string_view kSummary =
      "Returns images unchanged; counts readouts and waveforms and reports them at the end.";
  static Parameters<Options> parameters() { return {}; }

  explicit Passthrough(Options /*options*/) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(RawBatch&& batch, const Emit<Image>& emit) override;
  bool take_aside(Item& item, const Emit<Image>& emit) override;
  void finish(End how, const Emit<Image>& emit) override;

 private:
  Scan* scan_ = nullptr;
  std::uint64_t readouts_ = 0, readout_bytes_ = 0, waveforms_ = 0, images_ = 0;
};

}  // namespace echotrain
