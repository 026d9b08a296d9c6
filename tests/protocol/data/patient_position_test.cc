#include "protocol/data/patient_position.h"

#include <gtest/gtest.h>

namespace echotrain::protocol {
namespace {

using Axes = std::array<std::array<double, 3>, 3>;

std::string header_with(const std::string& contents) {
  return "<ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\">" + contents + "</ismrmrdHeader>";
}
std::optional<Axes> axes(const std::string& position) {
  return device_axes(header_with("<measurementInformation><patientPosition>" + position +
                                 "</patientPosition></measurementInformation>"));
}

// The letters say which way the patient lies (PS3.3 C.7.3.1.1.2): what is up, what comes out of the bore, and so what
// is on the right of someone who looks in.
TEST(PatientPosition, AxesOfTheDevice) {
  constexpr std::array<double, 3> kLeft{1, 0, 0}, kRight{-1, 0, 0}, kPosterior{0, 1, 0}, kAnterior{0, -1, 0},
      kSuperior{0, 0, 1}, kInferior{0, 0, -1};
  EXPECT_EQ(axes("HFS"), (Axes{kLeft, kAnterior, kInferior}));
  EXPECT_EQ(axes("HFP"), (Axes{kRight, kPosterior, kInferior}));
  EXPECT_EQ(axes("FFS"), (Axes{kRight, kAnterior, kSuperior}));
  EXPECT_EQ(axes("FFP"), (Axes{kLeft, kPosterior, kSuperior}));
  EXPECT_EQ(axes("HFDR"), (Axes{kPosterior, kLeft, kInferior}));
  EXPECT_EQ(axes("HFDL"), (Axes{kAnterior, kRight, kInferior}));
  EXPECT_EQ(axes("FFDR"), (Axes{kAnterior, kLeft, kSuperior}));
  EXPECT_EQ(axes("FFDL"), (Axes{kPosterior, kRight, kSuperior}));
}

TEST(PatientPosition, NothingIsGuessed) {
  for (const char* position : {"", "HF", "SIT", "HFX", "hfs"}) EXPECT_FALSE(axes(position)) << position;
  EXPECT_FALSE(device_axes(header_with("")));
  EXPECT_FALSE(device_axes("Dummy XML header"));
}

TEST(PatientPosition, UserParametersAreFoundByName) {
  const std::string xml = header_with(
      "<userParameters><userParameterLong><name>other</name><value>1</value></userParameterLong>"
      "<userParameterString><name>gradient_unwarp</name><value> done </value></userParameterString></userParameters>");
  EXPECT_EQ(user_parameter(xml, "gradient_unwarp"), "done");
  EXPECT_EQ(user_parameter(xml, "another"), "");
  EXPECT_EQ(user_parameter(header_with(""), "gradient_unwarp"), "");
}

}  // namespace
}  // namespace echotrain::protocol
