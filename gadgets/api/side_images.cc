#include "gadgets/api/side_images.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <complex>
#include <cstring>
#include <string>
#include <system_error>

#include "gadgets/api/errors.h"
#include "protocol/data/meta.h"

namespace echotrain {

namespace {

using numerics::cfloat;

template <class T>
void convert(const std::byte* from, std::int64_t count, cfloat* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    T value{};
    std::memcpy(&value, from + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
    to[i] = cfloat(value);
  }
}

// Converts pixels; types are as in protocol.md, section 4.3.
bool convert(std::uint16_t type, const std::byte* from, std::int64_t count, cfloat* to) {
  switch (type) {
    case 1:
      convert<std::uint16_t>(from, count, to);
      return true;
    case 2:
      convert<std::int16_t>(from, count, to);
      return true;
    case 3:
      convert<std::uint32_t>(from, count, to);
      return true;
    case 4:
      convert<std::int32_t>(from, count, to);
      return true;
    case 5:
      convert<float>(from, count, to);
      return true;
    case 6:
      convert<double>(from, count, to);
      return true;
    case 7:
      convert<std::complex<float>>(from, count, to);
      return true;
    case 8:
      convert<std::complex<double>>(from, count, to);
      return true;
    default:
      return false;
  }
}

}  // namespace

bool SideImages::is_file_name(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= 255 && name.front() != '.' && std::all_of(name.begin(), name.end(), fits);
}

void SideImages::want(const std::string& role, const std::string& file) {
  files_[role] = file;
  if (file.empty()) return;
  if (!read_) throw ClientError(fmt::format("{}: files cannot be read here", role));
  try {
    for (const protocol::Image& image : read_(file)) add(role, image);
  } catch (const ClientError&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw ClientError(fmt::format("{}: {}", role, error.what()));
  }
}

bool SideImages::take(const protocol::Image& image) {
  return !files_.empty() && take(image, protocol::meta_value(image.attributes, "role"));
}

bool SideImages::take(const protocol::Image& image, const std::string& role) {
  const auto wanted = files_.find(role);
  if (wanted == files_.end() || !wanted->second.empty()) return false;
  add(role, image);
  return true;
}

void SideImages::add(const std::string& role, const protocol::Image& image) {
  const auto& head = image.head;
  const numerics::Shape shape{head.channels, head.matrix_size[2], head.matrix_size[1], head.matrix_size[0]};
  numerics::HostArray<cfloat> host = compute_.allocate_host<cfloat>(shape);
  if (!convert(head.data_type, image.pixels.bytes.data(), host.size(), host.data()))
    throw ClientError(fmt::format("{}: an image has pixel type {}, which is not known", role, +head.data_type));
  const auto number = [&](const char* name, float otherwise) {
    const std::string text = protocol::meta_value(image.attributes, name);
    float value = otherwise;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? value : otherwise;
  };
  const float slope = number("RescaleSlope", 1), intercept = number("RescaleIntercept", 0);
  if (slope != 1 || intercept != 0)
    for (std::int64_t i = 0; i < host.size(); ++i) host.data()[i] = host.data()[i] * slope + intercept;
  const auto finite = [](const cfloat& v) { return std::isfinite(v.real()) && std::isfinite(v.imag()); };
  if (!std::all_of(host.data(), host.data() + host.size(), finite))
    throw ClientError(fmt::format("{}: an image holds voxels that are not finite numbers", role));
  images_[role][head.slice] = compute_.place(host);
}

const SideImages::Voxels& SideImages::find(const std::string& role, std::uint16_t slice) const {
  const auto images = images_.find(role);
  if (images == images_.end() || images->second.empty())
    throw ClientError(
        fmt::format("{0}: no image was given; name a file of the server's assets in the pipeline, or send an IMAGE "
                    "whose meta attribute role is {0} before the readouts",
                    role));
  if (const auto found = images->second.find(slice); found != images->second.end()) return found->second;
  if (images->second.size() == 1) return images->second.begin()->second;
  throw ClientError(
      fmt::format("{}: images were given for {} slices, but none for slice {}", role, images->second.size(), slice));
}

}  // namespace echotrain
