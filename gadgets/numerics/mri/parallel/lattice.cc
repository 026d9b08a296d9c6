#include "gadgets/numerics/mri/parallel/lattice.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace echotrain::numerics {
namespace {

std::int64_t modulo(std::int64_t a, std::int64_t n) { return (a % n + n) % n; }

/// The steps from the `count` nearest of the points first + i * step to 0, ascending.
std::vector<std::int64_t> nearest(std::int64_t first, std::int64_t step, std::int64_t count) {
  if (step == 1) return {0};
  std::vector<std::int64_t> steps;
  const std::int64_t start = modulo(first, step);
  for (std::int64_t i = -count - 1; i <= count + 1; ++i) steps.push_back(-(start + i * step));
  std::stable_sort(steps.begin(), steps.end(), [](std::int64_t a, std::int64_t b) {
    return std::abs(a) != std::abs(b) ? std::abs(a) < std::abs(b) : a < b;
  });
  if (steps.front() == 0 && count % 2 == 0) --count;
  steps.resize(static_cast<std::size_t>(std::max<std::int64_t>(1, count)));
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace

std::int64_t Lattice::class_of(std::int64_t y, std::int64_t z) const {
  const std::int64_t dz = modulo(z - z0, step_z), plane = (z - z0 - dz) / step_z;
  return dz * step_y + modulo(y - y0 - plane * shift, step_y);
}

std::vector<RowStep> kernel_sources(const Lattice& lattice, std::int64_t of, std::int64_t kernel_y,
                                    std::int64_t kernel_z) {
  const RowStep target = lattice.class_step(of);
  std::vector<RowStep> steps;
  for (const std::int64_t dz : nearest(-target[1], lattice.step_z, kernel_z)) {
    const std::int64_t plane = (target[1] - dz) / lattice.step_z;
    for (const std::int64_t dy : nearest(plane * lattice.shift - target[0], lattice.step_y, kernel_y))
      steps.push_back({dy, dz});
  }
  return steps;
}

std::array<RowStep, 2> KernelRows::span() const {
  RowStep least = sources.front(), most = least;
  for (const auto* some : {&sources, &targets})
    for (const RowStep& r : *some)
      for (std::size_t a = 0; a < 2; ++a) {
        least[a] = std::min(least[a], r[a]);
        most[a] = std::max(most[a], r[a]);
      }
  return {least, most};
}

KernelPlaces places_of(const Extents& block, const KernelRows& rows) {
  const auto [least, most] = rows.span();
  return {{-least[0], -least[1]},
          {block[1] - 1 - most[0], block[0] - 1 - most[1]},
          std::max<std::int64_t>(0, block[2] - rows.kernel_x + 1)};
}

RowPlan plan_rows(const Lattice& lattice, std::int64_t ny, std::int64_t nz, const std::vector<std::uint8_t>& came) {
  if (static_cast<std::int64_t>(came.size()) != ny * nz)
    throw std::invalid_argument(fmt::format("expected {} x {} rows, got {}", nz, ny, came.size()));
  RowPlan plan{ny, nz, {}};
  for (std::int64_t z = 0; z < nz; ++z)
    for (std::int64_t y = 0; y < ny; ++y)
      plan.kind.push_back(came[static_cast<std::size_t>(z * ny + y)] == 0 ? RowPlan::missing
                          : lattice.contains(y, z)                        ? RowPlan::on_lattice
                                                                          : RowPlan::put_back);
  return plan;
}

}  // namespace echotrain::numerics
