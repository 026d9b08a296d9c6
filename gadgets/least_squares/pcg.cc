#include "gadgets/least_squares/pcg.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/coils/coil.h"
#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/images/sobel.h"
#include "gadgets/numerics/layout/layout.h"

namespace echotrain {
namespace {

/// The largest eigenvalues of operators, with coil maps or without, that sessions share. Thread-safe.
class Eigenvalues {
 public:
  /// 0: not known yet.
  double find(const NormalEquations& of) const {
    const std::scoped_lock lock(mutex_);
    for (const Known& each : known_)
      if (each.matrix.lock() == of.matrix && each.has_maps == static_cast<bool>(of.maps) &&
          each.maps.lock() == of.maps.memory())
        return each.value;
    return 0;
  }
  void add(const NormalEquations& of, double value) {
    const std::scoped_lock lock(mutex_);
    constexpr std::size_t kMost = 64;
    std::erase_if(known_,
                  [](const Known& each) { return each.matrix.expired() || (each.has_maps && each.maps.expired()); });
    known_.push_back({of.matrix, of.maps.memory(), static_cast<bool>(of.maps), value});
    if (known_.size() > kMost) known_.erase(known_.begin());
  }

 private:
  struct Known {
    std::weak_ptr<const numerics::ToeplitzOperator> matrix;
    std::weak_ptr<void> maps;
    bool has_maps;
    double value;
  };
  mutable std::mutex mutex_;
  std::vector<Known> known_;  // most recent last
};

/// [coil, z, y, x] as the operator's images: without z when those are planes.
numerics::Shape as_solved(const numerics::Shape& shape, const numerics::ToeplitzOperator& matrix) {
  numerics::Shape out{shape[0]};
  for (const auto extent : matrix.image()) out.push_back(extent);
  return out;
}

numerics::Preconditioner preconditioner(const std::string& name) {
  return name == "jacobi"      ? numerics::Preconditioner::jacobi
         : name == "circulant" ? numerics::Preconditioner::circulant
                               : numerics::Preconditioner::none;
}

/// What the solver found, for other processes.
std::vector<std::byte> packed(const numerics::PcgResult& result) {
  std::vector<double> numbers{result.lambda};
  for (const auto& item : result.items) {
    numbers.insert(numbers.end(), {static_cast<double>(item.status), static_cast<double>(item.iterations),
                                   static_cast<double>(item.residuals.size())});
    numbers.insert(numbers.end(), item.residuals.begin(), item.residuals.end());
  }
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}
numerics::PcgResult unpacked(const std::vector<std::byte>& bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
  numerics::PcgResult result;
  result.lambda = numbers.at(0);
  for (std::size_t at = 1; at < numbers.size();) {
    const auto count = static_cast<std::ptrdiff_t>(numbers.at(at + 2));
    const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(at) + 3;
    result.items.push_back({static_cast<numerics::PcgStatus>(numbers[at]), static_cast<int>(numbers[at + 1]),
                            std::vector<double>(first, first + count)});
    at += 3 + static_cast<std::size_t>(count);
  }
  return result;
}

double largest_eigenvalue(numerics::Context& own, const NormalEquations& equations,
                          const numerics::LinearOperator& matrix) {
  auto& eigenvalues = own.resources().get<Eigenvalues>();
  if (const double known = eigenvalues.find(equations); known > 0) return known;
  const double value = numerics::largest_eigenvalue(own, matrix);
  eigenvalues.add(equations, value);
  return value;
}

/// What numerics refuses is in the data: shapes were checked by types and headers.
template <class Work>
auto with_clear_errors(const Work& work) {
  try {
    return work();
  } catch (const std::invalid_argument& error) {
    throw ClientError(fmt::format("pcg: {}", error.what()));
  }
}

/// What the contrasts of one slice at one time have in common.
FrameKey without_contrast(FrameKey key) {
  key.contrast = 0;
  return key;
}
FrameKey without_repetition(FrameKey key) {
  key.repetition = 0;
  return key;
}

}  // namespace

Parameters<PcgSolver::Options> PcgSolver::parameters() {
  return Parameters<Options>()
      .integer("iterations", &Options::iterations, 1, 10000, "steps at most")
      .number("tolerance", &Options::tolerance, 0, 1, "residual relative to F^H d at which to stop")
      .choice(
          "prior", &Options::prior, {"tikhonov", "smoothness", "anatomical", "none"},
          "what is known of the image: that it is not large (tikhonov), that neighbours are alike (smoothness), the "
          "same but across edges of a reference (anatomical), or nothing")
      .number("lambda", &Options::lambda, 0, 100, "weight of the prior, relative to the largest eigenvalue of F^H F")
      .number("noise_level", &Options::noise_level, 0, 1e30,
              "standard deviation of the noise in the real and the imaginary part of a sample, 1 after noise_adjust; "
              "lambda is then chosen so that the data are met to their noise. 0: lambda is as given")
      .choice("preconditioner", &Options::preconditioner, {"none", "jacobi", "circulant"},
              "circulant pays where F^H F is far from the identity: undersampled or unweighted data")
      .flag("warm_start", &Options::warm_start, "starts from the image of the repetition before")
      .choice("reference", &Options::reference, {"all_contrasts", "first_contrast", "given"},
              "anatomical only; the images that say where the edges are: of all contrasts together, for which images "
              "wait; of the first that comes; or given: from `reference_file`, or sent by the client as an image of "
              "role reference")
      .text("reference_file", &Options::reference_file,
            "given only; a file of the server's assets: an ISMRMRD file with an image per slice. Empty: the client "
            "sends it")
      .number("edge_strength", &Options::edge_strength, 0.01, 1000,
              "anatomical only; a difference of so many times the median one halves the prior's weight there");
}

PcgSolver::PcgSolver(Options options) : options_(std::move(options)) {
  if (options_.prior == "none" && options_.noise_level > 0)
    throw std::invalid_argument("noise_level chooses the weight of a prior, but prior is none");
  const bool named = !options_.reference_file.empty();
  if (named && (options_.prior != "anatomical" || options_.reference != "given"))
    throw std::invalid_argument("reference_file names a reference, but prior is not anatomical or reference not given");
  if (named && !SideImages::is_file_name(options_.reference_file))
    throw std::invalid_argument("reference_file is the name of a file of the server's assets, not a path");
}

void PcgSolver::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  if (options_.prior == "anatomical" && options_.reference == "given")
    scan.side_images.want("reference", options_.reference_file);
  for (const auto& encoding : header.encodings) {
    geometries_.push_back(image_geometry(encoding));
    std::vector<double> voxel;
    for (int a = geometries_.back().dims; a-- > 0;)
      voxel.push_back(encoding.recon.fov_mm[static_cast<std::size_t>(a)] /
                      encoding.recon.matrix[static_cast<std::size_t>(a)]);
    const double smallest = *std::min_element(voxel.begin(), voxel.end());
    for (double& v : voxel) v /= smallest;  // lambda does not depend on the unit
    voxel_size_.push_back(std::move(voxel));
    contrasts_.push_back(encoding.contrast ? encoding.contrast->maximum - encoding.contrast->minimum + 1u : 0u);
  }
}

void PcgSolver::process(NormalEquations&& equations, const Emit<CoilImages>& emit) {
  if (options_.noise_level > 0 && equations.right.shape()[0] > 1)
    throw ClientError("pcg: noise_level needs the equations of one image, not of each coil; put coil_maps before pcg");
  if (options_.prior == "anatomical" && options_.reference != "given") {
    solve_anatomically(std::move(equations), emit);
    return;
  }
  // An image that begins where another ends waits for that one only.
  const FrameKey key = without_repetition(equations.frame->key);
  if (options_.warm_start && std::any_of(waiting_.begin(), waiting_.end(), [&](const NormalEquations& before) {
        return without_repetition(before.frame->key) == key;
      }))
    solve_waiting(emit);
  waiting_.push_back(std::move(equations));
  const bool shared_out = scan_->team != nullptr && scan_->team->in_one_process();
  const int devices = shared_out ? scan_->team->size() : 1;
  if (waiting_.size() == static_cast<std::size_t>(devices)) solve_waiting(emit);
}

/// Frames that are at hand at the same time need nothing of each other: each device of this process takes one. One
/// alone is for all.
void PcgSolver::solve_waiting(const Emit<CoilImages>& emit) {
  std::vector<NormalEquations> all = std::exchange(waiting_, {});
  std::vector<RegularizerPtr> priors;
  std::vector<Array<cfloat>> images;
  for (const NormalEquations& equations : all) {
    priors.push_back(prior_of(equations));
    images.push_back(start_of(equations));
  }
  if (all.size() == 1)
    images[0] = solve(all[0], priors[0].get(), images[0]);
  else if (all.size() > 1)
    solve_side_by_side(all, priors, images);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (options_.warm_start) previous_[without_repetition(all[i].frame->key)] = images[i];
    emit({all[i].frame, std::move(images[i])});
  }
}

PcgSolver::RegularizerPtr PcgSolver::prior_of(const NormalEquations& equations) {
  return options_.prior == "anatomical" ? given_edges(equations) : plain_prior(equations.frame->key.encoding);
}

Array<cfloat> PcgSolver::start_of(const NormalEquations& equations) {
  Array<cfloat> image = zeros_like(equations.right);
  if (const auto before = previous_.find(without_repetition(equations.frame->key));
      before != previous_.end() && before->second.shape() == image.shape())
    scan_->compute.copy<cfloat>(before->second.view(), image.view());
  return image;
}

double PcgSolver::power_of(const NormalEquations& equations) {
  if (options_.noise_level == 0) return 0;
  const double power = scan_->compute.download<double>(equations.power.view()).data()[0];
  if (!std::isfinite(power)) refuse_numbers();
  return power;
}

numerics::PcgOptions PcgSolver::solver_options(const numerics::Regularizer* prior) const {
  numerics::PcgOptions options;
  options.iterations = static_cast<int>(options_.iterations);
  options.tolerance = options_.tolerance;
  options.preconditioner = preconditioner(options_.preconditioner);
  options.lambda = prior == nullptr ? 0 : options_.lambda;
  return options;
}

/// Solves from `image` on, in place, and notes in the frame how it went.
Array<cfloat> PcgSolver::solve(NormalEquations& equations, const numerics::Regularizer* prior, Array<cfloat> image) {
  return with_clear_errors([&] {
    const std::int64_t parts = equations.maps ? equations.maps.shape()[0] : image.shape()[0];
    if (scan_->team != nullptr && options_.noise_level == 0 && parts >= scan_->team->size())
      return solve_together(equations, prior, solver_options(prior), image);
    note(equations,
         solve_alone(equations, prior,
                     {scan_->compute, equations.matrix, equations.maps, equations.right, image, power_of(equations)}));
    return image;
  });
}

/// By one device. Any member may call it, at the same time as others.
PcgSolver::Found PcgSolver::solve_alone(const NormalEquations& equations, const numerics::Regularizer* prior,
                                        Placed at) const {
  const numerics::Shape shape = as_solved(at.x.shape(), *at.matrix);
  const auto right = at.right.view().reshaped(shape);
  auto x = at.x.view().reshaped(shape);
  std::unique_ptr<numerics::LinearOperator> matrix;
  if (at.maps)
    matrix = std::make_unique<numerics::SenseToeplitz>(at.own, at.matrix,
                                                       at.maps.reshaped(as_solved(at.maps.shape(), *at.matrix)));
  else
    matrix = std::make_unique<numerics::PlainToeplitz>(at.matrix);
  numerics::PcgOptions options = solver_options(prior);
  if (prior != nullptr) options.largest_eigenvalue = largest_eigenvalue(at.own, equations, *matrix);
  if (options_.noise_level == 0) return {numerics::pcg(at.own, *matrix, prior, right, x, options), {}};
  auto found = numerics::lambda_by_discrepancy(at.own, *matrix, prior, right, x, at.power,
                                               equations.weight * static_cast<double>(equations.coils),
                                               options_.noise_level, options);
  return {found.last, std::move(found)};
}

/// Each on a device of its own. There are no more than devices.
void PcgSolver::solve_side_by_side(std::vector<NormalEquations>& all, const std::vector<RegularizerPtr>& priors,
                                   std::vector<Array<cfloat>>& images) {
  std::vector<Found> found(all.size());
  std::vector<double> powers;
  for (const NormalEquations& equations : all) powers.push_back(power_of(equations));
  copies_.resize(static_cast<std::size_t>(scan_->team->size()) - 1);
  with_clear_errors([&] {
    scan_->team->run(numerics::Team::Sums::none, [&](numerics::Member& member) {
      const auto i = static_cast<std::size_t>(member.rank());
      if (i >= all.size()) return;
      numerics::Context& own = member.context;
      const auto here = [&](const Array<cfloat>& array) {
        if (i == 0 || !array) return array;
        Array<cfloat> copy = own.allocate<cfloat>(array.shape());
        own.copy<cfloat>(array.view(), copy.view());
        return copy;
      };
      const auto prior = i == 0 || !priors[i] ? nullptr : priors[i]->copy(own);
      Placed at{own, matrix_of(member, all[i]), here(all[i].maps), here(all[i].right), here(images[i]), powers[i]};
      found[i] = solve_alone(all[i], prior ? prior.get() : priors[i].get(), at);
      if (i > 0) own.copy<cfloat>(at.x.view(), images[i].view());
    });
  });
  for (std::size_t i = 0; i < all.size(); ++i) note(all[i], found[i]);
}

/// The operator where a member computes.
std::shared_ptr<const numerics::ToeplitzOperator> PcgSolver::matrix_of(numerics::Member& member,
                                                                       const NormalEquations& equations) {
  if (&member.context == &scan_->compute) return equations.matrix;
  Copy& copy = copies_[static_cast<std::size_t>(member.rank()) - 1];
  if (copy.of.lock() != equations.matrix) {
    copy.matrix = std::make_shared<const numerics::ToeplitzOperator>(equations.matrix->copy(member.context));
    copy.of = equations.matrix;
  }
  return copy.matrix;
}

/// By the devices of a team: each has some of the coils and all of the image, or, without coil maps, some of the
/// images.
Array<cfloat> PcgSolver::solve_together(NormalEquations& equations, const numerics::Regularizer* prior,
                                        const numerics::PcgOptions& options, Array<cfloat> image) {
  const numerics::Shape shape = as_solved(image.shape(), *equations.matrix);
  const std::int64_t voxels = equations.matrix->image().size();
  const bool sense = static_cast<bool>(equations.maps);
  auto& eigenvalues = scan_->compute.resources().get<Eigenvalues>();
  const double known = known_to_all(prior == nullptr ? 0 : eigenvalues.find(equations));
  std::vector<numerics::PcgResult> results(static_cast<std::size_t>(scan_->team->size()));
  copies_.resize(results.size() - 1);
  scan_->team->run(sense ? numerics::Team::Sums::some : numerics::Team::Sums::none, [&](numerics::Member& member) {
    numerics::Context& own = member.context;
    const bool here = &own == &scan_->compute;
    /// Items first .. last - 1 of an array of such images, where this member computes.
    const auto part_of = [&](const Array<cfloat>& all, std::int64_t first, std::int64_t last) {
      numerics::Shape part{last - first};
      for (const auto extent : equations.matrix->image()) part.push_back(extent);
      Array<cfloat> copy = own.allocate<cfloat>(part);
      own.copy<cfloat>({all.data() + first * voxels, part}, copy.view());
      return copy;
    };
    const std::int64_t first = sense ? 0 : member.first(shape[0]), last = sense ? shape[0] : member.last(shape[0]);
    const Array<cfloat> b = part_of(equations.right, first, last);
    Array<cfloat> x = part_of(image, first, last);
    const auto matrix = matrix_of(member, equations);
    std::unique_ptr<numerics::LinearOperator> a;
    if (sense) {
      const std::int64_t coils = equations.maps.shape()[0];
      a = std::make_unique<numerics::SenseToeplitz>(
          own, matrix, part_of(equations.maps, member.first(coils), member.last(coils)), member.others);
    } else {
      a = std::make_unique<numerics::PlainToeplitz>(matrix);
    }
    const auto own_prior = prior == nullptr || here ? nullptr : prior->copy(own);
    numerics::PcgOptions own_options = options;
    own_options.largest_eigenvalue = known;
    results[static_cast<std::size_t>(member.rank())] =
        numerics::pcg(own, *a, own_prior ? own_prior.get() : prior, b.view(), x.view(), own_options);
    if (here || !sense) own.copy<cfloat>(x.view(), numerics::View<cfloat>(image.data() + first * voxels, x.shape()));
  });
  if (!scan_->team->in_one_process()) share_results(results, sense ? 0 : voxels, image);
  numerics::PcgResult& all = results.front();
  for (std::size_t i = 1; i < results.size() && !sense; ++i)
    all.items.insert(all.items.end(), results[i].items.begin(), results[i].items.end());
  if (known == 0 && options.lambda > 0) eigenvalues.add(equations, all.lambda / options.lambda);
  note(equations, all);
  return image;
}

/// What the first process of a team knows.
double PcgSolver::known_to_all(double value) {
  std::vector<std::byte> bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  scan_->team->share(bytes, 0);
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

/// Gives what each process of a team found to all. voxels: of an image, where each process solved for some of them.
void PcgSolver::share_results(std::vector<numerics::PcgResult>& results, std::int64_t voxels, Array<cfloat>& image) {
  numerics::Team& team = *scan_->team;
  const std::int64_t images = image.shape()[0];
  for (int rank = 0; rank < team.size(); ++rank) {
    auto& of_rank = results[static_cast<std::size_t>(rank)];
    std::vector<std::byte> bytes = packed(of_rank);
    team.share(bytes, rank);
    of_rank = unpacked(bytes);
    const std::int64_t first = numerics::share_begin(images, rank, team.size()),
                       last = numerics::share_begin(images, rank + 1, team.size());
    if (voxels > 0)
      team.share(scan_->compute, numerics::View<cfloat>(image.data() + first * voxels, {(last - first) * voxels}),
                 rank);
  }
}

[[noreturn]] void PcgSolver::refuse_numbers() {
  throw ClientError("the data are not finite, or so large that sums of them are not; no image can be solved for");
}

void PcgSolver::note(NormalEquations& equations, const numerics::PcgResult& result) {
  // Of several images, the one that is worst off.
  const auto worst = std::max_element(result.items.begin(), result.items.end(), [](const auto& a, const auto& b) {
    return a.residuals.back() < b.residuals.back();
  });
  if (worst == result.items.end()) return;
  for (const auto& item : result.items) {
    if (item.status != numerics::PcgStatus::broke_down) continue;
    if (item.iterations == 0) refuse_numbers();
    scan_->warn("pcg: the iteration broke down and was stopped at its last good image");
  }
  std::vector<std::string> residuals;
  for (const double r : worst->residuals) residuals.push_back(fmt::format("{:.3g}", r));
  equations.frame = with_notes(*equations.frame, {{"pcg_iterations", std::to_string(worst->iterations)},
                                                  {"pcg_residuals", fmt::format("{}", fmt::join(residuals, " "))},
                                                  {"pcg_status", numerics::to_string(worst->status)}});
}

void PcgSolver::note(NormalEquations& equations, const Found& found) {
  if (const auto& discrepancy = found.discrepancy) {
    using Status = numerics::DiscrepancyResult::Status;
    if (discrepancy->status == Status::below_range)
      scan_->warn("pcg: no lambda meets the data to noise_level: there is more in them than noise and this image");
    if (discrepancy->status == Status::above_range) scan_->warn("pcg: by noise_level the data hold nothing but noise");
    equations.frame = with_notes(*equations.frame, {{"pcg_lambda", fmt::format("{:.3g}", discrepancy->lambda)}});
  }
  note(equations, found.result);
}

PcgSolver::RegularizerPtr PcgSolver::plain_prior(std::uint16_t encoding) {
  if (options_.prior == "none") return nullptr;
  RegularizerPtr& prior = plain_[encoding];
  if (!prior) {
    const numerics::Shape image = geometries_.at(encoding).extents();
    prior = options_.prior == "tikhonov" ? numerics::tikhonov(image)
                                         : numerics::smoothness(image, voxel_size_.at(encoding));
  }
  return prior;
}

/// First without edges; then, once the reference is known, with them.
void PcgSolver::solve_anatomically(NormalEquations&& equations, const Emit<CoilImages>& emit) {
  const std::uint16_t encoding = equations.frame->key.encoding, contrast = equations.frame->key.contrast;
  const FrameKey key = without_contrast(equations.frame->key);
  close_earlier(key, contrast, emit);
  Group& group = groups_[key];
  group.contrasts.insert(contrast);
  if (group.edges) {
    Array<cfloat> image = solve(equations, group.edges.get(), zeros_like(equations.right));
    emit({equations.frame, std::move(image)});
    return;
  }
  Array<cfloat> image = solve(equations, plain_prior(encoding).get(), zeros_like(equations.right));
  group.drafts.push_back({std::move(equations), std::move(image)});
  const bool waits = options_.reference == "all_contrasts" &&
                     (contrasts_.at(encoding) == 0 || group.contrasts.size() < contrasts_.at(encoding));
  if (!waits) close(group, emit);
}

/// What will not get further contrasts: the same slice of another repetition, and a group whose contrasts begin again.
void PcgSolver::close_earlier(const FrameKey& key, std::uint16_t contrast, const Emit<CoilImages>& emit) {
  for (auto group = groups_.begin(); group != groups_.end();) {
    const bool begins_again = group->first == key && group->second.contrasts.contains(contrast);
    const bool earlier = group->first != key && without_repetition(group->first) == without_repetition(key);
    if (!begins_again && !earlier) {
      ++group;
      continue;
    }
    if (!group->second.drafts.empty()) close(group->second, emit);
    group = groups_.erase(group);
  }
}

void PcgSolver::close(Group& group, const Emit<CoilImages>& emit) {
  group.edges = edges_of(group.drafts);
  for (Draft& draft : std::exchange(group.drafts, {})) {
    Array<cfloat> image = solve(draft.equations, group.edges.get(), std::move(draft.image));
    emit({draft.equations.frame, std::move(image)});
  }
}

/// The prior from the magnitude of all coils and contrasts together.
PcgSolver::RegularizerPtr PcgSolver::edges_of(const std::vector<Draft>& drafts) {
  numerics::Context& compute = scan_->compute;
  const auto& shape = drafts.front().image.shape();
  const std::int64_t voxels = shape[1] * shape[2] * shape[3];
  std::int64_t images = 0;
  for (const Draft& draft : drafts) images += draft.image.shape()[0];
  Array<cfloat> all = compute.allocate<cfloat>({images, shape[1], shape[2], shape[3]});
  std::int64_t at = 0;
  for (const Draft& draft : drafts) {
    const auto& each = draft.image.shape();
    if (each[1] * each[2] * each[3] != voxels)
      throw ClientError("pcg: contrasts of different matrices share no anatomy");
    compute.copy<cfloat>(draft.image.view(), numerics::View<cfloat>(all.data() + at * voxels, each));
    at += each[0];
  }
  return edges_in(all);
}

/// The edges of a reference that was given for this slice.
PcgSolver::RegularizerPtr PcgSolver::given_edges(const NormalEquations& equations) {
  FrameKey key;
  key.encoding = equations.frame->key.encoding;
  key.slice = equations.frame->key.slice;
  RegularizerPtr& edges = given_[key];
  if (edges) return edges;
  const Array<cfloat>& reference = scan_->side_images.find("reference", key.slice);
  const auto &has = reference.shape(), &needs = equations.right.shape();
  if (has[1] != needs[1] || has[2] != needs[2] || has[3] != needs[3])
    throw ClientError(
        fmt::format("pcg: the reference given has {} x {} x {} voxels [z, y, x], but this scan's images "
                    "have {} x {} x {}",
                    has[1], has[2], has[3], needs[1], needs[2], needs[3]));
  edges = edges_in(reference);
  return edges;
}

/// The prior from the magnitude of images [image, z, y, x] of the same anatomy.
PcgSolver::RegularizerPtr PcgSolver::edges_in(const Array<cfloat>& all) {
  numerics::Context& compute = scan_->compute;
  const auto& shape = all.shape();
  const std::int64_t voxels = shape[1] * shape[2] * shape[3];
  Array<cfloat> power = compute.allocate<cfloat>({1, shape[1], shape[2], shape[3]});
  numerics::root_sum_of_squares(compute, all.view(), power.view());
  Array<float> reference = compute.allocate<float>({shape[1], shape[2], shape[3]});
  numerics::component(compute, power.view(), numerics::Component::magnitude, 1,
                      reference.view().reshaped({1, shape[1], shape[2], shape[3]}));
  const std::int64_t axes = numerics::image_axes(reference.shape());
  Array<float> weights = compute.allocate<float>({axes, shape[1], shape[2], shape[3]});
  numerics::EdgeOptions options;
  options.strength = options_.edge_strength;
  numerics::edge_weights(compute, reference.view(), options, weights.view());
  // The filter counts axes from x on, the prior from the slowest one.
  numerics::Shape of_prior{axes};
  for (std::size_t a = axes == 2 ? 2 : 1; a < 4; ++a) of_prior.push_back(shape[a]);
  Array<float> turned = compute.allocate<float>(of_prior);
  for (std::int64_t a = 0; a < axes; ++a)
    compute.copy<float>(weights.view().slice(a).reshaped({voxels}),
                        numerics::View<float>(turned.data() + (axes - 1 - a) * voxels, {voxels}));
  return numerics::edge_stencil(compute, turned);
}

void PcgSolver::finish(End how, const Emit<CoilImages>& emit) {
  solve_waiting(emit);
  std::size_t waiting = 0;
  for (auto& [key, group] : groups_) {
    waiting += group.drafts.size();
    if (how == End::complete && !group.drafts.empty()) close(group, emit);
  }
  if (how == End::truncated && waiting > 0)
    scan_->warn(fmt::format("pcg: {} image(s) waited for further contrasts and are dropped", waiting));
  groups_.clear();
}

}  // namespace echotrain
