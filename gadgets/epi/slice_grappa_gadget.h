// SliceGrappa separates slices that were excited at once (SMS) into frames of their own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/epi/forward_references.h"
#include "gadgets/epi/slice_fits.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/mri/parallel/slice_grappa.h"

namespace echotrain {

/// Reconstructs simultaneous multi-slice scans (SMS, multi-band): makes one frame per slice from a frame of all
/// (gadgets/numerics/mri/parallel). The header's `multiband` tells the number F of slices excited at once; of S slices,
/// readouts for images of slice g hold the slices g, g + S/F, g + 2 S/F, ..., with S from the header's limits. Kernels
/// come from calibration readouts (flag 20) of these slices, excited one by one, the longest run of lines without a
/// gap, before the first frame; they are kept for the scan, and the same lines serve the slices' GRAPPA. The first
/// frame waits for those of its group; with a GPU, others are made in the background (SliceFits).
///
/// Blips along z (blipped CAIPI: Setsompop et al., MRM 67, 2012) turn the phase of slice m from acquired line to
/// acquired line by deltaKz * z_m turns, z_m being the spacings dZ up to it, or where the header has none the distance
/// of its reference lines from the first slice's; or by m / fov_shift. This phase, which moves slices in the field of
/// view, is counted from the centre of k-space, and taken out.
///
/// Lines of EPI that were read backwards (epi_phase_correction: {dual_polarity: true} leaves flag 22 on these) are made
/// by kernels of their own, from references of both directions (fit_slices()), as if they had been read forward. Where
/// references did not come both ways, or do not determine such kernels, directions do not count, with a warning.
///
/// In:  Readouts [readout, coil, sample] of regular lines that run forward, with the same virtual coils in all slices
///      (coil_compression: {per: scan}).
/// Out: Readouts of all slices, imaging and calibration (of lines that came both ways, the forward ones). Encodings
/// without `multiband`, or with a factor of 1, pass. Positions of slices are those of their reference lines. Meta
/// attributes: multiband, slice_grappa_residual (of the fit).
///
/// Frames whose slices lack reference lines for kernels pass unchanged, with slices on top of each other, with a
/// warning. Lines of images that come twice count once. Throws ClientError for slices that are no multiple of the
/// factor, for reference lines of other coils or samples than the lines of images, and where an earlier gadget has
/// given each slice its own virtual coils.
class SliceGrappa final : public Gadget<Readouts, Readouts> {
 public:
  struct Options {
    std::int64_t kernel_x = numerics::SliceGrappaOptions{}.kernel_x;
    std::int64_t kernel_y = numerics::SliceGrappaOptions{}.kernel_y;
    double regularization = numerics::SliceGrappaOptions{}.regularization;
    bool split = true;
    std::int64_t fov_shift = 0;
  };
  static constexpr std::string_view kName = "slice_grappa";
  static constexpr std::string_view kSummary =
      "Makes frames of the single slices of a simultaneous multi-slice scan, by kernels from reference lines.";
  static Parameters<Options> parameters();

  explicit SliceGrappa(Options options) : options_(options) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override;
  void finish(End how, const Emit<Readouts>& emit) override;

 private:
  struct Space {
    std::int64_t factor = 1, groups = 1;  // slices at once, and number of such sets
    std::int64_t step = 1;                // distance of acquired lines
    double centre = 0;                    // line of the centre of k-space
    double delta_kz = 0;
    std::vector<double> spacing_mm;
  };
  struct Reference {
    std::vector<std::uint16_t> lines;
    std::vector<bool> reversed;
    HostArray<cfloat> data;  // [readout, coil, sample]
  };
  /// The stored data of a slice.
  struct Slice {
    std::vector<Reference> references;  // until its kernels are made
    std::optional<protocol::AcquisitionHeader> head;
  };
  /// The kernels of a group of slices, for frames of as many lines.
  struct Group {
    numerics::GrappaKernels kernels;
    numerics::HybridKernels hybrid;
    numerics::LineCorrections rows;
    std::vector<double> turns;  // for each slice
    std::int64_t first = 0, lines = 0, samples = 0;
    std::vector<bool> reversed;  // directions of the lines; empty: they do not count
    bool failed = false;
  };
  using Owner = std::pair<std::uint16_t, std::uint16_t>;  // encoding, slice

  void learn(const Readouts& readouts);
  bool has_kernels(const Owner& slice) const;
  void separate(std::vector<Readouts> held, const Emit<Readouts>& emit);
  void pass(Readouts&& readouts, const Emit<Readouts>& emit) const;
  using Heads = std::vector<const protocol::AcquisitionHeader*>;  // of a frame's lines; null: it did not come
  Group& group_for(const Owner& owner, std::int64_t first, const Heads& heads, std::int64_t coils,
                   std::int64_t samples);
  SliceGroup references_of(const Owner& owner, const Group& like, std::int64_t coils) const;
  void fit(Group& group, const Owner& owner, std::int64_t coils);
  void fit_kernels(Group& group, const Owner& owner, std::int64_t coils);
  void fit_others(const Group& group, const Owner& owner, std::int64_t coils);
  HostArray<cfloat> block_of(const Slice& slice, std::int64_t first, std::int64_t last, bool backwards) const;
  std::vector<double> turns_of(const Space& space, const Owner& owner) const;
  Owner slice_of(const Owner& group, std::int64_t m) const;

  Options options_;
  Scan* scan_ = nullptr;
  std::vector<Space> spaces_;
  std::int64_t most_ = 1;  // the most slices that one frame makes
  bool turned_ = false;    // a gadget before has turned lines that were read backwards
  ForwardReferences forward_;
  std::map<Owner, Slice> slices_;
  std::vector<Owner> order_;  // groups, in the order of their references
  std::unique_ptr<SliceFits> fits_;
  std::map<Owner, Group> groups_;                        // by encoding and the slice that readouts name
  std::map<std::uint64_t, std::vector<Readouts>> held_;  // by frame
  Array<cfloat> ones_;
  std::vector<std::shared_ptr<bool>> slice_coils_;  // from earlier gadgets: true if slices have coils of their own
};

}  // namespace echotrain
