// EpiPhaseCorrection turns lines of EPI into lines of an ordinary Cartesian scan (Nyquist ghost correction).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/epi/dual_polarity.h"
#include "gadgets/epi/echo_train.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/mri/epi/profile_changes.h"

namespace echotrain {

/// Turns readouts that are flagged as reversed (flag 22), and removes their excess phase: constant and linear along the
/// readout, or at each point of it; from phase-correction lines (flag 24) of the same slice, of the same shot or of a
/// scan before it. Three or more lines of alternating direction tell that phase from the precession between echoes; two
/// do not. Source: Bruder et al., MRM 23, 1992; Heid, ISMRM 2000, 2014.
///
/// `lines: each`: where more than 4 lines came without phase encoding (a separate scan, as GE's), each reversed line of
/// a train loses the phase that the line of its number has there, a constant and a slope more than all have.
///
/// `refine: entropy`: the first frame of each slice is held until it is whole; the further constant and slope that
/// leave its image with least entropy (gadgets/numerics/mri/epi/ghost_search.h) are taken from this frame's lines and
/// from all later ones of the slice. Of many coils, the strongest four are used.
///
/// `b0_drift`: lines also lose the phase by which their shot's navigators precess more than those of the slice's first
/// shot, so that a drift of the field moves no image, and shots fit together. A separate scan of navigators (more than
/// 4 lines) shows no drift.
///
/// `dual_polarity`: the remaining difference of both polarities that is no linear phase is removed by kernels that make
/// reversed lines from themselves and their neighbours (gadgets/numerics/mri/epi/dual_polarity_kernels.h). They are
/// fitted to calibration lines (flag 20) that came twice, with flag 22 and without, before the slice's first image; the
/// forward ones of these go on. Frames are held until they are whole, and their images are not searched. Encodings of
/// several partitions are done without kernels, with a warning. Kernels of simultaneous slices are slice_grappa's, for
/// which lines that are turned keep flag 22. Navigators and references of such an encoding wait for its first image.
/// Where references of all slices of a group came both ways, all of the group's lines lose the same phase, that of its
/// first navigators (and what those of a slice change later). In a pipeline without slice_grappa, the phase that
/// navigators tell is all that is done, with a warning.
///
/// In:  Readouts [readout, coil, sample] of EPI, regular lines in the order of time (ramp_regrid gives such); phase
///      correction on the host.
/// Out: Readouts of images and of calibration, which all run forward, without the flag. Phase correction ends here.
///      Other kinds and encodings pass.
/// Meta attributes: epi_correction (linear, pointwise, entropy or none), epi_own_phases (lines that have one),
/// epi_slope [rad/pixel] and epi_constant [rad] of the frame's last lines, epi_drift [rad/echo], epi_refined (constant
/// and slope of the refinement), epi_dual_polarity (the kernels' relative misfit of the references), epi_blips (up:
/// encoding step 1 rises from line to line; down: it falls, and distortion points the other way), ghost_level and
/// ghost_level_uncorrected: ghost over object, as the navigators tell.
///
/// Where the header has `multiband`, the drift compares navigators of simultaneous slices only with each other.
///
/// Lines of a slice without navigators are corrected by those of another slice, with a warning; without any, or when
/// navigators all run the same way, the phase is searched for in the image, with a warning. Slices whose references did
/// not come both ways, or do not determine kernels, are corrected by navigators alone, with a warning. Throws
/// ClientError for a header without EPI, and for navigators whose size is not the lines'.
class EpiPhaseCorrection final : public Gadget<Readouts, Readouts> {
 public:
  using Options = PhaseOptions;
  static constexpr std::string_view kName = "epi_phase_correction";
  static constexpr std::string_view kSummary =
      "Turns reversed readouts of EPI and takes out the phase between odd and even lines by navigators.";
  static Parameters<Options> parameters();

  explicit EpiPhaseCorrection(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override;
  void finish(End how, const Emit<Readouts>& emit) override;

 private:
  using Slice = std::pair<std::uint16_t, std::uint16_t>;  // encoding, slice
  /// The state of a slice.
  struct State {
    EchoTrain train;
    std::optional<OddEvenPhase> phase;           // from the train
    std::uint64_t phases = 0;                    // number of phases so far
    std::array<std::vector<double>, 2> first;    // phases of the first train, by excitation; of simultaneous slices
    std::optional<numerics::LinearPhase> found;  // in the slice's own first frame, in addition to the phase
    bool without = false;                        // there was no phase then
    numerics::ProfilePhases factors;             // [2 + n, coil or 1, x]: for lines that run forward, for reversed
                                                 // ones, and for n of these that have a phase of their own
    std::int64_t coils = 0;                      // number in the lines that they were made for
    std::vector<std::int32_t> sets;              // of factors, for the reversed lines of a train; empty: all alike
    std::int64_t echo = 0;                       // lines since the train began
    std::pair<const State*, std::uint64_t> made_of{nullptr, 0};  // state whose phase they are made of, and its number
    std::int64_t lines = 0, reversed = 0;                        // lines of the image since navigators or a frame's end
    bool references = false;                                     // some of these are references
    std::optional<std::uint64_t> frame;                          // frame whose lines are counted:
    std::int64_t row = 0, rising = 0;  // its latest row; rows above the previous one, minus others
  };
  using Held = HeldLines;

  void learn(const Readouts& navigators);
  State& source_of(const Slice& slice);
  void find_phase(State& source, const Slice& slice, std::size_t excited);
  void check_directions(State& state, const State& source, std::uint16_t slice);
  static void follow_blips(State& state, std::uint64_t frame, std::int64_t row);
  std::int32_t set_of(const State& state, const State& source, std::uint16_t encoding) const;
  void make_factors(State& state, State& source, std::int64_t coils, std::int64_t points);
  bool searches(const Slice& slice, const State& state, const State& source) const;
  std::vector<bool> correct(Readouts& readouts);
  void correct(Readouts& readouts, const Slice& slice, std::size_t begin, std::size_t end, Array<cfloat>& changed);
  void search(State& state, const Slice& slice, const std::vector<Held>& held);
  void complete(const State& state, std::vector<Held>& held);
  bool has_kernels(const Slice& slice);
  bool keeps_directions(std::uint16_t encoding) const;
  bool leaves_kernels(const Slice& slice) const;
  Slice group_of(const Slice& slice) const;
  void take_waiting(std::uint16_t encoding, const Emit<Readouts>& emit);
  void share_phase(State& source, const Slice& slice, std::size_t excited);
  void note(Readouts& readouts, std::optional<double> missed);

  Options options_;
  Scan* scan_ = nullptr;
  std::vector<bool> epi_;           // by encoding
  std::vector<std::int64_t> rows_;  // rows of the encoded matrix, by encoding
  std::vector<bool> multiband_;     // by encoding
  std::vector<int> groups_;         // by encoding: groups of slices that are excited at once
  std::vector<bool> volume_;        // by encoding: several partitions
  std::vector<double> trains_;      // by encoding: lines of an echo train, as the header says; 0: it does not
  std::vector<double> announced_;   // by encoding: navigators of a shot that the header announces; 0: none
  std::map<std::int64_t, numerics::ProfileTransform> transforms_;
  std::map<Slice, State> states_;
  std::map<std::uint16_t, std::vector<Readouts>> waiting_;  // navigators and references before the first image, by
                                                            // encoding
  std::set<std::uint16_t> decided_;                         // encodings whose first image came
  std::set<Slice> both_ways_;                               // groups whose references came both ways
  std::map<Slice, std::vector<double>> shared_;             // phases that lines of all slices of these lose
  std::map<std::uint64_t, std::vector<Held>> held_;         // by frame
  std::unique_ptr<DualPolarity> dual_;                      // null: not asked for
};

}  // namespace echotrain
