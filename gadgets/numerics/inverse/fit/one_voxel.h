// The fit of one voxel, or of as many as V has lanes, for both backends.
#pragma once

#include "gadgets/numerics/core/complex_value.h"
#include "gadgets/numerics/inverse/fit/lanes.h"
#include "gadgets/numerics/inverse/fit/voxel_fit_ops.h"

namespace echotrain::numerics::voxel_fit {

constexpr int kSteps = 6;  // Gauss-Newton: from a grid's distance of 0.12 in ln T to float's precision at SNR 10
constexpr int kStepsToCompare = 2;  // of the fits that only one of is kept: squares err by the square of T's error
constexpr int kRicianSteps = 16;    // they are more linear in ln T than steps of least squares where signals are weak
constexpr float kTiny = 1e-37F;     // near the least float, as it is added to squares of images of any unit

/// Values of the images of V's voxels: real, or real and imaginary parts.
template <class V, int kMost, int kParts>
struct Signals {
  V of[kMost][kParts];
};

/// The least-squares fit at one T and f, and what its changes are made of. The curve is centred where there is an
/// offset.
template <class V, int kParts>
struct Fitted {
  V amplitude[kParts];
  V middle[kParts];       ///< mean of the signals; 0 without an offset
  V mean, mean_slope;     ///< of the curve and of its slope by ln T; 0 without an offset
  V square;               ///< sum of the centred curve's squares
  V overlap;              ///< part of the curve in its slope
  V slope_square;         ///< sum of squares of the slope that curve and offset do not explain
  V turn_square;          ///< likewise of 2 pi at curve
  V power;                ///< |amplitude|^2
  V uphill, turn_uphill;  ///< residuals along these
  V squares;              ///< sum of the residuals' squares
};

/// The curve at image i and its slope by ln T, of T = exp(u), rate = 1 / T.
template <class V>
ECHOTRAIN_LANES void curve_at(const VoxelFitWork& w, int i, const V& rate, const V& period, V& curve, V& slope) {
  if (w.shape == VoxelCurve::Shape::sine) {
    const V angle = V(w.at[i]) / rate, turns = angle * V(0.159154943F);
    curve = V(w.root[i]) * sine_of_turns(turns);
    slope = V(w.root[i]) * (angle * sine_of_turns(turns + V(0.25F)));
    return;
  }
  const V x = V(w.at[i]) * rate, e = exponential(V(0.0F) - x);
  curve = V(w.root[i]) * e;
  slope = curve * x;
  if (w.shape == VoxelCurve::Shape::recovery) {
    // period: c exp(-period / T); its slope is that times period / T.
    curve = V(w.root[i]) * (V(1.0F) - period) - V(1 - w.prepared) * curve;
    slope = V(0.0F) - V(1 - w.prepared) * slope - V(w.root[i]) * (period * (V(w.period) * rate));
  }
}

/// c exp(-period / T) of `recovery`.
template <class V>
ECHOTRAIN_LANES V period_of(const VoxelFitWork& w, const V& rate) {
  if (w.shape != VoxelCurve::Shape::recovery || !(w.period > 0)) return V(0.0F);
  return V(w.prepared) * exponential(V(0.0F) - V(w.period) * rate);
}

/// Signals turned back by f, or with their first images negative.
template <bool kTurning, class V, int kMost, int kParts>
ECHOTRAIN_LANES void unwind(const VoxelFitWork& w, const Signals<V, kMost, kParts>& y, const V& flip, const V& f,
                            Signals<V, kMost, kParts>& z) {
  for (int i = 0; i < w.count; ++i) {
    if constexpr (kTurning) {
      const V turns = f * V(w.at[i]), sine = sine_of_turns(turns), cosine = sine_of_turns(turns + V(0.25F));
      z.of[i][0] = y.of[i][0] * cosine + y.of[i][1] * sine;
      z.of[i][1] = y.of[i][1] * cosine - y.of[i][0] * sine;
    } else {
      const V sign = select(V(static_cast<float>(i)) < flip, V(-1.0F), V(1.0F));
      for (int p = 0; p < kParts; ++p) z.of[i][p] = sign * y.of[i][p];
    }
  }
}

template <bool kOffset, bool kTurning, class V, int kMost, int kParts>
ECHOTRAIN_LANES Fitted<V, kParts> fit_at(const VoxelFitWork& w, const Signals<V, kMost, kParts>& z, const V& u) {
  Fitted<V, kParts> out;
  V curve[kMost], slope[kMost];
  const V zero(0.0F), rate = exponential(zero - u);
  const V period = period_of(w, rate);
  out.mean = out.mean_slope = zero;
  for (int p = 0; p < kParts; ++p) out.middle[p] = zero;
  for (int i = 0; i < w.count; ++i) {
    curve_at(w, i, rate, period, curve[i], slope[i]);
    if constexpr (kOffset) {
      out.mean = out.mean + curve[i];
      out.mean_slope = out.mean_slope + slope[i];
      for (int p = 0; p < kParts; ++p) out.middle[p] = out.middle[p] + z.of[i][p];
    }
  }
  if constexpr (kOffset) {
    const V part(1.0F / static_cast<float>(w.count));
    out.mean = out.mean * part;
    out.mean_slope = out.mean_slope * part;
    for (int p = 0; p < kParts; ++p) out.middle[p] = out.middle[p] * part;
  }
  V square = zero, product = zero, moment = zero, sums[kParts];
  for (int p = 0; p < kParts; ++p) sums[p] = zero;
  for (int i = 0; i < w.count; ++i) {
    if constexpr (kOffset) {
      curve[i] = curve[i] - out.mean;
      slope[i] = slope[i] - out.mean_slope;
    }
    square = square + curve[i] * curve[i];
    product = product + curve[i] * slope[i];
    if constexpr (kTurning) moment = moment + V(w.at[i]) * (curve[i] * curve[i]);
    for (int p = 0; p < kParts; ++p) sums[p] = sums[p] + curve[i] * (z.of[i][p] - out.middle[p]);
  }
  const V inverse = V(1.0F) / (square + V(kTiny));
  out.square = square;
  out.overlap = product * inverse;
  out.power = zero;
  for (int p = 0; p < kParts; ++p) {
    out.amplitude[p] = sums[p] * inverse;
    out.power = out.power + out.amplitude[p] * out.amplitude[p];
  }
  moment = moment * inverse;
  out.slope_square = out.turn_square = out.uphill = out.turn_uphill = out.squares = zero;
  for (int i = 0; i < w.count; ++i) {
    const V h = slope[i] - out.overlap * curve[i];
    out.slope_square = out.slope_square + h * h;
    V along = zero, left[kParts];
    for (int p = 0; p < kParts; ++p) {
      left[p] = (z.of[i][p] - out.middle[p]) - out.amplitude[p] * curve[i];
      out.squares = out.squares + left[p] * left[p];
      along = along + out.amplitude[p] * left[p];
    }
    out.uphill = out.uphill + h * along;
    if constexpr (kTurning) {
      const V k = V(6.28318531F) * ((V(w.at[i]) - moment) * curve[i]);
      out.turn_square = out.turn_square + k * k;
      out.turn_uphill = out.turn_uphill + k * (out.amplitude[0] * left[1] - out.amplitude[1] * left[0]);
    }
  }
  return out;
}

/// The grid's point whose curve holds most of the signals.
template <class V, int kMost, int kParts>
ECHOTRAIN_LANES V best_point(const VoxelFitWork& w, const Signals<V, kMost, kParts>& z) {
  V best(w.first), top(-1.0F);
  const float* q = w.grid;
  for (int g = 0; g < w.points; ++g, q += w.count) {
    V score(0.0F);
    for (int p = 0; p < kParts; ++p) {
      V sum(0.0F);
      for (int i = 0; i < w.count; ++i) sum = sum + V(q[i]) * z.of[i][p];
      score = score + sum * sum;
    }
    const auto better = top < score;
    top = select(better, score, top);
    best = select(better, V(w.first + static_cast<float>(g) * w.step), best);
  }
  return best;
}

template <class V, int kMost>
ECHOTRAIN_LANES V best_frequency(const VoxelFitWork& w, const Signals<V, kMost, 2>& y) {
  V best(w.first_turns), top(-1.0F);
  const float* wave = w.waves;
  for (int g = 0; g < w.frequencies; ++g, wave += 2 * w.count) {
    V re(0.0F), im(0.0F);
    for (int i = 0; i < w.count; ++i) {
      const V cosine(wave[i]), sine(wave[w.count + i]);
      re = re + (cosine * y.of[i][0] + sine * y.of[i][1]);
      im = im + (cosine * y.of[i][1] - sine * y.of[i][0]);
    }
    const V score = re * re + im * im;
    const auto better = top < score;
    top = select(better, score, top);
    best = select(better, V(w.first_turns + static_cast<float>(g) * w.turns_step), best);
  }
  return best;
}

/// Rice's distribution of the signal v >= 0, both in standard deviations of the noise.
template <class V>
struct Rice {
  V mean, slope, bend;  ///< the mean, its derivatives by v
  V variance;
};

/// The mean is v + a rational function fitted to sqrt(pi/2) exp(-v^2/4) ((1 + v^2/2) I0(v^2/4) + v^2/2 I1(v^2/4)) - v
/// (Rice, Bell Syst. Tech. J. 24, 1945), within 0.0005; far out it is v + 1 / (2 v). The mean square is v^2 + 2.
template <class V>
ECHOTRAIN_LANES Rice<V> rice(const V& signal) {
  constexpr float above[] = {1.25380054F, -0.09064666F, 0.25258152F, -0.06253935F, 0.0762184F};
  constexpr float below[] = {1.0F, 0.73723393F, 0.45590857F, 0.3812796F, -0.1210976F, 0.1524368F};
  const V zero(0.0F), two(2.0F), v = lesser(signal, V(1e4F));
  V p = zero, dp = zero, ddp = zero, q = zero, dq = zero, ddq = zero;  // dd: half the second derivative
  for (int i = 4; i >= 0; --i) {
    ddp = ddp * v + dp;
    dp = dp * v + p;
    p = p * v + V(above[i]);
  }
  for (int i = 5; i >= 0; --i) {
    ddq = ddq * v + dq;
    dq = dq * v + q;
    q = q * v + V(below[i]);
  }
  const V per = V(1.0F) / q, excess = p * per, slope = (dp - excess * dq) * per;
  return {signal + excess, greater(V(1.0F) + slope, zero), two * ((ddp - slope * dq - excess * ddq) * per),
          greater(two - excess * (two * v + excess), V(0.4F))};
}

/// T, f and the fit there of a voxel's signals.
template <class V, int kParts>
struct Solved {
  V u, f;
  Fitted<V, kParts> fitted;
  V variance, bias;  ///< in Rice's distribution: of ln T, for a variance of the noise of 1
};

/// True of T within the range.
template <class V>
ECHOTRAIN_LANES auto inside(const VoxelFitWork& w, const V& u) {
  const float margin = 0.01F * w.step, last = w.first + static_cast<float>(w.points - 1) * w.step;
  return (V(w.first + margin) < u) & (u < V(last - margin));
}

/// Steps within a grid point's neighbours.
template <bool kOffset, bool kTurning, class V, int kMost, int kParts>
ECHOTRAIN_LANES void descend(const VoxelFitWork& w, const Signals<V, kMost, kParts>& y, const V& flip, int steps,
                             const V (&bounds)[4], Signals<V, kMost, kParts>& z, Solved<V, kParts>& s) {
  for (int step = 0; step <= steps; ++step) {
    if (step == 0 || kTurning) unwind<kTurning>(w, y, flip, s.f, z);
    s.fitted = fit_at<kOffset, kTurning>(w, z, s.u);
    if (step == steps) break;
    const Fitted<V, kParts>& at = s.fitted;
    s.u = greater(bounds[0], lesser(bounds[1], s.u + at.uphill / (at.power * at.slope_square + V(kTiny))));
    if constexpr (kTurning)
      s.f = greater(bounds[2], lesser(bounds[3], s.f + at.turn_uphill / (at.power * at.turn_square + V(kTiny))));
  }
}

/// The change of sign of the best fit, and T there. On the grid one pass scores all changes, each of which differs from
/// the one before in one image. Those are fitted whose least squares may be below what another one surely has: between
/// grid points a curve turns by no more than `reach`, so that it holds of the signals at most |q.z| + reach |z - (q.z)
/// q|.
template <bool kOffset, class V, int kMost>
ECHOTRAIN_LANES void best_sign(const VoxelFitWork& w, const Signals<V, kMost, 1>& y, Signals<V, kMost, 1>& z,
                               Solved<V, 1>& best, V& flip) {
  const V zero(0.0F), first(w.first), last(w.first + static_cast<float>(w.points - 1) * w.step), step(w.step);
  V at[kMost], hold[kMost];  // of each change: ln T, and the most that a grid point's curve holds
  for (int n = 0; n < w.flips; ++n) {
    at[n] = first;
    hold[n] = V(-1.0F);
  }
  const float* q = w.grid;
  for (int g = 0; g < w.points; ++g, q += w.count) {
    V sum = zero;
    for (int i = 0; i < w.count; ++i) sum = sum + V(q[i]) * y.of[i][0];
    const V here(w.first + static_cast<float>(g) * w.step);
    for (int n = 0; n < w.flips; ++n) {
      const V score = sum * sum;
      at[n] = select(hold[n] < score, here, at[n]);
      hold[n] = greater(score, hold[n]);
      sum = sum - V(2.0F) * (V(q[n]) * y.of[n][0]);
    }
  }
  V power = zero, sum = zero;
  for (int i = 0; i < w.count; ++i) {
    power = power + y.of[i][0] * y.of[i][0];
    sum = sum + y.of[i][0];
  }
  V sure(3e38F);
  for (int n = 0; n < w.flips; ++n) {  // hold becomes the least squares that the change may have
    const V all = kOffset ? power - sum * sum * V(1.0F / static_cast<float>(w.count)) : power;
    const V rest = greater(all - hold[n], zero);
    // T may still come to a bound from the points next to it, and then the change is none.
    const auto amid = (first + V(1.5F) * step < at[n]) & (at[n] < last - V(1.5F) * step);
    sure = select(amid, lesser(sure, rest), sure);
    const V most = square_root(hold[n]) + V(w.reach) * square_root(rest);
    hold[n] = all - most * most;
    sum = sum - V(2.0F) * y.of[n][0];
  }
  sure = sure + V(1e-5F) * power;  // roundings
  V least(3e38F);
  best.u = at[0];
  for (int n = 0; n < w.flips; ++n) {
    while (n < w.flips && !any(hold[n] < sure)) ++n;
    if (n == w.flips) break;
    Solved<V, 1> now;
    now.u = at[n];
    const V bounds[4] = {greater(first, now.u - step), lesser(last, now.u + step), zero, zero};
    descend<kOffset, false>(w, y, V(static_cast<float>(n)), kStepsToCompare, bounds, z, now);
    // A sign that drives T to a bound is none.
    const auto better = (now.fitted.squares < least) & inside(w, now.u);
    least = select(better, now.fitted.squares, least);
    flip = select(better, V(static_cast<float>(n)), flip);
    best.u = select(better, now.u, best.u);
  }
}

template <bool kOffset, bool kTurning, class V, int kMost, int kParts>
ECHOTRAIN_LANES Solved<V, kParts> solve(const VoxelFitWork& w, const Signals<V, kMost, kParts>& y) {
  Signals<V, kMost, kParts> z;
  Solved<V, kParts> best;
  const V first(w.first), last(w.first + static_cast<float>(w.points - 1) * w.step), step(w.step);
  V flip(0.0F);
  best.f = V(0.0F);
  if constexpr (kTurning) best.f = best_frequency(w, y);
  const V near_f[2] = {best.f - V(w.turns_step), best.f + V(w.turns_step)};
  if constexpr (kTurning) {
    unwind<true>(w, y, flip, best.f, z);
    best.u = best_point(w, z);
    const V bounds[4] = {greater(first, best.u - step), lesser(last, best.u + step), near_f[0], near_f[1]};
    descend<kOffset, true>(w, y, flip, kStepsToCompare, bounds, z, best);
    unwind<true>(w, y, flip, best.f, z);  // the grid's f is off by so much that T may lie beyond the neighbours
    best.u = best_point(w, z);
  } else if constexpr (kParts == 1) {
    if (w.flips > 1)
      best_sign<kOffset>(w, y, z, best, flip);
    else
      best.u = best_point(w, y);
  } else {
    best.u = best_point(w, y);
  }
  const V bounds[4] = {greater(first, best.u - step), lesser(last, best.u + step), near_f[0], near_f[1]};
  descend<kOffset, kTurning>(w, y, flip, kSteps, bounds, z, best);
  return best;
}

/// The second derivative of the curve by ln T.
template <class V>
ECHOTRAIN_LANES V second_at(const VoxelFitWork& w, int i, const V& rate, const V& period, const V& curve,
                            const V& slope) {
  if (w.shape == VoxelCurve::Shape::sine) {
    const V angle = V(w.at[i]) / rate;
    return slope - angle * (angle * curve);
  }
  const V x = V(w.at[i]) * rate;
  V second = (x - V(1.0F)) * slope;
  if (w.shape == VoxelCurve::Shape::recovery) {
    const V per = V(w.period) * rate;
    second = second - V(w.root[i]) * ((per - x) * (period * per));
  }
  return second;
}

/// The inverse of a symmetric, positive matrix.
template <int kCount, class V>
ECHOTRAIN_LANES void invert(V (&m)[kCount][kCount]) {
  for (int p = 0; p < kCount; ++p) {
    const V pivot = V(1.0F) / (m[p][p] + V(kTiny));
    for (int c = 0; c < kCount; ++c) m[p][c] = c == p ? pivot : m[p][c] * pivot;
    for (int r = 0; r < kCount; ++r) {
      if (r == p) continue;
      const V factor = m[r][p];
      for (int c = 0; c < kCount; ++c) m[r][c] = c == p ? V(0.0F) - factor * pivot : m[r][c] - factor * m[p][c];
    }
  }
}

/// Fits the signals whose magnitudes the images are, from the fit to the images themselves on: quasi-likelihood, which
/// weighs each image by the variance that Rice's distribution has there, and its slope (Wedderburn, Biometrika 61,
/// 1974). The variance of ln T is that of the linearised fit, its bias that of bias_of().
template <bool kOffset, class V, int kMost>
ECHOTRAIN_LANES void fit_rician(const VoxelFitWork& w, const Signals<V, kMost, 1>& y, Solved<V, 1>& s) {
  constexpr int kCount = kOffset ? 3 : 2;  // amplitude, ln T, offset
  const V zero(0.0F), per_noise(1 / w.noise), low(w.first), high(w.first + static_cast<float>(w.points - 1) * w.step),
      most(2 * w.step);
  V amplitude = s.fitted.amplitude[0] * per_noise;
  V offset = kOffset ? (s.fitted.middle[0] - s.fitted.amplitude[0] * s.fitted.mean) * per_noise : zero;
  V inverse[kCount][kCount];
  for (int step = 0; step <= kRicianSteps; ++step) {
    const V rate = exponential(zero - s.u), period = period_of(w, rate);
    V uphill[kCount];
    for (int a = 0; a < kCount; ++a) {
      uphill[a] = zero;
      for (V& of : inverse[a]) of = zero;
    }
    for (int i = 0; i < w.count; ++i) {
      V curve, slope;
      curve_at(w, i, rate, period, curve, slope);
      const V signal = offset + amplitude * curve, sign = select(signal < zero, V(-1.0F), V(1.0F));
      const Rice<V> at = rice(sign * signal);
      const V weight = V(1.0F) / at.variance, left = y.of[i][0] * per_noise - at.mean, by = sign * at.slope;
      V along[kCount] = {by * curve, by * (amplitude * slope)};
      if constexpr (kOffset) along[2] = by;
      for (int a = 0; a < kCount; ++a) {
        uphill[a] = uphill[a] + (weight * left) * along[a];
        for (int b = 0; b < kCount; ++b) inverse[a][b] = inverse[a][b] + (weight * along[a]) * along[b];
      }
    }
    invert(inverse);
    if (step == kRicianSteps) break;
    V by[kCount];
    for (int a = 0; a < kCount; ++a) {
      by[a] = zero;
      for (int b = 0; b < kCount; ++b) by[a] = by[a] + inverse[a][b] * uphill[b];
    }
    const V part = V(0.8F) * greater(amplitude, zero - amplitude);  // the amplitude keeps its sign
    amplitude = amplitude + greater(zero - part, lesser(part, by[0]));
    s.u = greater(low, lesser(high, s.u + greater(zero - most, lesser(most, by[1]))));
    if constexpr (kOffset) offset = offset + by[2];
  }
  const V rate = exponential(zero - s.u), period = period_of(w, rate);
  V bias = zero;
  for (int i = 0; i < w.count; ++i) {
    V curve, slope;
    curve_at(w, i, rate, period, curve, slope);
    const V signal = offset + amplitude * curve, sign = select(signal < zero, V(-1.0F), V(1.0F));
    const Rice<V> at = rice(sign * signal);
    V along[kCount] = {curve, amplitude * slope};
    if constexpr (kOffset) along[2] = V(1.0F);
    V square = zero, row = zero;
    for (int a = 0; a < kCount; ++a) {
      row = row + inverse[1][a] * along[a];
      for (int b = 0; b < kCount; ++b) square = square + inverse[a][b] * (along[a] * along[b]);
    }
    const V second =
        V(2.0F) * (inverse[0][1] * slope) + inverse[1][1] * (amplitude * second_at(w, i, rate, period, curve, slope));
    bias = bias - (V(0.5F) / at.variance) * ((at.slope * row) * (at.bend * square * sign + at.slope * second));
  }
  s.variance = inverse[1][1] * (per_noise * per_noise);
  s.bias = bias * (per_noise * per_noise);
}

/// The bias of ln T by the curvature of the model, to second order in the noise, for a variance of 1 (Box, J. R. Stat.
/// Soc. B 33, 1971): -1/2 of what the model's mean second-order change, by the covariance of all parameters, adds along
/// h, the part of the slope that neither curve nor offset explains.
template <bool kTurning, class V, int kParts>
ECHOTRAIN_LANES V bias_of(const VoxelFitWork& w, const Solved<V, kParts>& s, const V& per_slope) {
  const Fitted<V, kParts>& at = s.fitted;
  const V zero(0.0F), rate = exponential(zero - s.u);
  const V period = period_of(w, rate);
  V bend = zero, turning = zero, square = zero, moment = zero;
  if constexpr (kTurning) {
    for (int i = 0; i < w.count; ++i) {
      V curve, slope;
      curve_at(w, i, rate, period, curve, slope);
      moment = moment + V(w.at[i]) * (curve * curve);
      square = square + curve * curve;
    }
    moment = moment / (square + V(kTiny));
  }
  for (int i = 0; i < w.count; ++i) {
    V curve, slope;
    curve_at(w, i, rate, period, curve, slope);
    const V h = (slope - at.mean_slope) - at.overlap * (curve - at.mean);
    bend = bend + h * second_at(w, i, rate, period, curve, slope);
    if constexpr (kTurning) turning = turning + h * (V(w.at[i]) * (V(2.0F) * moment - V(w.at[i])) * curve);
  }
  V bias = per_slope * (at.overlap - V(0.5F) * bend / (at.slope_square + V(kTiny)));
  if constexpr (kTurning) {
    const V per_turn = V(39.4784176F) / (at.power * at.turn_square + V(kTiny));  // (2 pi)^2
    bias = bias - per_turn * (V(0.5F) * turning / (at.slope_square + V(kTiny)));
  }
  return bias;
}

/// The bias of T (-Re(a / b) - 1), a and b the amplitude and the offset, to second order in the noise, for a variance
/// of
/// 1. Box's bias of all parameters, which is along a: (a alpha, a beta, that of ln T); and the value's second
/// derivatives by them. The noise of a and b is circular but for their parts by ln T; that of magnitudes has no
/// imaginary part.
template <class V, int kParts>
ECHOTRAIN_LANES V look_locker_bias(const VoxelFitWork& w, const Solved<V, kParts>& s, const V& per_slope,
                                   const V& value, const V& re, const V& im, const V& per_offset) {
  const Fitted<V, kParts>& at = s.fitted;
  const V zero(0.0F), two(2.0F), half(0.5F), rate = exponential(zero - s.u), t = V(1.0F) / rate;
  V mean = zero, along = zero;  // of the second derivative: its mean, and its part along the centred curve
  for (int i = 0; i < w.count; ++i) {
    V curve, slope;
    curve_at(w, i, rate, zero, curve, slope);
    const V second = second_at(w, i, rate, zero, curve, slope);
    mean = mean + second;
    along = along + (curve - at.mean) * second;
  }
  const V per_count(1.0F / static_cast<float>(w.count)), per_square = V(1.0F) / (at.square + V(kTiny));
  const V of_log = bias_of<false>(w, s, per_slope);
  const V alpha = zero - half * per_slope * (along * per_square - two * at.overlap * at.overlap) - at.overlap * of_log;
  const V beta = zero - half * per_slope * (mean * per_count - two * at.overlap * at.mean_slope) - alpha * at.mean -
                 of_log * at.mean_slope;
  // Covariances of ln T with a and b, over a.
  const V with_a = zero - at.overlap * per_slope, with_b = (at.mean * at.overlap - at.mean_slope) * per_slope;
  const V re2 = re * re - im * im, re3 = re2 * re - two * re * im * im;  // of (a / b)^2, (a / b)^3
  const V ratio = with_b / (per_slope + V(kTiny));
  V change = re * (alpha + with_a) - re2 * (beta + with_b) - re2 * with_a * ratio + re3 * with_b * ratio;
  if constexpr (kParts == 1)
    change = change + per_offset * (at.mean * per_square + re * (per_count + at.mean * at.mean * per_square));
  return value * (of_log + half * per_slope) - t * change;
}

/// The value, its standard deviation, f, its standard deviation; zeros where there are none.
template <bool kOffset, bool kTurning, class V, int kParts>
ECHOTRAIN_LANES void results(const VoxelFitWork& w, const Solved<V, kParts>& s, const V& strength, V (&out)[4]) {
  const V zero(0.0F), one(1.0F);
  const Fitted<V, kParts>& at = s.fitted;
  V deviation = V(w.noise);
  if (!(w.noise > 0)) deviation = square_root(at.squares * V(1 / w.freedom));
  V per_slope = one / (at.power * at.slope_square + V(kTiny));  // variance of ln T by that of the noise
  if (w.rician) per_slope = s.variance;
  V value = exponential(w.value == VoxelCurve::Value::rate ? zero - s.u : s.u);
  V variance = value * value * per_slope;
  if (w.unbiased && w.value != VoxelCurve::Value::look_locker) {
    const V of_log = w.rician ? s.bias : bias_of<kTurning>(w, s, per_slope);
    const V share =
        (V(0.5F) * per_slope + (w.value == VoxelCurve::Value::rate ? zero - of_log : of_log)) * (deviation * deviation);
    value = value * (one - greater(V(-0.5F), lesser(V(0.5F), share)));
    variance = value * value * per_slope;
  }
  if constexpr (kOffset) {
    if (w.value == VoxelCurve::Value::look_locker) {
      // The offset of the curve that is not centred, and gradients by it (b) and by the amplitude (a): those of
      // T (-Re(a / b) - 1). The noise enters by three combinations that are independent: along the constant, along the
      // centred curve, and along the rest of the slope.
      V a[2] = {at.amplitude[0], zero}, b[2] = {at.middle[0] - at.amplitude[0] * at.mean, zero};
      if constexpr (kParts == 2) {
        a[1] = at.amplitude[1];
        b[1] = at.middle[1] - at.amplitude[1] * at.mean;
      }
      const V inverse = one / (b[0] * b[0] + b[1] * b[1] + V(kTiny)), t = value;
      const V re = (a[0] * b[0] + a[1] * b[1]) * inverse, im = (a[1] * b[0] - a[0] * b[1]) * inverse;  // a / b
      value = t * (zero - re - one);
      // conj(1 / b) = b / |b|^2, conj(a / b^2) = conj(a / b) b / |b|^2
      const V by_a[2] = {zero - t * b[0] * inverse, zero - t * b[1] * inverse};
      const V by_b[2] = {t * (re * b[0] + im * b[1]) * inverse, t * (re * b[1] - im * b[0]) * inverse};
      const V c[2] = {by_a[0] - at.mean * by_b[0], by_a[1] - at.mean * by_b[1]};
      const V by_u =
          value - at.overlap * (c[0] * a[0] + c[1] * a[1]) - at.mean_slope * (by_b[0] * a[0] + by_b[1] * a[1]);
      variance = (by_b[0] * by_b[0] + by_b[1] * by_b[1]) * V(1.0F / static_cast<float>(w.count)) +
                 (c[0] * c[0] + c[1] * c[1]) / (at.square + V(kTiny)) + by_u * by_u * per_slope;
      if (w.unbiased) {
        const V bias = look_locker_bias(w, s, per_slope, value, re, im, inverse) * (deviation * deviation);
        const V most = V(0.5F) * greater(value, zero - value);
        value = value - greater(zero - most, lesser(most, bias));
      }
    }
  }
  const V error = deviation * square_root(variance);
  auto good = inside(w, s.u) & (zero < value) & (value < V(1e30F)) & (V(-1.0F) < error) & (error < V(1e30F)) &
              (zero < at.power) & (V(w.threshold) * deviation < strength);
  if (w.floor != nullptr) good = good & (V(*w.floor) < strength);
  if (w.most_error > 0) good = good & (error < V(w.most_error) * value);
  out[0] = select(good, value, zero);
  out[1] = select(good, error, zero);
  if constexpr (kTurning) {
    out[2] = select(good, s.f, zero);
    out[3] = select(good, deviation * square_root(one / (at.power * at.turn_square + V(kTiny))), zero);
  }
}

/// Fits `count` voxels from `first` on.
template <class Form, int kMost, class V>
ECHOTRAIN_LANES void fit_lanes(const VoxelFitWork& w, std::int64_t first, int count) {
  constexpr bool kOffset = Form::kOffset, kTurning = Form::kTurning;
  constexpr int kParts = Form::kParts;
  Signals<V, kMost, kParts> y;
  V strength(0.0F);
  for (int i = 0; i < w.count; ++i) {
    const cfloat* from = w.images + w.place[i] * w.voxels + first;
    V parts[2];
    load_lanes(from, count, parts);
    for (V& part : parts) part = V(w.root[i]) * part;
    const V square = parts[0] * parts[0] + parts[1] * parts[1];
    strength = strength + square;
    if constexpr (kParts == 2) {
      y.of[i][0] = parts[0];
      y.of[i][1] = parts[1];
    } else {
      y.of[i][0] = w.real ? parts[0] : square_root(square);
    }
  }
  strength = square_root(strength * V(1.0F / static_cast<float>(w.count)));
  Solved<V, kParts> s = solve<kOffset, kTurning>(w, y);
  if constexpr (Form::kRician) fit_rician<kOffset>(w, y, s);
  V out[4];
  results<kOffset, kTurning>(w, s, strength, out);
  for (int m = 0; m < (kTurning ? 4 : 2); ++m) store_lanes(out[m], w.maps + m * w.voxels + first, count);
}

/// A kind of fits, each of which is a kernel of its own.
template <bool kHasOffset, bool kTurns, int kOfImage, bool kOfRice = false>
struct Form {
  static constexpr bool kOffset = kHasOffset, kTurning = kTurns, kRician = kOfRice;
  static constexpr int kParts = kOfImage;  ///< numbers of an image
};

/// Calls call(Form<...>()) with the fit's form.
template <class Call>
ECHOTRAIN_INLINE void with_form(const VoxelFitWork& w, const Call& call) {
  if (w.turning) return call(Form<false, true, 2>());
  if (!w.magnitude && !w.real) return w.offset ? call(Form<true, false, 2>()) : call(Form<false, false, 2>());
  if (w.magnitude && w.rician)
    return w.offset ? call(Form<true, false, 1, true>()) : call(Form<false, false, 1, true>());
  return w.offset ? call(Form<true, false, 1>()) : call(Form<false, false, 1>());
}

}  // namespace echotrain::numerics::voxel_fit
