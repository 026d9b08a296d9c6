// A phantom is an object whose Fourier transform is known in closed form, so that no simulation uses a transform under
// test.
#pragma once

#include <array>
#include <complex>
#include <vector>

namespace echotrain::client {

using cdouble = std::complex<double>;
using Vec3 = std::array<double, 3>;  ///< x, y, z; z is 0 in 2D

/// A sum of ellipses (2D) or ellipsoids (3D) and Gaussians. Lengths are pixels from the origin, voxel floor(n/2) of an
/// image; k is in cycles/pixel. kspace(k) is the integral of value(r) exp(-2 pi i k.r) over all space.
class Phantom {
 public:
  /// The head of Shepp and Logan on an image of `matrix` pixels, largest value 1, front of the head at small y.
  /// 2D: the high-contrast table of Toft, "The Radon Transform", PhD thesis, DTU 1996, annex B (10 ellipses).
  /// 3D: Koay, Sarlls, Oezarslan, MRM 58:430-436, 2007, table 1 (10 ellipsoids), amplitudes halved.
  /// With `depth` pixels along z, the head's z axis is scaled by depth / matrix.
  static Phantom shepp_logan(int dims, double matrix) { return shepp_logan(dims, matrix, matrix); }
  static Phantom shepp_logan(int dims, double matrix, double depth);
  /// Returns the same object in the n-th echo of a multi-echo scan, n from 0: the signal of each part (its amplitude
  /// plus those of the parts around it) decays at its own rate. The outer shell and the brain fade, the ventricles
  /// hardly do, so they go from darker to brighter than what is around them.
  Phantom echo(int n) const;
  /// Returns the cut of a 3D object through the plane z, in pixels from the origin: a 2D object. Throws
  /// std::logic_error in 2D.
  Phantom slice(double z) const;
  /// A chest with a beating heart, 2D, at `phase` of the beat (0 .. 1, the trigger at 0): contraction to 0.35,
  /// relaxation to 0.8, then rest. The chambers are brighter than the muscle around them. The left chamber shrinks to
  /// 0.55 of its radius while the muscle's area stays the same, so the outer wall moves too.
  /// Heart and lungs, but neither chest nor spine, are moved by `shift` pixels along y, as a breath moves them. A weak
  /// beat contracts by `strength` of that.
  static Phantom beating(double matrix, double phase, double shift = 0, double strength = 1);
  /// Returns how far the heart is contracted at `phase`: 0 at rest, 1 at the end of systole; smooth.
  static double contraction(double phase);
  /// Returns a Gaussian of amplitude 1 at the origin; `sigma` in pixels.
  static Phantom blob(int dims, double sigma);
  /// Returns an object of nothing, to which discs are added: a 2D disc whose signal may be complex, convolved with a
  /// Gaussian of standard deviation `blur` that keeps its integral (value() is that of the sharp disc).
  static Phantom empty(int dims) { return Phantom(dims); }
  void add_disc(cdouble signal, const Vec3& center, double radius, double blur);

  int dims() const { return dims_; }
  /// Source: the 2D ellipse by the Bessel function J1, the 3D ellipsoid by Koay eq. 5, both moved by the shift theorem.
  cdouble kspace(const Vec3& k) const;
  double value(const Vec3& r) const;  ///< of complex signals the real part

 private:
  enum class Shape { ellipsoid, gaussian };
  struct Part {
    Shape shape = Shape::ellipsoid;
    cdouble amplitude = 1;
    double blur = 0;  // sigma of the Gaussian that it is convolved with
    Vec3 center{};
    Vec3 size{};        // half axes or sigmas
    double cosine = 1;  // of the rotation about z from the image's axes to the part's
    double sine = 0;
  };
  explicit Phantom(int dims) : dims_(dims) {}
  void add_ellipsoid(double amplitude, const Vec3& center, const Vec3& half_axes, double angle,
                     const Vec3& pixels_per_unit);
  double transform(const Part& part, const Vec3& k) const;

  int dims_;
  std::vector<Part> parts_;
};

}  // namespace echotrain::client
