// CgSenseSms does real-time parallel imaging of simultaneous slices, separated by the phase of their excitation.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/least_squares/realtime/cg_sense_options.h"
#include "gadgets/least_squares/realtime/spike_rejection.h"
#include "gadgets/numerics/inverse/solver/fixed_cg.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "gadgets/numerics/transforms/scatter/scatter.h"
#include "gadgets/numerics/transforms/toeplitz/frame_toeplitz.h"
#include "gadgets/shared/sms/sms_scan.h"

namespace echotrain {

/// Reconstructs simultaneous multi-slice scans (SMS, multi-band) of radial or other non-Cartesian 2D readouts: of M
/// slices, slice m has the phase phi = 2 pi m n / M in readouts of number n = 0 .. M - 1 (SmsEncoding), so that d_c(k)
/// = sum_m exp(i phi_mn) F S_mc x_m. For each frame it solves sum_n sum_c |F_n sum_m exp(i phi_mn) S_mc x_m - d_nc|_W^2
/// + lambda L sum_m |x_m - x_m,before|^2 + tikhonov L sum_m |x_m|^2 for all slices together, where F_n has the
/// positions of the readouts of number n, which may differ from those of other numbers: starting from the previous
/// frame, by a fixed number of conjugate gradient steps, as CgSenseRealtime does for one slice, also without plans. L
/// is the largest value of the spectrum of F^H W F of all readouts.
///
/// Maps of each slice come from a mean over the latest frames of sum_n exp(-i phi_mn) F_n^H W d_n, in whose middle of
/// k-space the other slices cancel where all numbers are sampled densely enough. Outliers (spikes) are left out, and
/// the frame after an outlier begins as the first did.
///
/// In:  Readouts [readout, coil, sample] with positions in the plane; weights are the analytic ramp of each single
///      readout, or sent with the data. The header's encoded matrix has one plane, or M of them.
/// Out: M images a frame, one after the other. Of the S slices that the header's limits announce, G = S / M sets if M
///      divides S, else G = S, images of the set g have the numbers g, g + G, g + 2 G, ...; slice m lies (m - (M - 1) /
///      2) `distance` along the slice direction from the readouts' position, and is `distance` thick: the header's
///      field of view along z over the M planes. Meta attribute: multiband.
///
/// A frame that lacks a number is solved with the others, with a warning; a kspace_encode_step_2 of M and more gives a
/// warning, too. On CUDA, nothing waits for the device once the first frames have passed, except uploads of more than
/// about a million samples. Throws ClientError for Cartesian trajectories, when neither the header nor `slices` says
/// how many slices there are, when the header has planes of another number, for readouts of a slice number of G and
/// more, and for frames most of whose samples lie beyond 0.5 cycles/pixel or whose weights sum to 0.
///
/// Sources: Rosenzweig et al., "Simultaneous multi-slice MRI using Cartesian and radial FLASH and regularized nonlinear
/// inversion: SMS-NLINV", MRM 79, 2018; radial CAIPIRINHA: Yutzy et al., MRM 65, 2011.
class CgSenseSms final : public Gadget<Readouts, CoilImages> {
 public:
  struct Options : SmsOptions, CgSenseRealtimeOptions {
    Options() : CgSenseRealtimeOptions{.iterations = 20, .tikhonov = 0.001} {}
  };
  static constexpr std::string_view kName = "cg_sense_sms";
  static constexpr std::string_view kSummary =
      "Parallel imaging of slices excited at once (SMS) with phases that differ from readout to readout, frame by "
      "frame.";
  static constexpr Delivery kDelivery = Delivery::parts;
  static Parameters<Options> parameters();

  explicit CgSenseSms(Options options) : options_(std::move(options)), slices_(kName, options_) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<CoilImages>& emit) override;
  void finish(End how, const Emit<CoilImages>& emit) override;

 private:
  struct Space {
    SmsSpace of;
    numerics::NufftOptions of_data, of_lags;
  };
  /// The arrays in which the frames of an encoding are computed.
  struct Workshop {
    Workshop(numerics::Context& compute, const Space& space, std::int64_t coils);
    std::int64_t coils;
    numerics::ScatterNufft data, lags;
    std::deque<numerics::FrameToeplitz> of_number;  // a deque, whose elements do not move
    numerics::FrameToeplitz all;                    // for the mean over numbers, for its largest value
    Array<cfloat> right;                            // [number, coil, y, x]: F_n^H W d
    Array<cfloat> apart;                            // [slice, coil, y, x]
    Array<cfloat> seen, returned;                   // [number, coil, y, x]
    Array<cfloat> no_lags;
    Array<cfloat> demodulation;         // [slice, number]: exp(-i phi)
    std::vector<Array<cfloat>> phases;  // for each slice, [number, number], diagonal: exp(i phi)
  };
  /// The state of a series, frames that differ in repetition or phase only: each leaves it to the next.
  struct Series {
    Series(Scan& scan, const Space& space, std::int64_t coils, const numerics::FixedCgOptions& options);
    numerics::FixedCg solver;
    SpikeRejection like;
    std::vector<Array<cfloat>> mean, maps;  // for each slice: [coil, 1, y, x]
    Array<cfloat> turned;                   // [slice, number, coil, y, x]: exp(i phi) maps
    std::int64_t frames = 0;
  };

  Workshop& workshop_for(std::uint16_t encoding, std::int64_t coils);
  Series& series_of(const FrameKey& key, std::int64_t coils);
  void make_equations(const SmsFrame& open, const Space& space, Workshop& workshop);
  void add_to_mean(const Space& space, Workshop& workshop, Series& series);
  void make_maps(const Space& space, const Workshop& workshop, Series& series);
  void reconstruct(const SmsFrame& open, const std::shared_ptr<const Frame>& frame, const Emit<CoilImages>& emit);
  void give(const Space& space, Series& series, const Frame& frame, const Emit<CoilImages>& emit);

  Options options_;
  SmsScan slices_;
  Scan* scan_ = nullptr;
  std::vector<Space> spaces_;
  std::map<std::uint16_t, Workshop> workshops_;  // by encoding
  std::map<FrameKey, Series> series_;
};

}  // namespace echotrain
