// Options of the gadget `pcg`.
#pragma once

#include <cstdint>
#include <string>

namespace echotrain {

/// The options; PcgSolver::parameters() explains them.
struct PcgSolverOptions {
  std::int64_t iterations = 30;
  double tolerance = 1e-4;
  std::string prior = "tikhonov";
  double lambda = 1e-3;
  double noise_level = 0;
  std::string preconditioner = "none";
  bool warm_start = false;
  std::string reference = "all_contrasts";
  std::string reference_file;
  double edge_strength = 4;
};

}  // namespace echotrain
