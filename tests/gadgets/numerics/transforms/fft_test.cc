// The centred transforms against the discrete Fourier transform by its definition, in float64.
#include "gadgets/numerics/transforms/fft/fft.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "gadgets/numerics/transforms/fft/line_images.h"
#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"
#include "tests/support/resources.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;
using testing::relative_error;

/// Transforms one axis of [before, n, after] to [before, m, after]:
/// to[r] = sum_k from[k] exp(sign 2 pi i (k - k0) (r - r0) / period), over the k with |k - k0| inside a centred period.
std::vector<cdouble> transform_axis(const std::vector<cdouble>& from, std::int64_t before, std::int64_t n,
                                    std::int64_t after, std::int64_t m, std::int64_t period, bool centred, int sign) {
  std::vector<cdouble> to(static_cast<std::size_t>(before * m * after));
  const std::int64_t k0 = centred ? n / 2 : 0, r0 = centred ? m / 2 : 0;
  for (std::int64_t r = 0; r < m; ++r)
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t k = i - k0;
      if (centred && (k < -(period / 2) || k > period - 1 - period / 2)) continue;
      const std::int64_t turns = (k * (r - r0)) % period;
      const cdouble e =
          std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(turns) / static_cast<double>(period));
      for (std::int64_t b = 0; b < before; ++b)
        for (std::int64_t a = 0; a < after; ++a)
          to[static_cast<std::size_t>((b * m + r) * after + a)] +=
              e * from[static_cast<std::size_t>((b * n + i) * after + a)];
    }
  return to;
}

std::vector<cdouble> truth(const std::vector<cfloat>& from, Shape shape, const Shape& to, const Shape& period, int dims,
                           bool centred, Direction direction) {
  std::vector<cdouble> values(from.begin(), from.end());
  for (int d = 0; d < dims; ++d) {
    const std::size_t axis = shape.rank() - 1 - static_cast<std::size_t>(d);
    std::int64_t before = 1, after = 1;
    for (std::size_t a = 0; a < axis; ++a) before *= shape[a];
    for (std::size_t a = axis + 1; a < shape.rank(); ++a) after *= shape[a];
    values =
        transform_axis(values, before, shape[axis], after, to[axis], period[static_cast<std::size_t>(dims - 1 - d)],
                       centred, direction == Direction::forward ? -1 : 1);
    Shape next;
    for (std::size_t a = 0; a < shape.rank(); ++a) next.push_back(a == axis ? to[a] : shape[a]);
    shape = next;
  }
  return values;
}

// Single precision rounding grows with log2(n); 1e-6 leaves a factor of about three at these sizes.
constexpr double kTolerance = 1e-6;

template <class B>
class FftTest : public testing::OnBackend<B> {
 protected:
  void expect_fft(const Shape& shape, int dims, Direction direction) {
    const auto values = Random(3).normals(shape.size());
    auto array = this->upload(values, shape);
    fft(this->context(), array.view(), dims, direction);
    Shape period;
    for (std::size_t a = shape.rank() - static_cast<std::size_t>(dims); a < shape.rank(); ++a)
      period.push_back(shape[a]);
    const auto right = truth(values, shape, shape, period, dims, false, direction);
    EXPECT_LT(relative_error(this->download(array), right, right.size()), kTolerance)
        << shape.text() << " dims " << dims;
  }
  void expect_centred(const Shape& from, const Shape& to, const Shape& padded, int dims, Direction direction) {
    const auto values = Random(4).normals(from.size());
    auto source = this->upload(values, from);
    auto target = this->context().template allocate<cfloat>(to);
    centered_fft(this->context(), source.cview(), target.view(), padded, dims, direction, 0.25f);
    auto right = truth(values, from, to, padded, dims, true, direction);
    for (cdouble& v : right) v *= 0.25;
    EXPECT_LT(relative_error(this->download(target), right, right.size()), kTolerance)
        << from.text() << " -> " << padded.text() << " -> " << to.text();
  }
};
TYPED_TEST_SUITE(FftTest, Backends, testing::BackendNames);

TYPED_TEST(FftTest, InFftOrder) {
  for (const Direction direction : {Direction::forward, Direction::inverse}) {
    for (std::int64_t n : {1, 2, 3, 7, 16, 31, 97, 210}) this->expect_fft({3, n}, 1, direction);
    for (const Shape& shape :
         {Shape{6, 8}, Shape{9, 15}, Shape{3, 13, 17}, Shape{2, 2, 5, 11}, Shape{2, 40, 1}, Shape{2, 1, 40}})
      this->expect_fft(shape, 2, direction);
    for (const Shape& shape : {Shape{4, 6, 8}, Shape{2, 5, 7, 9}, Shape{3, 1, 12, 10}, Shape{11, 3, 18}})
      this->expect_fft(shape, 3, direction);
  }
}

// Large enough to be cut into groups and shared by the threads; rows of odd length are not aligned.
TYPED_TEST(FftTest, LargeOddSizes) {
  this->expect_fft({8, 193, 211}, 2, Direction::inverse);
  this->expect_fft({65, 63, 64}, 3, Direction::forward);
}

TYPED_TEST(FftTest, CentredSameSize) {
  for (const Direction direction : {Direction::forward, Direction::inverse}) {
    for (std::int64_t n : {1, 2, 5, 8, 37}) this->expect_centred({2, n}, {2, n}, {n}, 1, direction);
    this->expect_centred({3, 9, 16}, {3, 9, 16}, {9, 16}, 2, direction);
    this->expect_centred({2, 5, 6, 7}, {2, 5, 6, 7}, {5, 6, 7}, 3, direction);
  }
}

TYPED_TEST(FftTest, CentredFilledUpAndCut) {
  for (std::int64_t from : {6, 7, 12, 13})
    for (std::int64_t padded : {8, 9, 12, 13})
      for (std::int64_t to : {4, 5, 8}) this->expect_centred({2, from}, {2, to}, {padded}, 1, Direction::inverse);
  this->expect_centred({4, 20, 33}, {4, 20, 16}, {20, 32}, 2, Direction::inverse);
  this->expect_centred({2, 13, 9}, {2, 11, 14}, {17, 14}, 2, Direction::forward);
  this->expect_centred({2, 7, 12, 9}, {2, 5, 10, 11}, {8, 11, 13}, 3, Direction::inverse);
  this->expect_centred({2, 3, 7, 12}, {2, 3, 5, 10}, {8, 12}, 2, Direction::inverse);
}

// More than is worked on at a time.
TYPED_TEST(FftTest, ManyItems) {
  const Shape shape{300, 128, 120};
  const auto one = Random(6).normals(128 * 120);
  std::vector<cfloat> values;
  for (std::int64_t i = 0; i < shape[0]; ++i)
    for (const cfloat v : one) values.push_back(v * static_cast<float>(i + 1));
  auto source = this->upload(values, shape);
  auto target = this->context().template allocate<cfloat>({shape[0], 60, 60});
  centered_fft(this->context(), source.cview(), target.view(), {128, 120}, 2, Direction::inverse, 1);
  const auto got = this->download(target);
  const auto right = truth(one, {128, 120}, {60, 60}, {128, 120}, 2, true, Direction::inverse);
  for (std::size_t i = 0; i < 300; ++i) {
    std::vector<cdouble> scaled(right);
    for (cdouble& v : scaled) v *= static_cast<double>(i + 1);
    ASSERT_LT(relative_error(got.data() + i * 3600, scaled, scaled.size()), kTolerance) << i;
  }
}

/// More sizes than a context keeps plans for, in a context and in two later ones, which take its plans. Where an axis
/// has a factor above 127, cuFFT needs a work area, of another size for each of them.
TYPED_TEST(FftTest, ManySizesByTurns) {
  const auto resources = std::make_shared<Resources>(test_resource_options());
  const auto values = Random(5).normals(4 * 600);
  std::vector<std::vector<cfloat>> first;
  for (int round = 0; round < 3; ++round) {
    Context one(TypeParam::kBackend, resources), other(TypeParam::kBackend, resources);
    std::vector<HostArray<cfloat>> found;
    for (std::int64_t n = 262; n <= 600; n += 16) {
      Context& context = round == 2 && n % 3 == 0 ? other : one;
      auto array = context.template upload<cfloat>({values.data(), {4, n}});
      fft(context, array.view(), 1, Direction::forward);
      found.push_back(context.place_on_host(array));
    }
    one.synchronize();
    other.synchronize();
    for (std::size_t k = 0; k < found.size(); ++k) {
      const std::int64_t n = 262 + 16 * static_cast<std::int64_t>(k);
      const std::vector<cfloat> result(found[k].data(), found[k].data() + 4 * n);
      if (round == 0) {
        const auto right =
            truth({values.begin(), values.begin() + 4 * n}, {4, n}, {4, n}, {n}, 1, false, Direction::forward);
        EXPECT_LT(relative_error(result, right, right.size()), kTolerance) << n;
        first.push_back(result);
      }
      EXPECT_EQ(result, first[k]) << n << " in round " << round;
    }
  }
}

/// The context pays for the largest work area only. cuFFT needs one where the length is a large prime.
TYPED_TEST(FftTest, PlansOfAContextWorkInOneArea) {
  if (TypeParam::kBackend == Backend::cpu) GTEST_SKIP() << "FFTW needs none";
  Context& context = this->context();
  Array<cfloat> large = context.zeros<cfloat>({8, 10007}), small = context.zeros<cfloat>({4, 10007});
  const std::uint64_t before = context.bytes_in_use();
  fft(context, large.view(), 1, Direction::forward);
  const std::uint64_t with = context.bytes_in_use();
  EXPECT_GE(with, before + 8 * 10007 * sizeof(cfloat)) << "it holds the data, at least";
  fft(context, small.view(), 1, Direction::inverse);
  EXPECT_EQ(context.bytes_in_use(), with);
}

TYPED_TEST(FftTest, SameBitsInEveryRun) {
  const Shape shape{5, 96, 81};
  const auto values = Random(7).normals(shape.size());
  std::vector<cfloat> first;
  for (int run = 0; run < 3; ++run) {
    Context context(TypeParam::kBackend, test_resources());
    auto array = context.template upload<cfloat>({values.data(), shape});
    fft(context, array.view(), 2, Direction::inverse);
    auto host = context.template download<cfloat>(array.cview());
    const std::vector<cfloat> got(host.data(), host.data() + host.size());
    if (run == 0) first = got;
    EXPECT_EQ(got, first);
  }
}

TYPED_TEST(FftTest, BadArguments) {
  auto a = this->context().template zeros<cfloat>({2, 8, 8});
  auto b = this->context().template zeros<cfloat>({3, 8, 8});
  Context& context = this->context();
  EXPECT_THROW(fft(context, a.view(), 0, Direction::forward), std::invalid_argument);
  EXPECT_THROW(fft(context, a.view(), 4, Direction::forward), std::invalid_argument);
  EXPECT_THROW(fft(context, a.view().slice(0).slice(0), 2, Direction::forward), std::invalid_argument);
  const auto centred = [&](Array<cfloat>& to, const Shape& padded, int dims) {
    centered_fft(context, a.cview(), to.view(), padded, dims, Direction::forward, 1);
  };
  EXPECT_THROW(centred(b, {8, 8}, 2), std::invalid_argument);
  EXPECT_THROW(centred(a, {8, 7}, 2), std::invalid_argument);
  EXPECT_THROW(centred(a, {8}, 2), std::invalid_argument);
  EXPECT_THROW(centred(a, {8, 8, 8, 8}, 4), std::invalid_argument);
}

struct LineCase {
  LineGeometry geometry;
  std::int64_t coils, samples;
  LinePlacement placement;
};

/// Compares images with the definition, from lines that come `together` at a time; odd rows come twice.
void expect_images_from_lines(const LineCase& c, std::int64_t together) {
  const auto& [encoded, padded, image, direction] = c.geometry;
  const std::int64_t rows = encoded[0] * encoded[1], used = c.placement.last_sample - c.placement.first_sample;
  std::vector<std::int32_t> order;
  for (std::int64_t row = 0; row < rows; ++row) order.push_back(static_cast<std::int32_t>(row));
  for (std::int64_t row = 1; row < rows; row += 2) order.push_back(static_cast<std::int32_t>(row));
  const auto count = static_cast<std::int64_t>(order.size());
  const auto values = Random(8).normals(count * c.coils * c.samples);

  const Shape kspace{c.coils, encoded[0], encoded[1], encoded[2]};
  std::vector<cfloat> placed(static_cast<std::size_t>(kspace.size()));
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t coil = 0; coil < c.coils; ++coil)
      for (std::int64_t s = 0; s < used; ++s)
        placed[static_cast<std::size_t>((coil * rows + order[static_cast<std::size_t>(i)]) * encoded[2] +
                                        c.placement.first_x + s)] +=
            values[static_cast<std::size_t>((i * c.coils + coil) * c.samples + c.placement.first_sample + s)];
  const Shape images{c.coils, image[0], image[1], image[2]};
  auto right = truth(placed, kspace, images, padded, 3, true, direction);
  for (cdouble& v : right) v *= 0.25;

  Context context(Backend::cpu, test_resources());
  const auto readouts = context.upload<cfloat>({values.data(), {count, c.coils, c.samples}});
  auto half = context.allocate<cfloat>({c.coils, rows, image[2]});
  for (std::int64_t i = 0; i < count;) {
    // No row may come twice in a call.
    const std::int64_t end = std::min({count, i + together, i < rows ? rows : count});
    const std::vector<std::uint8_t> repeated(static_cast<std::size_t>(end - i), i < rows ? 0 : 1);
    transform_lines(context, c.geometry, readouts.view().part(i * c.coils * c.samples, {end - i, c.coils, c.samples}),
                    {order.data() + i, {end - i}}, {repeated.data(), {end - i}}, c.placement, half.view());
    i = end;
  }
  auto got = context.allocate<cfloat>(images);
  images_from_lines(context, c.geometry, half.cview(), 0.25f, false, got.view());
  const std::string what = encoded.text() + " -> " + padded.text() + " -> " + image.text();
  EXPECT_LT(relative_error(got.data(), right, right.size()), kTolerance) << what;

  const auto voxels = static_cast<std::size_t>(image.size());
  std::vector<cdouble> combined(voxels);
  for (std::size_t v = 0; v < voxels; ++v) {
    double power = 0;
    for (std::size_t coil = 0; coil < static_cast<std::size_t>(c.coils); ++coil)
      power += std::norm(right[coil * voxels + v]);
    combined[v] = std::sqrt(power);
  }
  auto magnitudes = context.allocate<cfloat>({1, image[0], image[1], image[2]});
  images_from_lines(context, c.geometry, half.cview(), 0.25f, true, magnitudes.view());
  EXPECT_LT(relative_error(magnitudes.data(), combined, voxels), kTolerance) << what;

  const auto weights = Random(3).normals(images.size());
  const auto maps = context.upload<cfloat>({weights.data(), images});
  std::vector<cdouble> joined(voxels);
  for (std::size_t i = 0; i < right.size(); ++i) joined[i % voxels] += std::conj(cdouble(weights[i])) * right[i];
  auto one = context.allocate<cfloat>({1, image[0], image[1], image[2]});
  joined_image_from_lines(context, c.geometry, half.cview(), maps.cview(), 0.25f, false, one.view());
  EXPECT_LT(relative_error(one.data(), joined, voxels), kTolerance) << what;
  joined_image_from_lines(context, c.geometry, half.cview(), maps.cview(), 0.5f, true, one.view());
  for (cdouble& v : joined) v *= 3;
  EXPECT_LT(relative_error(one.data(), joined, voxels), kTolerance) << what;
}

TEST(LineImagesTest, AreTheCentredTransform) {
  for (const Direction direction : {Direction::forward, Direction::inverse})
    for (const std::int64_t together : {1, 5, 1000}) {
      expect_images_from_lines({{{1, 12, 16}, {1, 12, 16}, {1, 12, 8}, direction}, 3, 16, {0, 16, 0}}, together);
      expect_images_from_lines({{{1, 13, 9}, {1, 17, 14}, {1, 11, 14}, direction}, 2, 9, {0, 9, 0}}, together);
      expect_images_from_lines({{{1, 20, 33}, {1, 19, 30}, {1, 18, 21}, direction}, 1, 33, {0, 33, 0}}, together);
      // Partial echoes, with samples to discard; more columns than are worked on at a time, and not a multiple.
      expect_images_from_lines({{{1, 9, 40}, {1, 9, 40}, {1, 9, 37}, direction}, 4, 30, {2, 29, 13}}, together);
      expect_images_from_lines({{{1, 5, 40}, {1, 5, 44}, {1, 5, 20}, direction}, 2, 15, {0, 15, 1}}, together);
      // Three dimensions, and one encoded plane that becomes several.
      expect_images_from_lines({{{5, 6, 14}, {6, 7, 14}, {4, 6, 7}, direction}, 2, 14, {0, 14, 0}}, together);
      expect_images_from_lines({{{1, 6, 8}, {3, 6, 8}, {2, 6, 8}, direction}, 2, 8, {0, 8, 0}}, together);
    }
  expect_images_from_lines({{{1, 192, 422}, {1, 192, 422}, {1, 192, 211}, Direction::inverse}, 8, 422, {0, 422, 0}},
                           64);
}

TEST(LineImagesTest, BatchesDoNotShowInBits) {
  const LineGeometry geometry{{1, 30, 90}, {1, 30, 90}, {1, 30, 45}};
  const auto values = Random(9).normals(30 * 5 * 90);
  std::vector<std::int32_t> rows;
  for (int i = 0; i < 30; ++i) rows.push_back(i);
  const std::vector<std::uint8_t> fresh(30);
  std::vector<std::vector<cfloat>> halves;
  for (const std::int64_t together : {1, 7, 30}) {
    Context context(Backend::cpu, test_resources());
    const auto readouts = context.upload<cfloat>({values.data(), {30, 5, 90}});
    auto half = context.allocate<cfloat>({5, 30, 45});
    for (std::int64_t i = 0; i < 30; i += together) {
      const std::int64_t n = std::min<std::int64_t>(together, 30 - i);
      transform_lines(context, geometry, readouts.view().part(i * 5 * 90, {n, 5, 90}), {rows.data() + i, {n}},
                      {fresh.data() + i, {n}}, {0, 90, 0}, half.view());
    }
    halves.emplace_back(half.data(), half.data() + half.size());
  }
  EXPECT_EQ(halves[0], halves[1]);
  EXPECT_EQ(halves[0], halves[2]);
}

TEST(LineImagesTest, ReadoutsWithoutARowAreLeftOutAndBadArgumentsRefused) {
  const LineGeometry geometry{{1, 4, 8}, {1, 4, 8}, {1, 4, 8}};
  Context context(Backend::cpu, test_resources());
  auto half = context.zeros<cfloat>({2, 4, 8});
  const auto values = Random(10).normals(3 * 2 * 8);
  const std::vector<std::int32_t> rows = {2, -1, 0};
  const std::vector<std::uint8_t> fresh(3);
  const auto add = [&](DeviceView<const cfloat> readouts, const LineGeometry& g, const LinePlacement& placement,
                       DeviceView<cfloat> to) {
    transform_lines(context, g, readouts, {rows.data(), {3}}, {fresh.data(), {3}}, placement, to);
  };
  const DeviceView<const cfloat> readouts(values.data(), {3, 2, 8});
  add(readouts, geometry, {0, 8, 0}, half.view());
  for (std::int64_t coil = 0; coil < 2; ++coil)
    for (std::int64_t row = 0; row < 4; ++row)
      EXPECT_EQ(half.data()[(coil * 4 + row) * 8] != cfloat{}, row == 0 || row == 2) << row;
  EXPECT_THROW(add(readouts, geometry, {0, 9, 0}, half.view()), std::invalid_argument);
  EXPECT_THROW(add(readouts, geometry, {0, 8, 1}, half.view()), std::invalid_argument);
  EXPECT_THROW(add(readouts.reshaped({2, 3, 8}), geometry, {0, 8, 0}, half.view()), std::invalid_argument);
  EXPECT_THROW(add(readouts, {{1, 4, 8}, {1, 4, 6}, {1, 4, 8}}, {0, 8, 0}, half.view()), std::invalid_argument);
  auto images = context.allocate<cfloat>({2, 1, 4, 8});
  EXPECT_THROW(images_from_lines(context, geometry, half.cview(), 1, true, images.view()), std::invalid_argument);
}

TEST(FastEvenSize, IsTheNextOne) {
  for (const auto& [n, fast] : {std::pair<std::int64_t, std::int64_t>{1, 2},
                                {2, 2},
                                {11, 12},
                                {13, 14},
                                {199, 200},
                                {257, 270},
                                {1023, 1024},
                                {1009, 1024},
                                {1177, 1200},
                                {4097, 4116}})
    EXPECT_EQ(fast_even_size(n), fast) << n;
}

}  // namespace
}  // namespace echotrain::numerics
