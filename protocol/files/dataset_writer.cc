#include <fmt/format.h>
#include <ismrmrd/dataset.h>

#include <map>
#include <system_error>
#include <utility>

#include "protocol/data/pixels.h"
#include "protocol/files/dataset.h"
#include "protocol/files/hdf5_types.h"

namespace echotrain::protocol {
namespace {

using hdf5::Handle;
using hdf5::Lock;

template <class T>
std::vector<T> values_of(const Payload& payload) {
  std::vector<T> values(payload.bytes.size() / sizeof(T));
  payload.copy_to(values.data());
  return values;
}

void require_size(const Payload& payload, std::uint64_t want, std::string_view what) {
  if (payload.bytes.size() == want) return;
  throw DatasetError(fmt::format("{} has {} bytes, its header says {}", what, payload.bytes.size(), want));
}

}  // namespace

// The file is open only between an append and the next flush: a closed file is whole whatever happens afterwards, and
// no lock keeps other programs from reading it.
struct DatasetWriter::Impl {
  std::string path;
  std::string group;
  ISMRMRD::ISMRMRD_Dataset dataset{};
  bool open = false;
  // Type and sizes of the first image of each series; HDF5 would convert another type silently.
  std::map<std::string, std::array<std::uint16_t, 5>> series;

  void check(int result, std::string_view what) const {
    if (result == ISMRMRD::ISMRMRD_NOERROR) return;
    throw DatasetError(
        fmt::format("{}: {} cannot be written ({}); is the disk full?", path, what, ISMRMRD::build_exception_string()));
  }

  void require_open() {
    if (open) return;
    check(ISMRMRD::ismrmrd_init_dataset(&dataset, path.c_str(), group.c_str()), "the file");
    open = true;  // from here on the strings inside `dataset` must be freed
    check(ISMRMRD::ismrmrd_open_dataset(&dataset, true), "the file");
  }

  void close() {
    if (!open) return;
    open = false;
    check(ISMRMRD::ismrmrd_close_dataset(&dataset), "the file");
  }

  void write_array(const std::string& name, const std::vector<std::size_t>& shape, const Handle& type,
                   const void* values) {
    require_open();
    const std::string full = group + "/" + name;
    if (hdf5::exists(dataset.fileid, full)) throw DatasetError(fmt::format("{}: '{}' is there already", path, full));
    const std::vector<hsize_t> sizes(shape.begin(), shape.end());
    const Handle space(H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr), H5Sclose);
    const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
    H5Pset_create_intermediate_group(links.get(), 1);
    const Handle array(
        H5Dcreate2(dataset.fileid, full.c_str(), type.get(), space.get(), links.get(), H5P_DEFAULT, H5P_DEFAULT),
        H5Dclose);
    if (!array || H5Dwrite(array.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0) {
      throw DatasetError(fmt::format("{}: array '{}' cannot be written; is the disk full?", path, full));
    }
  }
};

DatasetWriter::DatasetWriter(const std::filesystem::path& file, std::string group) : impl_(std::make_unique<Impl>()) {
  const Lock lock;
  while (group.starts_with('/')) group.erase(0, 1);
  if (group.empty()) throw DatasetError(fmt::format("{}: the group needs a name", file.string()));
  impl_->path = file.string();
  impl_->group = std::move(group);
  // Makes an empty file with the group inside, replacing any file that is there.
  const Handle created(H5Fcreate(file.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  if (!created) {
    throw DatasetError(
        fmt::format("{}: cannot be made; check that its folder exists and may be written to", file.string()));
  }
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links.get(), 1);
  const Handle made(H5Gcreate2(created.get(), impl_->group.c_str(), links.get(), H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
  if (!made) throw DatasetError(fmt::format("{}: group '{}' cannot be made", file.string(), impl_->group));
}

DatasetWriter::~DatasetWriter() {
  const Lock lock;
  if (!impl_) return;
  try {
    impl_->close();
  } catch (const DatasetError&) {
    // Callers that need the error call flush() first.
  }
  impl_.reset();
}

DatasetWriter::DatasetWriter(DatasetWriter&&) noexcept = default;

void DatasetWriter::open() {
  const Lock lock;
  impl_->require_open();
}

void DatasetWriter::header_xml(const std::string& xml) {
  const Lock lock;
  impl_->require_open();
  impl_->check(ISMRMRD::ismrmrd_write_header(&impl_->dataset, xml.c_str()), "the header");
}

void DatasetWriter::append(const Acquisition& acquisition) {
  const Lock lock;
  impl_->require_open();
  const std::uint64_t samples = acquisition.head.number_of_samples;
  require_size(acquisition.trajectory, 4 * samples * acquisition.head.trajectory_dimensions, "readout trajectory");
  require_size(acquisition.data, 8 * samples * acquisition.head.active_channels, "readout data");
  auto trajectory = values_of<float>(acquisition.trajectory);
  auto data = values_of<std::complex<float>>(acquisition.data);
  ISMRMRD::ISMRMRD_Acquisition record{acquisition.head, trajectory.data(), data.data()};
  impl_->check(ISMRMRD::ismrmrd_append_acquisition(&impl_->dataset, &record), "a readout");
}

void DatasetWriter::append(const Waveform& waveform) {
  const Lock lock;
  impl_->require_open();
  require_size(waveform.data, std::uint64_t{4} * waveform.head.number_of_samples * waveform.head.channels,
               "waveform data");
  auto data = values_of<std::uint32_t>(waveform.data);
  ISMRMRD::ISMRMRD_Waveform record{waveform.head, data.data()};
  impl_->check(ISMRMRD::ismrmrd_append_waveform(&impl_->dataset, &record), "a waveform");
}

void DatasetWriter::append(const Image& image) {
  const Lock lock;
  const ImageHeader& head = image.head;
  const std::string name = fmt::format("image_{}", +head.image_series_index);
  const std::array<std::uint16_t, 5> shape = {head.data_type, head.channels, head.matrix_size[2], head.matrix_size[1],
                                              head.matrix_size[0]};
  const auto [known, added] = impl_->series.try_emplace(name, shape);
  if (known->second != shape) {
    throw DatasetError(
        fmt::format("{}: series '{}' holds images of [data_type, channels, z, y, x] = [{}]; this one has [{}]",
                    impl_->path, name, fmt::join(known->second, ", "), fmt::join(shape, ", ")));
  }
  if (pixel_bytes(head, UINT64_MAX) != image.pixels.bytes.size()) {
    throw DatasetError(fmt::format("{}: an image of series '{}' has {} bytes, which its header contradicts",
                                   impl_->path, name, image.pixels.bytes.size()));
  }
  impl_->require_open();
  auto pixels = values_of<std::byte>(image.pixels);
  std::string attributes = image.attributes;
  ISMRMRD::ISMRMRD_Image record{head, attributes.data(), pixels.data()};
  record.head.attribute_string_len = static_cast<std::uint32_t>(attributes.size());
  impl_->check(ISMRMRD::ismrmrd_append_image(&impl_->dataset, name.c_str(), &record), "an image");
}

void DatasetWriter::array(const std::string& name, const std::vector<std::size_t>& shape, const float* values) {
  const Lock lock;
  impl_->write_array(name, shape, hdf5::pixel_type(ISMRMRD::ISMRMRD_FLOAT, "", ""), values);
}

void DatasetWriter::array(const std::string& name, const std::vector<std::size_t>& shape,
                          const std::complex<float>* values) {
  const Lock lock;
  impl_->write_array(name, shape, hdf5::pixel_type(ISMRMRD::ISMRMRD_CXFLOAT, "r", "i"), values);
}

void DatasetWriter::flush() {
  const Lock lock;
  impl_->close();
}

void DatasetWriter::rename(const std::filesystem::path& file) {
  const Lock lock;
  impl_->close();
  std::error_code error;
  std::filesystem::rename(impl_->path, file, error);
  if (error)
    throw DatasetError(fmt::format("{} cannot be renamed to {}: {}", impl_->path, file.string(), error.message()));
  impl_->path = file.string();
}

}  // namespace echotrain::protocol
