// Delaunay triangulation in the plane.
#pragma once

#include <array>
#include <cstdint>
#include <stop_token>
#include <vector>

namespace echotrain::numerics {

struct PlanePoint {
  double x, y;
};

/// Triangles (numbers of points) of the Delaunay triangulation of `points`. These must be at least four, lie within the
/// unit disc, not all on one line (to 1e-4 of its length), and be further apart than 1e-7. Where more than three lie on
/// one circle, any of their triangulations may be returned: points are moved by up to 1e-8 to choose one. Flat
/// triangles at the rim of the hull may be missing. Throws std::invalid_argument when the points cannot be
/// triangulated; ResourceError when memory is short; std::bad_alloc where the scan's budget lends no more. Uses Qhull:
/// Barber, Dobkin, Huhdanpaa, "The quickhull algorithm for convex hulls", ACM TOMS 22(4), 1996. Throws Stopped when
/// `stop` says so.
std::vector<std::array<std::int32_t, 3>> delaunay(const std::vector<PlanePoint>& points, std::stop_token stop = {});

}  // namespace echotrain::numerics
