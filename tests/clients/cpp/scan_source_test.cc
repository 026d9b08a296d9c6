// Scan sources go on from any message: what follows are the bytes that followed it in the scan from its beginning.
#include "clients/cpp/connection/scan_source.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "clients/cpp/connection/mrd2_source.h"
#include "protocol/mrd2/mrd2_stream.h"
#include "tests/clients/cpp/support.h"

namespace echotrain::client {
namespace {

using protocol::Buffer;

constexpr const char* kXml =
    "<?xml version=\"1.0\"?><ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\"><experimentalConditions>"
    "<H1resonanceFrequency_Hz>63500000</H1resonanceFrequency_Hz></experimentalConditions><encoding><encodedSpace>"
    "<matrixSize><x>4</x><y>4</y><z>1</z></matrixSize><fieldOfView_mm><x>4</x><y>4</y><z>4</z></fieldOfView_mm>"
    "</encodedSpace><reconSpace><matrixSize><x>4</x><y>4</y><z>1</z></matrixSize><fieldOfView_mm><x>4</x><y>4</y>"
    "<z>4</z></fieldOfView_mm></reconSpace><trajectory>cartesian</trajectory></encoding></ismrmrdHeader>";

protocol::Acquisition readout(std::uint32_t number, std::uint32_t time) {
  protocol::Acquisition made;
  made.head.version = 1;
  made.head.scan_counter = number;
  made.head.acquisition_time_stamp = time;
  made.head.number_of_samples = 4;
  made.head.active_channels = made.head.available_channels = 1;
  made.data = protocol::Payload::take(std::vector<float>(8, static_cast<float>(number)));
  return made;
}

protocol::Waveform waveform(std::uint32_t number, std::uint32_t time) {
  protocol::Waveform made;
  made.head.version = 1;
  made.head.scan_counter = number;
  made.head.time_stamp = time;
  made.head.channels = 1;
  made.head.number_of_samples = 2;
  made.data = protocol::Payload::take(std::vector<std::uint32_t>(2, number));
  return made;
}

struct Messages {
  std::vector<Buffer> all;
  std::vector<bool> readouts;
};

// All that a source gives from where it stands.
Messages rest_of(ScanSource& source) {
  Messages out;
  while (const auto chunk = source.next()) {
    std::size_t begin = 0;
    for (const auto& piece : chunk->pieces) {
      out.all.emplace_back(chunk->bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                           chunk->bytes.begin() + static_cast<std::ptrdiff_t>(piece.end));
      out.readouts.push_back(piece.readout);
      begin = piece.end;
    }
  }
  return out;
}

void expect_any_place(ScanSource& source, std::size_t messages) {
  const Messages whole = rest_of(source);
  ASSERT_EQ(whole.all.size(), messages);
  for (std::size_t from = 0; from <= messages + 1; ++from) {
    const ScanSource::Place place = source.go_to(from);
    const std::size_t there = std::min(from, messages);
    EXPECT_EQ(place.in_scan, from <= messages);  // behind the last one is CLOSE, which counts as one
    EXPECT_EQ(place.readouts,
              std::count(whole.readouts.begin(), whole.readouts.begin() + static_cast<std::ptrdiff_t>(there), true));
    const Messages rest = rest_of(source);
    EXPECT_EQ(rest.all, std::vector(whole.all.begin() + static_cast<std::ptrdiff_t>(there), whole.all.end())) << from;
  }
}

class ScanSourceTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(ScanSourceTest, AFileOfReadoutsGoesOnAnywhere) {
  protocol::DatasetWriter file(folder_ / "scan.h5");
  file.header_xml(kXml);
  for (std::uint32_t i = 0; i < 7; ++i) file.append(readout(i, i));
  file.flush();
  DatasetSource source(folder_ / "scan.h5", "dataset");
  expect_any_place(source, 7);
}

TEST_F(ScanSourceTest, WaveformsAreMessages) {
  protocol::DatasetWriter file(folder_ / "scan.h5");
  file.header_xml(kXml);
  for (std::uint32_t i = 0; i < 5; ++i) file.append(readout(i, 10 * i));
  for (const std::uint32_t time : {0, 5, 20, 21, 22, 50, 60}) file.append(waveform(time, time));
  file.flush();
  DatasetSource source(folder_ / "scan.h5", "dataset");
  expect_any_place(source, 12);
}

TEST_F(ScanSourceTest, ImagesAreMessages) {
  protocol::DatasetWriter file(folder_ / "images.h5");
  for (std::uint16_t series = 1; series <= 3; ++series)
    for (int i = 0; i < 3; ++i)
      file.append(make_image<float>(5, 2, 2, std::vector<float>(4, static_cast<float>(series * 10 + i)), series));
  file.flush();
  DatasetSource source(folder_ / "images.h5", "dataset");
  expect_any_place(source, 9);
}

TEST_F(ScanSourceTest, AnMrd2StreamGoesOnAnywhere) {
  protocol::mrd2::Mrd2Writer file(folder_ / "scan.mrd2");
  ASSERT_TRUE(file.write(protocol::HeaderText{kXml}));
  for (std::uint32_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(file.write(readout(i, 10 * i)));
    if (i % 2 == 0) {
      ASSERT_TRUE(file.write(waveform(i, 10 * i + 5)));
    }
  }
  file.finish();
  Mrd2Source source(folder_ / "scan.mrd2");
  expect_any_place(source, 8);
}

}  // namespace
}  // namespace echotrain::client
