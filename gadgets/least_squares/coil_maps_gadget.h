// The coil maps of normal equations, estimated from a frame's data or given.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "gadgets/api/gadget.h"
#include "gadgets/least_squares/coil_map_cache.h"

namespace echotrain {

/// Estimates sensitivities from the reference lines that come with the equations or, where there are none, from the
/// middle of k-space of each coil's F^H W d, which with density weights is the coil's image; then joins the coils'
/// equations into those of one image: sum_c S_c^H F^H W d_c, with F^H W F between S_c and S_c^H. Two sets of maps give
/// two images to solve for, which add up to the data; `sets: auto` takes a second one where the data that maps come
/// from need it (gadgets/numerics/mri/espirit/espirit_sets.h), slice by slice, and notes coil_map_sets. Frames of the
/// same reference lines share maps; those of one slice without any share the maps of its first frame. Throws
/// ClientError when there are too few reference lines for the method, or none about the centre. Source: see
/// gadgets/numerics/mri/coils/coil_maps.h.
class CoilMapsFromData final : public Gadget<NormalEquations, NormalEquations> {
 public:
  struct Options {
    std::string method = "adaptive";
    std::int64_t calibration = 24;
    std::int64_t block = 7;
    double threshold = 0;
    std::int64_t kernel = 0;
    double singular = 0.02;
    double crop = 0.8;
    std::string sets = "1";
    bool keep = true;
    std::string file;
  };
  static constexpr std::string_view kName = "coil_maps";
  static constexpr std::string_view kSummary =
      "Works out coil sensitivities and joins the coils' equations into those of one image.";
  static Parameters<Options> parameters();

  explicit CoilMapsFromData(Options options);
  void start(const protocol::Header& header, Scan& scan) override;
  void process(NormalEquations&& equations, const Emit<NormalEquations>& emit) override;

 private:
  Array<cfloat> given_maps(const NormalEquations& equations) const;
  void give_zero(NormalEquations&& equations, const Emit<NormalEquations>& emit);
  const Array<cfloat>* kept_of_block(std::uint64_t block, const numerics::Shape& right);
  Array<cfloat> maps_of_block(const NormalEquations& equations);
  std::int64_t kernel_of(const numerics::Shape& image) const;
  Array<cfloat> maps_of(Array<cfloat> kspace, const numerics::Shape& image, bool of_lines) const;
  std::int64_t most_sets() const { return options_.sets == "1" ? 1 : 2; }

  Options options_;
  Scan* scan_ = nullptr;
  /// Maps of frames without reference lines.
  struct Kept {
    numerics::Shape of;  // [coil, z, y, x]
    Array<cfloat> maps;
  };
  std::map<FrameKey, Kept> kept_;  // by slice and encoding
  CoilMapCache of_blocks_;
};

/// Cuts the middle out of the k-space of images [coil, z, y, x]: `extent` samples of each axis that has as many.
Array<cfloat> middle_of_kspace(numerics::Context& compute, const Array<cfloat>& images, std::int64_t extent);
/// Makes adaptive maps [coil, z, y, x] from such a middle, which is overwritten.
void adaptive_maps_of_middle(numerics::Context& compute, Array<cfloat> kspace, int block, float threshold,
                             Array<cfloat>& maps);

}  // namespace echotrain
