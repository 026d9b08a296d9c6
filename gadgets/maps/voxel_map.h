// The part that gadgets which make maps of a physical quantity share: they collect a slice's images and fit a curve.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/inverse/fit/voxel_fit.h"

namespace echotrain {

/// The options of all maps.
struct MapOptions {
  std::string over = "auto";
  std::vector<std::string> values;  ///< of the images: times, b, angles
  double noise_sd = 0;
  double threshold = 3;
  double most_error = 0.5;
  bool refit = true;
};

/// Adds the rows of MapOptions. `values`: the name of the list; `noun`: one of them; `from`: what the header calls
/// them.
template <class O>
Parameters<O> with_map_options(Parameters<O> table, const std::string& values, const std::string& noun,
                               const std::string& from) {
  return std::move(table)
      .list(values, inherited<O>(&MapOptions::values), noun, "by the counter; none: the header's " + from)
      .choice("over", inherited<O>(&MapOptions::over), {"auto", "contrast", "set", "repetition", "phase"},
              "the counter in which images differ. auto: by the header's limits, the gadget's own first")
      .number(
          "noise_sd", inherited<O>(&MapOptions::noise_sd), 0, 1e30,
          "standard deviation of the noise in the images' real part, by which also the bias of least squares is taken "
          "off; 0: that of images of plain transforms after noise_adjust, else each voxel's, from its residuals")
      .number("threshold", inherited<O>(&MapOptions::threshold), 0, 1e6,
              "voxels whose root mean square is below so many deviations of the noise are 0")
      .number("most_error", inherited<O>(&MapOptions::most_error), 0, 1e6,
              "voxels with a standard deviation above this part of the value are 0; 0: none")
      .flag("refit", inherited<O>(&MapOptions::refit),
            "give maps before the last image, too, in a series of their own");
}

/// Fits the images of a slice that differ in one counter, voxel by voxel, when the last of them has come; with `refit`
/// also before. Images of several coils are joined by maps of the slice's first image (adaptive_maps()), so that all
/// have one phase; those of one channel have to agree in it where complex images are fitted. Sent images are values
/// after their rescale; real ones are magnitudes, but for those of type REAL, which have a sign. Maps are real, of one
/// channel, and have the frame of the latest image with that counter 0. Their series, FrameKey::series: the map that of
/// its images, its deviations 3, a second quantity 4 and 5 above, maps before the last image 6. Voxels without a value
/// are 0. Images of a repetition that remains incomplete end here. An image that comes again replaces the earlier one.
/// Fits before the last image are left out while readouts wait, and beyond 8 images each adds an eighth.
///
/// The noise is `noise_sd`, or what the images know of theirs (CoilImages::noise), else that of a voxel's residuals.
///
/// Meta attributes: map_quantity, map_unit (UCUM), map_statistic (value, sd), map_images ("5/11"), map_error (noise,
/// residuals), map_freedom (N - p of the residuals), DataRole, a window, and, of maps that lack images, ImageComments.
class VoxelMap : public Gadget<CoilImages, CoilImages> {
 public:
  void start(const protocol::Header& header, Scan& scan) final;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) final;
  void finish(End how, const Emit<CoilImages>& emit) final;

 protected:
  struct Quantity {
    std::string name, unit;
    double factor = 1;             ///< from the fit's unit to `unit`
    double center = 0, width = 0;  ///< the window
    std::string role;              ///< a meta attribute; empty: none
  };
  /// What a map is made by.
  struct Plan {
    numerics::VoxelFit fit;  ///< without `at` and `noise`
    std::vector<double> at;  ///< by the counter's values, from its minimum on
    std::string counter;    ///< contrast, set, ...; another one where the header announces as many values of that alone
    bool told = false;      ///< `counter` holds whatever the header announces
    bool average = false;   ///< images of one `at` become their geometric mean
    bool complex = true;    ///< fits complex images where they are
    bool polarity = false;  ///< restores the signs of magnitudes
    Quantity first, second;  ///< the second of a turning curve
  };

  VoxelMap(std::string_view name, MapOptions options) : name_(name), common_(std::move(options)) {}
  /// Called by start(). Throws ClientError where the header does not tell what is needed.
  virtual Plan plan(const protocol::Header& header) const = 0;
  /// The numbers of the list, or else those of the header: `what` of sequenceParameters, or else of user parameters of
  /// the name `user`. Throws ClientError when there are none, naming `option`.
  std::vector<double> values(const protocol::Header& header, std::string_view what, std::string_view user,
                             std::string_view option) const;
  const MapOptions& common() const { return common_; }

 private:
  struct Slice {
    Array<cfloat> coils;                 ///< [coil, z, y, x]: maps of the first image; empty: images of one channel
    Array<cfloat> stack;                 ///< [image, voxel], in the order in which they came
    std::vector<std::size_t> which;      ///< their places in Plan::at
    std::shared_ptr<const Frame> frame;  ///< the latest
    numerics::Shape shape;               ///< [1, z, y, x]
    double noise = 0;                    ///< CoilImages::noise of all images; 0: not known, or not one
    std::size_t next = 0;                ///< images with which the map is fitted again
  };
  std::string counter_of(const protocol::Encoding& encoding) const;
  void add(Slice& slice, const CoilImages& images, std::size_t which);
  void fit(const Slice& slice, bool last, const Emit<CoilImages>& emit);
  CoilImages image_of(const Slice& slice, numerics::DeviceView<const float> map, const Quantity& quantity,
                      std::string_view statistic, std::uint16_t series, const numerics::VoxelFit& fit) const;
  void rescale(CoilImages& images) const;
  void take_signal(const Frame& frame, numerics::VoxelFit& fit) const;
  std::string apart() const;

  std::string name_;
  MapOptions common_;
  Plan plan_;
  Scan* scan_ = nullptr;
  std::vector<std::string> counters_;       // by encoding
  std::vector<std::uint16_t> first_value_;  // likewise
  std::map<FrameKey, Slice> open_;          // by key without the counter
  std::size_t lost_ = 0;                    // images of repetitions that remained incomplete
};

/// A list's numbers; throws std::invalid_argument when one of them is none, or below 0.
std::vector<double> map_values(const std::vector<std::string>& texts);

}  // namespace echotrain
