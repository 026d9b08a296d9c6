// NlinvRealtime solves for the image and the coil sensitivities of each frame together, without calibration.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/nlinv/nlinv_frames.h"
#include "gadgets/numerics/inverse/nlinv/gridded_frame.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// Does real-time NLINV of samples anywhere: each frame is solved, starting from the previous one, by regularised
/// Newton steps, for its image and all sensitivities; the first frame begins at a constant image and no sensitivities.
/// Samples are gridded as they come, and F^H W F is a convolution made from the frame's own samples, without a plan for
/// their trajectory. The first frame waits for the device twice, later ones once. The image's meta attributes report
/// the outcome (nlinv_*). Throws ClientError for 3D encodings. Sources: gadgets/numerics/inverse/nlinv/nlinv.h.
class NlinvRealtime final : public Gadget<Samples, CoilImages> {
 public:
  using Options = NlinvRealtimeOptions;
  static constexpr std::string_view kName = "nlinv_realtime";
  static constexpr std::string_view kSummary =
      "Works out image and coil sensitivities of each frame together, beginning at the frame before (NLINV).";
  static constexpr Delivery kDelivery = Delivery::parts;  // F^H W F belongs to a whole window
  static Parameters<Options> parameters() { return nlinv_parameters(); }

  explicit NlinvRealtime(Options options) : options_(options), frames_(kName, options) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Samples&& samples, const Emit<CoilImages>& emit) override;

 private:
  numerics::Shape extents_of(std::uint16_t encoding) const;

  Options options_;
  NlinvFrames frames_;
  Scan* scan_ = nullptr;
  std::vector<ImageGeometry> geometries_;
  /// By frame, as parts of several frames may come in turn; then kept for later frames.
  std::map<std::uint64_t, std::unique_ptr<numerics::GriddedFrame>> open_;
  std::map<std::pair<std::uint16_t, std::int64_t>, std::vector<std::unique_ptr<numerics::GriddedFrame>>> spare_;
};

/// NLINV of equations that other gadgets made: from `encoding`, whose Cartesian lines may change with each frame, or
/// from `fhd`.
class NlinvOfEquations final : public Gadget<NormalEquations, CoilImages> {
 public:
  using Options = NlinvRealtimeOptions;
  static constexpr std::string_view kName = NlinvRealtime::kName;
  static constexpr std::string_view kSummary = NlinvRealtime::kSummary;
  static Parameters<Options> parameters() { return nlinv_parameters(); }

  /// Throws std::invalid_argument for a field other than that of the equations.
  explicit NlinvOfEquations(Options options);
  void start(const protocol::Header& header, Scan& scan) override;
  void process(NormalEquations&& equations, const Emit<CoilImages>& emit) override;

 private:
  NlinvFrames frames_;
  Scan* scan_ = nullptr;
};

}  // namespace echotrain
