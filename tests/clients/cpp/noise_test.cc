// `echotrain noise` on files whose noise is known.
#include "clients/cpp/scans/noise.h"

#include <gmock/gmock.h>

#include <cmath>
#include <complex>

#include "tests/clients/cpp/support.h"

namespace echotrain::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHeaderOfThree = R"(<ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD">
<acquisitionSystemInformation>
<coilLabel><coilNumber>1</coilNumber><coilName>Head</coilName></coilLabel>
<coilLabel><coilNumber>2</coilNumber><coilName>Neck</coilName></coilLabel>
<coilLabel><coilNumber>3</coilNumber><coilName>Spine</coilName></coilLabel>
</acquisitionSystemInformation>
<experimentalConditions><H1resonanceFrequency_Hz>63870000</H1resonanceFrequency_Hz></experimentalConditions>
<encoding><encodedSpace><matrixSize><x>4</x><y>1</y><z>1</z></matrixSize>
<fieldOfView_mm><x>1</x><y>1</y><z>1</z></fieldOfView_mm></encodedSpace>
<reconSpace><matrixSize><x>4</x><y>1</y><z>1</z></matrixSize>
<fieldOfView_mm><x>1</x><y>1</y><z>1</z></fieldOfView_mm></reconSpace>
<encodingLimits/><trajectory>cartesian</trajectory></encoding></ismrmrdHeader>)";

/// Four samples of three coils: sum |n|^2 is 6, 24 and 6, so that variances are 2, 8 and 2, of which half is in the
/// real part. Coils 0 and 1 have the correlation 1, coil 2 has none with them.
protocol::Acquisition three_coils(bool is_noise) {
  using cfloat = std::complex<float>;
  protocol::Acquisition readout;
  readout.head.version = 1;
  readout.head.active_channels = readout.head.available_channels = 3;
  readout.head.number_of_samples = 4;
  readout.head.sample_time_us = 7.5F;
  if (is_noise) readout.head.flags = 1ull << 18;
  const float one = std::sqrt(1.5F);
  std::vector<cfloat> data{one,          -one,          one, -one, {0, 2 * one}, {0, -2 * one},
                           {0, 2 * one}, {0, -2 * one}, one, one,  -one,         -one};
  readout.data = protocol::Payload::take(std::move(data));
  return readout;
}

std::filesystem::path file_with(const TemporaryFolder& folder, const std::vector<protocol::Acquisition>& readouts) {
  const std::filesystem::path path = folder / "scan.h5";
  protocol::DatasetWriter writer(path, "dataset");
  writer.header_xml(kHeaderOfThree);
  for (const auto& readout : readouts) writer.append(readout);
  return path;
}

TEST(NoiseCommand, TellsEachCoilsNoise) {
  const TemporaryFolder folder;
  std::ostringstream out;
  noise({.input = file_with(folder, {three_coils(true), three_coils(false)})}, out);
  EXPECT_THAT(out.str(), HasSubstr("1 noise readouts, 4 samples of 3 coils, 7.5 us a sample\n"));
  EXPECT_THAT(out.str(), HasSubstr("     0            1      1.000  Head\n"));
  EXPECT_THAT(out.str(), HasSubstr("     1            2      2.000  Neck\n"));
  EXPECT_THAT(out.str(), HasSubstr("     2            1      1.000  Spine\n"));
  EXPECT_THAT(out.str(), HasSubstr("coils 0 and 1: correlation 1.000\n"));
  EXPECT_THAT(out.str(), Not(HasSubstr("coils 0 and 2")));
}

TEST(NoiseCommand, AFileWithoutNoiseIsAnError) {
  const TemporaryFolder folder;
  std::ostringstream out;
  EXPECT_THROW(noise({.input = file_with(folder, {three_coils(false)})}, out), std::runtime_error);
}

}  // namespace
}  // namespace echotrain::client
