// EchoTraces collects the echoes of plane waves, one frame at a time.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "gadgets/api/gadget.h"

namespace echotrain {

/// Takes ultrasound readouts: one per wave sent, a channel per element, RF or IQ (docs/ultrasound.md explains the
/// fields). Waves are told apart by kspace_encode_step_1; a repeated one is averaged, a missing one is taken as silence
/// and counted in the image's meta attributes. Throws ClientError when a readout does not say how it was sampled.
class EchoTraces final : public Gadget<Readouts, Echoes> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "echo_traces";
  static constexpr std::string_view kSummary =
      "Collects ultrasound echoes, one readout per plane wave, into one set of traces per frame.";
  static Parameters<Options> parameters();

  explicit EchoTraces(Options /*options*/) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<Echoes>& emit) override;

 private:
  struct Buffer {
    Array<cfloat> data;  // [element, wave, sample]
    EchoGeometry geometry;
    std::int64_t samples = 0;
    std::vector<std::int32_t> hits;  // per wave: how often it came
  };

  void add(Buffer& buffer, const Readouts& readouts, std::int64_t waves);
  Echoes complete(Buffer buffer, const Frame& frame);

  struct Waves {
    std::int64_t first = 0, count = 1;  // range of kspace_encode_step_1
  };
  Scan* scan_ = nullptr;
  std::vector<Waves> waves_;  // per encoding
  std::map<std::uint64_t, Buffer> open_;
};

}  // namespace echotrain
