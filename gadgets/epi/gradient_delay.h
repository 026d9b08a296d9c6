// The delay of a readout gradient, estimated from lines without phase encoding.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "gadgets/api/items.h"

namespace echotrain {

/// Makes lines [coil, x] from a phase-correction line's samples by the weights [sample, x], in float64.
void regular_line(const float* weights, numerics::HostView<const cfloat> samples, numerics::HostView<cfloat> line);

/// Finds the delay [us] at which reversed lines and others, made regular with it, have no linear phase between them:
/// the samples of a late gradient are moved along its slope, forwards in one direction and backwards in the other,
/// which a linear phase undoes only where the gradient is flat. The secant rule starts from 0 and 1 us, up to
/// kMostDelay; a step whose weights throw std::invalid_argument is halved.
///
/// navigators: phase-correction readouts as they came, of which the first slice is used; weights: those for a delay,
/// [2, sample, x], of lines that run forward and of reversed ones, of `points` points. Returns no value when no
/// neighbours run in different directions, or there is no such delay.
std::optional<double> gradient_delay(const std::vector<Readouts>& navigators, std::int64_t points,
                                     const std::function<std::vector<float>(double late)>& weights);

inline constexpr double kMostDelay = 30;  // us

}  // namespace echotrain
