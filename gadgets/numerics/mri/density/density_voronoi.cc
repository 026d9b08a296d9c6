#include "gadgets/numerics/mri/density/density_voronoi.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "gadgets/numerics/mri/density/delaunay.h"

namespace echotrain::numerics {
namespace {

constexpr double kSame = 1e-6;          // samples closer than this, relative to the largest |k|, are one
constexpr double kRounding = 1e-9;      // lengths below this count as zero
constexpr double kFlat = 1e-4;          // area of a hull that counts as a line, in squares of its diameter
constexpr std::size_t kMost = 500'000;  // for many more, Qhull needs gigabytes, and seconds to free them

PlanePoint operator-(PlanePoint a, PlanePoint b) { return {a.x - b.x, a.y - b.y}; }
PlanePoint operator+(PlanePoint a, PlanePoint b) { return {a.x + b.x, a.y + b.y}; }
double dot(PlanePoint a, PlanePoint b) { return a.x * b.x + a.y * b.y; }
double cross(PlanePoint a, PlanePoint b) { return a.x * b.y - a.y * b.x; }

/// The samples that take part, merged to sites whose coordinates are in units of the largest |k|.
struct Sites {
  std::vector<PlanePoint> points;
  std::vector<std::int32_t> count;  // samples at each
  std::vector<std::int32_t> of;     // the site of each sample, or -1
  double scale = 0;                 // the largest |k|
};

/// Merges samples in one square of edge kSame, and those of adjacent squares whose means are that close.
class Merger {
 public:
  Merger(const ThreadPool& threads, const std::vector<PlanePoint>& points)
      : points_(points), check_stop_(threads), order_(points.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    std::vector<std::pair<std::int64_t, std::int64_t>> keys;
    keys.reserve(points.size());
    for (const PlanePoint& p : points)
      keys.emplace_back(static_cast<std::int64_t>(std::floor(p.y / kSame)),
                        static_cast<std::int64_t>(std::floor(p.x / kSame)));
    std::sort(order_.begin(), order_.end(), [&](std::int32_t a, std::int32_t b) {
      check_stop_();
      const auto &ka = keys[static_cast<std::size_t>(a)], &kb = keys[static_cast<std::size_t>(b)];
      return ka != kb ? ka < kb : a < b;
    });
    for (std::size_t i = 0; i < order_.size(); ++i) {
      check_stop_();
      const auto& key = keys[static_cast<std::size_t>(order_[i])];
      if (squares_.empty() || squares_.back().key != key) squares_.push_back({key, {0, 0}, i, i, squares_.size()});
      Square& square = squares_.back();
      square.sum = square.sum + points_[static_cast<std::size_t>(order_[i])];
      square.end = i + 1;
    }
  }

  /// Fills points and count; returns the site of each point.
  std::vector<std::int32_t> merge(Sites& sites) {
    std::size_t below = 0;  // first square of the next row that may touch this one
    for (std::size_t i = 0; i < squares_.size(); ++i) {
      check_stop_();
      const auto [row, column] = squares_[i].key;
      if (i + 1 < squares_.size() && squares_[i + 1].key == std::pair(row, column + 1)) join(i, i + 1);
      while (below < squares_.size() && squares_[below].key < std::pair(row + 1, column - 1)) ++below;
      for (std::size_t j = below; j < squares_.size() && squares_[j].key <= std::pair(row + 1, column + 1); ++j)
        join(i, j);
    }
    std::vector<std::int32_t> site_of_root(squares_.size(), -1), of(points_.size());
    std::vector<PlanePoint> sums;
    for (std::size_t i = 0; i < squares_.size(); ++i) {
      check_stop_();
      std::int32_t& site = site_of_root[root(i)];
      if (site < 0) {
        site = static_cast<std::int32_t>(sums.size());
        sums.push_back({0, 0});
        sites.count.push_back(0);
      }
      const auto s = static_cast<std::size_t>(site);
      sums[s] = sums[s] + squares_[i].sum;
      sites.count[s] += static_cast<std::int32_t>(squares_[i].end - squares_[i].begin);
      for (std::size_t k = squares_[i].begin; k < squares_[i].end; ++k) of[static_cast<std::size_t>(order_[k])] = site;
    }
    for (std::size_t s = 0; s < sums.size(); ++s)
      sites.points.push_back({sums[s].x / sites.count[s], sums[s].y / sites.count[s]});
    return of;
  }

 private:
  struct Square {
    std::pair<std::int64_t, std::int64_t> key;  // row, column
    PlanePoint sum;
    std::size_t begin, end;  // in order_
    std::size_t parent;
  };
  std::size_t root(std::size_t i) {
    while (squares_[i].parent != i) i = squares_[i].parent = squares_[squares_[i].parent].parent;
    return i;
  }
  PlanePoint mean(const Square& s) const {
    const auto n = static_cast<double>(s.end - s.begin);
    return {s.sum.x / n, s.sum.y / n};
  }
  void join(std::size_t i, std::size_t j) {
    const PlanePoint apart = mean(squares_[i]) - mean(squares_[j]);
    if (dot(apart, apart) > kSame * kSame) return;
    const std::size_t a = root(i), b = root(j);
    squares_[std::max(a, b)].parent = std::min(a, b);
  }

  const std::vector<PlanePoint>& points_;
  StopCheck check_stop_;
  std::vector<std::int32_t> order_;  // order of the points, square after square
  std::vector<Square> squares_;
};

Sites find_sites(const ThreadPool& threads, HostView<const double> coordinates, double k_max) {
  const std::int64_t samples = coordinates.shape()[0];
  StopCheck check_stop(threads);
  Sites sites;
  std::vector<PlanePoint> points;
  std::vector<std::size_t> taken;
  for (std::int64_t s = 0; s < samples; ++s) {
    check_stop();
    const PlanePoint k{coordinates[2 * s], coordinates[2 * s + 1]};
    const double radius = std::hypot(k.x, k.y);
    if (!(radius <= k_max) || !std::isfinite(radius)) continue;
    sites.scale = std::max(sites.scale, radius);
    points.push_back(k);
    taken.push_back(static_cast<std::size_t>(s));
  }
  sites.of.assign(static_cast<std::size_t>(samples), -1);
  if (points.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    throw std::invalid_argument("voronoi density: too many samples");
  // Below this, k-space has practically no extent, and 1 / scale may overflow.
  if (sites.scale <= 1e-150) {
    if (!points.empty()) sites.points.push_back({0, 0});
  } else {
    for (PlanePoint& p : points) p = {p.x / sites.scale, p.y / sites.scale};
    const auto of = Merger(threads, points).merge(sites);
    for (std::size_t i = 0; i < of.size(); ++i) sites.of[taken[i]] = of[i];
  }
  return sites;
}

/// A convex polygon about the origin.
class Polygon {
 public:
  void reset(double half_edge) {
    points_ = {{-half_edge, -half_edge}, {half_edge, -half_edge}, {half_edge, half_edge}, {-half_edge, half_edge}};
  }
  const std::vector<PlanePoint>& points() const { return points_; }

  /// Keeps the part where normal . x <= offset.
  void cut(PlanePoint normal, double offset) {
    kept_.clear();
    const std::size_t n = points_.size();
    for (std::size_t i = 0; i < n; ++i) {
      const PlanePoint a = points_[i], b = points_[i + 1 == n ? 0 : i + 1];
      const double da = dot(normal, a) - offset, db = dot(normal, b) - offset;
      if (da <= 0) kept_.push_back(a);
      if ((da < 0 && db > 0) || (da > 0 && db < 0)) {
        const double t = da / (da - db);
        kept_.push_back({a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)});
      }
    }
    points_.swap(kept_);
  }

  /// The polygon's extent from the origin in this direction. Sides as short as rounding have no direction.
  double reach(PlanePoint direction) const {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const PlanePoint a = points_[i], side = points_[i + 1 == points_.size() ? 0 : i + 1] - a;
      const double across = cross(direction, side);
      if (across > 0 && dot(side, side) > kRounding * kRounding) least = std::min(least, cross(a, side) / across);
    }
    return least;
  }

  double area() const {
    double twice = 0;
    for (std::size_t i = 2; i < points_.size(); ++i)
      twice += cross(points_[i - 1] - points_[0], points_[i] - points_[0]);
    return twice / 2;
  }

 private:
  std::vector<PlanePoint> points_, kept_;
};

/// The convex hull of the sites, counter-clockwise.
class Hull {
 public:
  Hull(const ThreadPool& threads, const std::vector<PlanePoint>& points) : corner_of_(points.size(), -1) {
    StopCheck check_stop(threads);
    std::vector<std::int32_t> order(points.size()), chain;
    std::iota(order.begin(), order.end(), 0);
    const auto at = [&](std::int32_t i) { return points[static_cast<std::size_t>(i)]; };
    std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
      check_stop();
      return at(a).x != at(b).x ? at(a).x < at(b).x : at(a).y < at(b).y;
    });
    for (int side = 0; side < 2; ++side) {  // Andrew's monotone chain: below, then above
      const std::size_t start = chain.size();
      for (const std::int32_t i : order) {
        check_stop();
        while (chain.size() > start + 1 &&
               cross(at(chain.back()) - at(chain[chain.size() - 2]), at(i) - at(chain[chain.size() - 2])) <= 0)
          chain.pop_back();
        chain.push_back(i);
      }
      chain.pop_back();  // the last corner begins the other side
      std::reverse(order.begin(), order.end());
    }
    const std::size_t n = chain.size();
    for (const std::int32_t i : chain) centre_ = centre_ + at(i);
    centre_ = {centre_.x / static_cast<double>(n), centre_.y / static_cast<double>(n)};
    // Angles about the centre rise along the hull; the first corner is the one with the smallest angle.
    const auto angle = [&](std::int32_t i) { return std::atan2(at(i).y - centre_.y, at(i).x - centre_.x); };
    std::rotate(chain.begin(),
                std::min_element(chain.begin(), chain.end(),
                                 [&](std::int32_t a, std::int32_t b) { return angle(a) < angle(b); }),
                chain.end());
    for (std::size_t i = 0; i < n; ++i) {
      const PlanePoint here = at(chain[i]), along = at(chain[(i + 1) % n]) - here;
      corners_.push_back(here);
      angles_.push_back(angle(chain[i]));
      const double length = std::hypot(along.x, along.y);
      normals_.push_back({along.y / length, -along.x / length});
      corner_of_[static_cast<std::size_t>(chain[i])] = static_cast<std::int32_t>(i);
      area_ += cross(here - centre_, along) / 2;
      inradius_ = std::min(inradius_, dot(normals_.back(), here - centre_));
    }
  }

  bool flat() const {
    double diameter = 0;
    for (const PlanePoint& c : corners_)
      diameter = std::max(diameter, 2 * std::hypot(c.x - centre_.x, c.y - centre_.y));
    return corners_.size() < 3 || area_ <= kFlat * diameter * diameter;
  }

  bool outside(PlanePoint p) const {
    const PlanePoint q = p - centre_;
    if (dot(q, q) < inradius_ * inradius_) return false;
    const std::size_t edge = edge_towards(q);
    return dot(normals_[edge], p - corners_[edge]) > kRounding;
  }

  /// The outward direction at this point: across the edge on the ray through the point; at a corner across both edges,
  /// more across the edge where the cell (about the point) is less deep, so that a line along the hull halves the cell
  /// of an oblong lattice's corner too.
  PlanePoint outward(std::size_t point, PlanePoint p, const Polygon& cell) const {
    const std::int32_t corner = corner_of_[point];
    if (corner < 0) return normals_[edge_towards(p - centre_)];
    const auto c = static_cast<std::size_t>(corner);
    const PlanePoint after = normals_[c], before = normals_[(c + corners_.size() - 1) % corners_.size()];
    const double depth_after = cell.reach({-after.x, -after.y}), depth_before = cell.reach({-before.x, -before.y});
    const PlanePoint out{after.x * depth_before + before.x * depth_after,
                         after.y * depth_before + before.y * depth_after};
    // A corner sharper than a right angle is open wider than that, and would leave a side of the cell open.
    const double least = 0.1 * std::hypot(out.x, out.y);
    const bool sharp = dot(after, before) < -1e-6;
    return sharp && (dot(out, after) < least || dot(out, before) < least) ? after + before : out;
  }

 private:
  /// The edge, by its first corner, that the ray in this direction from the centre crosses.
  std::size_t edge_towards(PlanePoint direction) const {
    const auto next = std::upper_bound(angles_.begin(), angles_.end(), std::atan2(direction.y, direction.x));
    return (static_cast<std::size_t>(next - angles_.begin()) + angles_.size() - 1) % angles_.size();
  }

  PlanePoint centre_{0, 0};
  double area_ = 0;
  double inradius_ = std::numeric_limits<double>::infinity();
  std::vector<PlanePoint> corners_, normals_;  // normals_[i] belongs to the edge from corner i to the next
  std::vector<double> angles_;
  std::vector<std::int32_t> corner_of_;  // the number of the point's corner, or -1
};

/// The points that share a triangle with each point: those of point p are to[from[p]] .. to[from[p + 1]].
struct Neighbours {
  std::vector<std::size_t> from;
  std::vector<std::int32_t> to;

  Neighbours(const std::vector<std::array<std::int32_t, 3>>& triangles, std::size_t points) : from(points + 1, 0) {
    for (const auto& t : triangles)
      for (const std::int32_t p : t) from[static_cast<std::size_t>(p) + 1] += 2;
    std::partial_sum(from.begin(), from.end(), from.begin());
    to.resize(from.back());
    std::vector<std::size_t> next(from.begin(), from.end() - 1);
    for (const auto& t : triangles)
      for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t j = 1; j < 3; ++j) to[next[static_cast<std::size_t>(t[i])]++] = t[(i + j) % 3];
  }
};

/// Areas of the cells, in the points' own unit. Each is cut from a large square by the lines halfway to the neighbours,
/// which needs no Voronoi vertices: where several coincide, any triangulation gives the same cell.
std::vector<double> cell_areas(ThreadPool& threads, const std::vector<PlanePoint>& points, const Hull& hull) {
  const Neighbours neighbours(delaunay(points, threads.stop_token()), points.size());
  threads.check_stop();
  std::vector<double> areas(points.size());
  const auto work = [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int32_t> around;
    Polygon cell;
    for (auto p = static_cast<std::size_t>(begin); p < static_cast<std::size_t>(end); ++p) {
      around.assign(neighbours.to.begin() + static_cast<std::ptrdiff_t>(neighbours.from[p]),
                    neighbours.to.begin() + static_cast<std::ptrdiff_t>(neighbours.from[p + 1]));
      std::sort(around.begin(), around.end());
      around.erase(std::unique(around.begin(), around.end()), around.end());
      cell.reset(4);  // the points lie in the unit disc
      for (const std::int32_t other : around) {
        const PlanePoint way = points[static_cast<std::size_t>(other)] - points[p];
        cell.cut(way, dot(way, way) / 2);
      }
      const bool open = std::any_of(cell.points().begin(), cell.points().end(),
                                    [&](PlanePoint vertex) { return hull.outside(points[p] + vertex); });
      if (open) cell.cut(hull.outward(p, points[p], cell), 0);
      areas[p] = open ? 2 * cell.area() : cell.area();
    }
  };
  threads.parallel_for(static_cast<std::int64_t>(points.size()), 4096, work);
  return areas;
}

}  // namespace

std::vector<float> voronoi_density(ThreadPool& threads, HostView<const double> coordinates, double k_max) {
  const Shape& shape = coordinates.shape();
  if (shape.rank() != 2 || shape[1] != 2)
    throw std::invalid_argument("voronoi density: expected coordinates of shape [sample, 2], got " + shape.text());
  const Sites sites = find_sites(threads, coordinates, k_max);
  if (sites.points.size() < 4)
    throw std::invalid_argument(fmt::format(
        "voronoi density: a plane needs at least 4 distinct points, but the trajectory has {} within |k| <= "
        "{:g} cycles/pixel ({} samples in all)",
        sites.points.size(), k_max, shape[0]));
  if (sites.points.size() > kMost)
    throw std::invalid_argument(
        fmt::format("voronoi density: {} distinct points are too many (at most {}); use ramp or pipe_menon",
                    sites.points.size(), kMost));
  const Hull hull(threads, sites.points);
  if (hull.flat())
    throw std::invalid_argument(
        fmt::format("voronoi density: all {} distinct points of the trajectory lie on one line (to 1e-4 of its "
                    "length), so they have no cells in the plane",
                    sites.points.size()));
  const std::vector<double> areas = cell_areas(threads, sites.points, hull);

  std::vector<float> weights(sites.of.size(), 0.0f);
  for (std::size_t s = 0; s < weights.size(); ++s)
    if (sites.of[s] >= 0) {
      const auto site = static_cast<std::size_t>(sites.of[s]);
      weights[s] = static_cast<float>(areas[site] / sites.count[site] * sites.scale * sites.scale);
    }
  return weights;
}

}  // namespace echotrain::numerics
