#include "gadgets/least_squares/pcg_gadget.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/inverse/operators/map_products.h"

namespace echotrain {
namespace {

/// The key that the contrasts of one slice at one time share.
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
      .integer("iterations", &Options::iterations, 1, 10000, "largest number of steps")
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
              "circulant saves steps where samples are not weighted, and costs some where they are")
      .flag("warm_start", &Options::warm_start, "starts from the image of the repetition before")
      .choice("reference", &Options::reference, {"all_contrasts", "first_contrast", "given"},
              "anatomical only; the images that say where the edges are: of all contrasts together, for which images "
              "wait; of the first that comes; or given: from `reference_file`, or sent by the client as an image of "
              "role reference")
      .text("reference_file", &Options::reference_file,
            "given only; a file of the server's assets: an ISMRMRD file with an image per slice. Empty: the client "
            "sends it")
      .number("edge_strength", &Options::edge_strength, 0.01, 1000,
              "anatomical only; a difference of this many times the median halves the prior's weight there");
}

PcgSolver::PcgSolver(Options options) : options_(std::move(options)), priors_(options_), solver_(options_) {
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
  priors_.start(header, scan);
  solver_.start(scan);
  for (const auto& encoding : header.encodings)
    contrasts_.push_back(encoding.contrast ? encoding.contrast->maximum - encoding.contrast->minimum + 1u : 0u);
}

void PcgSolver::process(NormalEquations&& equations, const Emit<CoilImages>& emit) {
  if (equations.sets > 1) {
    if (options_.prior == "smoothness" || options_.prior == "anatomical")
      throw ClientError(
          "pcg: with several sets of coil maps, the prior is tikhonov or none; choose one, or coil_maps: {sets: 1}");
    if (options_.preconditioner == "circulant")
      throw ClientError(
          "pcg: with several sets of coil maps, the preconditioner is jacobi or none; choose one, or coil_maps: "
          "{sets: 1}");
  }
  if (options_.noise_level > 0 && equations.right.shape()[0] > equations.sets)
    throw ClientError("pcg: noise_level needs the equations of one image, not of each coil; put coil_maps before pcg");
  if (options_.prior == "anatomical" && options_.reference != "given") {
    solve_anatomically(std::move(equations), emit);
    return;
  }
  // An image that starts from the result of another one waits for that one only.
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

/// Solves waiting frames. They do not depend on each other: each device of this process solves one. A single frame is
/// solved by all devices.
void PcgSolver::solve_waiting(const Emit<CoilImages>& emit) {
  std::vector<NormalEquations> all = std::exchange(waiting_, {});
  std::vector<RegularizerPtr> priors;
  std::vector<Array<cfloat>> images;
  for (const NormalEquations& equations : all) {
    priors.push_back(priors_.prior_of(equations));
    images.push_back(start_of(equations));
  }
  if (all.size() == 1)
    images[0] = solver_.solve(all[0], priors[0].get(), images[0]);
  else if (all.size() > 1)
    solver_.solve_side_by_side(all, priors, images);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (options_.warm_start) previous_[without_repetition(all[i].frame->key)] = images[i];
    if (all[i].sets > 1) {
      const auto& n = images[i].shape();
      Array<cfloat> joined = scan_->compute.allocate<cfloat>({1, n[1], n[2], n[3]});
      numerics::join_sets(scan_->compute, images[i].cview(), joined.view());
      images[i] = std::move(joined);
    }
    emit({all[i].frame, std::move(images[i])});
  }
}

/// The start of a frame; empty means zero.
Array<cfloat> PcgSolver::start_of(const NormalEquations& equations) {
  Array<cfloat> image;
  if (const auto before = previous_.find(without_repetition(equations.frame->key));
      before != previous_.end() && before->second.shape() == equations.right.shape()) {
    image = scan_->compute.allocate<cfloat>(equations.right.shape());
    scan_->compute.copy<cfloat>(before->second.view(), image.view());
  }
  return image;
}

/// Solves without edges first, and with them once the reference is known.
void PcgSolver::solve_anatomically(NormalEquations&& equations, const Emit<CoilImages>& emit) {
  const std::uint16_t encoding = equations.frame->key.encoding, contrast = equations.frame->key.contrast;
  const FrameKey key = without_contrast(equations.frame->key);
  close_earlier(key, contrast, emit);
  Group& group = groups_[key];
  group.contrasts.insert(contrast);
  if (group.edges) {
    Array<cfloat> image = solver_.solve(equations, group.edges.get());
    emit({equations.frame, std::move(image)});
    return;
  }
  Array<cfloat> image = solver_.solve(equations, priors_.plain(encoding).get());
  group.drafts.push_back({std::move(equations), std::move(image)});
  const bool waits = options_.reference == "all_contrasts" &&
                     (contrasts_.at(encoding) == 0 || group.contrasts.size() < contrasts_.at(encoding));
  if (!waits) close(group, emit);
}

/// Closes groups that will get no further contrasts: the same slice of another repetition, and a group whose contrasts
/// begin again.
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

std::vector<Array<cfloat>> PcgSolver::Group::images() const {
  std::vector<Array<cfloat>> all;
  for (const Draft& draft : drafts) all.push_back(draft.image);
  return all;
}

void PcgSolver::close(Group& group, const Emit<CoilImages>& emit) {
  group.edges = priors_.edges_of(group.images(), group.drafts.front().equations.frame->key.encoding);
  for (Draft& draft : std::exchange(group.drafts, {})) {
    Array<cfloat> image = solver_.solve(draft.equations, group.edges.get(), std::move(draft.image));
    emit({draft.equations.frame, std::move(image)});
  }
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
