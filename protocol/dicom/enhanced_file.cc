#include "protocol/dicom/enhanced_file.h"

#include "protocol/dicom/dicom_built.h"

#if ECHOTRAIN_HAS_DCMTK

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "protocol/dicom/image_part.h"

namespace echotrain::protocol::dicom {
namespace {

constexpr double kSameDirection = 1e-4;
constexpr double kSamePlace = 1e-2;                  // [mm]: slices are farther apart
constexpr std::size_t kMostPixelBytes = 1ull << 30;  // of one instance; an element holds less than 4 GiB
constexpr std::uint16_t kSignBit = 0x8000;

/// What a frame has under one sequence of functional groups (PS3.3 C.7.6.16.2).
using Macro = SequenceItem;

template <class Numbers>
std::string joined_decimals(const Numbers& numbers) {
  std::vector<std::string> texts;
  for (const double number : numbers) texts.push_back(decimal_text(number));
  return fmt::format("{}", fmt::join(texts, "\\"));
}

using Time = std::array<int, 6>;  // set, contrast (where it is no dimension), average, repetition, phase, occurrence

struct Frame {
  std::shared_ptr<const ImagePart> of;
  std::size_t z = 0;
  PlaneGeometry place;
  double along_normal = 0;
  Time time{};
  std::size_t stack = 0, place_index = 0, time_index = 0, contrast_index = 0;  // from 0

  const ImageHeader& head() const { return of->head(); }
  auto order() const { return std::tie(time_index, contrast_index, stack, place_index); }
};

double along_normal(const PlaneGeometry& place) {
  const auto& [r, c, p] = std::tie(place.row, place.column, place.position);
  return (r[1] * c[2] - r[2] * c[1]) * p[0] + (r[2] * c[0] - r[0] * c[2]) * p[1] + (r[0] * c[1] - r[1] * c[0]) * p[2];
}

bool same_orientation(const PlaneGeometry& a, const PlaneGeometry& b) {
  for (std::size_t i = 0; i < 3; ++i)
    if (std::abs(a.row[i] - b.row[i]) > kSameDirection || std::abs(a.column[i] - b.column[i]) > kSameDirection)
      return false;
  return true;
}

/// Finds the dimensions' values of all frames and puts frames in their order. Returns whether echo times are a
/// dimension: where there are several contrasts, and all say theirs.
bool arrange(std::vector<Frame>& frames) {
  std::set<int> contrasts;
  bool all_say = true;
  for (const Frame& frame : frames) {
    contrasts.insert(frame.head().contrast);
    all_say = all_say && frame.of->echo_time().has_value();
  }
  const bool echoes = contrasts.size() > 1 && all_say;
  std::vector<std::vector<Frame*>> stacks;
  for (Frame& frame : frames) {
    const auto found = std::find_if(stacks.begin(), stacks.end(),
                                    [&](const auto& stack) { return same_orientation(stack[0]->place, frame.place); });
    frame.stack = static_cast<std::size_t>(found - stacks.begin());
    if (found == stacks.end()) stacks.emplace_back();
    stacks[frame.stack].push_back(&frame);
  }
  for (auto& stack : stacks) {
    std::stable_sort(stack.begin(), stack.end(),
                     [](const Frame* a, const Frame* b) { return a->along_normal < b->along_normal; });
    for (std::size_t i = 1; i < stack.size(); ++i)
      stack[i]->place_index =
          stack[i - 1]->place_index + (stack[i]->along_normal - stack[i - 1]->along_normal > kSamePlace ? 1 : 0);
  }
  std::map<std::tuple<Time, int, std::size_t, std::size_t>, int> occurrences;
  std::map<Time, std::size_t> times;
  for (Frame& frame : frames) {
    const ImageHeader& h = frame.head();
    frame.time = {h.set, echoes ? 0 : h.contrast, h.average, h.repetition, h.phase, 0};
    frame.time[5] = occurrences[{frame.time, h.contrast, frame.stack, frame.place_index}]++;
    times[frame.time] = 0;
  }
  std::size_t count = 0;
  for (auto& [time, index] : times) index = count++;
  for (Frame& frame : frames) {
    frame.time_index = times[frame.time];
    frame.contrast_index =
        echoes ? static_cast<std::size_t>(std::distance(contrasts.begin(), contrasts.find(frame.head().contrast))) : 0;
  }
  std::stable_sort(frames.begin(), frames.end(), [](const Frame& a, const Frame& b) { return a.order() < b.order(); });
  return echoes;
}

std::vector<std::string> frame_type(const ImagePart& part) {
  std::vector<std::string> values = part.image_type("DERIVED");
  values.resize(std::max<std::size_t>(4, values.size()), "NONE");
  if (values[3] == "ND") values[3] = "NONE";
  values.resize(4);
  return values;
}

std::vector<SequenceItem::Element> kind_of(const ImagePart& part) {
  return {{DCM_PixelPresentation, EVR_CS, "MONOCHROME"},
          {DCM_VolumetricProperties, EVR_CS, "VOLUME"},
          {DCM_VolumeBasedCalculationTechnique, EVR_CS, "NONE"},
          {DCM_ComplexImageComponent, EVR_CS, part.component()},
          {DCM_AcquisitionContrast, EVR_CS, "UNKNOWN"}};
}

std::vector<Macro> macros_of(const Frame& frame, double intercept, bool is_signed) {
  const ImagePart& part = *frame.of;
  std::vector<Macro> all;
  Macro measures{DCM_PixelMeasuresSequence,
                 {{DCM_PixelSpacing, EVR_DS, joined_decimals(frame.place.spacing)},
                  {DCM_SliceThickness, EVR_DS, decimal_text(frame.place.thickness)}}};
  if (frame.head().matrix_size[2] > 1)
    measures.elements.push_back({DCM_SpacingBetweenSlices, EVR_DS, decimal_text(frame.place.thickness)});
  all.push_back(std::move(measures));
  all.push_back(
      {DCM_PlanePositionSequence, {{DCM_ImagePositionPatient, EVR_DS, joined_decimals(frame.place.position)}}});
  const auto& [row, column] = std::tie(frame.place.row, frame.place.column);
  all.push_back({DCM_PlaneOrientationSequence,
                 {{DCM_ImageOrientationPatient, EVR_DS,
                   joined_decimals(std::array{row[0], row[1], row[2], column[0], column[1], column[2]})}}});
  all.push_back({DCM_PixelValueTransformationSequence,
                 {{DCM_RescaleIntercept, EVR_DS, decimal_text(intercept)},
                  {DCM_RescaleSlope, EVR_DS, decimal_text(part.pixels().slope)},
                  {DCM_RescaleType, EVR_LO, "US"}}});
  const auto [centre, width] = part.window();
  all.push_back({DCM_FrameVOILUTSequence,
                 {{DCM_WindowCenter, EVR_DS, decimal_text(centre)},
                  {DCM_WindowWidth, EVR_DS, decimal_text(width)},
                  {DCM_VOILUTFunction, EVR_CS, "LINEAR_EXACT"}}});
  if (auto mapping = part.real_world_value(intercept, is_signed)) all.push_back(std::move(*mapping));
  Macro type{DCM_MRImageFrameTypeSequence,
             {{DCM_FrameType, EVR_CS, fmt::format("{}", fmt::join(frame_type(part), "\\"))}}};
  for (auto& element : kind_of(part)) type.elements.push_back(std::move(element));
  all.push_back(std::move(type));
  Macro timing{DCM_MRTimingAndRelatedParametersSequence, {}};
  if (const auto tr = part.repetition_time())
    timing.elements.push_back({DCM_RepetitionTime, EVR_DS, decimal_text(*tr)});
  if (const auto flip = part.flip_angle()) timing.elements.push_back({DCM_FlipAngle, EVR_DS, decimal_text(*flip)});
  if (!timing.elements.empty()) all.push_back(std::move(timing));
  if (const auto te = part.echo_time())
    all.push_back({DCM_MREchoSequence, {{DCM_EffectiveEchoTime, EVR_FD, decimal_text(*te)}}});
  if (const auto ti = part.inversion_time())
    all.push_back({DCM_MRModifierSequence,
                   {{DCM_InversionRecovery, EVR_CS, "YES"}, {DCM_InversionTimes, EVR_FD, decimal_text(*ti)}}});
  return all;
}

/// Writes that the part of the body is not known (PS3.16, SNOMED CT).
void write_anatomy(Elements& shared) {
  Elements anatomy = shared.item(DCM_FrameAnatomySequence);
  anatomy.text(DCM_FrameLaterality, EVR_CS, "U");
  Elements region = anatomy.item(DCM_AnatomicRegionSequence);
  region.text(DCM_CodeValue, EVR_SH, "38266002");
  region.text(DCM_CodingSchemeDesignator, EVR_SH, "SCT");
  region.text(DCM_CodeMeaning, EVR_LO, "Entire body");
}

std::string tag_text(const DcmTagKey& tag) { return fmt::format("({:04x},{:04x})", tag.getGroup(), tag.getElement()); }

void write_dimensions(Elements& e, const std::string& uid, bool echoes) {
  e.item(DCM_DimensionOrganizationSequence).text(DCM_DimensionOrganizationUID, EVR_UI, uid);
  const auto dimension = [&](const DcmTagKey& tag, const DcmTagKey& sequence, const char* label) {
    Elements item = e.item(DCM_DimensionIndexSequence);
    item.text(DCM_DimensionIndexPointer, EVR_AT, tag_text(tag));
    item.text(DCM_FunctionalGroupPointer, EVR_AT, tag_text(sequence));
    item.text(DCM_DimensionOrganizationUID, EVR_UI, uid);
    item.text(DCM_DimensionDescriptionLabel, EVR_LO, label);
  };
  // The dimensions go from the slowest to the fastest, as the frames do.
  dimension(DCM_TemporalPositionIndex, DCM_FrameContentSequence, "Time");
  if (echoes) dimension(DCM_EffectiveEchoTime, DCM_MREchoSequence, "Echo");
  dimension(DCM_StackID, DCM_FrameContentSequence, "Stack");
  dimension(DCM_InStackPositionNumber, DCM_FrameContentSequence, "Position in stack");
}

Macro content_of(const Frame& frame, bool echoes) {
  std::string values = fmt::format("{}", frame.time_index + 1);
  if (echoes) values += fmt::format("\\{}", frame.contrast_index + 1);
  values += fmt::format("\\{}\\{}", frame.stack + 1, frame.place_index + 1);
  Macro content{DCM_FrameContentSequence,
                {{DCM_DimensionIndexValues, EVR_UL, values},
                 {DCM_StackID, EVR_SH, fmt::format("{}", frame.stack + 1)},
                 {DCM_InStackPositionNumber, EVR_UL, fmt::format("{}", frame.place_index + 1)},
                 {DCM_TemporalPositionIndex, EVR_UL, fmt::format("{}", frame.time_index + 1)}}};
  if (const std::string faults = frame.of->faults(frame.z); !faults.empty())
    content.elements.push_back({DCM_FrameComments, EVR_LT, faults});
  return content;
}

/// Pixels of all frames with one sign, and what has to be added to each frame's intercept for it.
struct AllPixels {
  bool is_signed = false;
  std::vector<std::uint16_t> stored;
  std::vector<double> intercepts;
};

AllPixels pixels_of(std::span<const Frame> frames) {
  AllPixels all;
  all.is_signed = std::any_of(frames.begin(), frames.end(), [](const Frame& f) { return f.of->pixels().is_signed; });
  all.stored.reserve(frames.size() * frames[0].of->plane(0).size());
  for (const Frame& frame : frames) {
    const StoredPixels& from = frame.of->pixels();
    const auto plane = frame.of->plane(frame.z);
    const bool shifted = all.is_signed && !from.is_signed &&
                         std::any_of(plane.begin(), plane.end(), [](std::uint16_t v) { return (v & kSignBit) != 0; });
    for (const std::uint16_t v : plane) all.stored.push_back(shifted ? static_cast<std::uint16_t>(v ^ kSignBit) : v);
    all.intercepts.push_back(from.intercept + (shifted ? kSignBit * from.slope : 0));
  }
  return all;
}

std::string known_or(const std::string& text, const char* otherwise) { return text.empty() ? otherwise : text; }

void write_image_module(Elements& e, const ImagePart& first) {
  const Study& study = first.study();
  e.text(DCM_Manufacturer, EVR_LO, known_or(study.manufacturer, "unknown"));  // these three must say something
  e.text(DCM_ManufacturerModelName, EVR_LO, known_or(study.model, "unknown"));
  e.text(DCM_DeviceSerialNumber, EVR_LO, known_or(study.device_serial_number, "unknown"));
  e.text(DCM_ContentDate, EVR_DA, known_or(study.series_date, study.date.c_str()));
  e.text(DCM_ContentTime, EVR_TM, known_or(study.series_time, study.time.c_str()));
  e.text(DCM_ImageType, EVR_CS, fmt::format("{}", fmt::join(frame_type(first), "\\")));
  for (const auto& [tag, representation, value] : kind_of(first)) e.text(tag, representation, value);
  e.text(DCM_ContentQualification, EVR_CS, "RESEARCH");
  e.text(DCM_BurnedInAnnotation, EVR_CS, "NO");
  e.text(DCM_LossyImageCompression, EVR_CS, "00");
  e.text(DCM_PresentationLUTShape, EVR_CS, "IDENTITY");
  e.text(DCM_MRAcquisitionType, EVR_CS, study.is_3d || first.head().matrix_size[2] > 1 ? "3D" : "2D");
  e.known(DCM_PulseSequenceName, EVR_SH, study.sequence_name);
  e.known(DCM_MagneticFieldStrength, EVR_DS, study.field_strength_t);
  e.empty_sequence(DCM_AcquisitionContextSequence);
}

Instance instance_of(std::span<const Frame> frames, bool echoes, std::int64_t number) {
  const ImagePart& first = *frames[0].of;
  AllPixels pixels = pixels_of(frames);
  std::string digest = "enhanced";
  std::vector<Macro> common =
      macros_of(frames[0], pixels.intercepts[0], pixels.is_signed);  // shared: every frame says the same
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const Frame& frame = frames[i];
    const auto plane = frame.of->plane(frame.z);
    digest = uid_of(digest + frame.of->identity(frame.z, number, frame.place) +
                    std::string(reinterpret_cast<const char*>(plane.data()), plane.size_bytes()));
    const std::vector<Macro> own = macros_of(frame, pixels.intercepts[i], pixels.is_signed);
    std::erase_if(common, [&](const Macro& macro) {
      return std::none_of(own.begin(), own.end(), [&](const Macro& other) { return other == macro; });
    });
  }
  Instance out;
  out.name = first.name();
  out.series_uid = first.series_uid();
  out.uid = digest;
  DcmFileFormat file;
  Elements e(*file.getDataset());
  e.text(DCM_SpecificCharacterSet, EVR_CS, "ISO_IR 192");
  e.text(DCM_SOPClassUID, EVR_UI, UID_EnhancedMRImageStorage);
  e.text(DCM_SOPInstanceUID, EVR_UI, out.uid);
  first.add_patient(e);
  first.add_series(e);
  write_image_module(e, first);
  const auto faulty =
      std::count_if(frames.begin(), frames.end(), [](const Frame& f) { return !f.of->faults(f.z).empty(); });
  e.known(
      DCM_ImageComments, EVR_LT,
      joined_text(first.comments(),
                  faulty == 0
                      ? ""
                      : fmt::format("ATTENTION: frames with pixels that are not what was computed (Frame Comments): {}",
                                    faulty)));
  e.integer(DCM_InstanceNumber, number);
  e.integer(DCM_NumberOfFrames, static_cast<std::int64_t>(frames.size()));
  write_dimensions(e, uid_of("dimensions\n" + out.uid), echoes);

  Elements shared = e.item(DCM_SharedFunctionalGroupsSequence);
  write_anatomy(shared);
  for (const Macro& macro : common) shared.add(macro);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    Elements own = e.item(DCM_PerFrameFunctionalGroupsSequence);
    own.add(content_of(frames[i], echoes));
    for (const Macro& macro : macros_of(frames[i], pixels.intercepts[i], pixels.is_signed))
      if (std::none_of(common.begin(), common.end(), [&](const Macro& c) { return c.sequence == macro.sequence; }))
        own.add(macro);
  }
  first.add_pixel_module(e, pixels.is_signed);
  e.pixels(pixels.stored);
  pixels.stored = {};  // the library has a copy
  out.bytes = part_10_bytes(file);
  return out;
}

}  // namespace

struct EnhancedImages::Impl {
  Impl(const Reconstruction& of, std::size_t most) : study(of.study), key(of.key), most_frames(most) {}

  /// Images of one series, channel, part and size become an instance.
  using Key = std::tuple<std::string, int, int>;  // series UID, rows, columns
  struct Open {
    std::vector<std::shared_ptr<const ImagePart>> parts;
    std::size_t planes = 0, bytes = 0;
  };
  struct Closed {
    Key key;
    Open of;
    bool of_several_sizes = false;  // the series has others
    bool arranged = false, echoes = false;
    std::vector<Frame> frames;
    std::size_t begin = 0;  // of the next instance's frames

    std::size_t plane_bytes() const {
      return sizeof(std::uint16_t) * static_cast<std::size_t>(std::get<1>(key)) *
             static_cast<std::size_t>(std::get<2>(key));
    }
  };
  using Opened = std::map<Key, Open>;

  std::size_t frames_of_one(const Closed& from) const {
    return std::min(most_frames, std::max<std::size_t>(1, kMostPixelBytes / from.plane_bytes()));
  }

  void close(Opened::iterator which, bool of_several_sizes) {
    closed.push_back({which->first, std::move(which->second), of_several_sizes, false, false, {}, 0});
    open.erase(which);
  }

  const Study& study;
  const std::string key;
  const std::size_t most_frames;
  Opened open;
  std::list<Closed> closed;
  std::map<std::string, std::int64_t> numbers;  // of instances, by series
  std::int64_t forgotten = 0;                   // the highest number of series that are no longer among them
  std::size_t bytes = 0;

  std::int64_t next_number(const std::string& series) {
    constexpr std::size_t kMostKnown = 4096;
    if (numbers.size() >= kMostKnown && !numbers.contains(series))
      for (const auto& [each, number] : std::exchange(numbers, {})) forgotten = std::max(forgotten, number);
    return ++numbers.try_emplace(series, forgotten).first->second;
  }
};

namespace {

/// The frames of all parts, in the order in which these came.
std::vector<Frame> frames_of(std::vector<std::shared_ptr<const ImagePart>>&& parts, std::size_t planes) {
  std::vector<Frame> frames;
  frames.reserve(planes);
  for (auto& part : parts)
    for (std::size_t z = 0; z < part->head().matrix_size[2]; ++z) {
      Frame frame;
      frame.of = part;
      frame.z = z;
      frame.place = plane_geometry(part->head(), z);
      frame.along_normal = along_normal(frame.place);
      frames.push_back(std::move(frame));
    }
  parts = {};
  return frames;
}

}  // namespace

EnhancedImages::EnhancedImages(const Reconstruction& of, std::size_t most_frames)
    : impl_(std::make_unique<Impl>(of, most_frames)) {}
EnhancedImages::~EnhancedImages() = default;
EnhancedImages::EnhancedImages(EnhancedImages&&) noexcept = default;

void EnhancedImages::add(const Image& image) {
  const Reconstruction of{impl_->study, impl_->key};
  plane_geometry(image.head, 0);
  const std::vector<Part> parts = parts_of(image.head);
  const auto meta = std::make_shared<const Meta>(image.attributes);
  std::vector<std::shared_ptr<const ImagePart>> made;
  for (std::size_t channel = 0; channel < image.head.channels; ++channel)
    for (const Part part : parts)
      made.push_back(std::make_shared<const ImagePart>(image, of, meta, channel, part, parts.size() == 1,
                                                       "series of Enhanced MR"));
  const std::size_t planes = image.head.matrix_size[2], bytes = bytes_of(image) / std::max<std::size_t>(1, made.size());
  for (auto& part : made) {
    const Impl::Key key{part->series_uid(), image.head.matrix_size[1], image.head.matrix_size[0]};
    if (const auto full = impl_->open.find(key);
        full != impl_->open.end() && full->second.planes + planes > impl_->most_frames)
      impl_->close(full, false);
    Impl::Open& to = impl_->open[key];
    to.parts.push_back(std::move(part));
    to.planes += planes;
    to.bytes += bytes;
    impl_->bytes += bytes;
  }
}

std::size_t EnhancedImages::bytes_of(const Image& image) {
  const ImageHeader& head = image.head;
  const std::size_t planes = head.matrix_size[2], voxels = planes * head.matrix_size[1] * head.matrix_size[0];
  // A part beside its pixels: its place in its list, where that has grown to twice what is in it, two texts, and what
  // the allocator adds; and a list of its own, where it is the only part of its series.
  constexpr std::size_t kPart = sizeof(ImagePart) + sizeof(Impl::Key) + sizeof(Impl::Open) + 512, kFaults = 8;
  const std::size_t part = kPart + voxels * sizeof(std::uint16_t) + planes * kFaults;
  const std::size_t parts = parts_of(head).size() * head.channels;
  return parts * (part + (sizeof(Meta) + Meta::bytes_of(image.attributes)) / std::max<std::size_t>(1, parts));
}

std::size_t EnhancedImages::bytes() const { return impl_->bytes; }
bool EnhancedImages::empty() const { return impl_->open.empty(); }
bool EnhancedImages::has_closed() const { return !impl_->closed.empty(); }

void EnhancedImages::close() {
  std::map<std::string, std::size_t> sizes;
  for (const auto& [key, open] : impl_->open) ++sizes[std::get<0>(key)];
  while (!impl_->open.empty()) {
    const auto first = impl_->open.begin();
    impl_->close(first, sizes[std::get<0>(first->first)] > 1);
  }
}

std::size_t EnhancedImages::bytes_to_make() const {
  if (impl_->closed.empty()) return 0;
  const Impl::Closed& from = impl_->closed.front();
  // Pixels lie in three places; the library takes some 10 KB for what a frame says.
  constexpr std::size_t kCopies = 3, kFrame = 10 << 10;
  return std::min(impl_->frames_of_one(from), from.of.planes) * (kCopies * from.plane_bytes() + kFrame) +
         from.of.planes * sizeof(Frame);
}

std::optional<Instance> EnhancedImages::next() {
  while (!impl_->closed.empty()) {
    Impl::Closed& from = impl_->closed.front();
    if (!std::exchange(from.arranged, true)) {
      from.frames = frames_of(std::move(from.of.parts), from.of.planes);
      from.echoes = arrange(from.frames);
    }
    const auto& [series, rows, columns] = from.key;
    if (from.begin >= from.frames.size()) {
      impl_->bytes -= from.of.bytes;
      impl_->closed.pop_front();
      continue;
    }
    const std::size_t most = impl_->frames_of_one(from);
    const std::size_t begin = from.begin, count = std::min(most, from.frames.size() - begin);
    from.begin += count;
    Instance one =
        instance_of(std::span<const Frame>(from.frames).subspan(begin, count), from.echoes, impl_->next_number(series));
    if (from.of_several_sizes) one.name += fmt::format("_{}x{}", columns, rows);
    if (from.frames.size() > most) one.name += fmt::format("_{}", begin / most + 1);
    return one;
  }
  return std::nullopt;
}

}  // namespace echotrain::protocol::dicom

#else

namespace echotrain::protocol::dicom {

struct EnhancedImages::Impl {};
EnhancedImages::EnhancedImages(const Reconstruction& /*of*/, std::size_t /*most_frames*/)
    : impl_(std::make_unique<Impl>()) {}
EnhancedImages::~EnhancedImages() = default;
EnhancedImages::EnhancedImages(EnhancedImages&&) noexcept = default;
void EnhancedImages::add(const Image& /*image*/) {
  throw DicomError(
      "this program was built without DICOM: install DCMTK (Debian: libdcmtk-dev), then configure and build it again");
}
std::size_t EnhancedImages::bytes_of(const Image& /*image*/) { return 0; }
std::size_t EnhancedImages::bytes() const { return 0; }
bool EnhancedImages::empty() const { return true; }
void EnhancedImages::close() {}
bool EnhancedImages::has_closed() const { return false; }
std::size_t EnhancedImages::bytes_to_make() const { return 0; }
std::optional<Instance> EnhancedImages::next() { return std::nullopt; }

}  // namespace echotrain::protocol::dicom

#endif

namespace echotrain::protocol::dicom {

void EnhancedImages::finish(const std::function<void(Instance&&)>& give) {
  close();
  while (std::optional<Instance> one = next()) give(std::move(*one));
}

}  // namespace echotrain::protocol::dicom
