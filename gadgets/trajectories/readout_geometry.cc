#include "gadgets/trajectories/readout_geometry.h"

#include <algorithm>
#include <cmath>

namespace echotrain {
namespace {
constexpr std::int64_t kFewestSamples = 16, kFewestBeside = 6;
constexpr double kStraight = 0.02;  // steps by which a sample may deviate from its even place
}  // namespace

TrajectorySpace trajectory_space(const protocol::Encoding& encoding, config::TrajectoryUnit unit) {
  using protocol::Trajectory;
  TrajectorySpace out;
  out.corrected = encoding.trajectory != Trajectory::cartesian && encoding.trajectory != Trajectory::epi;
  out.dims = encoding.encoded.matrix[2] > 1 ? 3 : 2;
  const std::array<double, 3> to_pixel = to_cycles_per_pixel(encoding, unit);
  for (std::size_t a = 0; a < 3; ++a)
    out.to_physical[a] = to_pixel[a] * encoding.encoded.matrix[a] / encoding.encoded.fov_mm[a];
  return out;
}

std::optional<std::array<std::array<double, 3>, 3>> slice_axes(const protocol::AcquisitionHeader& head) {
  const std::array<std::array<double, 3>, 3> axes{read_direction(head), phase_direction(head), slice_direction(head)};
  for (std::size_t a = 0; a < 3; ++a)
    for (std::size_t b = 0; b <= a; ++b)
      if (!(std::abs(dot(axes[a], axes[b]) - (a == b ? 1 : 0)) < 0.01)) return std::nullopt;
  return axes;
}

Orientation orientation_of(const protocol::AcquisitionHeader& head, std::uint16_t encoding) {
  Orientation out{encoding};
  std::size_t at = 1;
  for (const Vector& v : {read_direction(head), phase_direction(head), slice_direction(head)})
    for (const double component : v)
      out[at++] = static_cast<std::int32_t>(std::lround(std::clamp(component, -2.0, 2.0) * 1000));
  return out;
}

std::vector<double> physical_positions(const Readouts& readouts, std::size_t i, const TrajectorySpace& space) {
  const auto& shape = readouts.trajectory.shape();
  const std::int64_t samples = shape[1], components = shape[2], dims = std::min<std::int64_t>(space.dims, components);
  std::vector<double> out(static_cast<std::size_t>(samples * dims));
  const float* from = readouts.trajectory.data() + static_cast<std::int64_t>(i) * samples * components;
  for (std::int64_t s = 0; s < samples; ++s)
    for (std::int64_t d = 0; d < dims; ++d)
      out[static_cast<std::size_t>(s * dims + d)] =
          static_cast<double>(from[s * components + d]) * space.to_physical[static_cast<std::size_t>(d)];
  return out;
}

void set_positions(Readouts& readouts, std::size_t i, const TrajectorySpace& space,
                   const std::vector<double>& positions) {
  const auto& shape = readouts.trajectory.shape();
  const std::int64_t samples = shape[1], components = shape[2], dims = std::min<std::int64_t>(space.dims, components);
  float* to = readouts.trajectory.data() + static_cast<std::int64_t>(i) * samples * components;
  for (std::int64_t s = 0; s < samples; ++s)
    for (std::int64_t d = 0; d < dims; ++d)
      to[s * components + d] = static_cast<float>(positions[static_cast<std::size_t>(s * dims + d)] /
                                                  space.to_physical[static_cast<std::size_t>(d)]);
}

std::optional<Spoke> spoke_of(const Readouts& readouts, std::size_t i, const TrajectorySpace& space) {
  const auto& head = readouts.heads[i];
  const std::int64_t samples = readouts.trajectory.shape()[1];
  const std::int64_t dims = std::min<std::int64_t>(space.dims, readouts.trajectory.shape()[2]);
  Spoke out;
  out.begin = head.discard_pre;
  out.end = samples - head.discard_post;
  const std::int64_t used = out.end - out.begin;
  if (dims < 2 || used < kFewestSamples) return std::nullopt;
  const std::vector<double> k = physical_positions(readouts, i, space);
  const auto at = [&](std::int64_t s, std::int64_t d) { return k[static_cast<std::size_t>(s * dims + d)]; };
  numerics::Plane step{};
  for (std::int64_t d = 0; d < 2; ++d)
    step[static_cast<std::size_t>(d)] = (at(out.end - 1, d) - at(out.begin, d)) / static_cast<double>(used - 1);
  out.step = std::hypot(step[0], step[1]);
  if (!(out.step > 0)) return std::nullopt;
  out.direction = {step[0] / out.step, step[1] / out.step};
  out.z = dims == 3 ? at(out.begin, 2) : 0;
  for (std::int64_t s = out.begin; s < out.end; ++s) {
    const auto n = static_cast<double>(s - out.begin);
    if (std::hypot(at(s, 0) - at(out.begin, 0) - n * step[0], at(s, 1) - at(out.begin, 1) - n * step[1]) >
        kStraight * out.step)
      return std::nullopt;
    if (dims == 3 && std::abs(at(s, 2) - out.z) > kStraight * out.step) return std::nullopt;
  }
  out.first = (at(out.begin, 0) * out.direction[0] + at(out.begin, 1) * out.direction[1]) / out.step;
  const double beside = (at(out.begin, 0) * out.direction[1] - at(out.begin, 1) * out.direction[0]) / out.step;
  const auto margin = static_cast<double>(kFewestBeside);
  if (std::abs(beside) >= 1 || -out.first < margin || out.first + static_cast<double>(used - 1) < margin)
    return std::nullopt;
  return out;
}

}  // namespace echotrain
