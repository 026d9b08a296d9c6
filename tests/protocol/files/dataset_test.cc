// Files are judged by libismrmrd: what we write it must read, and what it writes we must read.
#include "protocol/files/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <ismrmrd/dataset.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include "tests/protocol/wire_bytes.h"
#include "tests/support/sources.h"

namespace echotrain::protocol::test {
namespace {

using ::testing::HasSubstr;

class DatasetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("echotrain_dataset_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    file_ = folder_ / "file.h5";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
  std::filesystem::path file_;
};

Acquisition readout(std::uint16_t samples, std::uint16_t channels, std::uint16_t dimensions, float start) {
  Acquisition acquisition;
  acquisition.head.version = 1;
  acquisition.head.number_of_samples = samples;
  acquisition.head.active_channels = channels;
  acquisition.head.available_channels = channels;
  acquisition.head.trajectory_dimensions = dimensions;
  acquisition.head.idx.segment = 7;
  acquisition.head.idx.user[7] = 77;
  acquisition.head.channel_mask[15] = 5;
  acquisition.head.user_float[7] = start;
  std::vector<float> trajectory(std::size_t{samples} * dimensions);
  std::iota(trajectory.begin(), trajectory.end(), -start);
  std::vector<float> data(std::size_t{2} * samples * channels);
  std::iota(data.begin(), data.end(), start);
  acquisition.trajectory = Payload::take(std::move(trajectory));
  acquisition.data = Payload::take(std::move(data));
  return acquisition;
}

template <class T>
Image image(std::uint16_t type, std::uint16_t series, T first) {
  Image made;
  made.head.version = 1;
  made.head.data_type = type;
  made.head.matrix_size[0] = 4;
  made.head.matrix_size[1] = 3;
  made.head.matrix_size[2] = 2;
  made.head.channels = 2;
  made.head.image_series_index = series;
  made.head.user_float[7] = 3;
  made.attributes = "<ismrmrdMeta/>";
  std::vector<T> pixels(48);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = first + static_cast<T>(static_cast<float>(i));
  made.pixels = Payload::take(std::move(pixels));
  return made;
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const DatasetError& e) {
    return e.what();
  }
  return "no error";
}

TEST_F(DatasetTest, LibraryReadsReadoutsWaveformsAndHeader) {
  Waveform waveform;
  waveform.head = {};
  waveform.head.number_of_samples = 3;
  waveform.head.channels = 2;
  waveform.head.waveform_id = 4;
  waveform.data = Payload::take(std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6});
  {
    DatasetWriter writer(file_, "scan");
    writer.header_xml("<ismrmrdHeader/>");
    writer.append(readout(5, 2, 3, 1));
    writer.append(waveform);
    writer.flush();
    writer.append(readout(6, 1, 0, 2));
  }
  ISMRMRD::Dataset library(file_.c_str(), "scan", false);
  std::string xml;
  library.readHeader(xml);
  EXPECT_EQ(xml, "<ismrmrdHeader/>");
  ASSERT_EQ(library.getNumberOfAcquisitions(), 2u);
  ISMRMRD::Acquisition acquisition;
  library.readAcquisition(0, acquisition);
  const ISMRMRD::AcquisitionHeader head = acquisition.getHead();
  EXPECT_EQ(+head.number_of_samples, 5);
  EXPECT_EQ(+head.trajectory_dimensions, 3);
  EXPECT_EQ(+head.idx.segment, 7);
  EXPECT_EQ(+head.idx.user[7], 77);
  EXPECT_EQ(+head.channel_mask[15], 5u);
  EXPECT_EQ(+head.user_float[7], 1);
  EXPECT_EQ(acquisition.getTrajPtr()[14], 13);
  EXPECT_EQ(acquisition.data(4, 1), std::complex<float>(19, 20));
  library.readAcquisition(1, acquisition);
  EXPECT_EQ(acquisition.data(0, 0), std::complex<float>(2, 3));
  ASSERT_EQ(library.getNumberOfWaveforms(), 1u);
  ISMRMRD::Waveform read;
  library.readWaveform(0, read);
  EXPECT_EQ(read.head.waveform_id, 4);
  EXPECT_EQ(read.data[5], 6u);
}

TEST_F(DatasetTest, WeReadWhatTheLibraryWrites) {
  {
    ISMRMRD::Dataset library(file_.c_str(), "dataset", true);
    library.writeHeader("<ismrmrdHeader>x</ismrmrdHeader>");
    for (std::uint16_t i = 0; i < 3; ++i) {
      ISMRMRD::Acquisition acquisition(4 + i, 2, 2);
      ISMRMRD::AcquisitionHeader head = acquisition.getHead();
      head.scan_counter = 100u + i;
      head.idx.kspace_encode_step_1 = i;
      head.position[2] = 2.5f;
      acquisition.setHead(head);
      acquisition.traj(1, 3) = 0.25f;
      acquisition.data(3, 1) = {1.0f + i, -1};
      library.appendAcquisition(acquisition);
    }
    ISMRMRD::Waveform waveform(3, 2);
    waveform.head.time_stamp = 9;
    std::iota(waveform.data, waveform.data + 6, 10u);
    library.appendWaveform(waveform);
    ISMRMRD::Image<std::complex<float>> made(4, 3, 2, 2);
    made.setAttributeString("<ismrmrdMeta/>");
    made.setContrast(3);
    made(3, 2, 1, 1) = {5, 6};
    library.appendImage("image_0", made);
    made(3, 2, 1, 1) = {7, 8};
    library.appendImage("image_0", made);
  }
  const DatasetReader reader(file_);
  EXPECT_EQ(reader.header_xml(), "<ismrmrdHeader>x</ismrmrdHeader>");
  ASSERT_EQ(reader.acquisitions(), 3u);
  for (std::uint16_t i = 0; i < 3; ++i) {
    const Acquisition acquisition = reader.acquisition(i);
    EXPECT_EQ(+acquisition.head.scan_counter, 100u + i);
    EXPECT_EQ(+acquisition.head.idx.kspace_encode_step_1, i);
    EXPECT_EQ(+acquisition.head.position[2], 2.5f);
    EXPECT_EQ(+acquisition.head.active_channels, 2);
    EXPECT_EQ(numbers<float>(acquisition.trajectory).at(7), 0.25f);
    EXPECT_EQ(numbers<std::complex<float>>(acquisition.data).at(4u + i + 3), std::complex<float>(1.0f + i, -1));
    EXPECT_EQ(acquisition.arrival.time_since_epoch().count(), 0);
  }
  ASSERT_EQ(reader.waveforms(), 1u);
  EXPECT_EQ(reader.waveform(0).head.time_stamp, 9u);
  EXPECT_EQ(numbers<std::uint32_t>(reader.waveform(0).data), (std::vector<std::uint32_t>{10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(reader.image_series(), (std::vector<std::string>{"image_0"}));
  ASSERT_EQ(reader.images("image_0"), 2u);
  const Image second = reader.image("image_0", 1);
  EXPECT_EQ(+second.head.contrast, 3);
  EXPECT_EQ(second.attributes, "<ismrmrdMeta/>");
  EXPECT_EQ(numbers<std::complex<float>>(second.pixels).at(47), std::complex<float>(7, 8));
}

TEST_F(DatasetTest, ImagesOfEveryTypeComeBack) {
  {
    DatasetWriter writer(file_);
    writer.append(image<std::uint16_t>(1, 1, 60000));
    writer.append(image<std::int16_t>(2, 2, -5));
    writer.append(image<std::uint32_t>(3, 3, 4'000'000'000u));
    writer.append(image<std::int32_t>(4, 4, -2'000'000'000));
    writer.append(image<float>(5, 5, -1.5f));
    writer.append(image<double>(6, 6, 1e-300));
    writer.append(image<std::complex<float>>(7, 7, {1, 2}));
    writer.append(image<std::complex<double>>(8, 8, {1, 1e300}));
    for (std::uint16_t i = 0; i < 9; ++i) writer.append(image<float>(5, 10, i));
  }
  const DatasetReader reader(file_);
  EXPECT_EQ(reader.image_series().size(), 9u);
  const auto same = [&](const Image& expected, const std::string& series, std::size_t index) {
    const Image read = reader.image(series, index);
    EXPECT_EQ(+read.head.data_type, +expected.head.data_type);
    EXPECT_EQ(+read.head.user_float[7], 3);
    EXPECT_EQ(read.attributes, expected.attributes);
    EXPECT_EQ(+read.head.attribute_string_len, expected.attributes.size());
    EXPECT_TRUE(std::equal(read.pixels.bytes.begin(), read.pixels.bytes.end(), expected.pixels.bytes.begin(),
                           expected.pixels.bytes.end()))
        << series;
  };
  same(image<std::uint16_t>(1, 1, 60000), "image_1", 0);
  same(image<std::int16_t>(2, 2, -5), "image_2", 0);
  same(image<std::uint32_t>(3, 3, 4'000'000'000u), "image_3", 0);
  same(image<std::int32_t>(4, 4, -2'000'000'000), "image_4", 0);
  same(image<float>(5, 5, -1.5f), "image_5", 0);
  same(image<double>(6, 6, 1e-300), "image_6", 0);
  same(image<std::complex<float>>(7, 7, {1, 2}), "image_7", 0);
  same(image<std::complex<double>>(8, 8, {1, 1e300}), "image_8", 0);
  ASSERT_EQ(reader.images("image_10"), 9u);
  same(image<float>(5, 10, 8), "image_10", 8);

  ISMRMRD::Dataset library(file_.c_str(), "dataset", false);
  ISMRMRD::Image<float> read;
  library.readImage("image_10", 4, read);
  EXPECT_EQ(read(0, 0, 0, 0), 4);
  EXPECT_EQ(read(3, 2, 1, 1), 4 + 47);
}

TEST_F(DatasetTest, FileIsWholeAfterEveryFlush) {
  DatasetWriter writer(file_);
  for (std::uint16_t i = 1; i <= 3; ++i) {
    writer.append(image<float>(5, 1, i));
    writer.flush();
    // A copy is what another program, or a crash, would see.
    const auto copy = folder_ / "copy.h5";
    std::filesystem::copy_file(file_, copy, std::filesystem::copy_options::overwrite_existing);
    EXPECT_EQ(DatasetReader(copy).images("image_1"), i);
    EXPECT_EQ(DatasetReader(file_).images("image_1"), i);
  }
}

TEST_F(DatasetTest, OpenFileNeedsItsNameNoMore) {
  DatasetWriter writer(file_);
  writer.open();
  const auto other = folder_ / "other.h5";
  std::filesystem::create_hard_link(file_, other);
  std::filesystem::remove(file_);
  writer.append(image<float>(5, 1, 0));
  writer.flush();
  EXPECT_FALSE(std::filesystem::exists(file_));
  EXPECT_EQ(DatasetReader(other).images("image_1"), 1U);
}

TEST_F(DatasetTest, WriterReplacesAFileAndRefusesMixedSeries) {
  std::ofstream(file_) << "something else";
  DatasetWriter writer(file_);
  writer.append(image<float>(5, 1, 0));
  EXPECT_THAT(message_of([&] { writer.append(image<double>(6, 1, 0)); }), HasSubstr("image_1"));
  Image larger = image<float>(5, 1, 0);
  larger.head.matrix_size[0] = 8;
  larger.pixels = Payload::take(std::vector<float>(96));
  EXPECT_THAT(message_of([&] { writer.append(larger); }), HasSubstr("series"));
  Image empty;
  empty.head.image_series_index = 2;
  EXPECT_THAT(message_of([&] { writer.append(empty); }), HasSubstr("contradicts"));
  Acquisition wrong = readout(4, 1, 0, 0);
  wrong.head.number_of_samples = 5;
  EXPECT_THAT(message_of([&] { writer.append(wrong); }), HasSubstr("header says"));
  writer.append(image<float>(5, 1, 1));
  writer.flush();
  EXPECT_EQ(DatasetReader(file_).images("image_1"), 2u);
}

TEST_F(DatasetTest, ArraysAreStoredUnderTheGroup) {
  const std::vector<float> real = {1, 2, 3, 4, 5, 6};
  const std::vector<std::complex<float>> complex = {{1, 2}, {3, 4}};
  {
    DatasetWriter writer(file_);
    writer.array("kspace", {2, 3}, real.data());
    writer.array("maps/coil", {2}, complex.data());
    EXPECT_THAT(message_of([&] { writer.array("kspace", {6}, real.data()); }), HasSubstr("there already"));
  }
  const hid_t file = H5Fopen(file_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  const hid_t array = H5Dopen2(file, "dataset/kspace", H5P_DEFAULT);
  const hid_t space = H5Dget_space(array);
  hsize_t sizes[2] = {};
  EXPECT_EQ(H5Sget_simple_extent_dims(space, sizes, nullptr), 2);
  EXPECT_EQ(sizes[0], 2u);
  EXPECT_EQ(sizes[1], 3u);
  std::vector<float> read(6);
  H5Dread(array, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, read.data());
  EXPECT_EQ(read, real);
  const hid_t maps = H5Dopen2(file, "dataset/maps/coil", H5P_DEFAULT);
  const hid_t type = H5Dget_type(maps);
  ASSERT_EQ(H5Tget_nmembers(type), 2);
  char* name = H5Tget_member_name(type, 1);
  EXPECT_STREQ(name, "i");
  H5free_memory(name);
  H5Tclose(type);
  H5Dclose(maps);
  H5Sclose(space);
  H5Dclose(array);
  H5Fclose(file);
}

TEST_F(DatasetTest, ErrorsNameWhatIsThere) {
  EXPECT_THAT(message_of([&] { DatasetReader{file_}; }), HasSubstr("no such file"));
  std::ofstream(file_) << "not HDF5";
  EXPECT_THAT(message_of([&] { DatasetReader{file_}; }), HasSubstr("not an HDF5 file"));
  {
    DatasetWriter writer(file_, "scan_a");
    writer.append(image<float>(5, 3, 0));
    writer.append(readout(4, 1, 0, 0));
  }
  EXPECT_THAT(message_of([&] { DatasetReader{file_}; }), HasSubstr("no group 'dataset'"));
  EXPECT_THAT(message_of([&] { DatasetReader{file_}; }), HasSubstr("'scan_a'"));
  EXPECT_EQ(DatasetReader::groups(file_), (std::vector<std::string>{"scan_a"}));
  const DatasetReader reader(file_, "/scan_a");
  EXPECT_EQ(reader.header_xml(), "");
  EXPECT_EQ(reader.waveforms(), 0u);
  EXPECT_THAT(message_of([&] { static_cast<void>(reader.image("image_1", 0)); }), HasSubstr("'image_3'"));
  EXPECT_THAT(message_of([&] { static_cast<void>(reader.image("image_3", 1)); }), HasSubstr("there are 1"));
  EXPECT_THAT(message_of([&] { static_cast<void>(reader.acquisition(1)); }), HasSubstr("there are 1"));
  EXPECT_THAT(message_of([&] { static_cast<void>(reader.waveform(0)); }), HasSubstr("there are 0"));
  EXPECT_THAT(message_of([&] { DatasetWriter{folder_ / "missing" / "x.h5"}; }), HasSubstr("cannot be made"));
}

TEST_F(DatasetTest, ReadoutsComeInAnyOrder) {
  constexpr std::size_t kCount = 150;  // more than are read at once
  {
    DatasetWriter writer(file_);
    for (std::size_t i = 0; i < kCount; ++i) writer.append(readout(3, 1, 1, static_cast<float>(i)));
  }
  const DatasetReader reader(file_);
  const auto first_number = [&](std::size_t i) { return numbers<float>(reader.acquisition(i).data).at(0); };
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(first_number(i), static_cast<float>(i));
  for (std::size_t i = kCount; i-- > 0;) ASSERT_EQ(first_number(i), static_cast<float>(i));
  for (std::size_t i = 0; i < kCount; ++i)
    ASSERT_EQ(first_number(i * 67 % kCount), static_cast<float>(i * 67 % kCount));
}

TEST_F(DatasetTest, RecordThatContradictsItsHeaderIsRefused) {
  {
    // libismrmrd trusts the header, so a record with a shorter list is made with its own C functions and then damaged.
    DatasetWriter writer(file_);
    writer.append(readout(4, 1, 0, 0));
  }
  std::fstream raw(file_, std::ios::binary | std::ios::in | std::ios::out);
  std::string bytes{std::istreambuf_iterator<char>(raw), {}};
  // The header's number_of_samples (4), available_channels (1) and active_channels (1), followed by an empty mask.
  const std::string mark("\x04\0\x01\0\x01\0\0\0\0\0", 10);
  const auto at = bytes.find(mark);
  ASSERT_NE(at, std::string::npos);
  raw.clear();
  raw.seekp(static_cast<std::streamoff>(at));
  raw.put('\x40');
  raw.close();
  EXPECT_THAT(message_of([&] { static_cast<void>(DatasetReader(file_).acquisition(0)); }), HasSubstr("announces 128"));
}

TEST_F(DatasetTest, MeasuredScansPass) {
  const char* folder = std::getenv("ECHOTRAIN_DATA");
  const std::filesystem::path data = folder != nullptr ? folder : source_path("../shared/data");
  const auto spiral = data / "spiral_phantom8" / "spiral_phantom8.h5";
  if (!std::filesystem::exists(spiral)) GTEST_SKIP() << "no measured data at " << data;
  const DatasetReader reader(spiral);
  ASSERT_EQ(reader.acquisitions(), 60u);
  ISMRMRD::Dataset library(spiral.c_str(), "dataset", false);
  for (const std::size_t i : {0u, 59u}) {
    const Acquisition ours = reader.acquisition(i);
    ISMRMRD::Acquisition theirs;
    library.readAcquisition(static_cast<std::uint32_t>(i), theirs);
    const AcquisitionHeader head = theirs.getHead();
    EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(&ours.head, 1)), std::as_bytes(std::span(&head, 1))));
    ASSERT_EQ(ours.data.bytes.size(), theirs.getDataSize());
    EXPECT_EQ(std::memcmp(ours.data.bytes.data(), theirs.getDataPtr(), theirs.getDataSize()), 0);
    EXPECT_EQ(std::memcmp(ours.trajectory.bytes.data(), theirs.getTrajPtr(), theirs.getTrajSize()), 0);
  }
}

TEST_F(DatasetTest, TextThatClaimsAHugeWidthIsRefused) {
  const hid_t file = H5Fcreate(file_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t group = H5Gcreate2(file, "dataset", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, std::size_t{3} << 30);
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t xml = H5Dcreate2(group, "xml", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(xml, 0);
  H5Dclose(xml);
  H5Sclose(space);
  H5Tclose(type);
  H5Gclose(group);
  H5Fclose(file);
  ASSERT_LT(std::filesystem::file_size(file_), 10'000u);
  const DatasetReader reader(file_);
  try {
    (void)reader.header_xml();
    FAIL() << "a text of 3 GiB was read";
  } catch (const DatasetError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'xml' is a text of 3221225472 bytes"));
  }
}

// HDF5 has taken memory for the first list when it fails on the second, and forgets it: a leak to the sanitizer.
TEST_F(DatasetTest, ListLargerThanAnyReadoutIsNotRead) {
  struct Lists {
    hvl_t trajectory, data;
  };
  std::vector<float> numbers((Limits{}.acquisition_bytes / sizeof(float)) + 1);
  const Lists record{{5, numbers.data()}, {numbers.size(), numbers.data()}};
  const hid_t list = H5Tvlen_create(H5T_NATIVE_FLOAT);
  const hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(Lists));
  H5Tinsert(type, "traj", offsetof(Lists, trajectory), list);
  H5Tinsert(type, "data", offsetof(Lists, data), list);
  const hid_t file = H5Fcreate(file_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t group = H5Gcreate2(file, "dataset", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t one = 1;
  const hid_t space = H5Screate_simple(1, &one, nullptr);
  const hid_t data = H5Dcreate2(group, "data", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &record), 0);
  H5Dclose(data);
  H5Sclose(space);
  H5Gclose(group);
  H5Fclose(file);
  H5Tclose(type);
  H5Tclose(list);
  const DatasetReader reader(file_);
  ASSERT_EQ(reader.acquisitions(), 1u);
  try {
    (void)reader.acquisition(0);
    FAIL() << "a readout that no header can announce was read";
  } catch (const DatasetError& error) {
    EXPECT_THAT(error.what(), HasSubstr("readout 0 cannot be read"));
  }
}

}  // namespace
}  // namespace echotrain::protocol::test
