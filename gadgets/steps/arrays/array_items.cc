#include "gadgets/steps/arrays/array_items.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "gadgets/numerics/inverse/operators/map_products.h"
#include "gadgets/numerics/mri/images/pixels.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {
namespace {

/// The element types of pixels, by ISMRMRD's numbers.
constexpr std::array kPixels{"", "<u2", "<i2", "<u4", "<i4", "<f4", "<f8", "<c8", "<c16"};

template <class T>
const char* type_name() {
  if constexpr (std::is_same_v<T, cfloat>)
    return "<c8";
  else if constexpr (std::is_same_v<T, double>)
    return "<f8";
  else if constexpr (std::is_same_v<T, float>)
    return "<f4";
  else
    return "|u1";
}

/// Memory of others that a message refers to.
std::shared_ptr<void> refer(const std::shared_ptr<const void>& owner, const void* data) {
  return {std::const_pointer_cast<void>(owner), const_cast<void*>(data)};  // it is only read
}

template <class T>
void add_host(ArrayMessage& to, const char* name, numerics::Shape shape, const T* data,
              const std::shared_ptr<const void>& owner) {
  to.arrays.push_back(
      {name, type_name<T>(), shape, refer(owner, data), static_cast<std::size_t>(shape.size()) * sizeof(T)});
}

std::string text_of(const numerics::Shape& shape) {
  return fmt::format("{}", fmt::join(shape.begin(), shape.end(), ","));
}

void add_frame(ArrayMessage& to, const std::shared_ptr<const Frame>& frame) {
  if (!frame) return;
  const auto fact = [&](const char* name, auto value) { to.facts.emplace_back(name, std::to_string(value)); };
  fact("id", frame->id);
  fact("encoding", frame->key.encoding);
  fact("slice", frame->key.slice);
  fact("contrast", frame->key.contrast);
  fact("phase", frame->key.phase);
  fact("repetition", frame->key.repetition);
  fact("set", frame->key.set);
  fact("series", frame->key.series);
  fact("readouts", frame->readouts);
  fact("expected_readouts", frame->expected_readouts);
  for (const auto& [name, value] : frame->notes) to.facts.emplace_back("meta." + name, value);
  add_host(to, "reference", {static_cast<std::int64_t>(sizeof frame->reference)},
           reinterpret_cast<const std::uint8_t*>(&frame->reference), frame);
}

/// A frame with the result's meta attributes, if it brings any.
std::shared_ptr<const Frame> frame_of(const ArrayMessage& result, const std::shared_ptr<const Frame>& from) {
  constexpr std::string_view kMeta = "meta.";
  const auto is = [&](const auto& fact) { return fact.first == "meta"; };
  if (std::none_of(result.facts.begin(), result.facts.end(), is)) return from;
  auto changed = std::make_shared<Frame>(*from);
  changed->notes.clear();
  for (const auto& [name, value] : result.facts) {
    if (!name.starts_with(kMeta)) continue;
    for (const char c : name + value)
      if (static_cast<unsigned char>(c) < 0x1f && c != '\t' && c != '\n' && c != '\r')
        throw WrongArrays(
            fmt::format("has given the meta attribute '{}' with a character that XML cannot hold", name.substr(5)));
    changed->notes[name.substr(kMeta.size())] = value;
  }
  return changed;
}

/// The array `name`, of this type; of its shape, axes whose extent in `shape` is negative are free, but not empty.
const LinkedArray& checked(const ArrayMessage& result, const char* name, std::string_view type,
                           const std::vector<std::int64_t>& shape) {
  const LinkedArray* const array = result.find(name);
  if (array == nullptr) throw WrongArrays(fmt::format("has given no {}", name));
  bool fits = array->shape.rank() == shape.size() && array->type == type;
  for (std::size_t axis = 0; fits && axis < shape.size(); ++axis)
    fits = shape[axis] < 0 ? array->shape[axis] > 0 && array->shape[axis] <= 65535 : array->shape[axis] == shape[axis];
  if (fits) return *array;
  std::vector<std::string> wanted;
  for (const std::int64_t extent : shape) wanted.push_back(extent < 0 ? "any" : std::to_string(extent));
  throw WrongArrays(fmt::format("has given {} of type {} and shape {}, not of type {} and shape [{}]", name,
                                array->type, array->shape.text(), type, fmt::join(wanted, ", ")));
}

template <class T>
Array<T> placed(Scan& scan, const LinkedArray& array) {
  if (!scan.compute.cuda()) return Array<T>(array.memory, array.shape);
  return scan.compute.upload(numerics::HostView<const T>(static_cast<const T*>(array.memory.get()), array.shape));
}

}  // namespace

ItemArrays::ItemArrays(Scan& scan, const protocol::Header& header, std::shared_ptr<SharedArea> area)
    : scan_(scan), area_(std::move(area)) {
  for (const protocol::Encoding& encoding : header.encodings) voxels_.push_back(image_geometry(encoding).image);
}

template <class T>
void ItemArrays::add(ArrayMessage& to, const char* name, const Array<T>& array) {
  numerics::Context& compute = scan_.compute;
  const std::size_t bytes = static_cast<std::size_t>(array.size()) * sizeof(T);
  std::shared_ptr<void> memory = array.memory();
  if (compute.cuda()) {
    memory = area_->take(bytes);
    if (!memory) memory = compute.allocate_host<T>(array.shape()).memory();
    compute.copy<T>(array.view(), numerics::HostView<T>(static_cast<T*>(memory.get()), array.shape()));
  }
  to.arrays.push_back({name, type_name<T>(), array.shape(), std::move(memory), bytes});
}

ArrayMessage ItemArrays::of(const Readouts& readouts) {
  ArrayMessage out;
  const HostArray<cfloat>& host = readouts.host_data;
  if (readouts.data)
    add(out, "data", readouts.data);
  else
    add_host(out, "data", host.shape(), host.data(), host.memory());
  add_host(out, "heads", {static_cast<std::int64_t>(readouts.heads.size() * sizeof(protocol::AcquisitionHeader))},
           reinterpret_cast<const std::uint8_t*>(readouts.heads.data()), nullptr);
  if (const HostArray<float>& trajectory = readouts.trajectory)
    add_host(out, "trajectory", trajectory.shape(), trajectory.data(), trajectory.memory());
  out.facts = {{"kind", std::to_string(static_cast<int>(readouts.kind))},
               {"first", std::to_string(static_cast<int>(readouts.first))},
               {"last", std::to_string(static_cast<int>(readouts.last))}};
  add_frame(out, readouts.frame);
  if (scan_.compute.cuda()) scan_.compute.synchronize();
  return out;
}

ArrayMessage ItemArrays::of(const NormalEquations& equations) {
  ArrayMessage out;
  add(out, "data", equations.right);
  if (equations.maps) add(out, "maps", equations.maps);
  add(out, "power", equations.power);
  out.facts = {{"weight", fmt::format("{}", equations.weight)},
               {"coils", std::to_string(equations.coils)},
               {"sets", std::to_string(equations.sets)}};
  add_frame(out, equations.frame);
  if (scan_.compute.cuda()) scan_.compute.synchronize();
  return out;
}

ArrayMessage ItemArrays::of(const KSpace& kspace) {
  ArrayMessage out;
  add(out, "data", kspace.data);
  if (kspace.lines) add_host(out, "lines", kspace.lines->extents, kspace.lines->came.data(), kspace.lines);
  out.facts = {{"padded", text_of(kspace.padded)}, {"image", text_of(kspace.image)}};
  add_frame(out, kspace.frame);
  if (scan_.compute.cuda()) scan_.compute.synchronize();
  return out;
}

ArrayMessage ItemArrays::of(const Samples& samples) {
  ArrayMessage out;
  const SamplePositions& positions = *samples.positions;
  add(out, "data", samples.data);
  add(out, "weights", samples.weights);
  add_host(out, "coordinates", {positions.count(), positions.dims}, positions.coordinates.data(), samples.positions);
  out.facts = {{"image", text_of(voxels_of(samples))}};
  add_frame(out, samples.frame);
  if (scan_.compute.cuda()) scan_.compute.synchronize();
  return out;
}

ArrayMessage ItemArrays::of(const CoilImages& images) {
  ArrayMessage out;
  add(out, "data", images.data);
  add_frame(out, images.frame);
  if (scan_.compute.cuda()) scan_.compute.synchronize();
  return out;
}

ArrayMessage ItemArrays::of(const Image& image) {
  if (image.frame && scan_.compute.cuda()) scan_.compute.synchronize();  // its pixels are on their way
  ArrayMessage out;
  const protocol::Image& message = image.message;
  const protocol::ImageHeader& head = message.head;
  out.arrays.push_back({"data",
                        kPixels.at(head.data_type),
                        {head.channels, head.matrix_size[2], head.matrix_size[1], head.matrix_size[0]},
                        refer(message.pixels.owner, message.pixels.bytes.data()),
                        message.pixels.bytes.size()});
  add_host(out, "head", {static_cast<std::int64_t>(sizeof head)}, reinterpret_cast<const std::uint8_t*>(&head),
           nullptr);
  add_frame(out, image.frame);
  out.facts.emplace_back("attributes", message.attributes);
  return out;
}

Readouts ItemArrays::result(const ArrayMessage& result, const Readouts& from) {
  const numerics::Shape shape = from.data ? from.data.shape() : from.host_data.shape();
  const LinkedArray& data = checked(result, "data", "<c8", {shape[0], -1, shape[2]});
  Readouts out = from;
  if (from.data)
    out.data = placed<cfloat>(scan_, data);
  else
    out.host_data = HostArray<cfloat>(data.memory, data.shape, numerics::MemoryKind::pageable);
  if (result.find("trajectory") != nullptr && from.trajectory) {
    const numerics::Shape& points = from.trajectory.shape();
    const LinkedArray& trajectory = checked(result, "trajectory", "<f4", {points[0], points[1], points[2]});
    out.trajectory = HostArray<float>(trajectory.memory, trajectory.shape, numerics::MemoryKind::pageable);
  }
  for (protocol::AcquisitionHeader& head : out.heads) head.active_channels = static_cast<std::uint16_t>(data.shape[1]);
  out.white = false;
  return out;
}

NormalEquations ItemArrays::result(const ArrayMessage& result, const NormalEquations& from) {
  const numerics::Shape& shape = from.right.shape();
  NormalEquations out = from;
  out.right = placed<cfloat>(scan_, checked(result, "data", "<c8", {shape[0], shape[1], shape[2], shape[3]}));
  out.frame = frame_of(result, from.frame);
  if (result.find("maps") == nullptr) return out;
  if (from.maps) throw WrongArrays("has given maps for a frame that has some already; set them in place of coil_maps");
  out.maps = placed<cfloat>(scan_, checked(result, "maps", "<c8", {shape[0], shape[1], shape[2], shape[3]}));
  Array<cfloat> joined = scan_.compute.zeros<cfloat>({1, shape[1], shape[2], shape[3]});
  numerics::gather_from_coils(scan_.compute, out.maps.view(), out.right.view(), joined.view());
  out.right = std::move(joined);
  return out;
}

KSpace ItemArrays::result(const ArrayMessage& result, const KSpace& from) {
  const numerics::Shape& shape = from.data.shape();
  KSpace out = from;
  out.data = placed<cfloat>(scan_, checked(result, "data", "<c8", {-1, shape[1], shape[2], shape[3]}));
  out.frame = frame_of(result, from.frame);
  out.image_noise = 0;                                             // what the function has done to noise is not known
  if (out.data.shape()[0] != shape[0]) out.calibration = nullptr;  // of other coils
  return out;
}

Samples ItemArrays::result(const ArrayMessage& result, const Samples& from) {
  Samples out = from;
  out.data = placed<cfloat>(scan_, checked(result, "data", "<c8", {from.data.shape()[0], -1}));
  if (result.find("weights") != nullptr)
    out.weights = placed<float>(scan_, checked(result, "weights", "<f4", {from.data.shape()[0]}));
  out.frame = frame_of(result, from.frame);
  return out;
}

numerics::Shape ItemArrays::voxels_of(const NormalEquations& equations) {
  const numerics::Shape& shape = equations.right.shape();
  return {shape[1], shape[2], shape[3]};
}

numerics::Shape ItemArrays::voxels_of(const CoilImages& images) {
  const numerics::Shape& shape = images.data.shape();
  return {shape[1], shape[2], shape[3]};
}

CoilImages ItemArrays::images(const ArrayMessage& result, const std::shared_ptr<const Frame>& frame,
                              const numerics::Shape& voxels, numerics::Component* part) {
  const LinkedArray* const given = result.find("data");
  const bool is_real = part != nullptr && given != nullptr && given->type == "<f4";
  const LinkedArray& data = checked(result, "data", is_real ? "<f4" : "<c8", {-1, voxels[0], voxels[1], voxels[2]});
  CoilImages out{frame_of(result, frame), {}};
  if (part != nullptr) *part = numerics::Component::complex;
  if (is_real) {
    const auto* const values = static_cast<const float*>(data.memory.get());
    const bool negative = std::any_of(values, values + data.shape.size(), [](float value) { return value < 0; });
    *part = negative ? numerics::Component::real : numerics::Component::magnitude;
    out.data = scan_.compute.allocate<cfloat>(data.shape);
    numerics::to_complex(scan_.compute, placed<float>(scan_, data).cview(), out.data.view());
  } else {
    out.data = placed<cfloat>(scan_, data);
  }
  return out;
}

Image ItemArrays::result(const ArrayMessage& result, const Image& from) {
  const LinkedArray* const given = result.find("data");
  const auto type = given == nullptr ? kPixels.end() : std::find(kPixels.begin() + 1, kPixels.end(), given->type);
  const LinkedArray& data = checked(result, "data", type == kPixels.end() ? "<f4" : given->type, {-1, -1, -1, -1});
  protocol::Image message;
  message.head = from.message.head;
  message.attributes = from.message.attributes;
  if (result.find("head") != nullptr)
    std::memcpy(&message.head,
                checked(result, "head", "|u1", {static_cast<std::int64_t>(sizeof message.head)}).memory.get(),
                sizeof message.head);
  for (const auto& [name, value] : result.facts)
    if (name == "attributes") message.attributes = value;
  message.head.version = 1;
  message.head.data_type = static_cast<std::uint16_t>(type - kPixels.begin());
  message.head.channels = static_cast<std::uint16_t>(data.shape[0]);
  for (std::size_t a = 0; a < 3; ++a) message.head.matrix_size[a] = static_cast<std::uint16_t>(data.shape[3 - a]);
  if (const auto reason = protocol::check_attributes(message, {})) {
    message.attributes.clear();
    scan_.warn(fmt::format("a step has given an image with bad attributes ({}); the image is kept without them",
                           reason->message));
  }
  message.head.attribute_string_len = static_cast<std::uint32_t>(message.attributes.size());
  message.pixels = {data.memory, {static_cast<const std::byte*>(data.memory.get()), data.bytes}};
  return {from.frame, std::move(message), from.times, {}};
}

}  // namespace echotrain
