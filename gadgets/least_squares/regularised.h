// Regularised solves least squares with wavelets, total variation or low rank (compressed sensing).
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/least_squares/regularised_options.h"
#include "gadgets/numerics/inverse/proximal/proximal_solver.h"

namespace echotrain {

/// Minimises 1/2 |F x - d|^2 + lambda sum_i w_i h_i(x), for the priors h_i of
/// gadgets/numerics/inverse/proximal/priors.h: frame by frame, or over several frames of a series together. Squares are
/// weighed by W as in NormalEquations. The images of two sets of coil maps are solved for together, and joined
/// (numerics::join_sets()). The outcome is in the images' meta attributes (regularised_*). Throws ClientError for
/// several coils without coil maps, and for data that are not finite.
/// Sources: see gadgets/numerics/inverse/proximal/proximal_solver.h; compressed sensing in MRI: Lustig, Donoho, Pauly,
/// MRM 58, 2007.
class Regularised final : public Gadget<NormalEquations, CoilImages> {
 public:
  using Options = RegularisedOptions;
  static constexpr std::string_view kName = "regularised";
  static constexpr std::string_view kSummary =
      "Solves the normal equations with wavelets, total variation, low rank or sums of these, by proximal methods.";
  static Parameters<Options> parameters();

  explicit Regularised(Options options);
  void start(const protocol::Header& header, Scan& scan) override;
  void process(NormalEquations&& equations, const Emit<CoilImages>& emit) override;
  void finish(End how, const Emit<CoilImages>& emit) override;

 private:
  using Frames = std::vector<NormalEquations>;
  /// A solution and its lambda.
  struct Found {
    numerics::ProximalResult result;
    double lambda;
    const char* noise;  ///< match of the noise; null: not asked for
  };

  void solve(Frames frames, const Emit<CoilImages>& emit);
  std::vector<numerics::WeighedPrior> priors_of(const numerics::Shape& series, std::int64_t sets) const;
  double bound_of(const NormalEquations& equations, const numerics::LinearOperator& matrix);
  double bound_of(const Frames& frames, const std::vector<const numerics::LinearOperator*>& matrices);
  Found minimise(const Frames& frames, numerics::ProximalProblem& problem, numerics::DeviceView<numerics::cfloat> x,
                 double bound);
  FrameKey series_of(FrameKey key) const;

  Options options_;
  Scan* scan_ = nullptr;
  std::map<FrameKey, Frames> waiting_;  // frames of each series, fewer than options_.frames
};

}  // namespace echotrain
