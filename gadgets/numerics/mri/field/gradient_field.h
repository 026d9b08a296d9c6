// A gradient field is what the fields of a scanner's gradient coils have beyond their linear part.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// Spherical harmonics of the coils x, y, z: sum over n, m of (r / radius)^n P_n^m(cos theta) (cosine cos m phi + sine
/// sin m phi), with theta from the device's z and phi from its x; P is Schmidt's seminormalised Legendre function
/// (P_n^0 Legendre's polynomial, no (-1)^m). Times the radius, they are the displacement along x, y, z.
struct GradientHarmonics {
  static constexpr int kMostDegree = 24;
  struct Term {
    double cosine = 0, sine = 0;
  };
  double radius_mm = 0;
  int degree = 0;                            ///< the highest n
  std::array<std::vector<Term>, 3> of_coil;  ///< of degrees 0 .. `degree`, at place(n, m)
  static std::size_t place(int n, int m) { return static_cast<std::size_t>(n * (n + 1) / 2 + m); }
};

/// The displacement d: signals of place r appear at r + d(r), where an image takes the gradients for linear. In mm of
/// the device's axes, from the isocentre.
class GradientField {
 public:
  static constexpr int kFields = 12;
  using Values = std::array<double, kFields>;
  /// Throws std::invalid_argument on a radius or a degree that makes no field, and on values that are not finite.
  explicit GradientField(const GradientHarmonics& harmonics);
  /// d along x, y, z [mm], then its derivatives: of x by x, y, z; of y; of z. In float64.
  Values at(const std::array<double, 3>& mm) const;
  double radius_mm() const { return radius_mm_; }
  int degree() const { return degree_; }
  /// For each term, m slowest, then n: both coefficients of the recurrence from n - 1 and n - 2, then of each field the
  /// cosine and the sine.
  const std::vector<double>& table() const { return table_; }

 private:
  double radius_mm_;
  int degree_;
  std::vector<double> table_;
};

/// The place of voxel (x, y, z) in the device [mm]: first + x step[0] + y step[1] + z step[2]. Steps are at right
/// angles.
struct VoxelPlaces {
  std::array<double, 3> first{};
  std::array<std::array<double, 3>, 3> step{};
};

/// The shift of echo-planar images along y, as unwarp() takes it: [z, y, x], on the lattice of images that have the
/// gradients' displacement.
struct LineShift {
  DeviceView<const float> voxels;
  bool modulate = true;  ///< brightness follows its stretch
};

/// map[0..2, z, y, x] = what voxel (x, y, z) is away from the place where its signal appears [voxels along x, y, z];
/// map[3] = the factor of brightness, the determinant of the derivatives of r + d(r) (Jovicich et al., NeuroImage 30,
/// 2006); 1 without `modulate`, 0 where that is not above 0, as signals lie on each other there.
///
/// Images of one plane are moved within the plane only, and the factor is still that of the volume, because a slice is
/// as thick as the gradient makes it.
///
/// With `shift`, signals are moved by it after the gradients' displacement: y + d_y + s(r + d), and the factor has 1 +
/// ds/dy there (0 where that is not above 0); s between voxels comes from four along each axis, by cubic interpolation.
///
/// map: [4, z, y, x]. Asynchronous on CUDA. Throws std::invalid_argument on shapes that do not fit.
void gradient_map(Context& context, const GradientField& field, const VoxelPlaces& places, bool modulate,
                  const LineShift& shift, DeviceView<float> map);

}  // namespace echotrain::numerics
