// Files that are valid HDF5 but not valid ISMRMRD, made through HDF5's own calls, with members, types, shapes and
// lengths as the input says. (fuzz_hdf5 gives the library any bytes.)
#include <algorithm>
#include <string>
#include <vector>

#include "protocol/files/hdf5_types.h"
#include "tests/fuzz/read_dataset.h"

namespace echotrain::fuzz {
namespace {

namespace hdf5 = protocol::hdf5;
using hdf5::Handle;

Handle any_number(Source& source) {
  const hid_t kinds[] = {H5T_NATIVE_FLOAT,  H5T_NATIVE_DOUBLE, H5T_NATIVE_UINT16, H5T_NATIVE_INT64,
                         H5T_NATIVE_UINT32, H5T_NATIVE_INT8,   H5T_IEEE_F32BE};
  return {H5Tcopy(kinds[source.below(std::size(kinds))]), H5Tclose};
}

Handle any_text(Source& source) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), source.one_in(2) ? H5T_VARIABLE : 1 + source.below(source.one_in(8) ? 60000 : 40));
  if (source.one_in(2)) H5Tset_cset(type.get(), H5T_CSET_UTF8);
  return type;
}

Handle any_compound(Source& source, const std::vector<std::string>& names) {
  Handle type(H5Tcreate(H5T_COMPOUND, 8 * names.size()), H5Tclose);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Handle number = any_number(source);
    H5Tinsert(type.get(), names[i].c_str(), 8 * i, number.get());
  }
  return type;
}

Handle any_list(Source& source) {
  const Handle element = source.one_in(6) ? any_compound(source, {"r", "i"}) : any_number(source);
  return {H5Tvlen_create(element.get()), H5Tclose};
}

Handle any_space(Source& source, hsize_t records) {
  if (source.one_in(12)) return {H5Screate(H5S_SCALAR), H5Sclose};
  if (source.one_in(12)) return {H5Screate(H5S_NULL), H5Sclose};
  std::vector<hsize_t> shape = {records};
  while (source.one_in(6) && shape.size() < 4) shape.push_back(source.below(3));
  return {H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose};
}

std::size_t elements_of(const Handle& space) {
  const auto n = H5Sget_simple_extent_npoints(space.get());
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}

// A dataset whose bytes come from the input, as far as it has any; only for types without pointers.
void write_plain(Source& source, const Handle& group, const std::string& name, const Handle& type,
                 const Handle& space) {
  const Handle dataset(
      H5Dcreate2(group.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
  if (!dataset || source.one_in(10)) return;  // never written, so HDF5 fills the dataset
  std::vector<std::byte> bytes(std::max<std::size_t>(1, elements_of(space) * H5Tget_size(type.get())));
  if (bytes.size() > 1 << 20) return;
  const auto rest = source.rest();
  std::copy_n(rest.begin(), std::min(rest.size(), bytes.size()), bytes.begin());
  H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
}

void write_texts(Source& source, const Handle& group, const std::string& name, hsize_t records) {
  const Handle type = source.one_in(10) ? any_number(source) : any_text(source);
  const Handle space = any_space(source, records);
  if (H5Tis_variable_str(type.get()) <= 0) return write_plain(source, group, name, type, space);
  const Handle dataset(
      H5Dcreate2(group.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
  static constexpr const char* kTexts[] = {"<ismrmrdHeader/>", "", nullptr, "text"};
  std::vector<const char*> texts(elements_of(space) + 1);
  for (const char*& text : texts) text = kTexts[source.below(std::size(kTexts))];
  if (dataset) H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data());
}

// A readout's sizes and lists that may disagree with them.
void fill(Source& source, hdf5::AcquisitionRecord& record, std::vector<std::vector<double>>& lists) {
  record.head.version = 1;
  record.head.number_of_samples = static_cast<std::uint16_t>(source.one_in(9) ? source.below(65536) : source.below(9));
  record.head.active_channels = static_cast<std::uint16_t>(source.below(4));
  record.head.trajectory_dimensions = static_cast<std::uint16_t>(source.below(4));
  const std::size_t samples = record.head.number_of_samples % 16;
  for (auto [list, n] : {std::pair{&record.trajectory, samples * record.head.trajectory_dimensions},
                         std::pair{&record.data, 2 * samples * record.head.active_channels}}) {
    if (source.one_in(8)) n = source.below(64);
    lists.emplace_back(2 * n + 1);  // room for the widest element
    *list = {n, n == 0 ? nullptr : lists.back().data()};
  }
}

void fill(Source& source, hdf5::WaveformRecord& record, std::vector<std::vector<double>>& lists) {
  record.head.number_of_samples = static_cast<std::uint16_t>(source.below(source.one_in(9) ? 65535 : 9));
  record.head.channels = static_cast<std::uint16_t>(source.below(4));
  const std::size_t n =
      source.one_in(8) ? source.below(64) : std::size_t{record.head.number_of_samples % 16u} * record.head.channels;
  lists.emplace_back(2 * n + 1);
  record.data = {n, n == 0 ? nullptr : lists.back().data()};
}

// Records as libismrmrd writes them, or with another type for a member, or without it.
template <class Record>
void write_records(Source& source, const Handle& group, const std::string& name, const Handle& usual) {
  Handle type(H5Tcreate(H5T_COMPOUND, sizeof(Record)), H5Tclose);
  const int members = H5Tget_nmembers(usual.get());
  for (unsigned i = 0; i < static_cast<unsigned>(members); ++i) {
    char* member = H5Tget_member_name(usual.get(), i);
    Handle own(H5Tget_member_type(usual.get(), i), H5Tclose);
    if (H5Tget_class(own.get()) == H5T_VLEN && source.one_in(5)) own = any_list(source);
    if (!source.one_in(12))
      H5Tinsert(type.get(), source.one_in(16) ? "other" : member, H5Tget_member_offset(usual.get(), i), own.get());
    H5free_memory(member);
  }
  if (H5Tget_nmembers(type.get()) == 0) return;
  const Handle space = any_space(source, source.below(5));
  const Handle dataset(
      H5Dcreate2(group.get(), name.c_str(), type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
  std::vector<Record> records(elements_of(space) + 1);
  std::vector<std::vector<double>> lists;
  for (Record& record : records) fill(source, record, lists);
  if (dataset && !source.one_in(10)) H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, records.data());
}

void write_series(Source& source, const Handle& parent, const std::string& name) {
  const Handle group(H5Gcreate2(parent.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
  const hsize_t count = source.below(3);
  protocol::ImageHeader head{};
  head.version = 1;
  head.data_type = static_cast<std::uint16_t>(source.below(10));
  for (auto size : {0, 1, 2}) head.matrix_size[size] = static_cast<std::uint16_t>(source.below(5));
  head.channels = static_cast<std::uint16_t>(source.below(3));
  if (source.one_in(10)) head.matrix_size[source.below(3)] = source.number<std::uint16_t>();
  {
    const Handle type = source.one_in(10) ? any_number(source) : hdf5::image_header_type();
    const Handle space = any_space(source, count);
    const Handle dataset(
        H5Dcreate2(group.get(), "header", type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
    const std::vector<protocol::ImageHeader> heads(elements_of(space) + 1, head);
    if (dataset) H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, heads.data());
  }
  if (!source.one_in(6)) write_texts(source, group, "attributes", count);
  Handle type;
  switch (source.below(6)) {
    case 0:
      type = any_number(source);
      break;
    case 1:
      type = any_compound(source, {"r", "i"});
      break;
    case 2:
      type = any_compound(source, {"real", "imag", "more"});
      break;
    default:
      type = hdf5::pixel_type(head.data_type, "real", "imag");
      if (!type) type = any_text(source);
  }
  std::vector<hsize_t> shape = {count, head.channels, head.matrix_size[2], head.matrix_size[1], head.matrix_size[0]};
  if (source.one_in(8)) shape[source.below(5)] = source.below(6);
  if (source.one_in(8)) shape.pop_back();
  const Handle space(H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose);
  if (space && H5Tis_variable_str(type.get()) <= 0 && elements_of(space) < 1 << 16)
    write_plain(source, group, "data", type, space);
}

std::vector<std::byte> make_file(Source& source) {
  const hdf5::Lock lock;
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fapl_core(access.get(), 1 << 14, false);
  const Handle file(H5Fcreate("fuzz", H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), H5Fclose);
  {
    const Handle group(H5Gcreate2(file.get(), "dataset", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose);
    if (!source.one_in(4)) write_texts(source, group, "xml", 1);
    if (!source.one_in(4)) write_records<hdf5::AcquisitionRecord>(source, group, "data", hdf5::acquisition_type());
    if (source.one_in(2)) write_records<hdf5::WaveformRecord>(source, group, "waveforms", hdf5::waveform_type());
    if (source.one_in(2)) write_series(source, group, "image_0");
    if (source.one_in(10)) H5Lcreate_soft("/nowhere", group.get(), "image_1", H5P_DEFAULT, H5P_DEFAULT);
    if (source.one_in(10)) H5Lcreate_soft("/dataset", group.get(), "again", H5P_DEFAULT, H5P_DEFAULT);
  }
  H5Fflush(file.get(), H5F_SCOPE_GLOBAL);
  const ssize_t size = H5Fget_file_image(file.get(), nullptr, 0);
  std::vector<std::byte> image(size > 0 ? static_cast<std::size_t>(size) : 0);
  if (!image.empty()) H5Fget_file_image(file.get(), image.data(), image.size());
  return image;
}

}  // namespace
}  // namespace echotrain::fuzz

// libhdf5 1.10.8 forgets some bytes when it finds no way to convert a compound. What it allocates for us is freed by
// Records, which the unit tests watch without this.
extern "C" const char* __lsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echotrain::fuzz;
  static ScratchFile file;
  Source source(as_bytes(data, size));
  file.fill(make_file(source));
  read_everything(file.path());
  return 0;
}
