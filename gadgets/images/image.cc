#include "gadgets/images/image.h"

#include <ismrmrd/meta.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace echotrain {
namespace {

using numerics::Component;
using numerics::DeviceView;

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

/// Host memory that holds `values` once the stream has done the work enqueued so far.
template <class T>
protocol::Payload to_host(numerics::Context& compute, const Array<T>& values) {
  const HostArray<T> host = compute.place_on_host(values);
  const auto* bytes = reinterpret_cast<const std::byte*>(host.data());
  return {host.memory(), {bytes, static_cast<std::size_t>(host.size()) * sizeof(T)}};
}

/// Pixels to be filled where the context computes, and behind them their tally: one copy brings both to the host.
template <class T>
class TalliedPixels {
 public:
  TalliedPixels(numerics::Context& compute, const numerics::Shape& shape)
      : compute_(compute), shape_(shape), tally_at_((shape.size() + kAligned - 1) / kAligned * kAligned) {
    memory_ = compute.allocate<T>({tally_at_ + static_cast<std::int64_t>(sizeof(numerics::PixelTally) / sizeof(T))});
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
    image.tally = {std::shared_ptr<void>(host.memory(), host.data() + tally_at_), {1}, host.place()};
  }

 private:
  static constexpr std::int64_t kAligned = alignof(numerics::PixelTally) / sizeof(T);

  numerics::Context& compute_;
  numerics::Shape shape_;
  std::int64_t tally_at_;  // in elements
  Array<T> memory_;
};

}  // namespace

Parameters<ImageOutput::Options> ImageOutput::parameters() {
  return Parameters<Options>()
      .choice(
          "component", &Options::component, {"complex", "magnitude", "phase", "real", "imag", "magnitude_and_phase"},
          "part of the complex image that is sent; magnitude_and_phase: two images, the phase in a series of its own")
      .choice("type", &Options::type, {"float", "uint16"}, "pixel type; uint16 rounds and clamps to 0..65535")
      .number("scale", &Options::scale, 1e-12, 1e12, "factor applied before conversion (not to phase)");
}

ImageOutput::ImageOutput(Options options) : options_(std::move(options)) {
  if (options_.type == "uint16" && options_.component != "magnitude")
    throw std::invalid_argument(
        "type uint16 holds no negative or complex pixels; use component magnitude, or type float");
}

void ImageOutput::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  fields_of_view_ = FieldsOfView(header);
  encodings_ = static_cast<std::uint16_t>(header.encodings.size());
}

void ImageOutput::convert(const CoilImages& images, Component what, Image& to) {
  numerics::Context& compute = scan_->compute;
  const auto scale = static_cast<float>(options_.scale);
  const auto& shape = images.data.shape();
  const auto component = [&]<class T>(TalliedPixels<T>&& out) {
    numerics::component(compute, images.data.view(), what, scale, out.pixels(), out.tally());
    out.give_to(to);
  };
  if (options_.type == "uint16") {
    component(TalliedPixels<std::uint16_t>(compute, shape));
  } else if (what != Component::complex) {
    component(TalliedPixels<float>(compute, shape));
  } else if (scale != 1.0f) {
    TalliedPixels<cfloat> out(compute, shape);
    numerics::scale(compute, images.data.view(), scale, out.pixels(), out.tally());
    out.give_to(to);
  } else {
    Array<numerics::PixelTally> tally = compute.zeros<numerics::PixelTally>({1});
    numerics::tally(compute, images.data.view(), tally.view());
    to.message.pixels = to_host(compute, images.data);
    to.tally = compute.place_on_host(tally);
  }
}

std::string ImageOutput::attributes(const Frame& frame) const {
  ISMRMRD::MetaContainer meta;
  meta.set("DataRole", "Image");
  meta.set("echotrain_backend", numerics::to_string(scan_->compute.backend()));
  meta.set("echotrain_frame", static_cast<long>(frame.id));
  meta.set("echotrain_readouts", static_cast<long>(frame.readouts));
  if (frame.arrival.readout > 0) meta.set("echotrain_last_readout", static_cast<long>(frame.arrival.readout));
  for (const auto& [name, value] : frame.notes) meta.set(name.c_str(), value.c_str());
  std::ostringstream text;
  ISMRMRD::serialize(meta, text);
  // libismrmrd declares no encoding.
  const std::string xml = text.str();
  const std::size_t body = xml.find("<ismrmrdMeta");
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + xml.substr(body == std::string::npos ? 0 : body);
}

void ImageOutput::process(CoilImages&& images, const Emit<Image>& emit) {
  if (options_.component == "magnitude_and_phase") {
    give(images, Component::magnitude, emit);
    give(images, Component::phase, emit);
  } else {
    give(images, component_of(options_.component), emit);
  }
}

void ImageOutput::give(const CoilImages& images, Component what, const Emit<Image>& emit) {
  const Frame& frame = *images.frame;
  const protocol::AcquisitionHeader& from = frame.reference;
  const auto& shape = images.data.shape();  // [coil, z, y, x]
  Image out;
  out.frame = images.frame;

  protocol::ImageHeader head{};
  head.version = 1;
  head.measurement_uid = from.measurement_uid;
  const std::array<float, 3> fov = fields_of_view_.of(frame);
  for (std::size_t a = 0; a < 3; ++a) {
    head.matrix_size[a] = static_cast<std::uint16_t>(shape[3 - a]);
    head.field_of_view[a] = fov[a];
    head.position[a] = from.position[a];
    head.read_dir[a] = from.read_dir[a];
    head.phase_dir[a] = from.phase_dir[a];
    head.slice_dir[a] = from.slice_dir[a];
    head.patient_table_position[a] = from.patient_table_position[a];
    head.physiology_time_stamp[a] = from.physiology_time_stamp[a];
  }
  head.channels = static_cast<std::uint16_t>(shape[0]);
  head.average = from.idx.average;
  head.slice = frame.key.slice;
  head.contrast = frame.key.contrast;
  head.phase = frame.key.phase;
  head.repetition = frame.key.repetition;
  head.set = frame.key.set;
  head.acquisition_time_stamp = from.acquisition_time_stamp;
  head.image_type = image_type(what);
  head.data_type = options_.type == "uint16"    ? ISMRMRD::ISMRMRD_USHORT
                   : what == Component::complex ? ISMRMRD::ISMRMRD_CXFLOAT
                                                : ISMRMRD::ISMRMRD_FLOAT;
  // All images of a series have one size and one unit. Encodings may differ in size, so each is a series of its own.
  const bool second = options_.component == "magnitude_and_phase" && what == Component::phase;
  const int round = 2 * frame.key.series + (second ? 1 : 0);
  const auto series = static_cast<std::uint16_t>(frame.key.encoding + 1 + encodings_ * round);
  head.image_series_index = series;
  head.image_index = image_index_[series] = index_after(image_index_[series]);
  for (std::size_t i = 0; i < 8; ++i) {
    head.user_int[i] = from.user_int[i];
    head.user_float[i] = from.user_float[i];
  }
  if (frame.arrival.received != Instant{}) {
    out.times = std::make_shared<ImageTimes>(ImageTimes{frame.arrival});
    scan_->compute.on_complete([times = out.times] { times->computed = std::chrono::steady_clock::now(); });
  }
  convert(images, what, out);
  out.message.attributes = attributes(frame);
  head.attribute_string_len = static_cast<std::uint32_t>(out.message.attributes.size());
  out.message.head = head;
  emit(std::move(out));
}

}  // namespace echotrain
