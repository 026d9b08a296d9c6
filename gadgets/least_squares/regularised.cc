#include "gadgets/least_squares/regularised.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "gadgets/least_squares/eigenvalues.h"
#include "gadgets/least_squares/pcg_notes.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/inverse/operators/map_products.h"
#include "gadgets/numerics/inverse/proximal/discrepancy.h"
#include "gadgets/numerics/inverse/solver/pcg.h"
#include "gadgets/numerics/mri/coils/coil.h"

namespace echotrain {
namespace {

constexpr const char* kPriorNames[] = {"wavelet", "total_variation", "temporal_variation", "low_rank"};

/// True if this prior concerns differences between frames.
bool is_temporal(const std::string& prior) { return prior == "temporal_variation" || prior == "low_rank"; }

/// The shape [items, ...] of the operator's images: without z, or without x, where these are planes.
template <class Operator>
numerics::Shape items_of(std::int64_t items, const Operator& matrix) {
  numerics::Shape out{items};
  for (const auto extent : matrix.image()) out.push_back(extent);
  return out;
}

std::unique_ptr<numerics::LinearOperator> operator_of(numerics::Context& compute, const NormalEquations& equations) {
  if (!equations.maps) return std::make_unique<numerics::PlainNormal>(equations.matrix);
  return std::make_unique<numerics::SenseNormal>(
      compute, equations.matrix, equations.maps.reshaped(items_of(equations.maps.shape()[0], *equations.matrix)),
      numerics::alone(), equations.sets);
}

const char* to_string(numerics::NoiseMatch::Status status) {
  using Status = numerics::NoiseMatch::Status;
  switch (status) {
    case Status::matched:
      return "matched";
    case Status::below_range:
      return "more than noise";
    case Status::above_range:
      return "only noise";
    default:
      return "not matched";
  }
}

}  // namespace

Parameters<Regularised::Options> Regularised::parameters() {
  const auto weight = [](auto table, auto place) {
    return std::move(table).number("weight", place, 0, 1e6, "of this prior in the sum of several, times lambda");
  };
  const std::string shifts =
      "random: {} begin elsewhere in each iteration, which takes away their edges; the same "
      "places in every run. The objective is then that without shifts";
  return Parameters<Options>()
      .list(
          "prior", &Options::prior, "prior",
          "one or several, which add up; wavelet where none is named. wavelet: few wavelets make the image. "
          "total_variation: few edges do, in space. temporal_variation: little changes from frame to frame. low_rank: "
          "the frames of each block of voxels are mixtures of few")
      .number("lambda", &Options::lambda, 0, 1e30, "weight of the priors")
      .choice("scale", &Options::scale, {"relative", "absolute"},
              "what lambda is measured in. relative: the largest magnitude of F^H d, the image before the first step. "
              "absolute: the unit of the images")
      .number("noise_level", &Options::noise_level, 0, 1e30,
              "standard deviation of the noise in the real and the imaginary part of a sample, 1 after noise_adjust; "
              "lambda is then chosen so that the data are met to their noise. 0: lambda is as given")
      .choice("method", &Options::method, {"fista", "admm"},
              "fista: proximal gradients with momentum. admm: alternating directions, with conjugate gradients inside")
      .integer("iterations", &Options::iterations, 1, 10000, "largest number of steps")
      .number("tolerance", &Options::tolerance, 0, 1, "relative change of the image at which to stop; 0: never")
      .integer("inner", &Options::inner, 0, 1000,
               "steps inside an iteration: fista, of the dual of total variation or of a sum of priors; admm, of "
               "conjugate gradients. 0: 20 with fista, 5 with admm")
      .number("penalty", &Options::penalty, 1e-6, 1e6,
              "admm only; weight of what holds the image and its copies together, relative to the largest eigenvalue")
      .choice("series", &Options::series, {"none", "repetition", "phase", "contrast", "set"},
              "frames that are solved together, which differ in this counter only. none: each frame by itself")
      .integer("frames", &Options::frames, 2, 1024,
               "so many frames of a series are solved together, and their images leave together; then the next ones")
      .group("wavelet", &Options::wavelet,
             weight(Parameters<Options::Wavelet>(), &Options::Wavelet::weight)
                 .choice("shifts", &Options::Wavelet::shifts, {"none", "random"},
                         fmt::format(fmt::runtime(shifts), "wavelets"))
                 .integer("smallest", &Options::Wavelet::smallest, 4, 4096,
                          "axes are halved as long as they have so many coefficients")
                 .unit("voxels"))
      .group("total_variation", &Options::total_variation,
             weight(Parameters<Options::Variation>(), &Options::Variation::weight))
      .group("temporal_variation", &Options::temporal_variation,
             weight(Parameters<Options::Variation>(), &Options::Variation::weight))
      .group("low_rank", &Options::low_rank,
             weight(Parameters<Options::LowRank>(), &Options::LowRank::weight)
                 .choice("shifts", &Options::LowRank::shifts, {"none", "random"},
                         fmt::format(fmt::runtime(shifts), "blocks"))
                 .integer("block", &Options::LowRank::block, 1, 64, "extent of a block along each axis")
                 .unit("voxels"));
}

Regularised::Regularised(Options options) : options_(std::move(options)) {
  if (options_.prior.empty()) options_.prior = {"wavelet"};
  for (std::size_t i = 0; i < options_.prior.size(); ++i) {
    const std::string& name = options_.prior[i];
    if (std::find(std::begin(kPriorNames), std::end(kPriorNames), name) == std::end(kPriorNames))
      throw std::invalid_argument(
          fmt::format("prior: expected wavelet, total_variation, temporal_variation or low_rank, got {}", name));
    if (std::find(options_.prior.begin(), options_.prior.begin() + static_cast<std::ptrdiff_t>(i), name) !=
        options_.prior.begin() + static_cast<std::ptrdiff_t>(i))
      throw std::invalid_argument(fmt::format("prior: {} is named twice; its weight says how much it counts", name));
    if (is_temporal(name) && options_.series == "none")
      throw std::invalid_argument(
          fmt::format("prior: {} is about several frames; series names the counter that they differ in", name));
  }
}

void Regularised::start(const protocol::Header& /*header*/, Scan& scan) { scan_ = &scan; }

FrameKey Regularised::series_of(FrameKey key) const {
  (options_.series == "repetition" ? key.repetition
   : options_.series == "phase"    ? key.phase
   : options_.series == "contrast" ? key.contrast
                                   : key.set) = 0;
  return key;
}

void Regularised::process(NormalEquations&& equations, const Emit<CoilImages>& emit) {
  if (equations.right.shape()[0] > equations.sets)
    throw ClientError("regularised: the equations are those of several coils; put coil_maps before it");
  if (options_.series == "none") {
    Frames one;
    one.push_back(std::move(equations));
    return solve(std::move(one), emit);
  }
  Frames& frames = waiting_[series_of(equations.frame->key)];
  if (!frames.empty() && !(frames.front().right.shape() == equations.right.shape()))
    solve(std::exchange(frames, {}), emit);
  frames.push_back(std::move(equations));
  if (static_cast<std::int64_t>(frames.size()) == options_.frames) solve(std::exchange(frames, {}), emit);
}

void Regularised::finish(End how, const Emit<CoilImages>& emit) {
  std::size_t waiting = 0;
  for (auto& [key, frames] : waiting_) {
    waiting += frames.size();
    if (how == End::complete && !frames.empty()) solve(std::exchange(frames, {}), emit);
  }
  // Images of a part of the series would differ from those of the whole.
  if (how == End::truncated && waiting > 0)
    scan_->warn(fmt::format("regularised: {} frame(s) waited for the rest of their series and are dropped", waiting));
  waiting_.clear();
}

/// Makes priors of a series [frame, set * z, y, x]. Those in space are about each set's image by itself, those in time
/// about the frames of all.
std::vector<numerics::WeighedPrior> Regularised::priors_of(const numerics::Shape& series, std::int64_t sets) const {
  const numerics::Shape images{series[0] * sets, series[1] / sets, series[2], series[3]};
  std::vector<numerics::WeighedPrior> priors;
  const auto add = [&](std::unique_ptr<numerics::ConvexPrior> prior, double weight) {
    if (prior && weight > 0) priors.push_back({std::move(prior), weight});
  };
  for (const std::string& name : options_.prior) {
    if (name == "wavelet")
      add(numerics::reshaped(
              numerics::wavelet_prior(images, options_.wavelet.smallest, options_.wavelet.shifts == "random"), images,
              series),
          options_.wavelet.weight);
    else if (name == "total_variation")
      add(numerics::reshaped(numerics::variation_prior(images, numerics::DifferenceAxes::space()), images, series),
          options_.total_variation.weight);
    else if (name == "temporal_variation")
      add(numerics::variation_prior(series, numerics::DifferenceAxes::time()), options_.temporal_variation.weight);
    else
      add(numerics::low_rank_prior(series, options_.low_rank.block, options_.low_rank.shifts == "random"),
          options_.low_rank.weight);
  }
  return priors;
}

/// A bound of the eigenvalues of a frame's matrix that is not far above the largest one.
double Regularised::bound_of(const NormalEquations& equations, const numerics::LinearOperator& matrix) {
  numerics::Context& compute = scan_->compute;
  const numerics::Shape& image = equations.right.shape();
  double bound = equations.matrix->largest();
  if (equations.maps) {  // sets are orthogonal: sum_c S_c^H S_c has the larger one's power
    const numerics::Shape of_set{equations.maps.shape()[0] / image[0], image[1], image[2], image[3]};
    Array<cfloat> root = compute.allocate<cfloat>({1, image[1], image[2], image[3]});
    double most = 0;
    for (std::int64_t i = 0; i < image[0]; ++i) {
      numerics::root_sum_of_squares(compute, equations.maps.cview().part(i * of_set.size(), of_set), root.view());
      most = std::max(most, static_cast<double>(numerics::extremes(compute, root.cview()).most));
    }
    bound *= most * most;
  }
  // F^H d is often so near the eigenvector that no iteration is needed to show that the bound is close.
  Array<cfloat> product = compute.allocate<cfloat>(image);
  const numerics::Shape one = items_of(1, matrix);
  matrix.apply(compute, equations.right.cview().reshaped(one), product.view().reshaped(one));
  const double size = numerics::norm(compute, equations.right.cview());
  constexpr double kClose = 0.8, kAbove = 1.1;  // the power iteration is below the largest eigenvalue by some percent
  if (numerics::dot(compute, equations.right.cview(), product.cview()) >= kClose * bound * size * size) return bound;
  auto& eigenvalues = compute.resources().get<Eigenvalues>();
  double value = eigenvalues.find(equations);
  if (!(value > 0)) {
    value = numerics::largest_eigenvalue(compute, matrix);
    eigenvalues.add(equations, value);
  }
  return std::min(bound, kAbove * value);
}

/// A bound for all frames. Each power iteration costs a good part of a solution, and frames of one scan are sampled
/// alike: among many frames with the same coil maps only some are tested, including those with the largest spectrum,
/// and the eigenvalues of all others are assumed to lie as far below the bound of their spectrum.
double Regularised::bound_of(const Frames& frames, const std::vector<const numerics::LinearOperator*>& matrices) {
  constexpr std::size_t kLooks = 4;
  const std::size_t count = matrices.size();  // 1 where all frames share a matrix
  std::size_t widest = 0;
  bool same_maps = true;
  for (std::size_t f = 0; f < count; ++f) {
    if (frames[f].matrix->largest() > frames[widest].matrix->largest()) widest = f;
    same_maps = same_maps && frames[f].maps.memory() == frames.front().maps.memory();
  }
  const std::size_t step = same_maps ? std::max<std::size_t>(1, (count + kLooks - 1) / kLooks) : 1;
  double bound = 0, share = 0;  // share of the spectrum's bound
  for (std::size_t f = 0; f < count; ++f) {
    if (f % step != 0 && f != widest) continue;
    const double found = bound_of(frames[f], *matrices[f]);
    bound = std::max(bound, found);
    if (found > 0) share = std::max(share, found / frames[f].matrix->largest());
  }
  return step == 1 ? bound : share * frames[widest].matrix->largest();
}

/// Solves for the given lambda, or for the one that leaves the noise.
Regularised::Found Regularised::minimise(const Frames& frames, numerics::ProximalProblem& problem,
                                         numerics::DeviceView<cfloat> x, double bound) {
  numerics::Context& compute = scan_->compute;
  numerics::ProximalOptions options;
  options.method = options_.method == "fista" ? numerics::ProximalMethod::fista : numerics::ProximalMethod::admm;
  options.iterations = static_cast<int>(options_.iterations);
  options.tolerance = options_.tolerance;
  options.inner = options_.inner > 0 ? static_cast<int>(options_.inner) : options_.method == "fista" ? 20 : 5;
  options.penalty = options_.penalty;
  options.bound = bound;
  const double most = numerics::extremes(compute, problem.b).most;
  if (!std::isfinite(most)) refuse_numbers();
  Found found{{}, options_.scale == "relative" ? options_.lambda * most : options_.lambda, nullptr};
  // Solves that search lambda begin at the previous solution, so that their first steps are small.
  constexpr double kFiner = 10;
  const auto solve_for = [&](double lambda) {
    options.lambda = found.lambda = lambda;
    found.result = numerics::solve_proximal(compute, problem, x, options);
    return found.result.residual;
  };
  if (options_.noise_level == 0) {
    solve_for(found.lambda);
    return found;
  }
  if (problem.priors.empty()) {
    solve_for(0);  // lambda has no effect
    return found;
  }
  options.tolerance /= kFiner;
  double samples = 0;
  for (const NormalEquations& each : frames) samples += each.weight * static_cast<double>(each.coils);
  constexpr double kSmallest = 1e-6;
  constexpr int kMostSolves = 12;
  const auto match = numerics::match_noise(2 * options_.noise_level * options_.noise_level * samples, kSmallest * most,
                                           most, kMostSolves, solve_for);
  using Status = numerics::NoiseMatch::Status;
  if (match.status == Status::below_range)
    scan_->warn("regularised: no lambda meets the data to noise_level: they hold more than this image and noise");
  if (match.status == Status::above_range)
    scan_->warn("regularised: at this noise_level the data hold nothing but noise");
  found.noise = to_string(match.status);
  return found;
}

void Regularised::solve(Frames frames, const Emit<CoilImages>& emit) {
  numerics::Context& compute = scan_->compute;
  const numerics::Shape& image = frames.front().right.shape();  // [set, z, y, x]
  const auto count = static_cast<std::int64_t>(frames.size());
  const numerics::Shape series{count, image[0] * image[1], image[2], image[3]};
  numerics::ProximalProblem problem;
  for (const NormalEquations& each : frames) problem.power += compute.download<double>(each.power.view()).data()[0];
  if (!std::isfinite(problem.power)) refuse_numbers();
  Array<cfloat> b = count == 1 ? frames.front().right : compute.allocate<cfloat>(series);
  Array<cfloat> x = compute.zeros<cfloat>(series);
  for (std::int64_t f = 0; f < count && count > 1; ++f)
    compute.copy<cfloat>(frames[static_cast<std::size_t>(f)].right.cview(), b.view().part(f * image.size(), image));
  Found found{{}, 0, nullptr};
  try {
    std::vector<std::unique_ptr<numerics::LinearOperator>> operators;
    const bool alike = std::all_of(frames.begin(), frames.end(), [&](const NormalEquations& each) {
      return each.matrix == frames.front().matrix && each.maps.memory() == frames.front().maps.memory();
    });
    for (const NormalEquations& each : frames) {
      if (alike && !operators.empty()) break;
      operators.push_back(operator_of(compute, each));
      problem.matrices.push_back(operators.back().get());
    }
    const double bound = bound_of(frames, problem.matrices);
    problem.b = b.cview().reshaped(series);
    problem.priors = priors_of(series, image[0]);
    if (problem.priors.empty() && count == 1 && options_.series != "none")
      scan_->warn(
          "regularised: the last frame of a series is alone, so that priors along the series do not count for it; "
          "choose 'frames' so that no frame is left over");
    // Frames without a sample or a signal become 0.
    if (bound > 0 && problem.power > 0) found = minimise(frames, problem, x.view(), bound);
  } catch (const std::invalid_argument& error) {
    throw ClientError(fmt::format("regularised: {}", error.what()));
  }
  if (!std::isfinite(found.result.residual)) refuse_numbers();
  std::map<std::string, std::string> notes{
      {"regularised_iterations", std::to_string(found.result.iterations)},
      {"regularised_status", found.result.converged ? "converged" : "iterations used"},
      {"regularised_lambda", fmt::format("{:.4g}", found.lambda)},
      {"regularised_objective", fmt::format("{:.6g}", found.result.objective)},
      {"regularised_residual",
       fmt::format("{:.4g}", problem.power > 0 ? std::sqrt(found.result.residual / problem.power) : 0.0)}};
  if (found.noise != nullptr) notes["regularised_noise"] = found.noise;
  for (std::int64_t f = 0; f < count; ++f) {
    Array<cfloat> one = x;
    const auto found_here = x.cview().part(f * image.size(), image);
    if (count > 1 || image[0] > 1) one = compute.allocate<cfloat>({1, image[1], image[2], image[3]});
    if (image[0] > 1)
      numerics::join_sets(compute, found_here, one.view());
    else if (count > 1)
      compute.copy<cfloat>(found_here, one.view());
    emit({with_notes(*frames[static_cast<std::size_t>(f)].frame, notes), std::move(one)});
  }
}

}  // namespace echotrain
