// Stacks of stars and spirals: partitions become planes, and the image is the object.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/gadgets/blob.h"
#include "tests/support/sources.h"

namespace echotrain::testing {
namespace {

std::string gridding(const std::string& partition_fft, const std::string& method = "ramp") {
  return yaml("  - partition_fft: {" + partition_fft + "}\n  - density_compensation: {method: " + method +
              "}\n  - gridding\n  - fft\n  - deapodization\n  - coil_combine: {method: none}\n"
              "  - image: {component: complex}\n");
}

std::string meta_of(const protocol::Image& image, const std::string& name) {
  const auto at = image.attributes.find("<name>" + name + "</name>");
  if (at == std::string::npos) return "(none)";
  const auto begin = image.attributes.find("<value>", at) + 7;
  return image.attributes.substr(begin, image.attributes.find('<', begin) - begin);
}

/// Limits of both encoding steps.
std::string limits(int spokes, int partitions) {
  return step_limit(spokes) + limit("kspace_encoding_step_2", 0, partitions - 1, partitions / 2);
}

/// The components of a position that are sent, first to last.
enum class Send { xy, xyz, xy_weight };

/// A stack of `plane` (2D) through blobs (3D, one per coil), partitions of a spoke after each other.
std::vector<Acquisition> stack(const Path& plane, const std::vector<Blob>& coils, int partitions,
                               Send send = Send::xyz) {
  std::vector<Acquisition> scan;
  for (std::size_t i = 0; i < plane.k.size(); ++i)
    for (int p = 0; p < partitions; ++p) {
      const double kz = static_cast<double>(p - partitions / 2) / partitions;
      const std::size_t samples = plane.k[i].size() / 2;
      std::vector<cfloat> data;
      std::vector<float> trajectory;
      for (const Blob& blob : coils)
        for (std::size_t s = 0; s < samples; ++s) {
          const double k[3] = {plane.k[i][2 * s], plane.k[i][2 * s + 1], kz};
          data.emplace_back(blob.kspace(k));
        }
      for (std::size_t s = 0; s < samples; ++s) {
        for (std::size_t a = 0; a < 2; ++a) trajectory.push_back(static_cast<float>(plane.k[i][2 * s + a]));
        if (send == Send::xyz) trajectory.push_back(static_cast<float>(kz));
        if (send == Send::xy_weight) trajectory.push_back(static_cast<float>(plane.weights[i][s]));
      }
      scan.push_back(readout(static_cast<int>(coils.size()), std::move(data), std::move(trajectory)));
      scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i);
      scan.back().head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(p);
    }
  return scan;
}

// Outside a blob's 5 sigma nothing is left above 4e-6: none wraps in z, and no k-space lies beyond the sampled one.
std::vector<Blob> blobs() { return {{3, {0, 0, 0}, 1.8}, {3, {3, -2, 1}, 1.8}, {3, {-1.5, 4, -1.3}, 1.8}}; }

struct Z {
  int encoded, recon;
  double encoded_fov, recon_fov;
  const char* what;
};
constexpr Z kPlain = {20, 20, 20, 20, "plain"};

protocol::Header measurement(const Z& z, int spokes, const std::string& trajectory = "radial", int n = 32) {
  HeaderSpec spec{.encoded = {n, n, z.encoded}, .recon = {n, n, z.recon}, .trajectory = trajectory};
  spec.encoded_fov = {static_cast<double>(n), static_cast<double>(n), z.encoded_fov};
  spec.recon_fov = {static_cast<double>(n), static_cast<double>(n), z.recon_fov};
  spec.limits = limits(spokes, z.encoded);
  return header(spec);
}

/// The largest error of any coil, with the encoded voxel as the unit of length.
double largest_volume_error(const protocol::Image& image, const std::vector<Blob>& coils, const Z& z, int n = 32) {
  const double voxel = (z.recon_fov / z.recon) / (z.encoded_fov / z.encoded);
  const auto values = pixels<cfloat>(image);
  EXPECT_EQ(values.size(), coils.size() * static_cast<std::size_t>(z.recon * n * n));
  double largest = 0;
  auto value = values.begin();
  for (const Blob& blob : coils)
    for (int p = 0; p < z.recon; ++p)
      for (int y = 0; y < n; ++y)
        for (int x = 0; x < n; ++x)
          largest =
              std::max(largest, std::abs(cdouble(*value++) - blob.at(x - n / 2, y - n / 2, (p - z.recon / 2) * voxel)));
  return largest;
}

/// The output of partition_fft: a batch per entry.
struct Given {
  std::vector<protocol::AcquisitionHeader> heads;
  std::vector<cfloat> data;  // [spoke, coil * planes, sample]
  std::vector<float> trajectory;
  numerics::Shape shape;
  std::int64_t components = 0;
  bool first = false, last = false;
};
std::vector<Given> given(const protocol::Header& h, const std::vector<Acquisition>& scan, RunOptions options,
                         const std::string& parameters = "", Outcome* outcome = nullptr) {
  std::vector<Given> out;
  options.tap = "partition_fft";
  options.on_item = [&](const Item& item, numerics::Context& compute) {
    const auto& readouts = std::get<PlaneReadouts>(item);
    if (readouts.kind != protocol::ReadoutKind::imaging) return;
    Given batch{readouts.heads, {}, {}, {}, 0, readouts.first, readouts.last};
    if (readouts.data) batch.data = elements(compute, readouts.data);
    batch.shape = readouts.data.shape();
    if (readouts.trajectory) {
      batch.components = readouts.trajectory.shape()[2];
      batch.trajectory.assign(readouts.trajectory.data(), readouts.trajectory.data() + readouts.trajectory.size());
    }
    EXPECT_EQ(readouts.planes, h.encodings[0].recon.matrix[2]);
    out.push_back(std::move(batch));
  };
  // Data without a trajectory cannot be gridded, so the gadget after this one makes a trajectory.
  const auto result = run(yaml("  - partition_fft: {" + parameters +
                               "}\n  - radial_trajectory\n  - density_compensation\n  - gridding\n  - fft\n"
                               "  - deapodization\n  - image\n"),
                          h, scan, options);
  if (outcome != nullptr) *outcome = result;
  return out;
}

/// All batches of a frame as one: a frame may end with an empty one.
Given together(const std::vector<Given>& batches) {
  Given out;
  for (const Given& batch : batches) {
    out.heads.insert(out.heads.end(), batch.heads.begin(), batch.heads.end());
    out.data.insert(out.data.end(), batch.data.begin(), batch.data.end());
    out.trajectory.insert(out.trajectory.end(), batch.trajectory.begin(), batch.trajectory.end());
    if (batch.heads.empty()) continue;
    out.shape = {static_cast<std::int64_t>(out.heads.size()), batch.shape[1], batch.shape[2]};
    out.components = batch.components;
  }
  EXPECT_TRUE(!batches.empty() && batches.front().first && batches.back().last);
  return out;
}

/// (1/N) sum_z d(z) exp(+-2 pi i (z - floor(N/2)) (p - floor(P/2)) / padded) by definition; d: [partition][sample].
std::vector<cdouble> planes(const std::vector<std::vector<cdouble>>& d, int count, int padded, double sign = 1) {
  const int n = static_cast<int>(d.size());
  std::vector<cdouble> out;
  for (int p = 0; p < count; ++p)
    for (std::size_t s = 0; s < d[0].size(); ++s) {
      cdouble sum = 0;
      for (int z = 0; z < n; ++z)
        sum += d[static_cast<std::size_t>(z)][s] *
               std::polar(1.0 / n, sign * 2 * std::numbers::pi * (z - n / 2) * (p - count / 2) / padded);
      out.push_back(sum);
    }
  return out;
}

/// Random readouts of a stack: one coil, partitions after each other; positions on the x axis.
std::vector<Acquisition> random_stack(int spokes, int partitions, int samples, std::mt19937& random) {
  std::vector<Acquisition> scan;
  for (int i = 0; i < spokes; ++i)
    for (int p = 0; p < partitions; ++p) {
      std::vector<float> trajectory;
      for (int s = 0; s < samples; ++s) {
        trajectory.push_back(static_cast<float>(s - samples / 2) / static_cast<float>(samples));
        trajectory.push_back(0);
      }
      scan.push_back(readout(1, noise(static_cast<std::size_t>(samples), random), trajectory));
      scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i);
      scan.back().head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(p);
    }
  return scan;
}
std::vector<cdouble> samples_of(const Acquisition& readout) {
  std::vector<cfloat> values(readout.data.bytes.size() / sizeof(cfloat));
  readout.data.copy_to(values.data());
  return {values.begin(), values.end()};
}

// Shells of dk = 1/96 stand for the disc to 7e-4 (see blob_test), gridding adds as much.
constexpr double kTolerance = 2e-3;
// float32 transforms of a few points.
constexpr double kExact = 1e-6;

using PartitionFftTest = OnEachBackend;

TEST_P(PartitionFftTest, ImagesAreTheObjectInEveryGeometryOfZ) {
  constexpr int kSpokes = 101;
  const std::vector<Z> cases = {kPlain,
                                {21, 21, 21, 21, "odd"},
                                {20, 30, 20, 20, "zero-filled to thinner slices"},
                                {19, 28, 19, 19, "zero-filled, odd to even"},
                                {20, 16, 20, 16, "smaller field of view"},
                                {24, 15, 24, 15, "smaller field of view, odd"},
                                {20, 27, 20, 18, "smaller field of view in thinner slices"}};
  for (const Z& z : cases) {
    SCOPED_TRACE(z.what);
    const auto out = run(gridding(""), measurement(z, kSpokes), stack(radial(kSpokes, 96), blobs(), z.encoded), here());
    ASSERT_EQ(out.images.size(), 1u);
    EXPECT_EQ(+out.images[0].head.matrix_size[2], z.recon);
    EXPECT_EQ(+out.images[0].head.channels, 3);
    EXPECT_LT(largest_volume_error(out.images[0], blobs(), z), kTolerance);
    EXPECT_EQ(meta_of(out.images[0], "missing_partitions"), "0");
    EXPECT_EQ(out.warned(""), 0);
  }
}

TEST_P(PartitionFftTest, StackOfSpiralsWithWeightsFromTheData) {
  const Path plane = spiral(12, 700, 5);
  const auto out = run(gridding("third_component: weight", "from_data"), measurement(kPlain, 12, "spiral"),
                       stack(plane, blobs(), 20, Send::xy_weight), here());
  ASSERT_EQ(out.images.size(), 1u);
  EXPECT_LT(largest_volume_error(out.images[0], blobs(), kPlain), kTolerance);
}

TEST_P(PartitionFftTest, PlanesAreTheDirectSum) {
  std::mt19937 random(1);
  for (const auto& [encoded, recon, fov, direction] :
       {std::tuple{6, 6, 6.0, 1.0}, {7, 7, 7.0, 1.0}, {6, 9, 6.0, -1.0}, {7, 4, 4.0, 1.0}}) {
    const Z z{encoded, recon, static_cast<double>(encoded), fov, ""};
    const auto scan = random_stack(3, encoded, 16, random);
    const int padded = static_cast<int>(std::lround(recon * encoded / fov));
    const Given all =
        together(given(measurement(z, 3), scan, here(), direction > 0 ? "direction: inverse" : "direction: forward"));
    EXPECT_EQ(all.shape, (numerics::Shape{3, recon, 16}));
    std::vector<cdouble> truth;
    for (int i = 0; i < 3; ++i) {
      std::vector<std::vector<cdouble>> d;
      for (int p = 0; p < encoded; ++p) d.push_back(samples_of(scan[static_cast<std::size_t>(i * encoded + p)]));
      const auto one = planes(d, recon, padded, direction);
      truth.insert(truth.end(), one.begin(), one.end());
    }
    EXPECT_LT(nrmse(all.data, truth), kExact);
  }
}

TEST_P(PartitionFftTest, OrderOfArrivalDoesNotMatter) {
  std::mt19937 random(2);
  const Z z{5, 5, 5, 5, ""};
  auto scan = random_stack(9, 5, 12, random);
  const Given in_order = together(given(measurement(z, 9), scan, here()));
  ASSERT_EQ(in_order.heads.size(), 9u);
  std::shuffle(scan.begin(), scan.end(), random);
  const Given shuffled = together(given(measurement(z, 9), scan, here()));
  ASSERT_EQ(shuffled.heads.size(), 9u);
  for (std::size_t i = 0; i < 9; ++i) {
    const auto of = static_cast<std::ptrdiff_t>(shuffled.heads[i].idx.kspace_encode_step_1), size = std::ptrdiff_t{60};
    EXPECT_EQ(+shuffled.heads[i].idx.kspace_encode_step_2, 0);
    const auto mine = shuffled.data.begin() + static_cast<std::ptrdiff_t>(i) * size;
    EXPECT_TRUE(std::equal(mine, mine + size, in_order.data.begin() + of * size)) << of;
  }
}

TEST_P(PartitionFftTest, AShuffledScanGivesTheObject) {
  constexpr int kSpokes = 101;
  auto scan = stack(radial(kSpokes, 96), blobs(), 20);
  std::mt19937 random(3);
  std::shuffle(scan.begin(), scan.end(), random);
  RunOptions options = here();
  options.split = [](std::size_t) { return 50u; };
  const auto out = run(gridding(""), measurement(kPlain, kSpokes), scan, options);
  ASSERT_EQ(out.images.size(), 1u);
  EXPECT_LT(largest_volume_error(out.images[0], blobs(), kPlain), kTolerance);
}

TEST_P(PartitionFftTest, SpokesGoOnAsSoonAsTheyAreWhole) {
  std::mt19937 random(4);
  const Z z{4, 4, 4, 4, ""};
  auto scan = random_stack(6, 4, 8, random);
  set_flag(scan.back(), kLastInSlice);
  RunOptions options = here();
  options.split = [](std::size_t) { return 1u; };
  const auto batches = given(measurement(z, 6), scan, options);
  ASSERT_EQ(batches.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    ASSERT_EQ(batches[i].heads.size(), 1u);
    EXPECT_EQ(+batches[i].heads[0].idx.kspace_encode_step_1, i);
    EXPECT_EQ(batches[i].first, i == 0);
    EXPECT_EQ(batches[i].last, i == 5);
  }
}

TEST_P(PartitionFftTest, MissingPartitionsAreZerosAndCounted) {
  std::mt19937 random(5);
  const Z z{6, 6, 6, 6, ""};
  auto scan = random_stack(4, 6, 10, random);
  std::vector<std::vector<std::vector<cdouble>>> d(4);  // [spoke][partition][sample]
  for (std::size_t i = 0; i < scan.size(); ++i) d[i / 6].push_back(samples_of(scan[i]));
  for (const std::size_t gone : {20u, 13u, 12u}) {
    std::fill(d[gone / 6][gone % 6].begin(), d[gone / 6][gone % 6].end(), 0.0);
    scan.erase(scan.begin() + static_cast<std::ptrdiff_t>(gone));
  }
  Outcome outcome;
  const Given all = together(given(measurement(z, 4), scan, here(), "", &outcome));
  ASSERT_EQ(all.heads.size(), 4u);  // spokes 0 and 1 are whole before 2 and 3, which are taken at the end
  std::vector<cdouble> truth;
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(+all.heads[i].idx.kspace_encode_step_1, i);
    const auto one = planes(d[i], 6, 6);
    truth.insert(truth.end(), one.begin(), one.end());
  }
  EXPECT_LT(nrmse(all.data, truth), kExact);
  ASSERT_EQ(outcome.images.size(), 1u);
  EXPECT_EQ(meta_of(outcome.images[0], "missing_partitions"), "3");
}

TEST_P(PartitionFftTest, LimitsSayWhereTheCentreIs) {
  // Partitions 2..5 with centre 3 in a matrix of 8: partition 3 belongs in row 4, and the rows about 3..6 are not
  // missed.
  std::mt19937 random(6);
  auto scan = random_stack(3, 8, 10, random);
  std::erase_if(scan, [](const Acquisition& a) {
    return a.head.idx.kspace_encode_step_2 < 2 || a.head.idx.kspace_encode_step_2 > 5;
  });
  std::vector<cdouble> truth;
  for (std::size_t i = 0; i < 3; ++i) {
    std::vector<std::vector<cdouble>> d(8, std::vector<cdouble>(10, 0.0));
    for (std::size_t p = 0; p < 4; ++p) d[p + 3] = samples_of(scan[4 * i + p]);
    const auto one = planes(d, 8, 8);
    truth.insert(truth.end(), one.begin(), one.end());
  }
  HeaderSpec spec{.encoded = {32, 32, 8}, .trajectory = "radial"};
  spec.limits = step_limit(3) + limit("kspace_encoding_step_2", 2, 5, 3);
  RunOptions options = here();
  options.split = [](std::size_t) { return 4u; };
  Outcome outcome;
  const auto batches = given(header(spec), scan, options, "", &outcome);
  EXPECT_EQ(batches.size(), 4u);  // each spoke as its four partitions are in, and the end
  EXPECT_LT(nrmse(together(batches).data, truth), kExact);
  ASSERT_EQ(outcome.images.size(), 1u);
  EXPECT_EQ(meta_of(outcome.images[0], "missing_partitions"), "0");
}

TEST_P(PartitionFftTest, AnnouncedAveragesAreAveraged) {
  std::mt19937 random(7);
  auto scan = random_stack(2, 4, 10, random);
  const auto second = random_stack(2, 4, 10, random);
  std::vector<std::vector<std::vector<cdouble>>> d(2);
  for (std::size_t i = 0; i < 8; ++i) {
    auto mean = samples_of(scan[i]);
    const auto more = samples_of(second[i]);
    for (std::size_t s = 0; s < mean.size(); ++s)
      if (i != 5) mean[s] = (mean[s] + more[s]) / 2.0;  // partition 1 of spoke 1 comes once only
    d[i / 4].push_back(mean);
  }
  for (std::size_t i = 0; i < 8; ++i) {
    if (i == 5) continue;
    scan.push_back(second[i]);
    scan.back().head.idx.average = 1;
  }
  HeaderSpec spec{.encoded = {32, 32, 4}, .trajectory = "radial"};
  spec.limits = limits(2, 4) + limit("average", 0, 1, 0);
  const Given all = together(given(header(spec), scan, here()));
  auto truth = planes(d[0], 4, 4);
  const auto other = planes(d[1], 4, 4);
  truth.insert(truth.end(), other.begin(), other.end());
  EXPECT_LT(nrmse(all.data, truth), kExact);
}

TEST_P(PartitionFftTest, APartitionThatComesTwiceIsNoOther) {
  // Partitions 0, 0, 1, 2 of one spoke: whole with the last, and the first is the mean of two.
  std::mt19937 random(14);
  auto scan = random_stack(1, 3, 10, random);
  std::vector<std::vector<cdouble>> d;
  for (const Acquisition& a : scan) d.push_back(samples_of(a));
  auto again = random_stack(1, 1, 10, random);
  const auto more = samples_of(again[0]);
  for (std::size_t s = 0; s < 10; ++s) d[0][s] = (d[0][s] + more[s]) / 2.0;
  scan.insert(scan.begin(), again[0]);
  for (const std::size_t batch : {1u, 4u}) {
    RunOptions options = here();
    options.split = [=](std::size_t) { return batch; };
    const Given all = together(given(measurement({3, 3, 3, 3, ""}, 1), scan, options));
    ASSERT_EQ(all.heads.size(), 1u);
    EXPECT_LT(nrmse(all.data, planes(d, 3, 3)), kExact);
  }
}

TEST_P(PartitionFftTest, WhatGoesOnInThePlane) {
  std::mt19937 random(8);
  const Path plane = spiral(2, 8, 1);
  for (const auto& [send, third, kept] :
       {std::tuple{Send::xy, "z", 2}, {Send::xyz, "z", 2}, {Send::xy, "weight", 2}, {Send::xy_weight, "weight", 3}}) {
    const auto scan = stack(plane, {{3, {0, 0, 0}, 2}}, 2, send);
    const Given all = together(
        given(measurement({2, 2, 2, 2, ""}, 2, "other"), scan, here(), fmt::format("third_component: {}", third)));
    ASSERT_EQ(all.components, kept);
    ASSERT_EQ(all.trajectory.size(), 2u * 8 * static_cast<std::size_t>(kept));
    auto value = all.trajectory.begin();
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t s = 0; s < 8; ++s) {
        EXPECT_EQ(*value++, static_cast<float>(plane.k[i][2 * s]));
        EXPECT_EQ(*value++, static_cast<float>(plane.k[i][2 * s + 1]));
        if (kept == 3) {
          EXPECT_EQ(*value++, static_cast<float>(plane.weights[i][s]));
        }
      }
  }
}

ECHOTRAIN_ON_BACKENDS(PartitionFftTest);

// Frames of a fixed number of readouts, gridded as they come: a spoke's share of the disc does not depend on how many
// came before it.
TEST(PartitionFftBatchTest, EqualSharesOfAFrameInParts) {
  // Each case has its own trajectory, or the second run would know that of the first.
  for (const auto& [batch, spokes] : {std::pair{5, 59}, {12, 61}, {100, 63}}) {
    const auto scan = stack(radial(spokes, 48), blobs(), 5);
    const auto h = measurement({5, 5, 5, 5, ""}, spokes);
    const std::string text = yaml(
        "  - partition_fft\n  - density_compensation: {method: ramp, share: equal}\n  - gridding\n  - fft\n"
        "  - deapodization\n  - coil_combine: {method: none}\n  - image: {component: complex}\n",
        fmt::format("frame: {{readouts: {}}}\n", 5 * spokes));
    RunOptions options;
    options.split = [n = batch](std::size_t) { return static_cast<std::size_t>(n); };
    const Outcome parts = run(text, h, scan, options), whole = run(text, h, scan);
    ASSERT_EQ(parts.images.size(), 1u);
    ASSERT_EQ(whole.images.size(), 1u);
    EXPECT_EQ(parts.counts.work.frames_in_parts, 1u);
    // One of the two gets its weights from the other, so their scale is compared with the object.
    const auto image = pixels<cfloat>(parts.images[0]);
    EXPECT_LT(nrmse(image, pixels<cfloat>(whole.images[0])), 1e-5) << batch;
    double largest = 0;
    for (const cfloat v : image) largest = std::max(largest, static_cast<double>(std::abs(v)));
    EXPECT_NEAR(largest, 1, 0.1) << batch;
  }
}

TEST(PartitionFftBatchTest, HowAScanComesNeverShows) {
  std::ifstream file(shipped_pipelines() / "stack_of_stars.yaml");
  std::ostringstream shipped;
  shipped << file.rdbuf();
  auto scan = stack(golden_radial(34, 48), blobs(), 7);
  std::mt19937 random(9);
  for (auto& readout : scan) readout.head.scan_counter = static_cast<std::uint32_t>(random() % 9999);
  std::erase_if(scan, [](const Acquisition& a) { return a.head.scan_counter % 31 == 0; });  // spokes with gaps
  auto more = scan;
  for (auto& readout : more) readout.head.idx.repetition = 1;
  scan.insert(scan.end(), more.begin(), more.end());
  const auto h = measurement({7, 7, 7, 7, ""}, 34, "goldenangle");
  const Outcome whole = run(shipped.str(), h, scan);
  const Given planes_of_whole = together(given(h, scan, {}));
  ASSERT_EQ(whole.images.size(), 2u);
  for (const std::size_t n : {1u, 5u, 100u}) {
    const RunOptions options{.split = [n](std::size_t) { return n; }};
    EXPECT_EQ(together(given(h, scan, options)).data, planes_of_whole.data) << n;
    const Outcome parts = run(shipped.str(), h, scan, options);
    ASSERT_EQ(parts.images.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i)  // what is gridded as it comes is summed in another order
      EXPECT_LT(nrmse(pixels<float>(parts.images[i]), pixels<float>(whole.images[i])), 1e-5) << n;
  }
}

TEST(PartitionFftBatchTest, NoiseReadoutsPassByAndWhitenCoils) {
  std::mt19937 random(10);
  auto scan = stack(radial(21, 32), {{3, {0, 0, 0}, 2}, {3, {0, 1, 0}, 2}}, 4);
  for (int i = 0; i < 4; ++i) {
    scan.insert(scan.begin(), readout(2, noise(2 * 64, random, 0.5)));
    set_flag(scan.front(), kNoise);
  }
  const std::string rest =
      "  - density_compensation\n  - gridding\n  - fft\n  - deapodization\n  - coil_combine\n  - image\n";
  const auto h = measurement({4, 4, 4, 4, ""}, 21);
  const auto out = run(yaml("  - noise_adjust\n  - partition_fft\n" + rest), h, scan);
  ASSERT_EQ(out.images.size(), 1u);
  const auto plain = run(yaml("  - partition_fft\n" + rest), h, scan);
  ASSERT_EQ(plain.images.size(), 1u);
  // sqrt(2) / sigma sqrt(2) = 2 times as large, as far as 256 samples of noise tell (their power to 6 %).
  const auto white = pixels<float>(out.images[0]), raw = pixels<float>(plain.images[0]);
  const std::size_t centre = (2 * 32 + 16) * 32 + 16;
  EXPECT_NEAR(white[centre] / raw[centre], 2, 0.2);
}

TEST(PartitionFftBatchTest, ASpokeThatComesAgain) {
  // Without an average limit in the header, a spoke that is whole again counts as another; incomplete ones are left
  // out.
  std::mt19937 random(11);
  const auto scan = random_stack(2, 3, 8, random);
  const auto h = measurement({3, 3, 3, 3, ""}, 2);
  for (const std::size_t again : {3u, 2u}) {
    auto twice = scan;
    for (std::size_t i = 0; i < again; ++i) twice.push_back(scan[i]);
    for (std::size_t i = 6; i < twice.size(); ++i) twice[i].head.idx.average = 1;
    Outcome outcome;
    const auto batches = given(h, twice, {}, "", &outcome);
    std::size_t spokes = 0;
    for (const Given& batch : batches) spokes += batch.heads.size();
    EXPECT_EQ(spokes, again == 3 ? 3u : 2u);
    EXPECT_EQ(outcome.warned("came again after it was whole"), again == 3 ? 0 : 1);
  }
}

TEST(PartitionFftRefusalTest, RotatedStacks) {
  // A hundredth of a cycle per field of view may be rounding: 32 pixels, so 3.1e-4 cycles/pixel.
  for (const auto& [unit, scale] : {std::pair{"cycles_per_pixel", 1.0}, {"cycles_per_fov", 32.0}}) {
    for (const double angle : {0.0005, 0.001}) {  // the ends of a spoke move by half of that
      std::vector<Acquisition> scan;
      for (int p = 0; p < 3; ++p) {
        auto partition = sample(radial(2, 32, 1), {{2, {0, 0, 0}, 2}}, {scale, scale, 1});
        std::vector<float> turned(64);
        for (int s = 0; s < 32; ++s) {
          const double k = scale * (s - 16) / 32;
          turned[static_cast<std::size_t>(2 * s)] = static_cast<float>(k * std::cos(p * angle));
          turned[static_cast<std::size_t>(2 * s + 1)] = static_cast<float>(k * std::sin(p * angle));
        }
        partition[0].trajectory = protocol::Payload::take(std::move(turned));
        partition[0].head.flags = 0;
        partition[0].head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(p);
        scan.push_back(partition[0]);
        if (p == 1) break;
      }
      const std::string rotated =
          yaml("  - partition_fft\n  - density_compensation\n  - gridding\n  - fft\n  - deapodization\n  - image\n",
               fmt::format("trajectory_unit: {}\n", unit));
      const std::string text = client_error([&] { run(rotated, measurement({3, 3, 3, 3, ""}, 2), scan); });
      const bool refused = text.find("a rotated stack needs 3D gridding") != std::string::npos;
      EXPECT_EQ(refused, angle > 0.0007) << unit << ": " << text;
    }
  }
}

TEST(PartitionFftRefusalTest, HeadersAndComponentsThatDoNotSuit) {
  const auto refusal = [](const HeaderSpec& spec, const std::vector<Acquisition>& scan = {}) {
    return client_error([&, h = header(spec)] { run(gridding(""), h, scan); });
  };
  EXPECT_NE(refusal({.encoded = {32, 32, 1}, .trajectory = "radial"}).find("no partitions along z"), std::string::npos);
  EXPECT_NE(refusal({.encoded = {32, 32, 8}}).find("use cartesian_2d"), std::string::npos);
  HeaderSpec spec{.encoded = {32, 32, 8}, .trajectory = "radial"};
  spec.limits = limit("kspace_encoding_step_2", 0, 11, 5);
  EXPECT_NE(refusal(spec).find("do not fit its encoded matrix of 8"), std::string::npos);
  spec.limits = "";
  std::mt19937 random(12);
  for (const std::size_t components : {1u, 4u}) {
    const auto wrong = readout(1, noise(16, random), std::vector<float>(16 * components));
    const std::string text = refusal(spec, {wrong});
    EXPECT_NE(text.find(fmt::format("readouts come with {} trajectory components", components)), std::string::npos)
        << text;
  }
  const std::string volume = client_error([&] {
    run(yaml("  - density_compensation\n  - gridding\n  - fft\n  - deapodization\n  - image\n"), header(spec), {});
  });
  EXPECT_NE(volume.find("grids 2D data"), std::string::npos) << volume;
}

TEST(PartitionFftRefusalTest, PartitionsOutsideTheMatrixAreLeftOut) {
  std::mt19937 random(13);
  auto scan = random_stack(2, 3, 8, random);
  scan.push_back(scan.back());
  scan.back().head.idx.kspace_encode_step_2 = 77;
  HeaderSpec spec{.encoded = {32, 32, 3}, .trajectory = "radial"};
  Outcome outcome;
  const auto batches = given(header(spec), scan, {}, "", &outcome);
  EXPECT_EQ(outcome.warned("some partitions are outside the encoded matrix"), 1);
  std::size_t spokes = 0;
  for (const Given& batch : batches) spokes += batch.heads.size();
  EXPECT_EQ(spokes, 2u);
}

}  // namespace
}  // namespace echotrain::testing
