// Regularised least squares by preconditioned conjugate gradients.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/solver/pcg.h"
#include "gadgets/numerics/team/team.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// Solves (F^H F + lambda W^H W) x = F^H d for each image of a frame. The history of residuals goes into the image's
/// meta attributes (pcg_residuals, pcg_iterations, pcg_status). Source: Stone et al., JPDC 68, 2008, sec. 2.2; priors:
/// see gadgets/numerics/solver/regularizer.h and sobel.h.
class PcgSolver final : public Gadget<NormalEquations, CoilImages> {
 public:
  struct Options {
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
  /// A frame solved without knowing where the edges are.
  struct Draft {
    NormalEquations equations;
    Array<cfloat> image;
  };
  /// Contrasts of one slice at one time.
  struct Group {
    std::set<std::uint16_t> contrasts;  // that have come
    std::vector<Draft> drafts;          // that wait for the others
    RegularizerPtr edges;               // once the reference is known
  };
  /// An operator where another member of the team computes.
  struct Copy {
    std::weak_ptr<const numerics::ToeplitzOperator> of;
    std::shared_ptr<const numerics::ToeplitzOperator> matrix;
  };

  /// One frame's equations as a device has them; what solving gave, beside x.
  struct Placed {
    numerics::Context& own;
    std::shared_ptr<const numerics::ToeplitzOperator> matrix;
    Array<cfloat> maps;  // or none
    Array<cfloat> right, x;
    double power;  // of the samples; 0 where nobody asks
  };
  struct Found {
    numerics::PcgResult result;
    std::optional<numerics::DiscrepancyResult> discrepancy;
  };

  void solve_waiting(const Emit<CoilImages>& emit);
  void solve_side_by_side(std::vector<NormalEquations>& all, const std::vector<RegularizerPtr>& priors,
                          std::vector<Array<cfloat>>& images);
  Found solve_alone(const NormalEquations& equations, const numerics::Regularizer* prior, Placed at) const;
  RegularizerPtr prior_of(const NormalEquations& equations);
  Array<cfloat> start_of(const NormalEquations& equations);
  double power_of(const NormalEquations& equations);
  Array<cfloat> solve(NormalEquations& equations, const numerics::Regularizer* prior, Array<cfloat> image);
  Array<cfloat> solve_together(NormalEquations& equations, const numerics::Regularizer* prior,
                               const numerics::PcgOptions& options, Array<cfloat> image);
  double known_to_all(double value);
  void share_results(std::vector<numerics::PcgResult>& results, std::int64_t voxels, Array<cfloat>& image);
  std::shared_ptr<const numerics::ToeplitzOperator> matrix_of(numerics::Member& member,
                                                              const NormalEquations& equations);
  Array<cfloat> solve_checked(const NormalEquations& equations, const numerics::Regularizer* prior,
                              Array<cfloat> image);
  void solve_anatomically(NormalEquations&& equations, const Emit<CoilImages>& emit);
  void close(Group& group, const Emit<CoilImages>& emit);
  void close_earlier(const FrameKey& key, std::uint16_t contrast, const Emit<CoilImages>& emit);
  RegularizerPtr edges_of(const std::vector<Draft>& drafts);
  RegularizerPtr edges_in(const Array<cfloat>& images);
  RegularizerPtr given_edges(const NormalEquations& equations);
  RegularizerPtr plain_prior(std::uint16_t encoding);
  numerics::PcgOptions solver_options(const numerics::Regularizer* prior) const;
  [[noreturn]] static void refuse_numbers();
  void note(NormalEquations& equations, const numerics::PcgResult& result);
  void note(NormalEquations& equations, const Found& found);
  Array<cfloat> zeros_like(const Array<cfloat>& image) { return scan_->compute.zeros<cfloat>(image.shape()); }

  Options options_;
  Scan* scan_ = nullptr;
  std::vector<ImageGeometry> geometries_;
  std::vector<std::vector<double>> voxel_size_;  // per encoding, slowest axis first, the smallest is 1
  std::vector<std::size_t> contrasts_;           // per encoding; 0: the header does not say
  std::map<std::uint16_t, RegularizerPtr> plain_;
  std::map<FrameKey, Group> groups_;
  std::map<FrameKey, RegularizerPtr> given_;    // edges of given references, by slice and encoding
  std::map<FrameKey, Array<cfloat>> previous_;  // warm starts
  std::vector<Copy> copies_;                    // of the members after the first
  std::vector<NormalEquations> waiting_;        // for as many others as there are devices, if they are at hand
};

}  // namespace echotrain
