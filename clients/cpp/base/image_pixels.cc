#include "clients/cpp/base/image_pixels.h"

#include <fmt/format.h>
#include <hdf5.h>

#include <cmath>
#include <stdexcept>

#include "protocol/data/pixels.h"
#include "protocol/files/dataset.h"
#include "protocol/files/hdf5_types.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {
namespace {

using protocol::hdf5::Handle;
using protocol::hdf5::Lock;

}  // namespace

std::string Pixels::size_text() const { return fmt::format("{} x {} x {} x {} [channel, z, y, x]", channels, z, y, x); }

Pixels read_pixels(const protocol::Image& image) {
  const protocol::ImageHeader& head = image.head;
  Pixels pixels;
  pixels.channels = head.channels;
  pixels.x = head.matrix_size[0];
  pixels.y = head.matrix_size[1];
  pixels.z = head.matrix_size[2];
  const bool known = protocol::with_pixel_type(head.data_type, [&]<class T>(T) {
    std::vector<T> raw(image.pixels.bytes.size() / sizeof(T));
    image.pixels.copy_to(raw.data());
    pixels.values.reserve(raw.size());
    for (const T& v : raw) pixels.values.emplace_back(v);
  });
  if (!known) throw std::runtime_error(fmt::format("an image has the unknown data type {}", +head.data_type));
  pixels.is_complex = protocol::is_complex(head);
  if (pixels.values.size() != pixels.channels * pixels.z * pixels.y * pixels.x) {
    throw std::runtime_error(fmt::format("an image of {} holds {} pixels", pixels.size_text(), pixels.values.size()));
  }
  return pixels;
}

std::vector<float> combined_magnitude(const Pixels& pixels) {
  const std::size_t voxels = pixels.z * pixels.y * pixels.x;
  std::vector<float> magnitude(voxels);
  for (std::size_t v = 0; v < voxels; ++v) {
    double power = 0;
    for (std::size_t c = 0; c < pixels.channels; ++c) power += std::norm(pixels.values[c * voxels + v]);
    magnitude[v] = static_cast<float>(std::sqrt(power));
  }
  return magnitude;
}

StoredArray read_array(const std::filesystem::path& file, const std::string& group, const std::string& name) {
  if (!std::filesystem::exists(file)) throw protocol::DatasetError(file.string() + ": no such file");
  const Lock lock;
  const Handle opened(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  if (!opened) throw protocol::DatasetError(file.string() + ": not an HDF5 file");
  const std::string path = group + "/" + name;
  const Handle dataset(H5Dopen2(opened.get(), path.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset) {
    throw protocol::DatasetError(
        fmt::format("{}: has no array '{}' (a file made by `echotrain simulate` has one)", file.string(), path));
  }
  const Handle type(H5Dget_type(dataset.get()), H5Tclose);
  const Handle space(H5Dget_space(dataset.get()), H5Sclose);
  if (H5Tget_class(type.get()) != H5T_FLOAT && H5Tget_class(type.get()) != H5T_INTEGER) {
    throw protocol::DatasetError(fmt::format("{}: the array '{}' does not hold real numbers", file.string(), path));
  }
  const int rank = H5Sget_simple_extent_ndims(space.get());
  std::vector<hsize_t> extents(rank > 0 ? rank : 0);
  if (rank > 0) H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
  StoredArray array;
  std::size_t count = 1;
  for (const hsize_t extent : extents) {
    count *= extent;
    if (extent != 1 || !array.shape.empty()) array.shape.push_back(extent);
  }
  array.values.resize(count);
  if (H5Dread(dataset.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, array.values.data()) < 0) {
    throw protocol::DatasetError(fmt::format("{}: the array '{}' cannot be read", file.string(), path));
  }
  return array;
}

std::vector<StoredArray> read_truths(const std::filesystem::path& file, const std::string& group) {
  const Lock lock;
  std::vector<StoredArray> truths = {read_array(file, group, "truth")};
  const auto name = [&] { return "truth_" + std::to_string(truths.size()); };
  const auto exists = [&] {
    const Handle opened(H5Fopen(file.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
    return opened && H5Lexists(opened.get(), (group + "/" + name()).c_str(), H5P_DEFAULT) > 0;
  };
  while (exists()) truths.push_back(read_array(file, group, name()));
  return truths;
}

}  // namespace echotrain::client
