// The magnetization of a tissue on resonance, by the Bloch equations.
#pragma once

#include <cmath>

namespace echotrain::client {

/// In units of its equilibrium, which lies along z and where it begins. Flips are about one axis, so that it stays in a
/// plane: along z, and across. Source: Bloch, Phys. Rev. 70:460-474, 1946, between pulses that take no time.
class Magnetization {
 public:
  Magnetization(double t1_ms, double t2_ms) : t1_ms_(t1_ms), t2_ms_(t2_ms) {}

  void flip(double radians) {
    const double c = std::cos(radians), s = std::sin(radians), before = across_;
    across_ = c * before + s * along_;
    along_ = c * along_ - s * before;
  }
  void relax(double ms) {
    along_ = 1 + (along_ - 1) * std::exp(-ms / t1_ms_);
    across_ *= std::exp(-ms / t2_ms_);
  }
  void spoil() { across_ = 0; }
  /// Inverts what lies along z, but for a share: 1 is perfect. Spoils the rest.
  void invert(double efficiency) {
    along_ *= -efficiency;
    spoil();
  }
  double along() const { return along_; }
  double across() const { return across_; }

 private:
  double t1_ms_, t2_ms_, along_ = 1, across_ = 0;
};

/// A balanced steady-state readout of one image: half a flip, then `pulses` flips of alternating sign, `tr_ms` apart.
struct BalancedReadout {
  double tr_ms = 2.7, flip_radians = 0;
  int pulses = 60;

  int central() const { return pulses / 2; }
  /// Returns the time from the half flip to the central echo, and from that to the end [ms].
  double before_ms() const { return (central() + 1) * tr_ms; }
  double after_ms() const { return (pulses - central() - 0.5) * tr_ms; }
  /// Plays it, spoils, and returns the signal of the central echo, midway between two flips.
  double play(Magnetization& m) const {
    m.flip(-flip_radians / 2);
    m.relax(tr_ms / 2);
    double signal = 0;
    for (int p = 0; p < pulses; ++p) {
      const double sign = p % 2 == 0 ? 1 : -1;
      m.flip(sign * flip_radians);
      m.relax(tr_ms / 2);
      if (p == central()) signal = sign * m.across();
      m.relax(tr_ms / 2);
    }
    m.spoil();
    return signal;
  }
};

}  // namespace echotrain::client
