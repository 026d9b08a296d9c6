#include "gadgets/numerics/mri/field/field_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <queue>
#include <stdexcept>
#include <vector>

namespace echotrain::numerics {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;

using Extents = std::array<std::int64_t, 3>;  // z, y, x

/// Calls visit(neighbour) for the voxels that share a face with `at`.
template <class Visit>
void for_neighbours(const Extents& n, std::int64_t at, const Visit& visit) {
  std::int64_t step = 1, rest = at;
  for (int a = 2; a >= 0; --a) {
    const auto axis = static_cast<std::size_t>(a);
    const std::int64_t i = rest % n[axis];
    rest /= n[axis];
    if (i > 0) visit(at - step);
    if (i + 1 < n[axis]) visit(at + step);
    step *= n[axis];
  }
}

/// Unwraps `phase` [rad] where `trusted`, in place. Returns the number of regions.
std::int64_t unwrap(const ThreadPool& threads, const Extents& n, const std::vector<double>& signal,
                    const std::vector<char>& trusted, std::vector<double>& phase) {
  struct Edge {
    double worth;
    std::int64_t to, from;
    bool operator<(const Edge& other) const {  // ties by place, so that the order is the same in every run
      return worth != other.worth ? worth < other.worth : to > other.to;
    }
  };
  const auto size = static_cast<std::int64_t>(phase.size());
  std::vector<std::int64_t> seeds;
  for (std::int64_t v = 0; v < size; ++v)
    if (trusted[static_cast<std::size_t>(v)]) seeds.push_back(v);
  StopCheck stop(threads);
  std::stable_sort(seeds.begin(), seeds.end(), [&](std::int64_t a, std::int64_t b) {
    stop();
    return signal[static_cast<std::size_t>(a)] > signal[static_cast<std::size_t>(b)];
  });
  std::vector<char> done(phase.size(), 0);
  std::int64_t regions = 0;
  for (const std::int64_t seed : seeds) {
    if (done[static_cast<std::size_t>(seed)]) continue;
    ++regions;
    std::priority_queue<Edge> edges;
    std::vector<std::int64_t> region;
    const auto settle = [&](std::int64_t v) {
      done[static_cast<std::size_t>(v)] = 1;
      region.push_back(v);
      for_neighbours(n, v, [&](std::int64_t next) {
        const auto i = static_cast<std::size_t>(next), j = static_cast<std::size_t>(v);
        if (!trusted[i] || done[i]) return;
        // The weight is the signal, less where the phase turns most of the way round.
        const double turn = std::cos(0.5 * std::remainder(phase[i] - phase[j], kTurn));
        edges.push({std::min(signal[i], signal[j]) * turn * turn, next, v});
      });
    };
    settle(seed);
    while (!edges.empty()) {
      stop();
      const Edge edge = edges.top();
      edges.pop();
      const auto to = static_cast<std::size_t>(edge.to);
      if (done[to]) continue;
      const double from = phase[static_cast<std::size_t>(edge.from)];
      phase[to] = from + std::remainder(phase[to] - from, kTurn);
      settle(edge.to);
    }
    double sum = 0, weight = 0;
    for (const std::int64_t v : region) {
      sum += signal[static_cast<std::size_t>(v)] * phase[static_cast<std::size_t>(v)];
      weight += signal[static_cast<std::size_t>(v)];
    }
    const double turns = std::nearbyint(sum / weight / kTurn);
    for (const std::int64_t v : region) phase[static_cast<std::size_t>(v)] -= turns * kTurn;
  }
  return regions;
}

/// Convolves with a Gaussian along every axis, in place, with zeros beyond the borders.
void blur(ThreadPool& threads, const Extents& n, double sigma, std::vector<double>& values) {
  std::int64_t step = 1;
  for (int a = 2; a >= 0; --a) {
    const std::int64_t extent = n[static_cast<std::size_t>(a)];
    const auto reach = std::min<std::int64_t>(extent - 1, static_cast<std::int64_t>(std::ceil(3 * sigma)));
    if (reach > 0) {
      std::vector<double> taps;
      for (std::int64_t i = 0; i <= reach; ++i)
        taps.push_back(std::exp(-0.5 * static_cast<double>(i * i) / (sigma * sigma)));
      const std::int64_t lines = static_cast<std::int64_t>(values.size()) / extent;
      threads.parallel_for(lines, 1 + 100'000 / (extent * (2 * reach + 1)), [&](std::int64_t begin, std::int64_t end) {
        std::vector<double> line(static_cast<std::size_t>(extent));
        for (std::int64_t l = begin; l < end; ++l) {
          double* first = values.data() + l / step * step * extent + l % step;
          for (std::int64_t i = 0; i < extent; ++i) line[static_cast<std::size_t>(i)] = first[i * step];
          for (std::int64_t i = 0; i < extent; ++i) {
            double sum = 0;
            for (std::int64_t j = std::max<std::int64_t>(0, i - reach); j <= std::min(extent - 1, i + reach); ++j)
              sum += taps[static_cast<std::size_t>(std::abs(j - i))] * line[static_cast<std::size_t>(j)];
            first[i * step] = sum;
          }
        }
      });
    }
    step *= extent;
  }
}

}  // namespace

FieldMapFacts field_map(ThreadPool& threads, HostView<const cfloat> product, double delta_s,
                        const FieldMapOptions& options, HostView<float> hz) {
  const auto ensure = [](bool good, const std::string& problem) {
    if (!good) throw std::invalid_argument("field map: " + problem);
  };
  ensure(product.shape().rank() == 3 && product.shape() == hz.shape() && product.size() > 0,
         fmt::format("{} and {} are not one volume", product.shape().text(), hz.shape().text()));
  ensure(delta_s > 0 && std::isfinite(delta_s), "the time between the echoes must be above 0");
  ensure(options.threshold >= 0 && options.smooth >= 0, "threshold and smooth are never negative");
  const Extents n{product.shape()[0], product.shape()[1], product.shape()[2]};
  const auto size = static_cast<std::size_t>(product.size());
  std::vector<double> signal(size), phase(size);
  threads.parallel_for(product.size(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t v = begin; v < end; ++v) {
      const cdouble value(product[v]);
      signal[static_cast<std::size_t>(v)] = std::sqrt(std::abs(value));  // the signal of one image, in its unit
      phase[static_cast<std::size_t>(v)] = std::arg(value);
      ensure(std::isfinite(signal[static_cast<std::size_t>(v)]), "the images hold voxels that are not finite numbers");
    }
  });
  std::vector<double> sorted = signal;
  const auto high = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(size - 1, size * 99 / 100));
  threads.check_stop();
  std::nth_element(sorted.begin(), high, sorted.end());
  threads.check_stop();
  // Where nearly all voxels are 0, the percentile is too.
  const double strong = *high > 0 ? *high : *std::max_element(signal.begin(), signal.end());
  const double least = options.threshold * strong;
  FieldMapFacts facts;
  std::vector<char> trusted(size);
  for (std::size_t v = 0; v < size; ++v) {
    trusted[v] = signal[v] > 0 && signal[v] >= least;
    facts.trusted += trusted[v];
  }
  std::fill(hz.data(), hz.data() + hz.size(), 0.0f);
  if (facts.trusted == 0) return facts;
  facts.regions = unwrap(threads, n, signal, trusted, phase);

  // From the widest Gaussian to the narrowest: where a narrow one finds little signal, the wider ones count.
  const std::int64_t longest = std::max({n[0], n[1], n[2]});
  std::vector<double> sigmas{std::max(options.smooth, 0.7)};
  while (sigmas.back() * 3 < static_cast<double>(longest)) sigmas.push_back(2 * sigmas.back());
  std::vector<double> map;
  constexpr double kLittle = 1e-3;  // share of the signal that a Gaussian meets within a trusted region
  for (auto sigma = sigmas.rbegin(); sigma != sigmas.rend(); ++sigma) {
    threads.check_stop();
    std::vector<double> sum(size, 0), weight(size, 0);
    for (std::size_t v = 0; v < size; ++v)
      if (trusted[v]) {
        weight[v] = signal[v] / strong;
        sum[v] = weight[v] * phase[v];
      }
    blur(threads, n, *sigma, sum);
    blur(threads, n, *sigma, weight);
    if (map.empty()) {
      double all = 0, of = 0;
      for (std::size_t v = 0; v < size; ++v) {
        all += trusted[v] ? signal[v] * phase[v] : 0;
        of += trusted[v] ? signal[v] : 0;
      }
      map.assign(size, all / of);
    }
    const double little = kLittle * *std::max_element(weight.begin(), weight.end());
    for (std::size_t v = 0; v < size; ++v) map[v] = (sum[v] + little * map[v]) / (weight[v] + little);
  }
  for (std::size_t v = 0; v < size; ++v) {
    const double value = options.smooth > 0 || !trusted[v] ? map[v] : phase[v];
    hz[static_cast<std::int64_t>(v)] = static_cast<float>(value / (kTurn * delta_s));
  }
  return facts;
}

}  // namespace echotrain::numerics
