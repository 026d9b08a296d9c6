#include "gadgets/numerics/mri/density/delaunay.h"

#include <fmt/format.h>
#include <libqhull_r/libqhull_r.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

#include "gadgets/numerics/core/heap_account.h"
#include "gadgets/numerics/core/thread_pool.h"

namespace echotrain::numerics {
namespace {

// Qhull takes these with malloc: 520 where it merges no facets, up to 620 where it does.
constexpr std::size_t kBytesOfPoint = 640;

using Triangles = std::vector<std::array<std::int32_t, 3>>;

/// Captures Qhull's messages, which must not go to the process's own streams.
class Messages {
 public:
  Messages() : file_(open_memstream(&text_, &size_)) {
    if (file_ == nullptr) throw ResourceError("no memory for a message buffer");
  }
  ~Messages() {
    std::fclose(file_);
    std::free(text_);
  }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  FILE* file() { return file_; }
  std::string first_line() {
    std::fflush(file_);
    const std::string all(text_, size_);
    const std::size_t begin = std::min(all.size(), all.find_first_not_of('\n'));
    return all.substr(begin, all.find('\n', begin) - begin);
  }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0;
  FILE* file_;
};

/// Ends a run of Qhull early when `stop` says so. Before each point that it adds, Qhull compares the number of points
/// with STOPadd, where 0 means all; it offers no other way to interrupt it. STOPcone, set to a point that does not
/// exist, keeps Qhull from checking its result, and thresholds that are off from visiting each facet at the end. All
/// are written again and again, because a run begins by setting them.
class Interrupter {
 public:
  Interrupter(qhT& qh, const std::stop_token& stop) {
    if (!stop.stop_possible()) return;
    thread_ = std::jthread([&qh, stop](const std::stop_token& over) {
      std::mutex mutex;
      std::condition_variable_any changed;
      for (std::unique_lock lock(mutex); !over.stop_requested();) {
        if (stop.stop_requested()) {
          std::atomic_ref(qh.STOPcone).store(std::numeric_limits<int>::max());
          std::atomic_ref(qh.STOPadd).store(1);
          std::atomic_ref(qh.SPLITthresholds).store(0);
          std::atomic_ref(qh.GOODthreshold).store(0);
        }
        changed.wait_for(lock, over, kTick, [] { return false; });
      }
    });
  }

 private:
  static constexpr std::chrono::milliseconds kTick{10};
  std::jthread thread_;
};

/// One run of Qhull and its memory.
class Qhull {
 public:
  /// `coordinates`: x, y of each point; they must outlive this. A run that `stop` has ended has no result.
  Qhull(std::vector<double>& coordinates, bool merging, const std::stop_token& stop) {
    qh_zero(&qh_, messages_.file());
    // Qbb scales the lifted coordinate. Q0 merges no facets, so rounding may be an error. Qt cuts facets that were
    // merged for rounding into triangles; Q12 allows wide facets, which arise where many points lie on one circle.
    char plain[] = "qhull d Qbb Q0", careful[] = "qhull d Qbb Qc Qt Q12";
    char* command = merging ? careful : plain;
    const Interrupter interrupter(qh_, stop);
    status_ = qh_new_qhull(&qh_, 2, static_cast<int>(coordinates.size() / 2), coordinates.data(), False, command,
                           nullptr, messages_.file());
  }
  ~Qhull() {
    int blocks = 0, bytes = 0;
    qh_freeqhull(&qh_, !qh_ALL);
    qh_memfreeshort(&qh_, &blocks, &bytes);
  }
  Qhull(const Qhull&) = delete;
  Qhull& operator=(const Qhull&) = delete;

  int status() const { return status_; }
  std::string message() { return messages_.first_line(); }

  Triangles triangles() {
    Triangles result;
    for (const facetT* facet = qh_.facet_list; facet != nullptr && facet->next != nullptr; facet = facet->next) {
      if (facet->upperdelaunay) continue;
      std::array<std::int32_t, 3> triangle{};
      std::size_t corners = 0;
      for (void* const* element = &facet->vertices->e[0].p; *element != nullptr; ++element, ++corners)
        if (corners < 3) triangle[corners] = qh_pointid(&qh_, static_cast<const vertexT*>(*element)->point);
      if (corners == 3) result.push_back(triangle);  // the area below shows what is left out
    }
    return result;
  }

 private:
  Messages messages_;
  qhT qh_{};
  int status_;
};

double cross(double ax, double ay, double bx, double by) { return ax * by - ay * bx; }

/// Twice the area of the convex hull, by Andrew's monotone chain.
double hull_area(std::vector<PlanePoint> points, const std::stop_token& stop) {
  StopCheck check_stop(stop);
  std::sort(points.begin(), points.end(), [&](const PlanePoint& a, const PlanePoint& b) {
    check_stop();
    return a.x < b.x || (a.x == b.x && a.y < b.y);
  });
  double area = 0;
  for (int side = 0; side < 2; ++side) {
    std::vector<PlanePoint> chain;
    for (const PlanePoint& p : points) {
      check_stop();
      while (chain.size() > 1) {
        const PlanePoint &a = chain[chain.size() - 2], &b = chain.back();
        if (cross(b.x - a.x, b.y - a.y, p.x - a.x, p.y - a.y) > 0) break;
        chain.pop_back();
      }
      chain.push_back(p);
    }
    for (std::size_t i = 1; i < chain.size(); ++i)
      area += cross(chain[i - 1].x, chain[i - 1].y, chain[i].x, chain[i].y);
    std::reverse(points.begin(), points.end());
  }
  return area;
}

/// A number in [-1, 1) for each index, the same in every run (by the mixing step of SplitMix64).
double jitter(std::uint64_t index) {
  std::uint64_t z = (index + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-52 - 1;
}

}  // namespace

Triangles delaunay(const std::vector<PlanePoint>& points, std::stop_token stop) {
  const double area = hull_area(points, stop);
  const HeapCharge paid(kBytesOfPoint * points.size());
  std::string problem;
  // Trajectories have many points on one circle, where rounding decides and Qhull has to merge facets. Moving each
  // point by far less than their distances avoids that and is faster; if it still fails, they are moved further.
  constexpr struct {
    double step;
    bool merging;
  } kAttempts[] = {{1e-8, false}, {1e-8, true}, {3e-8, true}, {1e-7, true}};
  for (const auto& [step, merging] : kAttempts) {
    std::vector<double> moved;
    moved.reserve(2 * points.size());
    for (const PlanePoint& p : points) {
      moved.push_back(p.x + step * jitter(moved.size()));
      moved.push_back(p.y + step * jitter(moved.size()));
    }
    Qhull qhull(moved, merging, stop);
    if (stop.stop_requested()) throw Stopped();
    if (qhull.status() == qh_ERRmem) throw ResourceError("not enough memory to triangulate the trajectory");
    if (qhull.status() != qh_ERRnone) {
      problem = qhull.message();
      continue;
    }
    // Triangles that neither overlap nor leave holes have the hull's area.
    Triangles triangles = qhull.triangles();
    double covered = 0;
    for (const auto& t : triangles) {
      const PlanePoint &a = points[static_cast<std::size_t>(t[0])], &b = points[static_cast<std::size_t>(t[1])],
                       &c = points[static_cast<std::size_t>(t[2])];
      covered += std::abs(cross(b.x - a.x, b.y - a.y, c.x - a.x, c.y - a.y));
    }
    if (std::abs(covered - area) <= 1e-4 * area) return triangles;
    problem = fmt::format("its triangles cover {:.6g} of the hull", covered / area);
  }
  throw std::invalid_argument("Qhull could not triangulate the points: " + problem);
}

}  // namespace echotrain::numerics
