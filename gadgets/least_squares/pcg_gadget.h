// PcgSolver solves regularised least squares by preconditioned conjugate gradients.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/least_squares/equation_solver.h"
#include "gadgets/least_squares/pcg_options.h"
#include "gadgets/least_squares/pcg_priors.h"

namespace echotrain {

/// Solves (F^H F + lambda W^H W) x = F^H d for each image of a frame. The history of residuals goes into the image's
/// meta attributes (pcg_residuals, pcg_iterations, pcg_status). Source: Stone et al., JPDC 68, 2008, sec. 2.2; priors:
/// see gadgets/numerics/inverse/solver/regularizer.h and sobel.h.
class PcgSolver final : public Gadget<NormalEquations, CoilImages> {
 public:
  using Options = PcgSolverOptions;
  static constexpr std::string_view kName = "pcg";
  static constexpr std::string_view kSummary =
      "Solves the normal equations with a prior, by preconditioned conjugate gradients.";
  static Parameters<Options> parameters();

  explicit PcgSolver(Options options);
  void start(const protocol::Header& header, Scan& scan) override;
  void process(NormalEquations&& equations, const Emit<CoilImages>& emit) override;
  void rest(const Emit<CoilImages>& emit) override { solve_waiting(emit); }
  void finish(End how, const Emit<CoilImages>& emit) override;

 private:
  using RegularizerPtr = std::shared_ptr<const numerics::Regularizer>;
  /// A frame solved before its edges are known.
  struct Draft {
    NormalEquations equations;
    Array<cfloat> image;
  };
  /// The contrasts of one slice at one time.
  struct Group {
    std::set<std::uint16_t> contrasts;          // seen so far
    std::vector<Draft> drafts;                  // waiting for the other contrasts
    RegularizerPtr edges;                       // set once the reference is known
    std::vector<Array<cfloat>> images() const;  // images of the drafts
  };

  void solve_waiting(const Emit<CoilImages>& emit);
  Array<cfloat> start_of(const NormalEquations& equations);
  void solve_anatomically(NormalEquations&& equations, const Emit<CoilImages>& emit);
  void close(Group& group, const Emit<CoilImages>& emit);
  void close_earlier(const FrameKey& key, std::uint16_t contrast, const Emit<CoilImages>& emit);

  Options options_;
  PcgPriors priors_;
  EquationSolver solver_;
  Scan* scan_ = nullptr;
  std::vector<std::size_t> contrasts_;  // per encoding; 0: not announced
  std::map<FrameKey, Group> groups_;
  std::map<FrameKey, Array<cfloat>> previous_;  // images to start from (warm starts)
  std::vector<NormalEquations> waiting_;        // frames to solve together, one per device
};

}  // namespace echotrain
