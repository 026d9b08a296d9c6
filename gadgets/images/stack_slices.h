// StackSlices makes one volume from the slices of a multi-slice scan.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// Collects the slices of one contrast, phase, repetition and set into an image [coil, z, y, x], as soon as all slices
/// that the header's limits announce, or `slices` of them, have come; incomplete volumes are given at the end of the
/// scan, or when a slice comes again. 3D images, and images of a header that announces one slice, pass unchanged. A
/// client's images may be the partitions of a 3D scan, so limits that name one slice announce nothing for them: the
/// volume then holds the slices that come until one comes again, or the scan ends.
///
/// z runs along slice_dir: slices are in the order of their positions along it, not of idx.slice (by idx.slice where
/// all positions are the same). The volume's position is that of its slice floor(n/2), as every image's is that of its
/// voxel floor(n/2); its field of view in z is the number of slices times their mean distance (slice thickness and
/// gap), its slice counter 0. The rest of its header is that of the slice that came first. Slices that are not parallel
/// stay single images, with a warning. Meta attributes: slices, and missing_slices where some never came.
class StackSlices final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    std::int64_t slices = 0;
  };
  static constexpr std::string_view kName = "stack_slices";
  static constexpr std::string_view kSummary = "Makes one volume of the slices of a multi-slice scan.";
  static Parameters<Options> parameters();

  explicit StackSlices(Options options) : options_(options) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;
  void finish(End how, const Emit<CoilImages>& emit) override;

 private:
  using Slices = std::map<std::uint16_t, CoilImages>;  // by idx.slice
  std::size_t slices_of(const Frame& frame) const;
  void give(const Slices& slices, const Emit<CoilImages>& emit);
  CoilImages stack(const std::vector<const CoilImages*>& slices, double spacing_mm);

  Options options_;
  Scan* scan_ = nullptr;
  FieldsOfView fields_of_view_;
  std::vector<std::size_t> announced_;  // slices of each encoding; 0: not known
  std::map<FrameKey, Slices> open_;     // by key without slice
};

}  // namespace echotrain
