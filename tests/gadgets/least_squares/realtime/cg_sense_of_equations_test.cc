// cg_sense_realtime of Cartesian lines that are others in each frame, against equations written out in float64.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/gadgets/scan.h"
#include "tests/support/direct_sum.h"

namespace echotrain::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kLines = 24, kCoils = 8;

std::string lines_chain(const std::string& options, const std::string& maps = "", const std::string& kspace = "none") {
  return yaml("  - cartesian_kspace: {calibration: " + kspace + "}\n  - encoding\n" +
              (maps.empty() ? "" : "  - coil_maps: {" + maps + "}\n") + "  - cg_sense_realtime: {" + options +
              "}\n  - image: {component: complex}\n");
}
protocol::Header lines_header() { return header({.encoded = {kLines, kLines, 1}, .limits = step_limit(kLines)}); }

/// Smooth sensitivities, the sum of whose squares is 1: [coil, y, x].
std::vector<cdouble> sensitivities(int coils = kCoils) {
  std::vector<cdouble> maps;
  std::vector<double> power(kLines * kLines);
  for (int c = 0; c < coils; ++c)
    for (int y = 0; y < kLines; ++y)
      for (int x = 0; x < kLines; ++x) {
        const double angle = 2 * std::numbers::pi * c / coils + 0.3;
        const double dx = (x - kLines / 2) / (0.55 * kLines) - std::cos(angle),
                     dy = (y - kLines / 2) / (0.55 * kLines) - std::sin(angle);
        maps.push_back(std::exp(-dx * dx - 1.5 * dy * dy) * std::polar(1.0, 0.4 * c + 0.5 * dx));
        power[static_cast<std::size_t>(y * kLines + x)] += std::norm(maps.back());
      }
  for (std::size_t i = 0; i < maps.size(); ++i) maps[i] /= std::sqrt(power[i % power.size()]);
  return maps;
}
/// A disc with a hole, moved by `shift` voxels along y.
std::vector<cdouble> object(double shift) {
  std::vector<cdouble> image;
  for (int y = 0; y < kLines; ++y)
    for (int x = 0; x < kLines; ++x) {
      const double r = std::hypot(x - kLines / 2, y - kLines / 2 - shift),
                   hole = std::hypot(x - kLines / 2 - 3, y - kLines / 2 + 1 - shift);
      image.push_back((1 / (1 + std::exp(2 * (r - 8))) - 0.7 * std::exp(-hole * hole / 6)) * std::polar(1.0, 0.05 * x));
    }
  return image;
}
/// Every `step`-th line from `first` on, and those within `middle` of the centre.
std::vector<int> pattern(int step, int first, int middle = 0) {
  std::vector<int> lines;
  for (int y = 0; y < kLines; ++y)
    if (y % step == first % step || std::abs(y - kLines / 2) < middle) lines.push_back(y);
  return lines;
}
std::vector<Acquisition> frame(const std::vector<int>& lines, int repetition, const std::vector<cdouble>& image,
                               int coils = kCoils, int n_x = kLines) {
  const auto maps = sensitivities(coils);
  std::vector<cfloat> of_coils;
  for (std::size_t i = 0; i < maps.size(); ++i) of_coils.emplace_back(maps[i] * image[i % image.size()]);
  std::vector<Acquisition> out;
  for (const int y : lines) {
    std::vector<double> k;
    for (int x = 0; x < n_x; ++x) {
      k.push_back((x - n_x / 2) / double{kLines});
      k.push_back((y - kLines / 2) / double{kLines});
    }
    const auto values = direct_forward(k, of_coils, coils, {kLines, kLines});  // [sample, coil]
    std::vector<cfloat> data;
    for (int c = 0; c < coils; ++c)
      for (int x = 0; x < n_x; ++x) data.emplace_back(values[static_cast<std::size_t>(x * coils + c)]);
    out.push_back(readout(coils, std::move(data)));
    out.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
    out.back().head.idx.repetition = static_cast<std::uint16_t>(repetition);
  }
  set_flag(out.back(), kLastInSlice);
  return out;
}
void append(std::vector<Acquisition>& to, std::vector<Acquisition> more) {
  to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

/// Solves a x = b by elimination; a: [row, column], Hermitian and positive, so that pivots need not be looked for.
std::vector<cdouble> solved(std::vector<cdouble> a, std::vector<cdouble> b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = i + 1; j < n; ++j) {
      const cdouble factor = a[j * n + i] / a[i * n + i];
      for (std::size_t k = i; k < n; ++k) a[j * n + k] -= factor * a[i * n + k];
      b[j] -= factor * b[i];
    }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  return b;
}

/// The x that sum_c |F S_c x - d_c|_W^2 + previous |x - before|^2 + size |x|^2 is least for, where d are the lines of
/// `image`. Lines have all samples along x, so that each column is a problem of its own.
std::vector<cdouble> least_squares(const std::vector<int>& lines, const std::vector<cdouble>& image, double previous,
                                   const std::vector<cdouble>& before, double size) {
  constexpr std::size_t n = kLines;
  const auto maps = sensitivities();
  std::vector<cdouble> out(n * n), psf(2 * n);  // psf[n + y - y']
  for (std::size_t i = 0; i < 2 * n; ++i)
    for (const int k : lines)
      psf[i] += std::polar(1.0 / kLines, 2 * std::numbers::pi * (k - kLines / 2) * (double(i) - kLines) / kLines);
  const double held = before.empty() ? 0 : previous;
  for (std::size_t x = 0; x < n; ++x) {
    std::vector<cdouble> a(n * n), b(n);
    for (std::size_t y = 0; y < n; ++y)
      for (std::size_t other = 0; other < n; ++other) {
        for (std::size_t c = 0; c < kCoils; ++c)
          a[y * n + other] += std::conj(maps[(c * n + y) * n + x]) * psf[n + y - other] * maps[(c * n + other) * n + x];
        b[y] += a[y * n + other] * image[other * n + x];
      }
    for (std::size_t y = 0; y < n; ++y) {
      a[y * n + y] += held + size;
      if (!before.empty()) b[y] += held * before[y * n + x];
    }
    const auto found = solved(std::move(a), std::move(b));
    for (std::size_t y = 0; y < n; ++y) out[y * n + x] = found[y];
  }
  return out;
}

double error_of_magnitudes(const protocol::Image& image, const std::vector<cdouble>& truth) {
  std::vector<double> got, size;
  for (const auto v : pixels<cfloat>(image)) got.push_back(std::abs(cdouble(v)));
  for (const auto v : truth) size.push_back(std::abs(v));
  return nrmse(got, size);
}

using CgSenseOfEquationsTest = OnEachBackend;

// Frame after frame of a moving object, maps given: each is the solution of its own equations, drawn to the one before.
// 40 steps leave 1e-6 where the smallest eigenvalue is 0.07 and more; floats leave 1e-5 at most. Against the solution
// without the frame before, frames are off by 0.1.
TEST_P(CgSenseOfEquationsTest, SolvesEachFrameFromTheOneBefore) {
  std::vector<Acquisition> scan;
  std::vector<cdouble> before;
  std::vector<std::vector<cdouble>> expected;
  for (int f = 0; f < 5; ++f) {
    const auto lines = pattern(f == 3 ? 2 : 4, f);
    append(scan, frame(lines, f, object(0.7 * f)));
    expected.push_back(least_squares(lines, object(0.7 * f), 0.05, before, 0.02));
    before = expected.back();
  }
  RunOptions options = here();
  const auto maps = sensitivities();
  protocol::Image image;
  image.head.version = 1;
  image.head.data_type = 7;
  image.head.channels = kCoils;
  image.head.matrix_size[0] = image.head.matrix_size[1] = kLines;
  image.head.matrix_size[2] = 1;
  image.attributes = "<ismrmrdMeta><meta><name>role</name><value>coil_maps</value></meta></ismrmrdMeta>";
  image.pixels = protocol::Payload::take(std::vector<cfloat>(maps.begin(), maps.end()));
  options.images = {image};
  const auto out =
      run(lines_chain("iterations: 40, lambda: 0.05, tikhonov: 0.02", "method: given"), lines_header(), scan, options);
  ASSERT_EQ(out.images.size(), 5u);
  for (std::size_t f = 0; f < 5; ++f) EXPECT_LT(nrmse(pixels<cfloat>(out.images[f]), expected[f]), 2e-5) << f;
  EXPECT_GT(nrmse(least_squares(pattern(4, 4), object(2.8), 0, {}, 0.02), expected[4]), 0.05);
}

// There are neither maps nor reference lines: the maps of a mean of frames, each of which lacks most lines, are those
// of all lines, also where some lines came more often than others. Each frame is then as good as with maps of all
// lines.
TEST_P(CgSenseOfEquationsTest, MapsOfFramesThatTogetherHaveAllLines) {
  const auto truth = object(0);
  const std::string options = "lambda: 0, tikhonov: 0.002, iterations: 30, calibration: 16, block: 5, average: 4";
  std::vector<Acquisition> full;
  append(full, frame(pattern(1, 0), 0, truth));
  append(full, frame(pattern(2, 1), 1, truth));
  const auto of_all = run(lines_chain(options + ", refresh: 0"), lines_header(), full, here());
  ASSERT_EQ(of_all.images.size(), 2u);
  const double best = error_of_magnitudes(of_all.images[1], truth);
  EXPECT_LT(best, 0.08);
  for (const int middle : {0, 3}) {
    std::vector<Acquisition> scan;
    for (int f = 0; f < 9; ++f) append(scan, frame(pattern(2, f, middle), f, truth));
    const auto out = run(lines_chain(options + ", refresh: 2"), lines_header(), scan, here());
    ASSERT_EQ(out.images.size(), 9u);
    for (std::size_t f = 2; f < 9; ++f)
      EXPECT_LT(error_of_magnitudes(out.images[f], truth), best + 0.01) << middle << f;
  }
}

// The same bits however lines arrive; slices have frames of their own.
TEST_P(CgSenseOfEquationsTest, TheSameBitsHoweverLinesArrive) {
  std::vector<Acquisition> scan, alone;
  for (int f = 0; f < 4; ++f)
    for (int slice = 0; slice < 2; ++slice)
      for (auto& a : frame(pattern(2, f + slice), f, object(slice == 0 ? 0 : f))) {
        a.head.idx.slice = static_cast<std::uint16_t>(slice);
        if (slice == 0) alone.push_back(a);
        scan.push_back(std::move(a));
      }
  const std::string text = lines_chain("iterations: 5, average: 2, refresh: 1, calibration: 12");
  const auto whole = run(text, lines_header(), scan, here());
  ASSERT_EQ(whole.images.size(), 8u);
  const auto split = run(text, lines_header(), scan, {.backend = GetParam(), .split = [](std::size_t) { return 5u; }});
  const auto of_one = run(text, lines_header(), alone, here());
  ASSERT_EQ(split.images.size(), 8u);
  ASSERT_EQ(of_one.images.size(), 4u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(pixels<cfloat>(split.images[i]), pixels<cfloat>(whole.images[i])) << i;
  for (std::size_t f = 0; f < 4; ++f) EXPECT_EQ(pixels<cfloat>(of_one.images[f]), pixels<cfloat>(whole.images[2 * f]));
}

// Frames without signal are 0 and leave nothing that later ones suffer from. Their zeros count in the mean of lines, so
// that all lines have the same share again when the pattern has come round.
TEST_P(CgSenseOfEquationsTest, FramesWithoutSignal) {
  std::vector<Acquisition> scan;
  const auto truth = object(0);
  for (int f = 0; f < 8; ++f)
    append(scan, frame(pattern(2, f), f, f < 2 ? std::vector<cdouble>(kLines * kLines) : truth));
  const auto out = run(lines_chain("lambda: 0, tikhonov: 0.002, iterations: 30, calibration: 16, block: 5"),
                       lines_header(), scan, here());
  ASSERT_EQ(out.images.size(), 8u);
  EXPECT_EQ(pixels<cfloat>(out.images[1]), std::vector<cfloat>(kLines * kLines));
  for (const std::size_t f : {5u, 7u}) EXPECT_LT(error_of_magnitudes(out.images[f], truth), 0.08) << f;
}

// Encodings of other matrices and contrasts, by turns: each has the images that it has by itself, of data of any scale.
TEST_P(CgSenseOfEquationsTest, EncodingsAndContrastsByTurns) {
  const HeaderSpec first{.encoded = {kLines, kLines, 1}, .limits = step_limit(kLines)},
      second{.encoded = {kLines, kLines, 1},
             .recon = {kLines - 4, kLines, 1},
             .recon_fov = {kLines - 4.0, kLines, 1},
             .limits = step_limit(kLines)};
  const std::string text = lines_chain("iterations: 6, lambda: 0.1, average: 2, refresh: 2, calibration: 12");
  std::vector<Acquisition> scan;
  std::vector<std::vector<Acquisition>> alone(3);
  for (int f = 0; f < 4; ++f)
    for (std::uint16_t which = 0; which < 3; ++which)
      for (auto& a : frame(pattern(2, f + which), f, object(which))) {
        alone[which].push_back(a);
        a.head.encoding_space_ref = which / 2;
        a.head.idx.contrast = which % 2;
        scan.push_back(std::move(a));
      }
  const auto out = run(text, header({first, second}), scan, here());
  ASSERT_EQ(out.images.size(), 12u);
  for (std::size_t which = 0; which < 3; ++which) {
    const auto by_itself = run(text, header(which < 2 ? first : second), alone[which], here());
    ASSERT_EQ(by_itself.images.size(), 4u);
    for (std::size_t f = 0; f < 4; ++f)
      EXPECT_EQ(pixels<cfloat>(out.images[3 * f + which]), pixels<cfloat>(by_itself.images[f])) << which << f;
  }
}

TEST_P(CgSenseOfEquationsTest, DataOfAnyScale) {
  const std::string text = lines_chain("iterations: 8, average: 2, calibration: 12");
  const auto of = [&](double scale) {
    std::vector<Acquisition> scan;
    auto truth = object(0);
    for (auto& v : truth) v *= scale;
    for (int f = 0; f < 3; ++f) append(scan, frame(pattern(2, f), f, truth));
    return run(text, lines_header(), scan, here());
  };
  const auto expected = of(1);
  // Powers of two scale data and each sum without rounding.
  for (const double scale : {std::ldexp(1.0, -100), std::ldexp(1.0, 100)}) {
    const auto out = of(scale);
    ASSERT_EQ(out.images.size(), 3u);
    for (std::size_t f = 0; f < 3; ++f) {
      std::vector<cdouble> scaled;
      for (const auto v : pixels<cfloat>(expected.images[f])) scaled.push_back(cdouble(v) * scale);
      EXPECT_LT(nrmse(pixels<cfloat>(out.images[f]), scaled), 1e-4) << scale << f;
    }
  }
}

// One coil; frames without the middle of k-space, or with a sample that is no number, which later frames recover from.
TEST_P(CgSenseOfEquationsTest, OddFrames) {
  const auto truth = object(0);
  const std::string text = lines_chain("lambda: 0, tikhonov: 0.002, iterations: 30, calibration: 12, average: 2");
  std::vector<int> outer;
  for (int y = 0; y < kLines; ++y)
    if (std::abs(y - kLines / 2) > 8) outer.push_back(y);
  for (const bool spoilt : {false, true}) {
    std::vector<Acquisition> scan = frame(spoilt ? pattern(1, 0) : outer, 0, truth, 1);
    if (spoilt) {
      std::vector<cfloat> data(kLines, cfloat(std::numeric_limits<float>::quiet_NaN(), 1));
      scan[kLines / 2].data = protocol::Payload::take(data);
    }
    for (int f = 1; f < 4; ++f) append(scan, frame(pattern(1, 0), f, truth, 1));
    const auto out = run(text, lines_header(), scan, here());
    ASSERT_EQ(out.images.size(), 4u);
    for (const auto& image : out.images)
      for (const auto v : pixels<cfloat>(image)) ASSERT_TRUE(std::isfinite(std::abs(v)));
    for (const std::size_t f : {1u, 2u, 3u}) EXPECT_LT(error_of_magnitudes(out.images[f], truth), 0.02) << spoilt << f;
  }
}

TEST_P(CgSenseOfEquationsTest, RefusesWhatItCannotDo) {
  const auto truth = object(0);
  EXPECT_THAT(client_error([&] {
                run(lines_chain("", "method: espirit, sets: 2", "center"), lines_header(),
                    frame(pattern(1, 0), 0, truth), here());
              }),
              HasSubstr("two sets of maps"));
}

ECHOTRAIN_ON_BACKENDS(CgSenseOfEquationsTest);

}  // namespace
}  // namespace echotrain::testing
