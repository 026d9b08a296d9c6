// Cartesian k-space: where each sample goes, and what voxels the image has.
#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

const std::string kComplex = yaml("  - cartesian_kspace\n  - fft\n  - image: {component: complex}\n");

/// Encoded k-space of one coil, [z, y, x], centre at floor(n/2).
struct Encoded {
  std::array<int, 3> n;
  std::vector<cdouble> data;
  explicit Encoded(const std::array<int, 3>& extents)
      : n(extents), data(static_cast<std::size_t>(extents[0] * extents[1] * extents[2])) {}
  cdouble& at(int x, int y, int z = 0) { return data[static_cast<std::size_t>((z * n[1] + y) * n[0] + x)]; }

  /// (1/N) sum d exp(+2 pi i k.r) at the voxels of an image of `recon` voxels, `padded` of which fill the encoded FOV.
  std::vector<cdouble> image(const std::array<int, 3>& recon, const std::array<int, 3>& padded) const {
    std::vector<cdouble> from = data;
    std::array<int, 3> extents = n;
    std::int64_t inner = 1;  // one axis after another, in float64
    for (std::size_t a = 0; a < 3; ++a) {
      const std::int64_t outer = static_cast<std::int64_t>(from.size()) / (inner * extents[a]);
      std::vector<cdouble> to(static_cast<std::size_t>(outer * recon[a] * inner));
      for (std::int64_t o = 0; o < outer; ++o)
        for (int r = 0; r < recon[a]; ++r)
          for (int k = 0; k < extents[a]; ++k) {
            const double turns = static_cast<double>(k - extents[a] / 2) * (r - recon[a] / 2) / padded[a];
            const cdouble factor = std::polar(1.0 / n[a], 2 * std::numbers::pi * turns);
            for (std::int64_t i = 0; i < inner; ++i)
              to[static_cast<std::size_t>((o * recon[a] + r) * inner + i)] +=
                  factor * from[static_cast<std::size_t>((o * extents[a] + k) * inner + i)];
          }
      from = std::move(to);
      extents[a] = recon[a];
      inner *= recon[a];
    }
    return from;
  }
};

Acquisition line(std::vector<cfloat> data, int y, int z = 0) {
  Acquisition out = readout(1, std::move(data));
  out.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
  out.head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(z);
  return out;
}

/// Random lines for every step of `encoded`, which is filled with them.
std::vector<Acquisition> full_scan(Encoded& encoded, std::mt19937& random) {
  std::vector<Acquisition> scan;
  for (int z = 0; z < encoded.n[2]; ++z)
    for (int y = 0; y < encoded.n[1]; ++y) {
      auto data = noise(static_cast<std::size_t>(encoded.n[0]), random);
      for (int x = 0; x < encoded.n[0]; ++x) encoded.at(x, y, z) = data[static_cast<std::size_t>(x)];
      scan.push_back(line(std::move(data), y, z));
    }
  return scan;
}

std::string meta(const protocol::Image& image, const std::string& name) {
  const auto at = image.attributes.find("<name>" + name + "</name>");
  if (at == std::string::npos) return "(none)";
  const auto begin = image.attributes.find("<value>", at) + 7;
  return image.attributes.substr(begin, image.attributes.find('<', begin) - begin);
}

// float32 transforms of random data are good to some 1e-7; 1e-5 is the promise.
constexpr double kExact = 1e-5;

using CartesianTest = OnEachBackend;

TEST_P(CartesianTest, MatricesAndFieldsOfView) {
  struct Case {
    std::array<int, 3> encoded, recon;
    std::array<double, 3> encoded_fov, recon_fov;
    std::array<int, 3> padded;
    const char* what;
  };
  const std::vector<Case> cases = {
      {{24, 18, 1}, {24, 18, 1}, {240, 180, 5}, {240, 180, 5}, {24, 18, 1}, "plain"},
      {{25, 17, 1}, {25, 17, 1}, {250, 170, 5}, {250, 170, 5}, {25, 17, 1}, "odd"},
      {{48, 18, 1}, {24, 18, 1}, {480, 180, 5}, {240, 180, 5}, {48, 18, 1}, "readout oversampling 2"},
      {{46, 17, 1}, {23, 17, 1}, {460, 170, 5}, {230, 170, 5}, {46, 17, 1}, "readout oversampling 2, odd"},
      {{24, 18, 1}, {36, 32, 1}, {240, 180, 5}, {240, 180, 5}, {36, 32, 1}, "zero-filled to a finer matrix"},
      {{25, 18, 1}, {36, 31, 1}, {250, 180, 5}, {250, 180, 5}, {36, 31, 1}, "zero-filled, odd"},
      {{24, 24, 1}, {24, 18, 1}, {240, 240, 5}, {240, 180, 5}, {24, 24, 1}, "smaller field of view in y"},
      {{48, 20, 1}, {32, 30, 1}, {480, 240, 5}, {240, 180, 5}, {64, 40, 1}, "oversampled, finer and cut"},
      {{24, 18, 1}, {16, 12, 1}, {240, 180, 5}, {240, 180, 5}, {16, 12, 1}, "coarser matrix"},
      {{12, 10, 8}, {12, 10, 8}, {120, 100, 80}, {120, 100, 80}, {12, 10, 8}, "3D"},
      {{24, 9, 7}, {12, 12, 5}, {240, 90, 84}, {120, 90, 60}, {24, 12, 7}, "3D, oversampled, finer, cut in z"},
  };
  std::mt19937 random(1);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    HeaderSpec spec{.encoded = c.encoded, .recon = c.recon, .encoded_fov = c.encoded_fov, .recon_fov = c.recon_fov};
    spec.limits = step_limit(c.encoded[1]);
    Encoded encoded(c.encoded);
    auto scan = full_scan(encoded, random);
    const auto out = run(kComplex, header(spec), std::move(scan), here());
    ASSERT_EQ(out.images.size(), 1u);
    const auto& image = out.images[0];
    for (std::size_t a = 0; a < 3; ++a) EXPECT_EQ(+image.head.matrix_size[a], c.recon[a]);
    auto truth = encoded;
    if (std::string(c.what) == "coarser matrix") {  // only the middle of k-space fits
      for (int y = 0; y < c.encoded[1]; ++y)
        for (int x = 0; x < c.encoded[0]; ++x)
          if (std::abs(x - 11.5) > 8 || std::abs(y - 8.5) > 6) truth.at(x, y) = 0;
    }
    EXPECT_LT(nrmse(pixels<cfloat>(image), truth.image(c.recon, c.padded)), kExact);
    EXPECT_EQ(meta(image, "missing_lines"), "0");
  }
}

TEST_P(CartesianTest, PartialEchoesAndDiscardedSamples) {
  // 20 of 32 samples are used, with the echo at sample 6 of the 20: it belongs at x = 16.
  std::mt19937 random(2);
  for (const auto& [pre, post] : {std::pair{0, 0}, {3, 2}}) {
    Encoded encoded({32, 8, 1});
    std::vector<Acquisition> scan;
    for (int y = 0; y < 8; ++y) {
      auto data = noise(static_cast<std::size_t>(20 + pre + post), random);
      for (int s = 0; s < 20; ++s) encoded.at(16 - 6 + s, y) = data[static_cast<std::size_t>(s + pre)];
      scan.push_back(line(std::move(data), y));
      scan.back().head.discard_pre = static_cast<std::uint16_t>(pre);
      scan.back().head.discard_post = static_cast<std::uint16_t>(post);
      scan.back().head.center_sample = static_cast<std::uint16_t>(6 + pre);
    }
    const auto out = run(kComplex, header({.encoded = {32, 8, 1}}), std::move(scan), here());
    ASSERT_EQ(out.images.size(), 1u);
    EXPECT_LT(nrmse(pixels<cfloat>(out.images[0]), encoded.image({32, 8, 1}, {32, 8, 1})), kExact);
  }
}

TEST_P(CartesianTest, AFullLineWithDiscardedEnds) {
  std::mt19937 random(3);
  Encoded encoded({16, 4, 1});
  std::vector<Acquisition> scan;
  for (int y = 0; y < 4; ++y) {
    auto data = noise(21, random);
    for (int x = 0; x < 16; ++x) encoded.at(x, y) = data[static_cast<std::size_t>(x + 4)];
    scan.push_back(line(std::move(data), y));
    scan.back().head.discard_pre = 4;
    scan.back().head.discard_post = 1;
    scan.back().head.center_sample = 0;  // many senders leave it at 0; a full line has one place only
  }
  const auto out = run(kComplex, header({.encoded = {16, 4, 1}}), std::move(scan), here());
  ASSERT_EQ(out.images.size(), 1u);
  EXPECT_LT(nrmse(pixels<cfloat>(out.images[0]), encoded.image({16, 4, 1}, {16, 4, 1})), kExact);
}

TEST_P(CartesianTest, AveragesAreAveraged) {
  std::mt19937 random(4);
  Encoded first({16, 6, 1}), mean({16, 6, 1});
  auto scan = full_scan(first, random);
  mean = first;
  for (int average = 1; average < 3; ++average)
    for (int y = 0; y < 5; ++y) {  // line 5 comes once only
      auto data = noise(16, random);
      for (int x = 0; x < 16; ++x) mean.at(x, y) += cdouble(data[static_cast<std::size_t>(x)]);
      scan.push_back(line(std::move(data), y));
      scan.back().head.idx.average = static_cast<std::uint16_t>(average);
    }
  for (int y = 0; y < 5; ++y)
    for (int x = 0; x < 16; ++x) mean.at(x, y) /= 3;
  for (const auto& limits : {std::string(), limit("average", 0, 2, 0)}) {
    const auto out = run(kComplex, header({.encoded = {16, 6, 1}, .limits = limits}), scan, here());
    ASSERT_EQ(out.images.size(), 1u) << limits;
    EXPECT_LT(nrmse(pixels<cfloat>(out.images[0]), mean.image({16, 6, 1}, {16, 6, 1})), kExact);
  }
}

TEST_P(CartesianTest, MissingLinesStayZeroAndAreCounted) {
  std::mt19937 random(5);
  Encoded encoded({16, 12, 1});
  auto scan = full_scan(encoded, random);
  for (int y : {11, 7, 2}) {
    scan.erase(scan.begin() + y);
    for (int x = 0; x < 16; ++x) encoded.at(x, y) = 0;
  }
  const auto out = run(kComplex, header({.encoded = {16, 12, 1}}), std::move(scan), here());
  ASSERT_EQ(out.images.size(), 1u);
  EXPECT_EQ(meta(out.images[0], "missing_lines"), "3");
  EXPECT_LT(nrmse(pixels<cfloat>(out.images[0]), encoded.image({16, 12, 1}, {16, 12, 1})), kExact);
}

std::string steps(int ry, int rz) {
  return fmt::format(
      "<accelerationFactor><kspace_encoding_step_1>{}</kspace_encoding_step_1><kspace_encoding_step_2>{}"
      "</kspace_encoding_step_2></accelerationFactor>",
      ry, rz);
}

TEST_P(CartesianTest, FramesKnowWhatWasAcquired) {
  // Every third line from the second on, two reference lines between them, and no samples before the sixth.
  std::mt19937 random(14);
  HeaderSpec spec{.encoded = {16, 12, 1}, .limits = step_limit(12), .parallel = steps(3, 1)};
  std::vector<Acquisition> scan;
  for (const int y : {1, 4, 5, 6, 7, 10}) {
    scan.push_back(line(noise(10, random), y));
    scan.back().head.center_sample = 2;
  }
  std::optional<KSpace> kspace;
  RunOptions apart = here();
  apart.tap = "cartesian_kspace";
  apart.on_item = [&](const Item& item, numerics::Context&) { kspace = std::get<KSpace>(item); };
  const auto unfused = run(kComplex, header(spec), scan, apart);
  ASSERT_TRUE(kspace && kspace->lines);
  ASSERT_TRUE(kspace->calibration);
  EXPECT_EQ(kspace->calibration->first, (std::array<std::int64_t, 3>{6, 4, 0}));
  EXPECT_EQ(kspace->calibration->data.shape(), (numerics::Shape{1, 1, 4, 10}));
  const SampledLines& lines = *kspace->lines;
  EXPECT_EQ(lines.extents, (numerics::Shape{1, 12}));
  EXPECT_EQ(lines.came, (std::vector<std::uint8_t>{0, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 0}));
  EXPECT_EQ(lines.first_x, 6);
  EXPECT_EQ(lines.last_x, 16);
  EXPECT_FALSE(lines.rows_differ);
  EXPECT_TRUE(lines.lattice);
  EXPECT_EQ(lines.step, (std::array<std::int64_t, 2>{3, 1}));
  EXPECT_EQ(lines.origin, (std::array<std::int64_t, 2>{1, 0}));
  EXPECT_EQ(lines.first, (std::array<std::int64_t, 2>{1, 0}));
  EXPECT_EQ(lines.last, (std::array<std::int64_t, 2>{10, 0}));

  std::optional<Image> image;
  RunOptions whole = here();
  whole.tap = "image";
  whole.on_item = [&](const Item& item, numerics::Context&) { image = std::get<Image>(item); };
  const auto fused = run(kComplex, header(spec), scan, whole);
  for (const auto& frame : {kspace->frame, image.value().frame}) {
    ASSERT_TRUE(frame->acquired);
    // Rows 0 and 11 are left out by the lattice, not by partial Fourier.
    const std::array<float, 6> want = {-2.0f / 16, 7.0f / 16, -6.0f / 12, 5.0f / 12, 0, 0};
    for (std::size_t i = 0; i < 6; ++i) EXPECT_FLOAT_EQ((*frame->acquired)[i], want[i]);
  }
  for (const auto& out : {unfused, fused}) {
    EXPECT_EQ(meta(out.images.at(0), "acceleration"), "3x1");
    EXPECT_EQ(meta(out.images.at(0), "acceleration_effective"), "2.00");
    EXPECT_EQ(meta(out.images.at(0), "acceleration_shift"), "(none)");
    EXPECT_EQ(meta(out.images.at(0), "missing_lines"), "0");
  }
  scan.erase(scan.begin() + 4);  // a line of the lattice
  scan.erase(scan.begin() + 2);  // a reference line
  EXPECT_EQ(meta(run(kComplex, header(spec), scan, here()).images.at(0), "missing_lines"), "1");
  spec.parallel = "";
  EXPECT_EQ(meta(run(kComplex, header(spec), scan, here()).images.at(0), "missing_lines"), "8");
  EXPECT_EQ(meta(run(kComplex, header(spec), scan, here()).images.at(0), "acceleration"), "(none)");
}

TEST_P(CartesianTest, EchoesFromTwoSidesShareOnlyTheMiddle) {
  // Ten samples of 16 each, the centre the third or the ninth; or, of the latter, only those before the centre.
  std::mt19937 random(15);
  for (const bool overlap : {true, false}) {
    std::vector<Acquisition> scan;
    for (int y = 0; y < 8; ++y) {
      scan.push_back(line(noise(10, random), y));
      scan.back().head.center_sample = y % 2 == 0 ? 2 : 8;
      if (!overlap && y % 2 == 0) scan.back().head.discard_pre = 2;
      if (!overlap && y % 2 == 1) scan.back().head.discard_post = 2;
    }
    std::optional<KSpace> kspace;
    RunOptions options = here();
    options.tap = "cartesian_kspace";
    options.on_item = [&](const Item& item, numerics::Context&) { kspace = std::get<KSpace>(item); };
    run(kComplex, header({.encoded = {16, 8, 1}, .limits = step_limit(8), .parallel = steps(2, 1)}), scan, options);
    ASSERT_TRUE(kspace && kspace->lines);
    EXPECT_EQ(kspace->lines->first_x, overlap ? 6 : 0);
    EXPECT_EQ(kspace->lines->last_x, overlap ? 10 : 0);
    EXPECT_TRUE(kspace->lines->rows_differ);
    EXPECT_EQ(kspace->frame->acquired.has_value(), overlap);
    EXPECT_EQ(kspace->calibration != nullptr, overlap);
  }
}

TEST_P(CartesianTest, ShiftedPlanesAreNoted) {
  std::mt19937 random(16);
  HeaderSpec spec{.encoded = {4, 8, 6}, .parallel = steps(3, 2)};
  spec.limits = step_limit(8) + limit("kspace_encoding_step_2", 0, 5, 3);
  std::vector<Acquisition> scan;
  for (int z = 1; z < 6; z += 2)
    for (int y = z / 2 * 2 % 3; y < 8; y += 3) scan.push_back(line(noise(4, random), y, z));
  const auto out = run(kComplex, header(spec), scan, here());
  EXPECT_EQ(meta(out.images.at(0), "acceleration"), "3x2");
  EXPECT_EQ(meta(out.images.at(0), "acceleration_shift"), "2");
  EXPECT_EQ(meta(out.images.at(0), "missing_lines"), "0");
}

TEST_P(CartesianTest, LimitsSayWhereTheCentreIs) {
  // Steps 2..9 with centre 4 in a matrix of 16: step 4 belongs in row 8, and lines outside 2..9 are not missed.
  std::mt19937 random(6);
  Encoded encoded({8, 16, 1});
  std::vector<Acquisition> scan;
  for (int step = 2; step <= 9; ++step) {
    auto data = noise(8, random);
    for (int x = 0; x < 8; ++x) encoded.at(x, step + 4) = data[static_cast<std::size_t>(x)];
    scan.push_back(line(std::move(data), step));
  }
  const auto limits = limit("kspace_encoding_step_1", 2, 9, 4);
  const auto out = run(kComplex, header({.encoded = {8, 16, 1}, .limits = limits}), std::move(scan), here());
  ASSERT_EQ(out.images.size(), 1u);
  EXPECT_EQ(meta(out.images[0], "missing_lines"), "0");
  EXPECT_LT(nrmse(pixels<cfloat>(out.images[0]), encoded.image({8, 16, 1}, {8, 16, 1})), kExact);
  EXPECT_EQ(out.warned(""), 0);
}

ECHOTRAIN_ON_BACKENDS(CartesianTest);

TEST(CartesianHeaderTest, ACentreLeftAtZeroIsWarnedAbout) {
  std::mt19937 random(7);
  Encoded encoded({8, 10, 1});
  const auto scan = full_scan(encoded, random);
  const auto limits = limit("kspace_encoding_step_1", 0, 9, 0);
  const auto out = run(kComplex, header({.encoded = {8, 10, 1}, .limits = limits}), scan);
  EXPECT_EQ(out.warned("leaves the centre of kspace_encoding_step_1 at 0; 5 is taken"), 1);
  ASSERT_EQ(out.images.size(), 1u);
  EXPECT_LT(nrmse(pixels<cfloat>(out.images[0]), encoded.image({8, 10, 1}, {8, 10, 1})), kExact);
}

// A slice that keeps its number as its only second encoding step.
// On the CPU lines are transformed as they come. A tap keeps the gadgets apart.
TEST(CartesianFusionTest, FusedIsUnfused) {
  std::mt19937 random(21);
  const auto check = [&](const HeaderSpec& spec, int samples, int discard, const std::string& gadgets) {
    std::vector<Acquisition> scan;
    for (int average = 0; average < 3; ++average)
      for (int z = 0; z < spec.encoded[2]; ++z)
        for (int y = average; y < spec.encoded[1]; ++y) {  // some lines come once, some twice, some three times
          if (y == 3) continue;                            // and one never
          scan.push_back(readout(3, noise(3 * static_cast<std::size_t>(samples), random)));
          scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
          scan.back().head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(z);
          scan.back().head.idx.average = static_cast<std::uint16_t>(average);
          scan.back().head.discard_pre = static_cast<std::uint16_t>(discard);
          scan.back().head.center_sample = static_cast<std::uint16_t>(samples - spec.encoded[0] / 2);
        }
    RunOptions apart;
    apart.tap = "cartesian_kspace";
    int seen = 0;
    apart.on_item = [&](const Item& item, numerics::Context&) { seen += std::holds_alternative<KSpace>(item) ? 1 : 0; };
    const auto text = yaml("  - cartesian_kspace\n" + gadgets + "  - image: {component: complex}\n");
    const auto fused = run(text, header(spec), scan), unfused = run(text, header(spec), scan, apart);
    EXPECT_EQ(seen, 1);
    ASSERT_EQ(fused.images.size(), 1u);
    ASSERT_EQ(unfused.images.size(), 1u);
    EXPECT_LT(nrmse(pixels<cfloat>(fused.images[0]), pixels<cfloat>(unfused.images[0])), 1e-6);
    EXPECT_EQ(fused.images[0].attributes, unfused.images[0].attributes);
    EXPECT_NE(fused.images[0].attributes.find("missing_lines"), std::string::npos);
    EXPECT_NE(PipelinePlan::check(config::read_pipeline(text, "t.yaml"))->describe().find("as one on the CPU: cart"),
              std::string::npos);
  };
  for (const char* gadgets : {"  - fft\n", "  - fft: {direction: forward}\n  - coil_combine\n",
                              "  - fft\n  - coil_combine: {method: adaptive}\n"}) {
    check({.encoded = {24, 17, 1}, .recon = {12, 17, 1}, .recon_fov = {12, 17, 1}}, 24, 0, gadgets);
    check({.encoded = {24, 17, 1}, .recon = {30, 20, 1}}, 20, 2, gadgets);
    check({.encoded = {16, 9, 6}, .recon = {8, 9, 5}, .recon_fov = {8, 9, 5}}, 16, 0, gadgets);
  }
}

TEST(CartesianHeaderTest, LimitsThatDoNotFitAreRefused) {
  for (const auto& [n, limits] : {std::pair{10, limit("kspace_encoding_step_1", 0, 9, 2)},
                                  {10, limit("kspace_encoding_step_1", 0, 11, 5)},
                                  {1, limit("kspace_encoding_step_1", 0, 5, 2)}}) {
    const std::string text =
        client_error([&, h = header({.encoded = {8, n, 1}, .limits = limits})] { run(kComplex, h, {}); });
    EXPECT_NE(text.find("limits of kspace_encoding_step_1"), std::string::npos) << text;
    EXPECT_NE(text.find(fmt::format("do not fit its encoded matrix of {}", n)), std::string::npos) << text;
  }
}

TEST(CartesianHeaderTest, AccelerationIsWarnedAbout) {
  HeaderSpec spec{.encoded = {8, 8, 1}};
  spec.parallel =
      "<accelerationFactor><kspace_encoding_step_1>3</kspace_encoding_step_1><kspace_encoding_step_2>1"
      "</kspace_encoding_step_2></accelerationFactor>";
  EXPECT_EQ(run(kComplex, header(spec), {}).warned("R=3: image will alias"), 1);
  EXPECT_EQ(run(kComplex, header(HeaderSpec{.encoded = {8, 8, 1}}), {}).warned(""), 0);
  spec.parallel =  // the largest counters: 65535^2 does not fit an int
      "<accelerationFactor><kspace_encoding_step_1>65535</kspace_encoding_step_1><kspace_encoding_step_2>65535"
      "</kspace_encoding_step_2></accelerationFactor>";
  EXPECT_EQ(run(kComplex, header(spec), {}).warned("R=4294836225: image will alias"), 1);
}

TEST(CartesianHeaderTest, CalibrationThatIsNotUsedIsToldOf) {
  // All of k-space comes, so the readouts of calibration change nothing.
  std::mt19937 random(13);
  Encoded encoded({8, 4, 1});
  const auto scan = full_scan(encoded, random);
  auto more = scan;
  for (int y = 1; y < 3; ++y) {
    more.insert(more.begin() + 3, line(noise(8, random), y));
    set_flag(more[3], kCalibration);
  }
  const auto h = header({.encoded = {8, 4, 1}, .limits = step_limit(4)});
  RunOptions fused, apart;
  apart.tap = "cartesian_kspace";
  apart.on_item = [](const Item&, numerics::Context&) {};
  for (const RunOptions& options : {fused, apart}) {
    const auto plain = run(kComplex, h, scan, options), out = run(kComplex, h, more, options);
    EXPECT_EQ(plain.said(protocol::Level::info, "calibration"), 0);
    EXPECT_EQ(out.said(protocol::Level::info, "calibration readouts; they are not used"), 1);
    ASSERT_EQ(out.images.size(), 1u);
    EXPECT_EQ(pixels<cfloat>(out.images[0]), pixels<cfloat>(plain.images.at(0)));
  }
}

TEST(CartesianHeaderTest, OtherTrajectoriesAndGeometriesAreRefused) {
  for (const std::string trajectory : {"radial", "goldenangle", "spiral", "epi", "other"}) {
    const std::string text = client_error([&] {
      run(kComplex, header({.encoded = {8, 8, 1}, .trajectory = trajectory}), {});
    });
    EXPECT_NE(text.find("the header's trajectory is '" + trajectory + "'"), std::string::npos) << text;
  }
  HeaderSpec fine{.encoded = {8, 8, 1}, .recon = {4096, 8, 1}};
  fine.encoded_fov = {800, 8, 1};
  fine.recon_fov = {8, 8, 1};  // 409600 points over the encoded field of view
  EXPECT_NE(client_error([&] { run(kComplex, header(fine), {}); }).find("axis x"), std::string::npos);
}

TEST(CartesianHeaderTest, AHeaderOfImagesOnlyIsRefused) {
  const auto dummy = *protocol::parse_header("Dummy XML header", {});
  EXPECT_NE(client_error([&] { run(kComplex, dummy, {}); }).find("passthrough"), std::string::npos);
  EXPECT_NO_THROW(run(yaml("  - passthrough\n"), dummy, {}));
}

TEST(CartesianHeaderTest, ReadoutsThatCannotBePlacedAreRefused) {
  const auto h = header({.encoded = {16, 4, 1}});
  std::mt19937 random(8);
  auto reversed = line(noise(16, random), 0);
  set_flag(reversed, kReverse);
  EXPECT_NE(client_error([&] { run(kComplex, h, {reversed}); }).find("reversed readouts (EPI)"), std::string::npos);

  EXPECT_NE(client_error([&] { run(kComplex, h, {line(noise(17, random), 0)}); }).find("17 samples"),
            std::string::npos);
  auto early = line(noise(12, random), 0);
  early.head.center_sample = 9;  // would begin at x = -1
  EXPECT_NE(client_error([&] { run(kComplex, h, {early}); }).find("does not fit an encoded matrix of 16"),
            std::string::npos);
}

}  // namespace
}  // namespace echotrain::testing
