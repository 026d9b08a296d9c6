#include "gadgets/numerics/core/reduce/reductions.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "gadgets/numerics/core/reduce/reductions_ops.h"
#include "tests/support/backends.h"
#include "tests/support/resources.h"
#include "tests/support/thread_digests.h"

namespace echotrain::numerics {
namespace {

using testing::Random;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinite = std::numeric_limits<float>::infinity();
/// Odd, around the blocks of both backends, and more than all of CUDA's threads take at once.
constexpr std::int64_t kSizes[] = {1, 15, 16, 17, 255, 4095, 4097, 8193, 65537, 1000003};

std::vector<float> floats(std::int64_t n, unsigned seed, double low = -1, double high = 1) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& v : values) v = static_cast<float>(random.uniform(low, high));
  return values;
}

/// A sum with 64 bits of mantissa, and what bounds the error of one in float64.
struct Truth {
  long double sum = 0, magnitudes = 0;
  void add(long double term) {
    sum += term;
    magnitudes += std::fabs(term);
  }
  void expect(double got, std::int64_t n, bool cuda) const {
    const long double chain = cuda ? 60 + n / 262144 : 300 + n / 4096;
    EXPECT_LE(std::fabs(static_cast<long double>(got) - sum), chain * 0x1p-53L * magnitudes) << n << " values";
  }
};

template <class B>
class ReductionsTest : public testing::OnBackend<B> {
 protected:
  static constexpr bool kCuda = B::kBackend == Backend::cuda;
  template <class T>
  Array<T> there(const std::vector<T>& values) {
    return this->upload(values, {static_cast<std::int64_t>(values.size())});
  }
};
TYPED_TEST_SUITE(ReductionsTest, testing::Backends, testing::BackendNames);

TYPED_TEST(ReductionsTest, SumsWithinTheirBound) {
  for (const std::int64_t n : kSizes) {
    // Terms nearly cancel, so that a sum in fp32 is off by far more than the bound.
    const auto u = floats(n, 1), v = floats(n, 2, -1e3, 1e3);
    Truth plain, power, dot;
    for (std::size_t i = 0; i < u.size(); ++i) {
      plain.add(u[i]);
      power.add(static_cast<long double>(v[i]) * v[i]);
      dot.add(static_cast<long double>(u[i]) * v[i]);
    }
    const auto a = this->there(u), b = this->there(v);
    plain.expect(sum(this->context(), a.cview()), n, this->kCuda);
    const double length = norm(this->context(), b.cview());
    EXPECT_NEAR(length, std::sqrt(static_cast<double>(power.sum)), 1e-13 * length);
    auto products = this->context().template allocate<double>({2});
    inner_products(this->context(), a.cview(), b.cview(), products.view());
    dot.expect(this->download(products)[0], n, this->kCuda);
    power.expect(this->download(products)[1], n, this->kCuda);
    EXPECT_EQ(numerics::dot(this->context(), a.cview(), b.cview()), this->download(products)[0]);
  }
}

TYPED_TEST(ReductionsTest, ComplexProductsAreThoseOfTheirParts) {
  Random random(3);
  const auto u = random.normals(10007), v = random.normals(10007);
  Truth dot, power;
  for (std::size_t i = 0; i < u.size(); ++i) {
    dot.add(static_cast<long double>(u[i].real()) * v[i].real());
    dot.add(static_cast<long double>(u[i].imag()) * v[i].imag());
    power.add(static_cast<long double>(u[i].real()) * u[i].real());
    power.add(static_cast<long double>(u[i].imag()) * u[i].imag());
  }
  const auto a = this->there(u), b = this->there(v);
  dot.expect(numerics::dot(this->context(), a.cview(), b.cview()), 20014, this->kCuda);
  auto to = this->context().template allocate<double>({1});
  numerics::power(this->context(), a.cview(), to.view());
  power.expect(this->download(to)[0], 20014, this->kCuda);
  EXPECT_EQ(norm(this->context(), a.cview()), std::sqrt(this->download(to)[0]));
}

TYPED_TEST(ReductionsTest, WeightedPowerIsAdded) {
  for (const auto& [n, coils] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {17, 3}, {10001, 5}}) {
    Random random(7);
    auto samples = random.normals(n * coils);
    std::vector<float> weights = floats(n, 8, 0, 2);
    if (n > 10) {
      weights[5] = 0;
      samples[static_cast<std::size_t>(5 * coils)] = {kNan, 1};
    }
    double weighted = 0, plain = 0;
    for (std::int64_t i = 0; i < n * coils; ++i) {
      const auto w = static_cast<double>(weights[static_cast<std::size_t>(i / coils)]);
      const double power = w == 0 ? 0 : std::norm(cdouble(samples[static_cast<std::size_t>(i)]));
      weighted += w * power;
      plain += power;
    }
    const auto on_device = this->upload(samples, {n, coils});
    const auto w = this->there(weights);
    auto sum = this->context().template zeros<double>({1});
    add_weighted_power(this->context(), on_device.cview(), w.cview(), sum.view());
    EXPECT_NEAR(this->download(sum)[0], weighted, 1e-12 * weighted);
    add_weighted_power(this->context(), on_device.cview(), w.cview(), sum.view());
    EXPECT_NEAR(this->download(sum)[0], 2 * weighted, 1e-12 * weighted);
    if (n > 10) continue;
    auto all = this->context().template zeros<double>({1});
    add_weighted_power(this->context(), on_device.cview(), {}, all.view());
    EXPECT_NEAR(this->download(all)[0], plain, 1e-12 * plain);
  }
}

TYPED_TEST(ReductionsTest, ExtremesLeaveOutWhatIsNotFinite) {
  for (const std::int64_t n : kSizes) {
    auto values = floats(n, 4, -7, -2);
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    const float right[2] = {*least, *most};
    for (const float other : {kNan, kInfinite, -kInfinite}) {
      values.insert(values.begin() + n / 2, other);
      values.push_back(other);
    }
    const Extremes found = extremes(this->context(), this->there(values).cview());
    EXPECT_EQ(found.least, right[0]) << n;
    EXPECT_EQ(found.most, right[1]) << n;
  }
  const Extremes of_magnitudes =
      extremes(this->context(), this->there(std::vector<cfloat>{{3, 4}, {kNan, 0}, {0, -2}, {1, kInfinite}}).cview());
  EXPECT_EQ(of_magnitudes.least, 2);
  EXPECT_EQ(of_magnitudes.most, 5);
}

TYPED_TEST(ReductionsTest, QuantilesAreValuesOfTheirRank) {
  for (const std::int64_t n : kSizes) {
    auto values = floats(n, 5, -3, 9);
    for (std::int64_t i = 0; i < n / 3; ++i) values[static_cast<std::size_t>(i)] = 2;  // many alike
    auto sorted = values;
    std::sort(sorted.begin(), sorted.end());
    values.insert(values.begin(), {kNan, kInfinite, -kInfinite});
    const auto on_device = this->there(values);
    for (const double q : {0.0, 0.3, 0.5, 0.995, 1.0})
      EXPECT_EQ(quantile(this->context(), on_device.cview(), q),
                sorted[static_cast<std::size_t>(q * static_cast<double>(n - 1))])
          << n << " values, " << q;
  }
  EXPECT_EQ(quantile(this->context(), this->there(std::vector<float>{-0.0f, 0.0f, -1e-40f, 1e-40f}).cview(), 0),
            -1e-40f);
}

TYPED_TEST(ReductionsTest, ComparesByDefinition) {
  for (const std::int64_t n : kSizes) {
    Random random(6);
    const auto a = random.normals(n), b = random.normals(n);
    const cdouble s{0.7, -0.2};
    Truth error, power, reference, re, im;
    double peak = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::complex<long double> u(a[i]), v(b[i]);
      error.add(std::norm(std::complex<long double>(s) * u - v));
      power.add(std::norm(u));
      reference.add(std::norm(v));
      re.add((std::conj(u) * v).real());
      im.add((std::conj(u) * v).imag());
      peak = std::max(peak, std::abs(cdouble(b[i])));
    }
    const Comparison found = compare(this->context(), this->there(a).cview(), this->there(b).cview(), s);
    // A term has some roundings of its own, and those of <a, b> may cancel: both parts are bounded by the lengths.
    const double bound = 1e-12 * std::sqrt(static_cast<double>(power.sum * reference.sum));
    EXPECT_EQ(found.count, n);
    EXPECT_NEAR(found.error_power, static_cast<double>(error.sum), 1e-12 * static_cast<double>(error.sum)) << n;
    EXPECT_NEAR(found.power, static_cast<double>(power.sum), 1e-12 * static_cast<double>(power.sum)) << n;
    EXPECT_NEAR(found.reference_power, static_cast<double>(reference.sum), 1e-12 * found.reference_power) << n;
    EXPECT_NEAR(found.inner.real(), static_cast<double>(re.sum), bound) << n;
    EXPECT_NEAR(found.inner.imag(), static_cast<double>(im.sum), bound) << n;
    EXPECT_NEAR(found.peak, peak, 1e-15 * peak);
  }
}

TYPED_TEST(ReductionsTest, MeasuresOfError) {
  const auto a = this->there(std::vector<float>{1, 2, 3, 4}), b = this->there(std::vector<float>{1, 2, 3, 2});
  const Comparison found = compare(this->context(), a.cview(), b.cview());
  EXPECT_DOUBLE_EQ(found.mse(), 1);
  EXPECT_DOUBLE_EQ(found.nrmse(), 2 / std::sqrt(18.0));
  EXPECT_DOUBLE_EQ(found.psnr(), 20 * std::log10(3.0));
  const Comparison same = compare(this->context(), a.cview(), a.cview());
  EXPECT_EQ(same.mse(), 0);
  EXPECT_EQ(same.nrmse(), 0);
  EXPECT_EQ(same.psnr(), std::numeric_limits<double>::infinity());
  EXPECT_DOUBLE_EQ(compare(this->context(), a.cview(), b.cview(), 0.5).error_power, 0.25 + 1 + 2.25);
}

TYPED_TEST(ReductionsTest, OfNothing) {
  const Array<float> none = this->context().template allocate<float>({0});
  EXPECT_EQ(sum(this->context(), none.cview()), 0);
  EXPECT_EQ(norm(this->context(), none.cview()), 0);
  EXPECT_EQ(dot(this->context(), none.cview(), none.cview()), 0);
  EXPECT_EQ(compare(this->context(), none.cview(), none.cview()).error_power, 0);
  EXPECT_TRUE(std::isnan(quantile(this->context(), none.cview(), 0.5)));
  for (const Array<float>& values : {none, this->there(std::vector<float>{kNan, kInfinite})}) {
    const Extremes found = extremes(this->context(), values.cview());
    EXPECT_EQ(found.least, kInfinite);
    EXPECT_EQ(found.most, -kInfinite);
    EXPECT_TRUE(std::isnan(quantile(this->context(), values.cview(), 0.5)));
  }
}

TYPED_TEST(ReductionsTest, NanMakesSumsNan) {
  for (const std::int64_t n : {5, 100001}) {
    auto values = floats(n, 9);
    values[static_cast<std::size_t>(n / 2)] = kNan;
    const auto a = this->there(values), b = this->there(floats(n, 10));
    EXPECT_TRUE(std::isnan(sum(this->context(), a.cview())));
    EXPECT_TRUE(std::isnan(norm(this->context(), a.cview())));
    EXPECT_TRUE(std::isnan(dot(this->context(), a.cview(), b.cview())));
    const Comparison found = compare(this->context(), a.cview(), b.cview());
    EXPECT_TRUE(std::isnan(found.nrmse()) && std::isnan(found.psnr()) && !std::isnan(found.reference_power));
  }
  const auto infinite = this->there(std::vector<float>{1, kInfinite, 2});
  EXPECT_EQ(sum(this->context(), infinite.cview()), std::numeric_limits<double>::infinity());
}

TYPED_TEST(ReductionsTest, TheSameBitsInEveryRun) {
  Random random(11);
  const auto u = this->there(random.normals(300007)), v = this->there(random.normals(300007));
  const auto all = [&] {
    auto products = this->context().template allocate<double>({2});
    inner_products(this->context(), u.cview(), v.cview(), products.view());
    auto numbers = this->download(products);
    const Comparison c = compare(this->context(), u.cview(), v.cview());
    numbers.insert(numbers.end(), {c.error_power, c.power, c.inner.real(), c.inner.imag()});
    return numbers;
  };
  const auto first = all();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(all(), first);
}

TYPED_TEST(ReductionsTest, RefusesWhatDoesNotFit) {
  const auto three = this->there(floats(3, 1)), two = this->there(floats(2, 1));
  auto to = this->context().template allocate<double>({3});
  auto place = this->context().template allocate<float>({1});
  EXPECT_THROW(sum(this->context(), three.cview(), to.view()), std::invalid_argument);
  EXPECT_THROW(dot(this->context(), three.cview(), two.cview()), std::invalid_argument);
  EXPECT_THROW(compare(this->context(), three.cview(), two.cview()), std::invalid_argument);
  EXPECT_THROW(extremes(this->context(), three.cview(), place.view()), std::invalid_argument);
  EXPECT_THROW(quantile(this->context(), three.cview(), 1.5), std::invalid_argument);
  const auto samples = this->upload(std::vector<cfloat>(4), {2, 2});
  EXPECT_THROW(add_weighted_power(this->context(), samples.cview(), {}, to.view()), std::invalid_argument);
}

TEST(ReductionsOnHostTest, AreThoseOfTheContext) {
  Context context(Backend::cpu, test_resources());
  const auto values = floats(50021, 12);
  Random random(13);
  const auto a = random.normals(5003), b = random.normals(5003);
  const HostView<const float> view(values.data(), {50021});
  const HostView<const cfloat> u(a.data(), {5003}), v(b.data(), {5003});
  const auto there = context.upload<float>(view);
  const auto u_there = context.upload<cfloat>(u), v_there = context.upload<cfloat>(v);
  const double error_power = compare(context, u_there.cview(), v_there.cview()).error_power;
  EXPECT_EQ(on_host::sum(context.threads(), view), sum(context, there.cview()));
  EXPECT_EQ(std::sqrt(on_host::power(context.threads(), u)), norm(context, u_there.cview()));
  EXPECT_EQ(on_host::extremes(context.threads(), u).most, extremes(context, u_there.cview()).most);
  EXPECT_EQ(on_host::quantile(view, 0.7), quantile(context, there.cview(), 0.7));
  EXPECT_EQ(on_host::compare(context.threads(), u, v).error_power, error_power);
  const std::vector<cdouble> wide_a(a.begin(), a.end()), wide_b(b.begin(), b.end());
  const HostView<const cdouble> wide_u(wide_a.data(), {5003}), wide_v(wide_b.data(), {5003});
  EXPECT_EQ(on_host::compare(context.threads(), wide_u, wide_v).error_power, error_power);
  EXPECT_THROW(on_host::compare(context.threads(), u, HostView<const cfloat>(b.data(), {5002})), std::invalid_argument);
}

TEST(ReductionsThreadsTest, TheSameBitsForAnyNumberOfThreads) {
  testing::expect_same_bits(1, [](Context& context, const testing::NoteBits& note) {
    Random random(14);
    const auto a = random.normals(200003), b = random.normals(200003);
    const DeviceView<const cfloat> u(a.data(), {200003}), v(b.data(), {200003});
    Array<double> numbers = context.allocate<double>({6});
    inner_products(context, u, v, numbers.view().part(0, {2}));
    const Comparison found = compare(context, u, v);
    numbers.data()[2] = found.error_power;
    numbers.data()[3] = found.inner.real();
    numbers.data()[4] =
        on_host::sum(context.threads(), HostView<const float>(reinterpret_cast<const float*>(a.data()), {400006}));
    numbers.data()[5] = found.inner.imag();
    note(reinterpret_cast<const cfloat*>(numbers.data()), 6, "reductions");
  });
}

}  // namespace
}  // namespace echotrain::numerics
