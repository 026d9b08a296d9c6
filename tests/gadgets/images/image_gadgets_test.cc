// Gadgets between images and the client: volumes of slices, means, sizes, orientation, scale. Images are compared voxel
// by voxel by where they lie in the patient, or with sums in float64.
#include <cmath>

#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

using Vec = std::array<double, 3>;

/// The position and directions of an image.
struct Pose {
  Vec position{0, 0, 0}, x{1, 0, 0}, y{0, 1, 0}, z{0, 0, 1};
};

/// Floats of headers lie at any even address, so they are written and read one by one.
void lay(protocol::AcquisitionHeader& head, const Pose& pose) {
  for (std::size_t a = 0; a < 3; ++a) {
    head.position[a] = static_cast<float>(pose.position[a]);
    head.read_dir[a] = static_cast<float>(pose.x[a]);
    head.phase_dir[a] = static_cast<float>(pose.y[a]);
    head.slice_dir[a] = static_cast<float>(pose.z[a]);
  }
}

Acquisition line(std::vector<cfloat> data, int y, int z = 0, const Pose& pose = {}) {
  Acquisition out = readout(1, std::move(data));
  out.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
  out.head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(z);
  lay(out.head, pose);
  return out;
}

/// Random k-space of `n` (x, y, z) points, line by line.
std::vector<Acquisition> frame(const std::array<int, 3>& n, std::mt19937& random, const Pose& pose = {}) {
  std::vector<Acquisition> scan;
  for (int z = 0; z < n[2]; ++z)
    for (int y = 0; y < n[1]; ++y) scan.push_back(line(noise(static_cast<std::size_t>(n[0]), random), y, z, pose));
  return scan;
}

void append(std::vector<Acquisition>& scan, std::vector<Acquisition> more,
            const std::function<void(protocol::AcquisitionHeader&)>& mark) {
  for (Acquisition& readout : more) {
    mark(readout.head);
    scan.push_back(std::move(readout));
  }
}

std::string chain(const std::string& gadgets, const std::string& image = "component: complex",
                  const std::string& keys = "") {
  return yaml("  - cartesian_kspace\n  - fft\n" + gadgets + "  - image: {" + image + "}\n", keys);
}

std::string meta(const protocol::Image& image, const std::string& name) {
  const auto at = image.attributes.find("<name>" + name + "</name>");
  if (at == std::string::npos) return "(none)";
  const auto begin = image.attributes.find("<value>", at) + 7;
  return image.attributes.substr(begin, image.attributes.find('<', begin) - begin);
}

/// The position of voxel floor(n/2) and the directions of the axes, as an image's header gives them.
Pose pose_of(const protocol::ImageHeader& head) {
  Pose out;
  for (std::size_t a = 0; a < 3; ++a) {
    out.position[a] = head.position[a];
    out.x[a] = head.read_dir[a];
    out.y[a] = head.phase_dir[a];
    out.z[a] = head.slice_dir[a];
  }
  return out;
}

/// The place of voxel (i, j, k) of an image by its header alone, voxel floor(n/2) being at the position.
Vec place(const protocol::ImageHeader& head, int i, int j, int k) {
  const Pose pose = pose_of(head);
  const Vec axes[3] = {pose.x, pose.y, pose.z};
  const int index[3] = {i, j, k};
  Vec out = pose.position;
  for (int a = 0; a < 3; ++a) {
    const int n = head.matrix_size[a];
    for (std::size_t d = 0; d < 3; ++d) out[d] += axes[a][d] * (index[a] - n / 2) * head.field_of_view[a] / n;
  }
  return out;
}

/// Every voxel of `image` and its place, rounded to a hundredth of a millimetre, in the order of places.
std::map<std::array<long, 3>, cfloat> placed(const protocol::Image& image) {
  std::map<std::array<long, 3>, cfloat> out;
  const auto values = pixels<cfloat>(image);
  std::size_t v = 0;
  for (int k = 0; k < image.head.matrix_size[2]; ++k)
    for (int j = 0; j < image.head.matrix_size[1]; ++j)
      for (int i = 0; i < image.head.matrix_size[0]; ++i) {
        const Vec at = place(image.head, i, j, k);
        out[{std::lround(100 * at[0]), std::lround(100 * at[1]), std::lround(100 * at[2])}] = values[v++];
      }
  return out;
}

/// The largest difference of voxels that must lie at the same places (to 0.02 mm: places are rounded floats).
double displaced(const protocol::Image& a, const protocol::Image& b) {
  const auto first = placed(a), second = placed(b);
  EXPECT_EQ(first.size(), second.size());
  double largest = 0;
  for (const auto& [at, value] : first) {
    double nearest = 1e9;
    for (long dx : {-1, 0, 1})
      for (long dy : {-1, 0, 1})
        for (long dz : {-1, 0, 1})
          if (const auto it = second.find({at[0] + dx, at[1] + dy, at[2] + dz}); it != second.end())
            nearest = std::min<double>(nearest, std::abs(it->second - value));
    largest = std::max(largest, nearest);
  }
  return largest;
}

/// A tilted pose: the axes of `axes` turned by a tenth of a radian about (1, 1, 1).
Pose tilted(Pose pose) {
  const double angle = 0.1, c = std::cos(angle), s = std::sin(angle) / std::sqrt(3.0);
  for (Vec* v : {&pose.x, &pose.y, &pose.z}) {
    const Vec old = *v;
    const double along = (old[0] + old[1] + old[2]) / 3;
    for (std::size_t a = 0; a < 3; ++a)
      (*v)[a] = c * old[a] + s * (old[(a + 2) % 3] - old[(a + 1) % 3]) + (1 - c) * along;
  }
  return pose;
}

using OrientTest = OnEachBackend;

TEST_P(OrientTest, EveryVoxelKeepsItsPlaceAndViewersShowItUpright) {
  const Vec l{1, 0, 0}, p{0, 1, 0}, s{0, 0, 1};
  const auto minus = [](Vec v) { return Vec{-v[0], -v[1], -v[2]}; };
  struct Plane {
    Vec a, b, right, down;
  };
  const std::vector<Plane> planes = {{l, p, l, p}, {l, s, l, minus(s)}, {p, s, p, minus(s)}};
  std::mt19937 random(11);
  for (const Plane& plane : planes)
    for (int variant = 0; variant < 16; ++variant)
      for (const std::array<int, 3>& n : {std::array{6, 5, 1}, std::array{5, 8, 4}}) {
        Pose pose{{10, -20, 35}, plane.a, plane.b, {}};
        if (variant & 1) std::swap(pose.x, pose.y);
        if (variant & 2) pose.x = minus(pose.x);
        if (variant & 4) pose.y = minus(pose.y);
        for (std::size_t a = 0; a < 3; ++a) {
          const std::size_t b = (a + 1) % 3, c = (a + 2) % 3;
          pose.z[a] = pose.x[b] * pose.y[c] - pose.x[c] * pose.y[b];
        }
        if (variant & 8) pose.z = minus(pose.z);
        pose = tilted(pose);
        SCOPED_TRACE(fmt::format("variant {} of {} x {} x {}", variant, n[0], n[1], n[2]));
        HeaderSpec spec{.encoded = n, .encoded_fov = {12.0, 15.0, n[2] * 2.5}};
        const auto scan = frame(n, random, pose);
        const auto before = run(chain(""), header(spec), scan, here()),
                   after = run(chain("  - orient\n"), header(spec), scan, here());
        ASSERT_EQ(after.images.size(), 1u);
        const auto& image = after.images[0];
        EXPECT_EQ(displaced(before.images.at(0), image), 0);  // voxels are moved, never changed
        const Pose turned = pose_of(image.head);
        const Vec &x = turned.x, &y = turned.y, &z = turned.z;
        double right = 0, down = 0, hand = 0;
        for (std::size_t a = 0; a < 3; ++a) {
          right += x[a] * plane.right[a];
          down += y[a] * plane.down[a];
          hand += z[a] * (x[(a + 1) % 3] * y[(a + 2) % 3] - x[(a + 2) % 3] * y[(a + 1) % 3]);
        }
        EXPECT_GT(right, 0.98);
        EXPECT_GT(down, 0.98);
        EXPECT_NEAR(hand, 1, 1e-5);
        EXPECT_EQ(image.head.matrix_size[0] * image.head.matrix_size[1], n[0] * n[1]);
      }
}

TEST_P(OrientTest, WithoutDirectionsNothingIsTurned) {
  std::mt19937 random(12);
  const auto scan = frame({4, 4, 1}, random, {{0, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}});
  const auto out = run(chain("  - orient\n"), header({.encoded = {4, 4, 1}}), scan, here());
  EXPECT_EQ(out.warned("not turned"), 1);
  EXPECT_EQ(pixels<cfloat>(out.images.at(0)),
            pixels<cfloat>(run(chain(""), header({.encoded = {4, 4, 1}}), scan, here()).images.at(0)));
}

ECHOTRAIN_ON_BACKENDS(OrientTest);

using StackSlicesTest = OnEachBackend;

struct MultiSlice {
  std::vector<Acquisition> scan;
  protocol::Header measurement;
};

/// Slices whose numbers are not in the order of their positions, 7 mm apart along a tilted normal.
MultiSlice multi_slice(const std::vector<int>& order, int repetitions, double extra_gap = 0, bool limits = true) {
  std::mt19937 random(21);
  const Pose axes = tilted({});
  HeaderSpec spec{.encoded = {6, 4, 1}, .encoded_fov = {12, 12, 5}};
  const int count = static_cast<int>(order.size());
  spec.limits =
      step_limit(4) + (limits ? limit("slice", 0, count - 1, 0) : "") + limit("repetition", 0, repetitions - 1, 0);
  MultiSlice out;
  out.measurement = header(spec);
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (int slice = 0; slice < count; ++slice) {
      Pose pose = axes;
      const double offset =
          7.0 * order[static_cast<std::size_t>(slice)] + (order[static_cast<std::size_t>(slice)] == 2 ? extra_gap : 0);
      for (std::size_t a = 0; a < 3; ++a) pose.position[a] = Vec{3, 4, 5}[a] + offset * pose.z[a];
      append(out.scan, frame({6, 4, 1}, random, pose), [&](auto& head) {
        head.idx.slice = static_cast<std::uint16_t>(slice);
        head.idx.repetition = static_cast<std::uint16_t>(repetition);
      });
    }
  return out;
}

TEST_P(StackSlicesTest, SlicesLieWhereTheyWereMeasured) {
  const std::vector<int> order = {2, 0, 3, 1, 4};  // places of slices 0 .. 4
  const auto [scan, measurement] = multi_slice(order, 2);
  const auto single = run(chain(""), measurement, scan, here());
  const auto out = run(chain("  - stack_slices\n"), measurement, scan, here());
  ASSERT_EQ(single.images.size(), 10u);
  ASSERT_EQ(out.images.size(), 2u);
  for (std::size_t r = 0; r < 2; ++r) {
    const auto& volume = out.images[r];
    EXPECT_EQ(+volume.head.matrix_size[2], 5);
    EXPECT_NEAR(+volume.head.field_of_view[2], 35, 1e-4);
    EXPECT_EQ(+volume.head.repetition, r);
    EXPECT_EQ(+volume.head.slice, 0);
    EXPECT_EQ(meta(volume, "slices"), "5");
    EXPECT_EQ(meta(volume, "missing_lines"), "0");
    EXPECT_EQ(meta(volume, "echotrain_readouts"), "20");
    const auto values = pixels<cfloat>(volume);
    for (std::size_t s = 0; s < 5; ++s) {
      const auto& slice = single.images[5 * r + s];
      const auto z = static_cast<std::size_t>(order[s]);
      const std::vector<cfloat> plane(values.begin() + static_cast<std::ptrdiff_t>(24 * z),
                                      values.begin() + static_cast<std::ptrdiff_t>(24 * (z + 1)));
      EXPECT_EQ(plane, pixels<cfloat>(slice));
      for (const auto& [i, j] : {std::pair{0, 0}, {5, 3}}) {
        const Vec here_at = place(volume.head, i, j, order[s]), there = place(slice.head, i, j, 0);
        for (std::size_t a = 0; a < 3; ++a) EXPECT_NEAR(here_at[a], there[a], 1e-4);
      }
    }
  }
}

TEST_P(StackSlicesTest, WhatIsIncompleteOrCannotBeStackedIsSaid) {
  auto [scan, measurement] = multi_slice({0, 1, 2}, 1);
  scan.resize(8);  // the last slice never came
  const auto two = run(chain("  - stack_slices\n"), measurement, scan, here());
  ASSERT_EQ(two.images.size(), 1u);
  EXPECT_EQ(+two.images[0].head.matrix_size[2], 2);
  EXPECT_EQ(meta(two.images[0], "missing_slices"), "1");
  EXPECT_EQ(two.warned("2 of the 3 slices"), 1);

  const auto gap = multi_slice({0, 1, 2}, 1, 3);
  const auto uneven = run(chain("  - stack_slices\n"), gap.measurement, gap.scan, here());
  EXPECT_EQ(uneven.warned("not evenly spaced"), 1);
  EXPECT_NEAR(+uneven.images.at(0).head.field_of_view[2], 25.5, 1e-4);

  auto turned = multi_slice({0, 1, 2}, 1);
  for (std::size_t i = 4; i < 8; ++i) lay(turned.scan[i].head, {});
  const auto single = run(chain("  - stack_slices\n"), turned.measurement, turned.scan, here());
  EXPECT_EQ(single.images.size(), 3u);
  EXPECT_EQ(single.warned("not parallel"), 1);

  const auto unannounced = multi_slice({0, 1, 2}, 2, 0, false);
  EXPECT_EQ(run(chain("  - stack_slices\n"), unannounced.measurement, unannounced.scan, here()).images.size(), 2u);
  RunOptions broken = here();
  broken.end = End::truncated;
  EXPECT_EQ(run(chain("  - stack_slices\n"), unannounced.measurement, unannounced.scan, broken).images.size(), 0u);
}

TEST_P(StackSlicesTest, VolumesPassAsTheyAre) {
  std::mt19937 random(22);
  const auto measurement = header({.encoded = {6, 4, 3}});
  const auto scan = frame({6, 4, 3}, random);
  EXPECT_EQ(pixels<cfloat>(run(chain("  - stack_slices\n"), measurement, scan, here()).images.at(0)),
            pixels<cfloat>(run(chain(""), measurement, scan, here()).images.at(0)));
}

ECHOTRAIN_ON_BACKENDS(StackSlicesTest);

using ResizeTest = OnEachBackend;

/// sum_k exp(2 pi i k r / m) 1/n sum_s image[s] exp(-2 pi i k s / n) along an axis, k of both within both, centres at
/// floor(n/2), then the middle `kept`: in float64, one axis after the other.
std::vector<cdouble> resized(std::vector<cdouble> image, std::array<int, 3> n, const std::array<int, 3>& m,
                             const std::array<int, 3>& kept) {
  std::int64_t inner = 1;
  for (std::size_t a = 0; a < 3; ++a) {
    const std::int64_t outer = static_cast<std::int64_t>(image.size()) / (inner * n[a]);
    std::vector<cdouble> to(static_cast<std::size_t>(outer * kept[a] * inner));
    for (int r = 0; r < kept[a]; ++r)
      for (int s = 0; s < n[a]; ++s) {
        cdouble weight = 0;
        for (int k = -(n[a] / 2); k < n[a] - n[a] / 2; ++k) {
          if (k < -(m[a] / 2) || k >= m[a] - m[a] / 2) continue;
          const double turns =
              static_cast<double>(k) * (r - kept[a] / 2) / m[a] - static_cast<double>(k) * (s - n[a] / 2) / n[a];
          weight += std::polar(1.0 / n[a], 2 * std::numbers::pi * turns);
        }
        for (std::int64_t o = 0; o < outer; ++o)
          for (std::int64_t i = 0; i < inner; ++i)
            to[static_cast<std::size_t>((o * kept[a] + r) * inner + i)] +=
                weight * image[static_cast<std::size_t>((o * n[a] + s) * inner + i)];
      }
    image = std::move(to);
    n[a] = kept[a];
    inner *= kept[a];
  }
  return image;
}

TEST_P(ResizeTest, ZeroFillingAndCroppingOfAnyParity) {
  struct Case {
    std::array<int, 3> n, m, kept;
  };
  const std::vector<Case> cases = {{{12, 10, 1}, {24, 20, 1}, {24, 20, 1}}, {{12, 10, 1}, {25, 17, 1}, {20, 16, 1}},
                                   {{13, 11, 1}, {20, 16, 1}, {20, 15, 1}}, {{12, 11, 1}, {12, 11, 1}, {7, 8, 1}},
                                   {{12, 10, 1}, {8, 7, 1}, {8, 7, 1}},     {{8, 6, 5}, {12, 9, 8}, {10, 9, 7}},
                                   {{8, 6, 4}, {8, 6, 4}, {4, 3, 2}}};
  std::mt19937 random(31);
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{}x{}x{} to {}x{}x{}, cut to {}x{}x{}", c.n[0], c.n[1], c.n[2], c.m[0], c.m[1], c.m[2],
                             c.kept[0], c.kept[1], c.kept[2]));
    const auto measurement = header({.encoded = c.n, .encoded_fov = {24, 30, 10}});
    const auto scan = frame(c.n, random);
    const auto plain = pixels<cfloat>(run(chain(""), measurement, scan, here()).images.at(0));
    const auto out =
        run(chain(fmt::format("  - resize: {{matrix_x: {}, matrix_y: {}, matrix_z: {}, crop_x: {}, crop_y: {}, "
                              "crop_z: {}}}\n",
                              c.m[0], c.m[1], c.m[2], c.kept[0], c.kept[1], c.kept[2])),
            measurement, scan, here());
    const auto& image = out.images.at(0);
    const double fov[3] = {24, 30, 10};
    for (std::size_t a = 0; a < 3; ++a) {
      EXPECT_EQ(+image.head.matrix_size[a], c.kept[a]);
      EXPECT_NEAR(+image.head.field_of_view[a], fov[a] * c.kept[a] / c.m[a], 1e-4);
      EXPECT_EQ(+image.head.position[a], 0);
    }
    const std::vector<cdouble> from(plain.begin(), plain.end());
    EXPECT_LT(nrmse(pixels<cfloat>(image), resized(from, c.n, c.m, c.kept)), 2e-6);
  }
}

TEST_P(ResizeTest, ASliceHasNoDepthToInterpolate) {
  std::mt19937 random(32);
  const auto measurement = header({.encoded = {4, 4, 1}});
  EXPECT_NE(client_error([&] {
              run(chain("  - resize: {matrix_z: 4}\n"), measurement, frame({4, 4, 1}, random), here());
            }).find("stack_slices"),
            std::string::npos);
  EXPECT_NE(client_error([&] {
              run(chain("  - resize: {crop_x: 5}\n"), measurement, frame({4, 4, 1}, random), here());
            }).find("5 voxels out of 4 along x"),
            std::string::npos);
}

ECHOTRAIN_ON_BACKENDS(ResizeTest);

using AverageTest = OnEachBackend;

TEST_P(AverageTest, ImagesCountByTheirReadouts) {
  // Two averages, of 6 and 3 lines of the same 6-line frame: a frame of its own each.
  std::mt19937 random(41);
  HeaderSpec spec{.encoded = {5, 6, 1}};
  spec.limits = step_limit(6) + limit("average", 0, 1, 0);
  std::vector<Acquisition> scan = frame({5, 6, 1}, random), second = frame({5, 6, 1}, random);
  second.resize(3);
  append(scan, second, [](auto& head) { head.idx.average = 1; });
  set_flag(scan[5], 6);  // LAST_IN_AVERAGE
  set_flag(scan[8], 6);
  const std::string keys = "frame: {until: last_in_average}\n";
  const auto each = run(chain("", "component: complex", keys), header(spec), scan, here());
  ASSERT_EQ(each.images.size(), 2u);
  const auto a = pixels<cfloat>(each.images[0]), b = pixels<cfloat>(each.images[1]);
  const auto mean = run(chain("  - average\n", "component: complex", keys), header(spec), scan, here());
  ASSERT_EQ(mean.images.size(), 1u);
  std::vector<cdouble> want;
  for (std::size_t i = 0; i < a.size(); ++i) want.push_back((6.0 * cdouble(a[i]) + 3.0 * cdouble(b[i])) / 9.0);
  EXPECT_LT(nrmse(pixels<cfloat>(mean.images[0]), want), 1e-6);
  EXPECT_EQ(meta(mean.images[0], "averages"), "2");
  EXPECT_EQ(meta(mean.images[0], "echotrain_readouts"), "9");

  const auto running =
      run(chain("  - average: {running: true}\n", "component: complex", keys), header(spec), scan, here());
  ASSERT_EQ(running.images.size(), 2u);
  EXPECT_LT(nrmse(pixels<cfloat>(running.images[0]), a), 1e-6);
  EXPECT_LT(nrmse(pixels<cfloat>(running.images[1]), want), 1e-6);
}

TEST_P(AverageTest, ThoseThatTheHeaderAnnouncesMakeOneImage) {
  // The counter begins at 1: two averages are announced, and after them others begin a new image.
  std::mt19937 random(44);
  HeaderSpec spec{.encoded = {4, 4, 1}};
  spec.limits = step_limit(4) + limit("average", 1, 2, 1);
  std::vector<Acquisition> scan;
  for (const int average : {1, 2, 1, 2}) {
    append(scan, frame({4, 4, 1}, random), [&](auto& head) { head.idx.average = static_cast<std::uint16_t>(average); });
    set_flag(scan.back(), 6);  // LAST_IN_AVERAGE
  }
  const auto mean = run(chain("  - average\n", "component: complex", "frame: {until: last_in_average}\n"), header(spec),
                        scan, here());
  ASSERT_EQ(mean.images.size(), 2u);
  for (const auto& image : mean.images) EXPECT_EQ(meta(image, "averages"), "2");
}

TEST_P(AverageTest, OnlyTheNamedCounterIsAveragedOver) {
  std::mt19937 random(42);
  HeaderSpec spec{.encoded = {4, 4, 1}};
  spec.limits = step_limit(4) + limit("repetition", 0, 2, 0) + limit("contrast", 0, 1, 0);
  std::vector<Acquisition> scan;
  for (int repetition = 0; repetition < 3; ++repetition)
    for (int contrast = 0; contrast < 2; ++contrast)
      if (!(repetition == 2 && contrast == 1))  // never came, so the mean of two leaves at the end of the scan
        append(scan, frame({4, 4, 1}, random), [&](auto& head) {
          head.idx.repetition = static_cast<std::uint16_t>(repetition);
          head.idx.contrast = static_cast<std::uint16_t>(contrast);
        });
  set_flag(scan.back(), kLastInSlice);
  const auto each = run(chain(""), header(spec), scan, here()),
             mean = run(chain("  - average: {over: repetition}\n"), header(spec), scan, here());
  ASSERT_EQ(each.images.size(), 5u);
  ASSERT_EQ(mean.images.size(), 2u);
  for (const auto& image : mean.images) {
    std::vector<cdouble> want(16);
    int count = 0;
    for (const auto& one : each.images) {
      if (one.head.contrast != image.head.contrast) continue;
      ++count;
      const auto values = pixels<cfloat>(one);
      for (std::size_t i = 0; i < 16; ++i) want[i] += cdouble(values[i]);
    }
    for (auto& value : want) value /= count;
    EXPECT_LT(nrmse(pixels<cfloat>(image), want), 1e-6);
  }
  RunOptions broken = here();
  broken.end = End::truncated;
  EXPECT_EQ(run(chain("  - average: {over: repetition}\n"), header(spec), scan, broken).images.size(), 1u);
}

ECHOTRAIN_ON_BACKENDS(AverageTest);

using ScaleTest = OnEachBackend;

TEST_P(ScaleTest, TheFirstImageDecidesForTheSeries) {
  std::mt19937 random(51);
  HeaderSpec spec{.encoded = {16, 16, 1}};
  spec.limits = step_limit(16) + limit("repetition", 0, 2, 0);
  std::vector<Acquisition> scan;
  for (int repetition = 0; repetition < 3; ++repetition) {
    auto more = frame({16, 16, 1}, random);
    // The first image is zero and does not set the scale; the third is twenty times as bright as the second.
    for (auto& readout : more) {
      std::vector<cfloat> data(16);
      readout.data.copy_to(data.data());
      for (auto& v : data) v *= std::array{0.0f, 1.0f, 20.0f}[static_cast<std::size_t>(repetition)];
      readout.data = protocol::Payload::take(std::move(data));
    }
    append(scan, std::move(more), [&](auto& head) { head.idx.repetition = static_cast<std::uint16_t>(repetition); });
  }
  const auto each = run(chain(""), header(spec), scan, here());
  std::vector<double> magnitudes;
  for (const cfloat v : pixels<cfloat>(each.images.at(1))) magnitudes.push_back(std::abs(cdouble(v)));
  std::sort(magnitudes.begin(), magnitudes.end());
  const double factor = 1000 / magnitudes[static_cast<std::size_t>(0.9 * 255)];

  const std::string scale = "  - scale: {percentile: 90, to: 1000}\n";
  const auto out = run(chain(scale), header(spec), scan, here());
  ASSERT_EQ(out.images.size(), 3u);
  for (std::size_t i = 1; i < 3; ++i) {
    std::vector<cdouble> want;
    for (const cfloat v : pixels<cfloat>(each.images[i])) want.push_back(factor * cdouble(v));
    EXPECT_LT(nrmse(pixels<cfloat>(out.images[i]), want), 1e-6);
    EXPECT_NEAR(std::stod(meta(out.images[i], "scale_factor")), factor, 1e-5 * factor);
    EXPECT_EQ(meta(out.images[i], "WindowCenter"), "500");
    EXPECT_EQ(meta(out.images[i], "WindowWidth"), "1000");
  }
  EXPECT_EQ(meta(out.images[0], "scale_factor"), "(none)");

  const auto integers =
      run(chain("  - scale: {percentile: 90, to: 60000}\n", "type: uint16"), header(spec), scan, here());
  const auto bright = pixels<std::uint16_t>(integers.images.at(2));
  EXPECT_EQ(*std::max_element(bright.begin(), bright.end()), 65535);  // cut, not wrapped
}

TEST_P(ScaleTest, MagnitudeAndPhaseAreTwoSeries) {
  std::mt19937 random(52);
  const auto measurement = header(std::vector<HeaderSpec>{{.encoded = {4, 4, 1}}, {.encoded = {4, 4, 1}}});
  auto scan = frame({4, 4, 1}, random);
  append(scan, frame({4, 4, 1}, random), [](auto& head) { head.encoding_space_ref = 1; });
  const auto complex = run(chain(""), measurement, scan, here());
  const auto out = run(chain("", "component: magnitude_and_phase"), measurement, scan, here());
  ASSERT_EQ(out.images.size(), 4u);
  const std::vector<int> series = {1, 3, 2, 4}, types = {1, 2, 1, 2};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(+out.images[i].head.image_series_index, series[i]);
    EXPECT_EQ(+out.images[i].head.image_type, types[i]);
    EXPECT_EQ(+out.images[i].head.image_index, 1);
    const auto values = pixels<float>(out.images[i]);
    const auto whole = pixels<cfloat>(complex.images.at(i / 2));
    for (std::size_t v = 0; v < values.size(); ++v)
      EXPECT_NEAR(values[v], i % 2 == 0 ? std::abs(whole[v]) : std::arg(whole[v]), 1e-5);
  }
}

ECHOTRAIN_ON_BACKENDS(ScaleTest);

}  // namespace
}  // namespace echotrain::testing
