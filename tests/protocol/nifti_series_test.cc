#include "protocol/nifti/nifti_series.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <string>

namespace echotrain::protocol::nifti {
namespace {

using testing::HasSubstr;

/// Slice s of a stack of axial slices, 5 mm apart.
ImageHeader slice(int s, int repetition = 0) {
  ImageHeader head{};
  head.channels = 1;
  head.matrix_size[0] = head.matrix_size[1] = 8;
  head.matrix_size[2] = 1;
  for (int a = 0; a < 3; ++a) head.field_of_view[a] = a < 2 ? 16 : 4;
  head.read_dir[0] = head.phase_dir[1] = head.slice_dir[2] = 1;
  head.position[2] = static_cast<float>(5 * s);
  head.slice = static_cast<std::uint16_t>(s);
  head.repetition = static_cast<std::uint16_t>(repetition);
  return head;
}

void turn(ImageHeader& head) {  // about the axis of the readout
  head.phase_dir[1] = head.slice_dir[2] = 0;
  head.phase_dir[2] = 1;
  head.slice_dir[1] = -1;
}

std::string refusal(const std::vector<ImageHeader>& heads) {
  try {
    arrange(heads);
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(NiftiSeries, StacksSlicesByTheirPlaces) {
  const Arrangement made = arrange({slice(2), slice(0), slice(1), slice(1, 1), slice(0, 1), slice(2, 1)});
  EXPECT_EQ(made.volumes, (std::vector<std::vector<std::size_t>>{{1, 2, 0}, {4, 3, 5}}));
  EXPECT_EQ(made.shape.affine[2][2], 5);
}

// The slices are those of a localizer: through one point, where distances along the slices' normals say nothing.
TEST(NiftiSeries, RefusesSlicesOfSeveralOrientations) {
  std::vector<ImageHeader> heads{slice(0), slice(1)};
  for (ImageHeader& head : heads) head.position[2] = 0;
  EXPECT_EQ(refusal(heads), "");  // a sender that leaves places at zero
  turn(heads[1]);
  EXPECT_THAT(refusal(heads), HasSubstr("several orientations"));
  heads = {slice(0), slice(0, 1)};
  turn(heads[1]);
  EXPECT_THAT(refusal(heads), HasSubstr("several orientations"));
}

TEST(NiftiSeries, RefusesWhatOneAffineCannotTell) {
  std::vector<ImageHeader> shifted{slice(0), slice(1), slice(2)};
  shifted[1].position[0] = 3;
  EXPECT_THAT(refusal(shifted), HasSubstr("shifted against each other"));
  std::vector<ImageHeader> later{slice(0), slice(1), slice(2), slice(0, 1), slice(1, 1), slice(2, 1)};
  later[5].position[2] = 11;
  EXPECT_THAT(refusal(later), HasSubstr("distances differ"));
  std::vector<ImageHeader> stations{slice(0), slice(1), slice(0, 1), slice(1, 1)};
  stations[2].position[2] = 4;  // somebody has moved
  stations[3].position[2] = 9;
  EXPECT_EQ(refusal(stations), "");
  stations[2].position[2] = 200;
  stations[3].position[2] = 205;
  EXPECT_THAT(refusal(stations), HasSubstr("at several places"));
  std::vector<ImageHeader> larger{slice(0), slice(1)};
  larger[1].field_of_view[0] = 17;
  EXPECT_THAT(refusal(larger), HasSubstr("several fields of view"));
}

TEST(NiftiSeries, RefusesPlacesThatAreNoNumbers) {
  const auto spoil = [](auto change) {
    std::vector<ImageHeader> heads{slice(0), slice(1), slice(2)};
    change(heads[1], std::numeric_limits<float>::quiet_NaN());
    return refusal(heads);
  };
  EXPECT_THAT(spoil([](ImageHeader& head, float bad) { head.position[1] = bad; }), HasSubstr("not finite"));
  EXPECT_THAT(spoil([](ImageHeader& head, float bad) { head.slice_dir[2] = bad; }), HasSubstr("not finite"));
  EXPECT_THAT(spoil([](ImageHeader& head, float bad) { head.field_of_view[0] = bad; }), HasSubstr("not finite"));
}

}  // namespace
}  // namespace echotrain::protocol::nifti
