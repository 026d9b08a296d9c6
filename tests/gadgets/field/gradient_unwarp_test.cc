// gradient_unwarp in chains: images of a phantom in known places of a scanner, and what it leaves alone.
#include <gmock/gmock.h>

#include <cmath>
#include <string>

#include "tests/gadgets/sent_images.h"
#include "tests/support/gradient_phantom.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;
using Vector = GradientPhantom::Vector;

/// An image's place in the patient (L, P, S).
struct Place {
  Vector position{6, -8, 12};
  std::array<Vector, 3> axes{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
  Vector table{};
};

/// Turned by 0.4 rad about S, then by -0.3 about L.
Place oblique() {
  const double a = std::cos(0.4), b = std::sin(0.4), c = std::cos(0.3), d = -std::sin(0.3);
  Place out;
  out.axes = {{{a, b * c, b * d}, {-b, a * c, a * d}, {0, -d, c}}};
  return out;
}

/// A phantom whose places are those of an image at `where`, counted from the isocentre, in a scanner whose axes x, y, z
/// are these in the patient.
GradientPhantom phantom_at(const std::array<std::int64_t, 3>& n, const Place& where, double most_shift = 0,
                           const std::array<Vector, 3>& device = {{{1, 0, 0}, {0, -1, 0}, {0, 0, -1}}}) {
  const auto inner = [](const Vector& u, const Vector& v) { return u[0] * v[0] + u[1] * v[1] + u[2] * v[2]; };
  numerics::VoxelPlaces places;
  for (std::size_t c = 0; c < 3; ++c) {
    places.first[c] = inner(device[c], where.position);
    for (std::size_t a = 0; a < 3; ++a) {
      places.step[a][c] = GradientPhantom::kVoxel * inner(device[c], where.axes[a]);
      places.first[c] -= std::floor(static_cast<double>(n[a]) / 2) * places.step[a][c];
    }
  }
  return {n[0], n[1], n[2], most_shift, places};
}

protocol::Image image_at(const std::vector<cfloat>& pixels, const std::array<std::int64_t, 3>& n, const Place& where,
                         const Attributes& meta = {}) {
  auto out = sent_image(pixels, {static_cast<int>(n[0]), static_cast<int>(n[1]), static_cast<int>(n[2])}, meta, 5);
  for (std::size_t i = 0; i < 3; ++i) {
    out.head.field_of_view[i] = static_cast<float>(GradientPhantom::kVoxel * static_cast<double>(n[i]));
    out.head.position[i] = static_cast<float>(where.position[i]);
    out.head.read_dir[i] = static_cast<float>(where.axes[0][i]);
    out.head.phase_dir[i] = static_cast<float>(where.axes[1][i]);
    out.head.slice_dir[i] = static_cast<float>(where.axes[2][i]);
    out.head.patient_table_position[i] = static_cast<float>(where.table[i]);
  }
  return out;
}

/// The phantom's coefficients as our text.
std::string text_of(const GradientPhantom& phantom) {
  std::string out =
      fmt::format("echotrain_gradients 1\nnormalization schmidt\nradius_mm {}\n", phantom.harmonics.radius_mm);
  for (std::size_t coil = 0; coil < 3; ++coil)
    for (int n = 0; n <= phantom.harmonics.degree; ++n)
      for (int m = 0; m <= n; ++m) {
        const auto& term = phantom.harmonics.of_coil[coil][numerics::GradientHarmonics::place(n, m)];
        if (term.cosine != 0 || term.sine != 0)
          out += fmt::format("{} {} {} {} {}\n", "xyz"[coil], n, m, term.cosine, term.sine);
      }
  return out;
}

protocol::Image text_image(const std::string& text, const Attributes& meta = {}) {
  std::vector<std::uint16_t> bytes;
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return sent_image(bytes, {static_cast<int>(bytes.size()), 1, 1}, meta);
}

protocol::Header header_of(const std::string& position, const std::string& user = "") {
  const auto parsed =
      protocol::parse_header("<ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\">" +
                                 (position.empty() ? ""
                                                   : "<measurementInformation><patientPosition>" + position +
                                                         "</patientPosition></measurementInformation>") +
                                 "<experimentalConditions><H1resonanceFrequency_Hz>63870000</H1resonanceFrequency_Hz></"
                                 "experimentalConditions>" +
                                 encoding_xml({}) + user + "</ismrmrdHeader>",
                             {});
  EXPECT_TRUE(parsed);
  return *parsed;
}

constexpr std::array<std::int64_t, 3> kVolume{36, 32, 24}, kSlice{40, 36, 1};

class GradientUnwarpTest : public OnEachBackend {
 protected:
  Outcome run_with(const GradientPhantom& phantom, const std::string& gadgets, std::vector<protocol::Image> images,
                   const protocol::Header& header = header_of("HFS"), RunOptions options = {}) const {
    options.backend = GetParam();
    options.read_asset = [text = text_of(phantom)](const std::string& name) {
      EXPECT_EQ(name, "coil.gradients");
      return std::vector{text_image(text)};
    };
    return run_images(gadgets + "  - image: {component: complex}\n", std::move(images), options, header);
  }
  static std::string gadget(const std::string& more = "") {
    return "  - gradient_unwarp: {coefficients: coil.gradients" + more + "}\n";
  }
  double error(const GradientPhantom& phantom, const std::array<std::int64_t, 3>& n, const Place& where,
               const std::string& more = "", const protocol::Header& header = header_of("HFS")) const {
    const auto out = run_with(phantom, gadget(more), {image_at(phantom.distorted, n, where)}, header);
    EXPECT_EQ(out.images.size(), 1u);
    return nrmse(pixels<cfloat>(out.images.at(0)), phantom.object);
  }
};

// Eight taps interpolate these blobs to 1e-3, and to 5e-3 where the gradients compress them, as in UnwarpTest.
constexpr double kBack = 6e-3;
constexpr double kOff = 0.015;  // less than what the field of another place leaves

TEST_P(GradientUnwarpTest, VolumesComeBackFromAnyPlace) {
  for (const Place& where : {Place{}, oblique()}) {
    const auto phantom = phantom_at(kVolume, where);
    EXPECT_LT(error(phantom, kVolume, where), kBack);
    EXPECT_GT(nrmse(phantom.distorted, phantom.object), 0.05);
    EXPECT_GT(error(phantom, kVolume, where, ", modulate: false"), 0.03);
  }
}

// The patient's position turns the coils' axes: feet first, x and z are the others' negatives; on the right side, x is
// posterior and y left.
TEST_P(GradientUnwarpTest, TheHeaderSaysHowThePatientLies) {
  const Place where = oblique();
  const auto feet_first = phantom_at(kVolume, where, 0, {{{-1, 0, 0}, {0, -1, 0}, {0, 0, 1}}}),
             on_the_side = phantom_at(kVolume, where, 0, {{{0, 1, 0}, {1, 0, 0}, {0, 0, -1}}});
  EXPECT_LT(error(feet_first, kVolume, where, "", header_of("FFS")), kBack);
  EXPECT_LT(error(on_the_side, kVolume, where, "", header_of("HFDR")), kBack);
  EXPECT_GT(error(feet_first, kVolume, where), kOff);
  EXPECT_GT(error(on_the_side, kVolume, where), kOff);
  const auto head_first = phantom_at(kVolume, where);
  const auto out = run_with(head_first, gadget(), {image_at(head_first.distorted, kVolume, where)}, header_of(""));
  EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), head_first.object), kBack);
  EXPECT_EQ(out.warned("the header has no patientPosition"), 1);
}

// A table that has moved by 40 mm towards the head moves the patient there, away from the isocentre.
TEST_P(GradientUnwarpTest, TheTablesPositionHasASign) {
  Place moved;
  moved.position[2] += 40;
  const auto phantom = phantom_at(kVolume, moved);
  for (const double sign : {1.0, -1.0}) {
    Place sent;
    sent.table = {0, 0, 40 * sign};
    const std::string right = sign > 0 ? "added" : "subtracted", wrong = sign > 0 ? "subtracted" : "added";
    EXPECT_LT(error(phantom, kVolume, sent, ", table_position: " + right), kBack);
    EXPECT_GT(error(phantom, kVolume, sent, ", table_position: " + wrong), kOff);
    const auto out = run_with(phantom, gadget(), {image_at(phantom.distorted, kVolume, sent)});
    EXPECT_GT(nrmse(pixels<cfloat>(out.images.at(0)), phantom.object), kOff);
    EXPECT_EQ(out.said(protocol::Level::info, "readouts name a position of the table"), 1);
  }
}

TEST_P(GradientUnwarpTest, SlicesAreMovedWithinTheirPlaneAndSaySo) {
  Place where;
  where.position[2] = 60;
  const auto phantom = phantom_at(kSlice, where);
  const auto out = run_with(phantom, gadget(), {image_at(phantom.distorted, kSlice, where)});
  EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), phantom.object), kBack);
  double within = 0, across = 0;
  for (std::size_t v = 0; v < phantom.object.size(); ++v) {
    const auto moved = phantom.displacement_at(v).voxels;
    within = std::max(within, GradientPhantom::kVoxel * std::hypot(moved[0], moved[1]));
    across = std::max(across, GradientPhantom::kVoxel * std::abs(moved[2]));
  }
  EXPECT_EQ(meta_of(out.images.at(0), "gradient_unwarp"), Values{"2D"});
  // The largest is at a corner or near the middle of a side; places on a lattice of 16 tell it to 2 %.
  EXPECT_NEAR(std::stod(meta_of(out.images.at(0), "gradient_unwarp_mm").at(0)), within, 0.02 * within + 0.01);
  EXPECT_NEAR(std::stod(meta_of(out.images.at(0), "gradient_unwarp_across_mm").at(0)), across, 0.02 * across + 0.01);
  const auto volume = phantom_at(kVolume, {});
  const auto whole = run_with(volume, gadget(), {image_at(volume.distorted, kVolume, {})});
  EXPECT_EQ(meta_of(whole.images.at(0), "gradient_unwarp"), Values{"3D"});
  EXPECT_EQ(meta_of(whole.images.at(0), "gradient_unwarp_across_mm"), Values{});
}

// Coils, repetitions and slices have one warp; it is made once for each place.
TEST_P(GradientUnwarpTest, ChannelsAndRepetitionsAreAlike) {
  const auto phantom = phantom_at(kSlice, {});
  std::vector<cfloat> both = phantom.distorted;
  for (const cfloat v : phantom.distorted) both.push_back(cfloat(0, -2) * v);
  Place other;
  other.position = {-20, 4, 30};
  const auto there = phantom_at(kSlice, other);
  const auto out =
      run_with(phantom, gadget(),
               {image_at(both, kSlice, {}), image_at(there.distorted, kSlice, other), image_at(both, kSlice, {})});
  ASSERT_EQ(out.images.size(), 3u);
  EXPECT_LT(nrmse(pixels<cfloat>(out.images[1]), there.object), kBack);
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
    const auto& image = out.images[i];
    const auto values = pixels<cfloat>(image);
    const auto half = values.begin() + static_cast<std::ptrdiff_t>(phantom.object.size());
    EXPECT_LT(nrmse(std::vector<cfloat>(values.begin(), half), phantom.object), kBack);
    std::vector<cfloat> second(half, values.end());
    for (cfloat& v : second) v *= cfloat(0, 0.5f);
    EXPECT_LT(nrmse(second, phantom.object), kBack);
  }
}

// Where the sender has corrected images, they are not corrected again.
TEST_P(GradientUnwarpTest, WhatTheSenderHasDoneIsLeft) {
  const auto phantom = phantom_at(kSlice, {});
  const auto expect_left = [&](const Attributes& meta, const protocol::Header& header) {
    const auto out = run_with(phantom, gadget(), {image_at(phantom.distorted, kSlice, {}, meta)}, header);
    EXPECT_EQ(pixels<cfloat>(out.images.at(0)), phantom.distorted);
    EXPECT_EQ(meta_of(out.images.at(0), "gradient_unwarp"), Values{"by the sender"});
    EXPECT_EQ(out.said(protocol::Level::info, "the sender says"), 1);
  };
  expect_left({{"ImageTypeValue4", "NORM"}, {"ImageTypeValue4", "DIS2D"}}, header_of("HFS"));
  expect_left({{"ImageType", "ORIGINAL\\PRIMARY\\M\\DIS3D"}}, header_of("HFS"));
  expect_left({{"ImageProcessingHistory", "DIS2D"}}, header_of("HFS"));
  expect_left({{"gradient_unwarp", "3D"}}, header_of("HFS"));
  const auto user = [](const std::string& value) {
    return header_of("HFS", "<userParameters><userParameterLong><name>gradient_unwarp</name><value>" + value +
                                "</value></userParameterLong></userParameters>");
  };
  expect_left({}, user("1"));
  EXPECT_LT(error(phantom, kSlice, {}, "", user("0")), kBack);
  const auto nd =
      run_with(phantom, gadget(),
               {image_at(phantom.distorted, kSlice, {}, {{"ImageTypeValue4", "ND"}, {"gradient_unwarp", "none"}})});
  EXPECT_LT(nrmse(pixels<cfloat>(nd.images.at(0)), phantom.object), kBack);
  // Two in a row do it once.
  const auto twice = run_with(phantom, gadget() + gadget(), {image_at(phantom.distorted, kSlice, {})});
  EXPECT_LT(nrmse(pixels<cfloat>(twice.images.at(0)), phantom.object), kBack);
}

TEST_P(GradientUnwarpTest, ImagesWithoutDirectionsAndPhasesAreLeft) {
  const auto phantom = phantom_at(kSlice, {});
  Place nowhere;
  nowhere.axes[1] = {1, 0, 0};
  const auto out = run_with(phantom, gadget(), {image_at(phantom.distorted, kSlice, nowhere)});
  EXPECT_EQ(pixels<cfloat>(out.images.at(0)), phantom.distorted);
  EXPECT_EQ(meta_of(out.images.at(0), "gradient_unwarp"), Values{"none"});
  EXPECT_EQ(out.warned("are no directions at right angles"), 1);
  const auto phases = run_with(phantom, gadget(), {sent_image(std::vector<float>(40 * 36, 1.5f), {40, 36, 1}, {}, 2)});
  EXPECT_EQ(phases.warned("gradient_unwarp leaves phase images as they are"), 1);
}

// Echo-planar images: with the field's shift in between, one interpolation of both gives the object.
TEST_P(GradientUnwarpTest, DistortionAndGradientsAreOneInterpolation) {
  const Place where = oblique();
  const auto phantom = phantom_at(kVolume, where, 2.0);
  std::vector<float> hz;
  for (const float s : phantom.shift) hz.push_back(-1e3f * s);
  auto map = image_at(std::vector<cfloat>(hz.begin(), hz.end()), kVolume, where, {{"role", "field_map"}});
  const std::string epi =
      fmt::format("  - distortion_correction: {{line_interval_us: {}}}\n", 1e3 / static_cast<double>(kVolume[1]));
  const std::vector<protocol::Image> images{map, image_at(phantom.distorted, kVolume, where)};
  const auto out = run_with(phantom, epi + gadget(), images);
  ASSERT_EQ(out.images.size(), 1u);
  const double once = nrmse(pixels<cfloat>(out.images[0]), phantom.object);
  EXPECT_LT(once, 6e-3);  // as GradientWarpTest.AShiftAlongLinesIsUndoneInTheSameStep
  EXPECT_EQ(meta_of(out.images[0], "gradient_unwarp"), Values{"3D"});
  EXPECT_EQ(meta_of(out.images[0], "distortion_correction").size(), 1u);
  // With a gadget between them they are two steps.
  const auto apart = run_with(phantom, epi + "  - coil_combine\n" + gadget(), images);
  EXPECT_GT(nrmse(pixels<cfloat>(apart.images.at(0)), phantom.object), once);
  // Where the sender has corrected gradients, the field's shift is still undone.
  auto done = image_at(phantom.distorted, kVolume, where, {{"gradient_unwarp", "3D"}});
  const auto straight = run_with(phantom, epi, {map, done}), left = run_with(phantom, epi + gadget(), {map, done});
  EXPECT_EQ(pixels<cfloat>(left.images.at(0)), pixels<cfloat>(straight.images.at(0)));
  EXPECT_THAT(PipelinePlan::check(config::read_pipeline(yaml(epi + gadget() + "  - image\n", "input: images\n"), "x"))
                  ->describe(),
              HasSubstr("as one: distortion_correction, gradient_unwarp"));
}

TEST_P(GradientUnwarpTest, BlipPairsAndGradientsAreOneInterpolation) {
  const auto up = phantom_at(kSlice, {}, 2.0), down = phantom_at(kSlice, {}, -2.0);
  const std::vector<protocol::Image> images{image_at(up.distorted, kSlice, {}, {{"epi_blips", "up"}}),
                                            image_at(down.distorted, kSlice, {}, {{"epi_blips", "down"}}),
                                            image_at(down.distorted, kSlice, {})};
  const auto out = run_with(up, "  - blip_up_down\n" + gadget(), images),
             half = run_with(up, "  - blip_up_down\n", images);
  ASSERT_EQ(out.images.size(), 3u);
  for (const auto& image : out.images) EXPECT_EQ(meta_of(image, "gradient_unwarp"), Values{"2D"});
  std::size_t paired = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    if (meta_of(out.images[i], "blip_up_down") == Values{"none"}) continue;
    ++paired;
    // The pair tells the shift to about a tenth of a voxel, where there is signal.
    EXPECT_LT(nrmse(pixels<cfloat>(out.images[i]), up.object), 0.03);
    EXPECT_GT(nrmse(pixels<cfloat>(half.images[i]), up.object), 0.06);
  }
  EXPECT_EQ(paired, 2u);
}

TEST_P(GradientUnwarpTest, ClientsMaySendCoefficients) {
  const auto phantom = phantom_at(kSlice, {});
  const auto sent = text_image(text_of(phantom), {{"role", "gradient_coefficients"}});
  const auto out = run_with(phantom, "  - gradient_unwarp\n", {sent, image_at(phantom.distorted, kSlice, {})});
  EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), phantom.object), kBack);
  const auto image = image_at(phantom.distorted, kSlice, {});
  const auto refusal = [&](const std::vector<protocol::Image>& images) {
    return client_error([&] { run_with(phantom, "  - gradient_unwarp\n", images); });
  };
  EXPECT_THAT(refusal({image}), HasSubstr("role is gradient_coefficients"));
  EXPECT_THAT(refusal({sent_image(std::vector<float>(9, 0.5f), {9, 1, 1}, {{"role", "gradient_coefficients"}}), image}),
              HasSubstr("is no text"));
  EXPECT_THAT(refusal({text_image("x\nx\n1 A( 3, 0) one z\n", {{"role", "gradient_coefficients"}}), image}),
              HasSubstr("line 3 of the coefficients"));
}

TEST_P(GradientUnwarpTest, OtherFilesAreRefusedBeforeTheScan) {
  for (const char* name : {"../coil.grad", "maps.h5", "coil.txt"}) {
    std::string said;
    try {
      run_images(fmt::format("  - gradient_unwarp: {{coefficients: {}}}\n  - image\n", name), {}, here());
    } catch (const std::exception& error) {
      said = error.what();
    }
    EXPECT_THAT(said, HasSubstr("ends in .grad, .coef or .gradients")) << name;
  }
}

ECHOTRAIN_ON_BACKENDS(GradientUnwarpTest);

}  // namespace
}  // namespace echotrain::testing
