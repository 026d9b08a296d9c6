// Steps of the conjugate gradients that an operator takes in kernels of its own.
#pragma once

#include <cmath>
#include <cstdint>

#include "gadgets/numerics/core/array.h"
#include "gadgets/numerics/core/backends.h"

namespace echotrain::numerics {

/// State of an item's iteration. It lives where the context computes, so that nothing waits for CUDA.
struct PcgState {
  enum Status : std::int32_t { running, converged, broke_down };

  double b_power;     ///< |b|^2
  double rz;          ///< <r, z>
  float alpha, beta;  ///< of the step; 0 once stopped
  std::int32_t status;
  std::int32_t moving;  ///< whether this step changes x and r
  std::int32_t count;   ///< residuals so far
  std::int32_t clear;   ///< x must become 0

  ECHOTRAIN_HOST_DEVICE void stop(Status why) {
    status = why;
    moving = 0;
    alpha = beta = 0;
  }
  /// Takes |b|^2, |r|^2 and <r, z> of the start.
  ECHOTRAIN_HOST_DEVICE void start(double bb, double rr, double r_z, double tolerance, double& residual) {
    *this = PcgState{};
    b_power = bb;
    count = 1;
    residual = 0;
    if (bb == 0) {
      clear = 1;
      return stop(converged);
    }
    if (!finite(bb) || !finite(rr)) {
      clear = 1;
      residual = NAN;
      return stop(broke_down);
    }
    take_residual(rr, r_z, tolerance, residual);
  }
  /// Takes <p, (A + lambda R) p>, which gives the step along p.
  ECHOTRAIN_HOST_DEVICE void step(double pq) {
    moving = 0;
    if (status != running) return;
    const double length = rz / pq;
    alpha = static_cast<float>(length);
    if (!(pq > 0) || !finite(alpha)) return stop(broke_down);
    moving = 1;
  }
  /// Takes |r|^2 and <r, z> after the step. residual: the place of residual number `count`.
  ECHOTRAIN_HOST_DEVICE void finish(double rr, double r_z, double tolerance, double& residual) {
    if (status != running) return;
    if (!finite(rr)) {
      clear = 1;
      return stop(broke_down);
    }
    const double before = rz;
    ++count;
    take_residual(rr, r_z, tolerance, residual);
    beta = status == running ? static_cast<float>(r_z / before) : 0;
  }

 private:
  ECHOTRAIN_HOST_DEVICE static bool finite(double v) { return v - v == 0; }
  ECHOTRAIN_HOST_DEVICE void take_residual(double rr, double r_z, double tolerance, double& residual) {
    residual = sqrt(rr / b_power);
    rz = r_z;
    if (residual <= tolerance) return stop(converged);
    if (!(r_z > 0) || !finite(r_z)) return stop(broke_down);
  }
};

/// One image's iteration, and how far it is to go on.
struct CgSteps {
  cfloat *x, *r, *p;    ///< [image...]
  const float* factor;  ///< [image...]: z = factor r; nullptr: 1
  float shift;          ///< the matrix is A + shift
  double* residuals;    ///< [length]
  std::int64_t length;
  double tolerance;
  PcgState* state;
  std::int32_t* arrived;  ///< [1], zero between operations
  int steps;              ///< at most; none once the state has stopped or `residuals` is full
  int* runs;              ///< of the host: set to whether the state runs afterwards
};

}  // namespace echotrain::numerics
