// An EquationSolver solves frames' normal equations on the devices that a scan has.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/least_squares/pcg_notes.h"
#include "gadgets/least_squares/pcg_options.h"
#include "gadgets/numerics/core/team/team.h"
#include "gadgets/numerics/inverse/solver/pcg.h"

namespace echotrain {

/// Solves on one device, or on several that share one frame, or with one frame per device. The outcome goes into the
/// frame's notes.
class EquationSolver {
 public:
  using RegularizerPtr = std::shared_ptr<const numerics::Regularizer>;
  explicit EquationSolver(PcgSolverOptions options) : options_(std::move(options)) {}
  void start(Scan& scan) { scan_ = &scan; }

  /// Solves in place, starting from `image`, or from zero where that is empty, and notes the outcome in the frame.
  /// prior: nullptr for none. Throws ClientError when the data cannot be solved for.
  Array<cfloat> solve(NormalEquations& equations, const numerics::Regularizer* prior, Array<cfloat> image = {});
  /// Solves several frames, each on a device of its own. There are at most as many frames as devices.
  void solve_side_by_side(std::vector<NormalEquations>& all, const std::vector<RegularizerPtr>& priors,
                          std::vector<Array<cfloat>>& images);

 private:
  /// A copy of an operator where another member of the team computes.
  struct Copy {
    std::weak_ptr<const numerics::NormalOperator> of;
    std::shared_ptr<const numerics::NormalOperator> matrix;
  };
  /// One frame's equations as a device has them.
  struct Placed {
    numerics::Context& own;
    std::shared_ptr<const numerics::NormalOperator> matrix;
    Array<cfloat> maps;  // maps, or empty
    Array<cfloat> right, x;
    double power;    // power of the samples; 0 where it is not needed
    bool from_zero;  // x is not set
  };

  double power_of(const NormalEquations& equations);
  Array<cfloat> not_set(const NormalEquations& equations) const;
  numerics::PcgOptions solver_options(const numerics::Regularizer* prior) const;
  Solved solve_alone(const NormalEquations& equations, const numerics::Regularizer* prior, Placed at) const;
  Array<cfloat> solve_together(NormalEquations& equations, const numerics::Regularizer* prior,
                               const numerics::PcgOptions& options, Array<cfloat> image);
  std::shared_ptr<const numerics::NormalOperator> matrix_of(numerics::Member& member, const NormalEquations& equations);

  PcgSolverOptions options_;
  Scan* scan_ = nullptr;
  std::vector<Copy> copies_;  // copies of the members after the first
};

}  // namespace echotrain
