// NlinvSms solves for the images and the coil sensitivities of simultaneous slices together, without calibration.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "gadgets/api/gadget.h"
#include "gadgets/nlinv/nlinv_frames.h"
#include "gadgets/numerics/inverse/nlinv/phased_frame.h"
#include "gadgets/shared/sms/sms_scan.h"

namespace echotrain {

/// Reconstructs simultaneous multi-slice scans (SMS, multi-band) of radial or other non-Cartesian 2D readouts, as
/// CgSenseSms takes them: slice m of M has the phase phi = 2 pi m n / M in readouts of number n. Each frame is solved
/// starting from the previous one, as NlinvRealtime does for one slice, for the images and all sensitivities of all
/// slices together: d_nj = F_n sum_m exp(i phi_mn) m_m c_mj. Readouts of different numbers may have different
/// positions, and trajectories need not repeat. The first frame waits for the device twice, later ones once. On CUDA
/// the steps of frames after the first are one graph.
///
/// In:  Readouts [readout, coil, sample] with positions in the plane; weights as for CgSenseSms.
/// Out: M images a frame, one after the other, with the numbers, the places and the meta attribute `multiband` that
///      CgSenseSms gives them, and with nlinv_*, which describe all slices together.
///
/// Warnings and ClientErrors: those of CgSenseSms and NlinvRealtime.
///
/// Source: Rosenzweig et al., MRM 79, 2018; gadgets/numerics/inverse/nlinv/nlinv.h.
class NlinvSms final : public Gadget<Readouts, CoilImages> {
 public:
  struct Options : SmsOptions, NlinvRealtimeOptions {};
  static constexpr std::string_view kName = "nlinv_sms";
  static constexpr std::string_view kSummary =
      "Images and coil sensitivities of slices excited at once (SMS) with phases that differ from readout to readout, "
      "together and without calibration (NLINV).";
  static constexpr Delivery kDelivery = Delivery::parts;
  static Parameters<Options> parameters() { return add_nlinv_parameters(sms_parameters<Options>()); }

  explicit NlinvSms(Options options)
      : options_(std::move(options)), slices_(kName, options_), frames_(kName, options_) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<CoilImages>& emit) override;

 private:
  numerics::PhasedFrame& equations_for(std::uint16_t encoding, std::int64_t coils);
  void reconstruct(const SmsFrame& open, const Frame& frame, const Emit<CoilImages>& emit);

  Options options_;
  SmsScan slices_;
  NlinvFrames frames_;
  Scan* scan_ = nullptr;
  std::map<std::uint16_t, std::unique_ptr<numerics::PhasedFrame>> equations_;  // by encoding
};

}  // namespace echotrain
