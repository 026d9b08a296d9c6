// The items that flow through a pipeline. Each type carries its domain, so a chain that does not fit together is
// refused at load. Coordinates and conventions: docs/conventions.md. Shapes are row-major, the last axis fastest.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gadgets/numerics/core/array.h"
#include "gadgets/numerics/core/pixel_tally.h"
#include "protocol/data/acquisition_check.h"
#include "protocol/data/messages.h"

namespace echotrain {

namespace numerics {
class MemoryAccount;   // gadgets/numerics/core/memory_budget.h
class NormalOperator;  // gadgets/numerics/inverse/operators/normal_operator.h
class NufftPlan;       // gadgets/numerics/transforms/nufft/nufft.h
}  // namespace numerics

using numerics::Array;
using numerics::cfloat;
using numerics::HostArray;

/// The counters that tell one frame (one image) from another.
struct FrameKey {
  std::uint16_t encoding = 0, slice = 0, contrast = 0, phase = 0, repetition = 0, set = 0;
  std::uint16_t series = 0;  ///< 0: the image; 1: its g-factor; 2: in units of SNR. Of a client's images: counts series
  auto operator<=>(const FrameKey&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 is wrong
};

using Instant = std::chrono::steady_clock::time_point;

/// The times at which a frame's data came; zeros where the readouts come from a file.
struct Arrival {
  Instant received{};         ///< the last byte of its last readout was read
  Instant taken{};            ///< the pipeline took the batch that completed the frame, or learned that the scan ended
  std::uint64_t readout = 0;  ///< number of its last readout in the connection, from 1
};

/// The facts about a frame; they travel with everything made from it. No gadget changes a frame that it was given: to
/// add something, it passes on a changed copy. The opener of a frame counts its readouts until `last` is passed on.
struct Frame {
  std::uint64_t id = 0;  ///< counts frames of a session from 0 in the order they were opened
  FrameKey key;
  protocol::AcquisitionHeader
      reference{};  ///< its first imaging readout: geometry, counters and time stamps of the image
  std::int64_t readouts = 0;
  std::int64_t expected_readouts = 0;  ///< readouts of the whole frame, if the frame rule fixes the number; 0: unknown
  std::uint64_t window = 0;            ///< number of the frame's sliding window; 0: none
  std::int64_t window_begin = 0;       ///< number of readouts that have left that window
  Arrival arrival;
  /// The field of view of the image, x, y, z [mm], where a gadget changed it; empty: that of the header's recon space.
  std::optional<std::array<float, 3>> fov_mm;
  /// The acquired part of Cartesian k-space: k of the first and the last sample of x, of y, of z, (sample - floor(n/2))
  /// / n of n samples of the encoded matrix. Lines between the outermost ones that a lattice skips count as acquired.
  /// Empty: not known.
  std::optional<std::array<float, 6>> acquired;
  /// The image's meta attributes, including those that it came with: "missing_lines": "3". Any gadget may set and erase
  /// them. Several values of one name: gadgets/shared/incoming/meta_notes.h.
  std::map<std::string, std::string> notes;
  /// The message that a client's image came in, without its pixels; null for images made of readouts.
  std::shared_ptr<const protocol::Image> source;
};

/// Copies a frame with more facts; a fact of the same name is replaced.
std::shared_ptr<const Frame> with_notes(const Frame& frame, const std::map<std::string, std::string>& notes);

/// Messages exactly as they arrived, at the entrance of a pipeline.
struct RawBatch {
  std::vector<protocol::Acquisition> acquisitions;
};

/// Some readouts of one frame and one kind, all of one shape.
struct Readouts {
  std::shared_ptr<const Frame> frame;  ///< frame of imaging readouts; null for other kinds
  protocol::ReadoutKind kind = protocol::ReadoutKind::imaging;
  bool first = false;  ///< the frame's first batch
  bool last = false;   ///< no later readout belongs to this frame (the batch may be empty)
  std::vector<protocol::AcquisitionHeader> heads;
  Array<cfloat> data;           ///< imaging and calibration: [readout, channel, sample], where the pipeline computes
  HostArray<cfloat> host_data;  ///< data of readouts of other kinds; their `data` is empty
  HostArray<float> trajectory;  ///< [readout, sample, dimension] in the unit of the wire; empty for Cartesian data
  /// The noise of `data` is known: of standard deviation 1 in real and imaginary part, the same in all samples and
  /// coils, which are uncorrelated. A gadget that changes that says false.
  bool white = false;
};

/// Sample positions of one frame and their weights, shared by all frames that repeat them.
struct SamplePositions {
  int dims = 2;
  std::uint16_t encoding = 0;
  /// [sample, dims], cycles/pixel of the encoded matrix; component 0 = x; NaN drops the sample.
  std::vector<double> coordinates;
  std::vector<float> weights;  ///< [sample], as in Samples
  std::uint64_t digest = 0;    ///< digest of the coordinates
  std::uint64_t bytes() const { return coordinates.size() * sizeof(double) + weights.size() * sizeof(float); }
  std::int64_t count() const { return static_cast<std::int64_t>(coordinates.size()) / dims; }
};

/// The times at which the samples of readouts were taken.
struct SampleTiming {
  double interval_s = 0;  ///< from one sample of a readout to the next; 0: not known; -1: the frame's readouts differ
  std::int64_t per_readout = 0;  ///< samples
  std::int64_t center = 0;       ///< the head's center_sample
  bool operator==(const SampleTiming&) const = default;
};

/// Weighted samples of a frame, anywhere in k-space: all at once, or in parts as they come.
struct Samples {
  enum class Part {
    whole,  ///< all samples of the frame; they replace any parts given before
    next,   ///< some samples; the first is number `offset` of `positions`, which hold the whole frame's
    loose,  ///< some samples; `positions` hold only theirs, as the frame's other positions are not known
    moved   ///< samples that entered the sliding window since the previous frame; `positions` hold only theirs
  };
  std::shared_ptr<const Frame> frame;
  Array<cfloat> data;    ///< [sample, coil]
  Array<float> weights;  ///< [sample]; (cycles/pixel)^dims when computed; 0 drops a sample
  std::shared_ptr<const SamplePositions> positions;
  Part part = Part::whole;
  std::int64_t offset = 0;
  std::int64_t readouts = 0;       ///< for `moved`: number of readouts that these samples make up
  bool first = true, last = true;  ///< this is the frame's first, its last part
  SampleTiming timing;             ///< set where samples lie readout by readout
  std::int64_t first_readout = 0;  ///< number of the first sample's readout in its frame or window; `moved`: 0
};

/// Data of a stack (of stars, of spirals) whose planes are passed on as channels: channel = coil * planes + plane.
/// Within a plane, data are as in `Data`.
template <class Data>
struct Planes : Data {
  std::int64_t planes = 1;
};
using PlaneReadouts = Planes<Readouts>;
using PlaneSamples = Planes<Samples>;

/// True if data of this type are 2D though the header's encoding is 3D.
template <class Data>
inline constexpr bool is_planes = false;
template <class Data>
inline constexpr bool is_planes<Planes<Data>> = true;

/// The number of planes in each coil's channels.
template <class Data>
std::int64_t planes_of(const Data& data) {
  if constexpr (is_planes<Data>)
    return data.planes;
  else
    return 1;
}

/// The rows (readouts) of a Cartesian frame that were acquired. Row z * ny + y.
struct SampledLines {
  numerics::Shape extents;                 ///< [z, y] of the encoded matrix
  std::vector<std::uint8_t> came;          ///< per row: 1 if it came, for the image or for calibration that serves it
  std::int64_t first_x = 0, last_x = 0;    ///< samples that all of these rows have: [first_x, last_x); empty: none
  std::array<std::int64_t, 2> step{1, 1};  ///< y, z: steps of the lattice; 1 where `lattice` is false
  std::int64_t shift = 0;                  ///< plane origin z + j * step z has rows origin y + (j * shift) mod step y
  std::array<std::int64_t, 2> origin{};    ///< y, z: a row of the lattice
  bool lattice = false;                    ///< every row of the lattice from `first` to `last` came
  bool rows_differ = false;                ///< some rows have samples beyond [first_x, last_x)
  std::array<std::int64_t, 2> first{}, last{};  ///< y, z: outermost rows that came, inclusive

  std::int64_t count() const;  ///< number of rows that came
};

/// Reference lines: a block of k-space without gaps.
struct Calibration {
  enum class Source { embedded, separate, center, sliding, external };
  std::uint64_t id = 0;  ///< unique in the scan; the key of everything computed from the block
  Source source = Source::embedded;
  FrameKey key;                          ///< encoding, slice, contrast and set; the rest is 0
  Array<cfloat> data;                    ///< [coil, z, y, x], whitened and compressed as the frames are
  std::array<std::int64_t, 3> first{};   ///< x, y, z of the block's first element in the encoded matrix
  std::array<std::int64_t, 3> matrix{};  ///< x, y, z: the encoded matrix
};

/// One frame of Cartesian k-space.
struct KSpace {
  std::shared_ptr<const Frame> frame;
  Array<cfloat> data;      ///< [coil, z, y, x], centre at floor(n/2)
  numerics::Shape padded;  ///< [z, y, x]: extents to transform with, so that voxels have the recon space's size
  numerics::Shape image;   ///< [z, y, x]: extents of the image cut from it (recon matrix)
  std::shared_ptr<const SampledLines> lines;       ///< null: not known
  std::shared_ptr<const Calibration> calibration;  ///< null: there is none
  double image_noise = 0;                          ///< CoilImages::noise of the images that its plain transform gives
};

/// A frame convolved onto an oversampled grid.
struct Grid {
  std::shared_ptr<const Frame> frame;
  Array<cfloat> data;  ///< [coil, (z,) y, x] in FFT order; of a stack, [coil * planes, y, x]
  std::shared_ptr<const numerics::NufftPlan> plan;
  std::int64_t planes = 1;
};

/// The inverse transform of a Grid, still apodized.
struct OversampledImages {
  std::shared_ptr<const Frame> frame;
  Array<cfloat> data;  ///< [coil, (z,) y, x] in FFT order; of a stack, [coil * planes, y, x]
  std::shared_ptr<const numerics::NufftPlan> plan;
  std::int64_t planes = 1;
};

/// A frame as the least-squares problem (F^H W F) x = F^H W d, where W holds the density weights.
struct NormalEquations {
  std::shared_ptr<const Frame> frame;
  Array<cfloat> right;  ///< [coil, z, y, x]: F^H W d, centre at floor(n/2); only one coil once `maps` are known
  std::shared_ptr<const numerics::NormalOperator> matrix;  ///< F^H W F
  Array<cfloat> maps;      ///< [coil, z, y, x]: coil sensitivities, or empty: every coil is an image of its own
  Array<double> power;     ///< [1]: sum of W |d|^2 over samples and coils
  double weight = 0;       ///< sum of W over the samples
  std::int64_t coils = 0;  ///< number of coils in the data
  std::int64_t sets = 1;   ///< sets of maps, which then are [set * coil, z, y, x]
  std::shared_ptr<const Calibration> calibration;  ///< null: there is none
  numerics::Shape padded;  ///< [z, y, x]: extents of the transform that led from k-space of `calibration` to `right`
};

/// Complex images, one per coil (or one after combination).
struct CoilImages {
  std::shared_ptr<const Frame> frame;
  Array<cfloat> data;  ///< [coil, z, y, x], centre at floor(n/2)
  /// The standard deviation of the noise in the real and in the imaginary part, the same in all voxels and coils, which
  /// are uncorrelated; 0: not known. A gadget that makes images gives none unless theory says it.
  double noise = 0;
};

/// The sampling of the echoes of plane waves (docs/ultrasound.md).
struct EchoGeometry {
  struct Wave {
    double angle = 0;                               ///< [rad] from the array's normal, towards +x
    double first_sample = 0;                        ///< [s] after the wave front passed the array's centre
    auto operator<=>(const Wave&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 is wrong
  };
  double sampling_hz = 0, center_hz = 0;
  double demodulated_hz = 0;  ///< 0: traces are RF
  double pitch_mm = 0;        ///< distance between elements
  double sound_mm_per_s = 0;
  std::int64_t elements = 0;
  std::vector<Wave> waves;  ///< in the order of the data
  bool operator==(const EchoGeometry&) const = default;
};

/// One frame's echoes of plane waves, as they were sampled.
struct Echoes {
  std::shared_ptr<const Frame> frame;
  Array<cfloat> data;  ///< [element, wave, sample], followed by at least as many zeros as samples
  std::shared_ptr<const EchoGeometry> geometry;
};

/// One frequency band of the 2D Fourier transforms, over time and elements, of the echoes' analytic signals.
struct EchoSpectra {
  std::shared_ptr<const Frame> frame;
  /// [wave, frequency, column]. Columns are spatial frequencies along the array in FFT order, element 0 is the origin;
  /// each trace was shifted in time so that the column is the image's spatial frequency for every angle of the wave.
  Array<cfloat> data;
  std::shared_ptr<const EchoGeometry> geometry;
  double first_hz = 0, step_hz = 0;  ///< the first frequency, and the step to the next
};

/// The parts of an image's latency; zeros for an image that came from the client.
struct ImageTimes {
  Arrival arrival;
  Instant computed{};  ///< only converting the pixels and copying them to the host remain
  Instant copied{};    ///< the pixels are complete
};

/// A finished image, ready to be sent. On CUDA its pixels are complete only after the stream has passed this point.
struct Image {
  std::shared_ptr<const Frame> frame;  ///< empty for images that came from the client, whose pixels are complete
  protocol::Image message;
  std::shared_ptr<ImageTimes> times;  ///< filled in as the stream reaches each point; may be empty
  /// [1], complete when the pixels are. Empty: not counted yet; the engine then counts the pixels itself. A gadget that
  /// takes an Image and changes its pixels empties it.
  HostArray<numerics::PixelTally> tally;
};

/// A physiological waveform. Gadgets that do not take it pass it on.
struct Waveform {
  protocol::Waveform message;
};

using Item = std::variant<RawBatch, Readouts, Samples, KSpace, Grid, OversampledImages, NormalEquations, CoilImages,
                          Image, Waveform, Echoes, EchoSpectra, PlaneReadouts, PlaneSamples>;

/// Item types by number, in the order of Item's alternatives.
enum class ItemType {
  raw_batch,
  readouts,
  samples,
  kspace,
  grid,
  oversampled_images,
  normal_equations,
  coil_images,
  image,
  waveform,
  echoes,
  echo_spectra,
  plane_readouts,
  plane_samples
};
std::string_view to_string(ItemType type);  ///< "Readouts", ...

namespace internal {
template <class T, std::size_t I = 0>
constexpr std::size_t item_index() {
  if constexpr (std::is_same_v<std::variant_alternative_t<I, Item>, T>)
    return I;
  else
    return item_index<T, I + 1>();
}
}  // namespace internal
template <class T>
inline constexpr ItemType item_type = static_cast<ItemType>(internal::item_index<T>());

}  // namespace echotrain
