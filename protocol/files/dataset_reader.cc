#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "protocol/data/layout.h"
#include "protocol/data/limits.h"
#include "protocol/data/pixels.h"
#include "protocol/data/text.h"
#include "protocol/files/dataset.h"
#include "protocol/files/hdf5_records.h"
#include "protocol/files/hdf5_types.h"

namespace echotrain::protocol {
namespace {

using hdf5::Handle;
using hdf5::Lock;
using hdf5::Records;
using hdf5::shape_of;

Handle open_dataset(hid_t group, const std::string& name) {
  return {hdf5::exists(group, name) ? H5Dopen2(group, name.c_str(), H5P_DEFAULT) : H5I_INVALID_HID, H5Dclose};
}

std::vector<std::string> link_names(hid_t group) {
  std::vector<std::string> names;
  const auto collect = [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, collect, &names);
  return names;
}

bool is_series(hid_t parent, const std::string& name) {
  const Handle group(H5Gopen2(parent, name.c_str(), H5P_DEFAULT), H5Gclose);
  return group && hdf5::exists(group.get(), "header") && hdf5::exists(group.get(), "data");
}

bool holds_dataset(hid_t file, const std::string& name) {
  const Handle group(H5Gopen2(file, name.c_str(), H5P_DEFAULT), H5Gclose);
  if (!group) return false;
  if (hdf5::exists(group.get(), "xml")) return true;
  const auto names = link_names(group.get());
  return std::any_of(names.begin(), names.end(), [&](const std::string& link) { return is_series(group.get(), link); });
}

Handle open_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    throw DatasetError(fmt::format("{}: there is no such file", path.string()));
  }
  if (H5Fis_hdf5(path.c_str()) <= 0) {
    constexpr std::array<std::string_view, 4> kArrays{".cfl", ".npy", ".mat", ".nii"};
    const bool is_array = std::find(kArrays.begin(), kArrays.end(), path.extension().string()) != kArrays.end();
    throw DatasetError(fmt::format("{}: not an HDF5 file{}", path.string(),
                                   is_array ? "; an array becomes one by: python -m echotrain convert IN OUT.h5" : ""));
  }
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  if (!file) {
    throw DatasetError(
        fmt::format("{}: cannot be opened; it is damaged, or another program is writing to it", path.string()));
  }
  return file;
}

std::string quoted_list(const std::vector<std::string>& names) {
  return names.empty() ? std::string("none") : fmt::format("'{}'", fmt::join(names, "', '"));
}

std::vector<std::string> dataset_groups(hid_t file) {
  std::vector<std::string> groups = link_names(file);
  std::erase_if(groups, [&](const std::string& name) { return !holds_dataset(file, name); });
  return groups;
}

// The list inside a record, copied; the header must announce exactly as many elements as there are.
template <class T>
Payload copy_list(const hvl_t& list, std::uint64_t announced, const std::string& what) {
  if (list.len != announced) {
    throw DatasetError(fmt::format("{} has {} numbers, its header announces {}", what, list.len, announced));
  }
  if (list.len == 0) return {};
  const auto* first = static_cast<const T*>(list.p);
  return Payload::take(std::vector<T>(first, first + list.len));
}

// The string of a dataset at `index`, of fixed or variable length; empty if there is none.
std::string read_string(Handle dataset, std::size_t index, const std::string& what) {
  Handle type(H5Dget_type(dataset.get()), H5Tclose);
  if (H5Tget_class(type.get()) != H5T_STRING) return {};
  const bool variable = H5Tis_variable_str(type.get()) > 0;
  const std::size_t width = variable ? 0 : H5Tget_size(type.get());
  if (width > Limits{}.header_bytes)  // the file may claim any width
    throw DatasetError(
        fmt::format("{} is a text of {} bytes; at most {} are read", what, width, Limits{}.header_bytes));
  std::string text(width, '\0');
  char* pointer = nullptr;
  const Records strings(std::move(dataset), std::move(type));
  void* const to = variable ? static_cast<void*>(&pointer) : text.data();
  if (index >= strings.count() || !strings.read(index, 1, to)) return {};
  if (variable && pointer != nullptr) text = pointer;
  return std::string(cut_at_nul(text));
}

}  // namespace

struct DatasetReader::Impl {
  std::string name;  // file and group, for messages
  Handle file;
  Handle group;
  hdf5::ReadAhead<hdf5::AcquisitionRecord> acquisitions;
  hdf5::ReadAhead<hdf5::WaveformRecord> waveforms;

  void require_index(std::size_t index, std::size_t count, const char* what) const {
    if (index >= count) throw DatasetError(fmt::format("{}: has no {} {}; there are {}", name, what, index, count));
  }

  Handle series(const std::string& series_name) const {
    if (!hdf5::exists(group.get(), series_name) || !is_series(group.get(), series_name)) {
      throw DatasetError(
          fmt::format("{}: has no image series '{}'; there are: {}", name, series_name, quoted_list(series_names())));
    }
    return {H5Gopen2(group.get(), series_name.c_str(), H5P_DEFAULT), H5Gclose};
  }

  std::vector<std::string> series_names() const {
    std::vector<std::string> names = link_names(group.get());
    std::erase_if(names, [this](const std::string& link) { return !is_series(group.get(), link); });
    return names;
  }

  Payload pixels(const Handle& images, std::size_t index, const ImageHeader& head) const;
};

DatasetReader::DatasetReader(const std::filesystem::path& file, std::string group) : impl_(std::make_unique<Impl>()) {
  const Lock lock;
  while (group.starts_with('/')) group.erase(0, 1);
  impl_->name = fmt::format("{} group '{}'", file.string(), group);
  impl_->file = open_file(file);
  if (group.empty() || !hdf5::exists(impl_->file.get(), group)) {
    throw DatasetError(fmt::format("{}: has no group '{}'; groups with ISMRMRD data: {}", file.string(), group,
                                   quoted_list(dataset_groups(impl_->file.get()))));
  }
  impl_->group = Handle(H5Gopen2(impl_->file.get(), group.c_str(), H5P_DEFAULT), H5Gclose);
  if (!impl_->group) throw DatasetError(fmt::format("{}: '{}' is not a group", file.string(), group));
  impl_->acquisitions =
      hdf5::ReadAhead<hdf5::AcquisitionRecord>(open_dataset(impl_->group.get(), "data"), hdf5::acquisition_type());
  impl_->waveforms =
      hdf5::ReadAhead<hdf5::WaveformRecord>(open_dataset(impl_->group.get(), "waveforms"), hdf5::waveform_type());
}

DatasetReader::~DatasetReader() {
  const Lock lock;
  impl_.reset();
}

DatasetReader::DatasetReader(DatasetReader&&) noexcept = default;

std::vector<std::string> DatasetReader::groups(const std::filesystem::path& file) {
  const Lock lock;
  return dataset_groups(open_file(file).get());
}

std::string DatasetReader::header_xml() const {
  const Lock lock;
  Handle xml = open_dataset(impl_->group.get(), "xml");
  return xml ? read_string(std::move(xml), 0, impl_->name + ": 'xml'") : std::string();
}

std::size_t DatasetReader::acquisitions() const { return impl_->acquisitions.count(); }

std::size_t DatasetReader::waveforms() const { return impl_->waveforms.count(); }

Acquisition DatasetReader::acquisition(std::size_t index) const {
  const Lock lock;
  impl_->require_index(index, impl_->acquisitions.count(), "readout");
  const std::string what = fmt::format("{}: readout {}", impl_->name, index);
  const hdf5::AcquisitionRecord* found = impl_->acquisitions.at(index);
  if (found == nullptr) throw DatasetError(what + " cannot be read; is 'data' made of ISMRMRD readouts?");
  const hdf5::AcquisitionRecord& record = *found;
  Acquisition acquisition;
  acquisition.head = record.head;
  acquisition.head.flags &= ~kCompressionFlags;  // files hold plain samples
  const std::uint64_t samples = record.head.number_of_samples;
  acquisition.trajectory =
      copy_list<float>(record.trajectory, samples * record.head.trajectory_dimensions, what + " trajectory");
  acquisition.data = copy_list<float>(record.data, 2 * samples * record.head.active_channels, what + " data");
  return acquisition;
}

Waveform DatasetReader::waveform(std::size_t index) const {
  const Lock lock;
  impl_->require_index(index, impl_->waveforms.count(), "waveform");
  const std::string what = fmt::format("{}: waveform {}", impl_->name, index);
  const hdf5::WaveformRecord* found = impl_->waveforms.at(index);
  if (found == nullptr) throw DatasetError(what + " cannot be read");
  const hdf5::WaveformRecord& record = *found;
  Waveform waveform;
  waveform.head = record.head;
  waveform.data = copy_list<std::uint32_t>(
      record.data, std::uint64_t{record.head.number_of_samples} * record.head.channels, what + " data");
  return waveform;
}

std::vector<std::string> DatasetReader::image_series() const {
  const Lock lock;
  return impl_->series_names();
}

std::size_t DatasetReader::images(const std::string& series) const {
  const Lock lock;
  const Handle group = impl_->series(series);
  return Records(open_dataset(group.get(), "header"), Handle()).count();
}

// Pixels are one hyperslab [1, channels, z, y, x] of the series.
Payload DatasetReader::Impl::pixels(const Handle& images, std::size_t index, const ImageHeader& head) const {
  const std::string what = fmt::format("{}: image {}", name, index);
  const auto shape = shape_of(images);
  const std::vector<hsize_t> wanted = {head.channels, head.matrix_size[2], head.matrix_size[1], head.matrix_size[0]};
  if (shape.size() != wanted.size() + 1 || index >= shape[0] ||
      !std::equal(wanted.begin(), wanted.end(), shape.begin() + 1)) {
    throw DatasetError(fmt::format("{} is [{}] by its header, the data are [{}]", what, fmt::join(wanted, ", "),
                                   fmt::join(shape, ", ")));
  }
  const auto total = pixel_bytes(head, Limits{}.image_bytes);
  if (!total) throw DatasetError(fmt::format("{} has an invalid data_type, a size of zero or too many pixels", what));
  const Handle file_type(H5Dget_type(images.get()), H5Tclose);
  const bool complex = H5Tget_class(file_type.get()) == H5T_COMPOUND;
  std::array<std::string, 2> parts;  // "real" and "imag" by libismrmrd, "r" and "i" by h5py
  if (complex) {
    for (unsigned i = 0; i < parts.size() && H5Tget_nmembers(file_type.get()) == 2; ++i) {
      char* part = H5Tget_member_name(file_type.get(), i);
      parts[i] = part == nullptr ? "" : part;
      H5free_memory(part);
    }
  }
  const Handle type = hdf5::pixel_type(head.data_type, parts[0], parts[1]);
  if (!type || complex != (head.data_type >= ISMRMRD::ISMRMRD_CXFLOAT)) {
    throw DatasetError(fmt::format("{} has data_type {}, but its data are of another type", what, +head.data_type));
  }
  std::vector<hsize_t> start(shape.size(), 0);
  std::vector<hsize_t> size = shape;
  start[0] = index;
  size[0] = 1;
  const Handle space(H5Dget_space(images.get()), H5Sclose);
  const Handle memory(H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr), H5Sclose);
  std::vector<std::byte> bytes(*total);
  if (H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, size.data(), nullptr) < 0 ||
      H5Dread(images.get(), type.get(), memory.get(), space.get(), H5P_DEFAULT, bytes.data()) < 0) {
    throw DatasetError(what + " cannot be read");
  }
  return Payload::take(std::move(bytes));
}

Image DatasetReader::image(const std::string& series, std::size_t index) const {
  const Lock lock;
  const Handle group = impl_->series(series);
  const Records headers(open_dataset(group.get(), "header"), hdf5::image_header_type());
  impl_->require_index(index, headers.count(), "image");
  Image image;
  if (!headers.read(index, 1, &image.head)) {
    throw DatasetError(fmt::format("{}: header of image {} in '{}' cannot be read", impl_->name, index, series));
  }
  if (Handle attributes = open_dataset(group.get(), "attributes")) {
    image.attributes =
        read_string(std::move(attributes), index, fmt::format("{}: attributes in '{}'", impl_->name, series));
  }
  image.head.attribute_string_len = static_cast<std::uint32_t>(image.attributes.size());
  image.pixels = impl_->pixels(open_dataset(group.get(), "data"), index, image.head);
  return image;
}

}  // namespace echotrain::protocol
