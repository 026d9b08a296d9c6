#include "gadgets/images/image.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/api/image_steps.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {
namespace {

using numerics::Component;
using numerics::DeviceView;
using numerics::PixelType;

constexpr std::uint16_t kPhasesAbove = 100;  // offset of phases in a client's series

Component component_of(const std::string& name) {
  static const std::map<std::string, Component> names = {{"complex", Component::complex},
                                                         {"magnitude", Component::magnitude},
                                                         {"phase", Component::phase},
                                                         {"real", Component::real},
                                                         {"imag", Component::imaginary}};
  return names.at(name);
}

std::uint16_t image_type(Component component) {
  switch (component) {
    case Component::magnitude:
      return ISMRMRD::ISMRMRD_IMTYPE_MAGNITUDE;
    case Component::phase:
      return ISMRMRD::ISMRMRD_IMTYPE_PHASE;
    case Component::real:
      return ISMRMRD::ISMRMRD_IMTYPE_REAL;
    case Component::imaginary:
      return ISMRMRD::ISMRMRD_IMTYPE_IMAG;
    case Component::complex:
      return ISMRMRD::ISMRMRD_IMTYPE_COMPLEX;
  }
  return 0;
}

/// True of maps of a physical quantity: they are real numbers, whatever their images were.
bool is_map(const Frame& frame) { return frame.notes.contains("map_quantity"); }

/// Host memory that holds `values` once the stream has done the work enqueued so far.
template <class T>
protocol::Payload to_host(numerics::Context& compute, const Array<T>& values) {
  const HostArray<T> host = compute.place_on_host(values);
  const auto* bytes = reinterpret_cast<const std::byte*>(host.data());
  return {host.memory(), {bytes, static_cast<std::size_t>(host.size()) * sizeof(T)}};
}

/// Pixels to be filled where the context computes, followed by their tally: one copy brings both to the host.
template <class T>
class TalliedPixels {
 public:
  TalliedPixels(numerics::Context& compute, const numerics::Shape& shape)
      : compute_(compute), shape_(shape), tally_at_((shape.size() + kAligned - 1) / kAligned * kAligned) {
    constexpr std::size_t kTally = (sizeof(numerics::PixelTally) + sizeof(T) - 1) / sizeof(T);
    memory_ = compute.allocate<T>({tally_at_ + static_cast<std::int64_t>(kTally)});
    compute.clear(tally());
  }
  DeviceView<T> pixels() { return memory_.view().part(0, shape_); }
  DeviceView<numerics::PixelTally> tally() {
    return DeviceView<numerics::PixelTally>(reinterpret_cast<numerics::PixelTally*>(memory_.data() + tally_at_), {1});
  }
  /// Both are complete once the stream has passed this point.
  void give_to(Image& image) const {
    HostArray<T> host = compute_.place_on_host(memory_);
    const auto* bytes = reinterpret_cast<const std::byte*>(host.data());
    image.message.pixels = {host.memory(), {bytes, static_cast<std::size_t>(shape_.size()) * sizeof(T)}};
    image.tally = {std::shared_ptr<void>(host.memory(), host.data() + tally_at_), {1}, host.memory_kind()};
  }

 private:
  static constexpr std::int64_t kAligned =
      sizeof(T) < alignof(numerics::PixelTally) ? alignof(numerics::PixelTally) / sizeof(T) : std::size_t{1};

  numerics::Context& compute_;
  numerics::Shape shape_;
  std::int64_t tally_at_;  // in elements
  Array<T> memory_;
};

}  // namespace

Parameters<ImageOutput::Options> ImageOutput::parameters() {
  return Parameters<Options>()
      .choice("component", &Options::component,
              {"auto", "complex", "magnitude", "phase", "real", "imag", "magnitude_and_phase"},
              "part of the complex image that is sent. auto: of sent images what they were, of maps the real part, of "
              "others the magnitude. magnitude_and_phase: two images, the phase in a series of its own")
      .choice("type", &Options::type, {"auto", "float", "double", "uint16", "int16", "uint32", "int32"},
              "pixel type; integers are rounded and clamped to their range. auto: of sent images their own, of maps "
              "and others float. Complex pixels are two numbers of float or double")
      .number("scale", &Options::scale, 1e-12, 1e12, "factor applied before conversion (not to phase)");
}

ImageOutput::ImageOutput(Options options) : options_(std::move(options)) {
  const bool integers = options_.type.find("int") != std::string::npos, is_unsigned = options_.type[0] == 'u';
  const bool sizes = options_.component == "auto" || options_.component == "magnitude";
  if (is_unsigned && !sizes)
    throw std::invalid_argument("type " + options_.type +
                                " holds no negative or complex pixels; use component magnitude, or type float");
  if (integers && !sizes && options_.component != "real" && options_.component != "imag")
    throw std::invalid_argument("type " + options_.type +
                                " holds no angles or complex pixels; use component real or magnitude, or type float");
}

void ImageOutput::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  fields_of_view_ = FieldsOfView(header);
  encodings_ = static_cast<std::uint16_t>(header.encodings.size());
  meta_ = ImageMeta(header, numerics::to_string(scan.compute.backend()));
}

ImageOutput::Kind ImageOutput::kind_of(const Frame& frame) const {
  Kind kind{Component::magnitude, PixelType::f32};
  if (options_.component != "auto" && options_.component != "magnitude_and_phase") {
    kind.component = component_of(options_.component);
  } else if (options_.component == "auto" && is_map(frame)) {
    kind.component = Component::real;
  } else if (options_.component == "auto" && frame.source) {
    const auto came = static_cast<PixelType>(frame.source->head.data_type);
    const bool is_unsigned = came == PixelType::u16 || came == PixelType::u32;
    kind.component = numerics::is_complex(came) ? Component::complex
                     : is_unsigned              ? Component::magnitude
                                                : Component::real;
  }
  kind.type = type_of(frame, kind.component);
  return kind;
}

PixelType ImageOutput::type_of(const Frame& frame, Component component) const {
  static const std::map<std::string, PixelType> names = {{"float", PixelType::f32},  {"double", PixelType::f64},
                                                         {"uint16", PixelType::u16}, {"int16", PixelType::i16},
                                                         {"uint32", PixelType::u32}, {"int32", PixelType::i32}};
  PixelType type = PixelType::f32;
  if (options_.type != "auto")
    type = names.at(options_.type);
  else if (frame.source)
    type = static_cast<PixelType>(frame.source->head.data_type);
  const bool is_double = type == PixelType::f64 || type == PixelType::c128;
  if (component == Component::complex) return is_double ? PixelType::c128 : PixelType::c64;
  const bool is_integer = !is_double && type != PixelType::f32 && type != PixelType::c64;
  // A requested component need not fit the type that the image came in.
  const bool fits =
      options_.type != "auto" || (options_.component == "auto" && !is_map(frame)) || component == Component::magnitude;
  if (is_integer && fits) return type;
  return is_double ? PixelType::f64 : PixelType::f32;
}

void ImageOutput::convert(const CoilImages& images, const Kind& kind, Image& to) {
  numerics::Context& compute = scan_->compute;
  const auto scale = static_cast<float>(options_.scale);
  const auto& shape = images.data.shape();
  const auto from = images.data.cview();
  const auto component = [&]<class T>(TalliedPixels<T>&& out) {
    numerics::component(compute, from, kind.component, scale, out.pixels(), out.tally());
    out.give_to(to);
  };
  const auto pixels = [&]<class T>(TalliedPixels<T>&& out) {
    Array<float> values = compute.allocate<float>(shape);
    numerics::component(compute, from, kind.component, scale, values.view());
    numerics::to_pixels(compute, values.cview(), out.pixels(), out.tally());
    out.give_to(to);
  };
  switch (kind.type) {
    case PixelType::u16:
      return component(TalliedPixels<std::uint16_t>(compute, shape));
    case PixelType::f32:
      return component(TalliedPixels<float>(compute, shape));
    case PixelType::i16:
      return pixels(TalliedPixels<std::int16_t>(compute, shape));
    case PixelType::u32:
      return pixels(TalliedPixels<std::uint32_t>(compute, shape));
    case PixelType::i32:
      return pixels(TalliedPixels<std::int32_t>(compute, shape));
    case PixelType::f64:
      return pixels(TalliedPixels<double>(compute, shape));
    case PixelType::c64:
    case PixelType::c128:
      break;
  }
  Array<cfloat> scaled;
  if (scale != 1.0f && kind.type == PixelType::c128) {
    scaled = compute.allocate<cfloat>(shape);
    numerics::scale(compute, from, scale, scaled.view());
  }
  if (kind.type == PixelType::c128) {
    TalliedPixels<numerics::cdouble> out(compute, shape);
    numerics::to_pixels(compute, scale != 1.0f ? scaled.cview() : from, out.pixels(), out.tally());
    out.give_to(to);
  } else if (scale != 1.0f) {
    TalliedPixels<cfloat> out(compute, shape);
    numerics::scale(compute, from, scale, out.pixels(), out.tally());
    out.give_to(to);
  } else {
    Array<numerics::PixelTally> tally = compute.zeros<numerics::PixelTally>({1});
    numerics::tally(compute, from, tally.view());
    to.message.pixels = to_host(compute, images.data);
    to.tally = compute.place_on_host(tally);
  }
}

void ImageOutput::process(CoilImages&& images, const Emit<Image>& emit) {
  Kind kind = kind_of(*images.frame);
  give(images, kind, emit);
  if (options_.component != "magnitude_and_phase") return;
  kind = {Component::phase, type_of(*images.frame, Component::phase), true};
  give(images, kind, emit);
}

void ImageOutput::give(const CoilImages& images, Component component, const Emit<Image>& emit) {
  give(images, Kind{component, component == Component::complex ? PixelType::c64 : PixelType::f32}, emit);
}

/// Fills in the image's geometry, time stamps and counters.
void ImageOutput::lay_out(const Frame& frame, protocol::ImageHeader& head) const {
  const protocol::AcquisitionHeader& from = frame.reference;
  head.measurement_uid = from.measurement_uid;
  const std::array<float, 3> fov = fields_of_view_.of(frame);
  for (std::size_t a = 0; a < 3; ++a) {
    head.field_of_view[a] = fov[a];
    head.position[a] = from.position[a];
    head.read_dir[a] = from.read_dir[a];
    head.phase_dir[a] = from.phase_dir[a];
    head.slice_dir[a] = from.slice_dir[a];
    head.patient_table_position[a] = from.patient_table_position[a];
    head.physiology_time_stamp[a] = from.physiology_time_stamp[a];
  }
  head.average = from.idx.average;
  head.slice = frame.key.slice;
  head.contrast = frame.key.contrast;
  head.phase = frame.key.phase;
  head.repetition = frame.key.repetition;
  head.set = frame.key.set;
  head.acquisition_time_stamp = from.acquisition_time_stamp;
  for (std::size_t i = 0; i < 8; ++i) {
    head.user_int[i] = from.user_int[i];
    head.user_float[i] = from.user_float[i];
  }
}

/// Numbers the image. All images of a series have one size and one unit. Encodings may differ in size, so each is a
/// series of its own.
void ImageOutput::number(const Frame& frame, const Kind& kind, protocol::ImageHeader& head) {
  if (frame.source) {
    const protocol::ImageHeader& came = frame.source->head;
    head.image_index = came.image_index;
    head.image_series_index = static_cast<std::uint16_t>(came.image_series_index + (kind.second ? kPhasesAbove : 0));
    return;
  }
  const int round = 2 * frame.key.series + (kind.second ? 1 : 0);
  const auto series = static_cast<std::uint16_t>(frame.key.encoding + 1 + encodings_ * round);
  head.image_series_index = series;
  head.image_index = image_index_[series] = index_after(image_index_[series]);
}

void ImageOutput::give(const CoilImages& images, const Kind& kind, const Emit<Image>& emit) {
  const Frame& frame = *images.frame;
  const auto& shape = images.data.shape();  // [coil, z, y, x]
  Image out;
  out.frame = images.frame;

  protocol::ImageHeader head{};
  if (frame.source) head = frame.source->head;
  head.version = 1;
  lay_out(frame, head);
  for (std::size_t a = 0; a < 3; ++a) head.matrix_size[a] = static_cast<std::uint16_t>(shape[3 - a]);
  head.channels = static_cast<std::uint16_t>(shape[0]);
  if (!frame.source || options_.component != "auto" || is_map(frame)) head.image_type = image_type(kind.component);
  head.data_type = static_cast<std::uint16_t>(kind.type);
  number(frame, kind, head);
  if (frame.arrival.received != Instant{}) {
    out.times = std::make_shared<ImageTimes>(ImageTimes{frame.arrival});
    // On a GPU, a callback costs the scan's thread three calls, and wakes the thread that calls it.
    if (!scan_->behind || !scan_->compute.cuda())
      scan_->compute.on_complete([times = out.times] { times->computed = std::chrono::steady_clock::now(); });
  }
  convert(images, kind, out);
  // A file that is reconstructed without a connection gives the same bytes each time.
  std::vector<std::string> steps;
  if (out.times || frame.source) steps = scan_->compute.cache<ImageSteps>().texts();
  out.message.attributes =
      meta_.text(frame, head, kind.component == Component::phase ? 1 : options_.scale, std::move(steps));
  head.attribute_string_len = static_cast<std::uint32_t>(out.message.attributes.size());
  out.message.head = head;
  emit(std::move(out));
}

}  // namespace echotrain
