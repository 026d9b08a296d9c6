#include "gadgets/numerics/nufft/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <new>
#include <utility>

#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/nufft/nufft_plan.h"

namespace echotrain::numerics {
namespace {

using Clock = std::chrono::steady_clock;
using Tile = std::array<std::int32_t, 3>;

// Raise it when kernels or candidates change so that earlier choices mean nothing.
constexpr int kRevision = 4;
constexpr double kWorthTrying = 1e7;        // multiplications and additions; about a millisecond on two cores
constexpr double kMostWork[] = {5e7, 1e9};  // the same, in one run of a trial: CPU, CUDA
constexpr double kMostSamples = 5e5;        // in a trial, which makes their plan anew for every candidate
constexpr double kClearlyBetter = 0.97;     // share of the default's time
constexpr double kThreadsBetter = 0.85;     // for fewer threads, which look better than they are while others compute
constexpr double kHopeless = 1.08;          // times the best time; slower candidates drop out
constexpr std::uint64_t kTrialMemory = 4ull << 30;
constexpr std::uint64_t kMostKept = 32ull << 20;  // bytes of trajectories that wait for a trial

/// Extents of a full tile on the CPU, the default first: a tile and its halo stay in the level-2 cache for eight coils.
const std::vector<Tile>& cpu_tiles(int dims) {
  static const std::vector<Tile> kTiles[3] = {
      {{1, 1, 512}, {1, 1, 2048}, {1, 1, 256}, {1, 1, 1024}},
      {{1, 32, 32}, {1, 64, 64}, {1, 48, 48}, {1, 32, 64}, {1, 16, 64}, {1, 24, 24}, {1, 16, 32}},
      {{8, 16, 32}, {16, 16, 32}, {8, 16, 64}, {8, 32, 32}, {8, 8, 32}, {12, 12, 32}, {16, 16, 16}, {8, 8, 16}}};
  return kTiles[dims - 1];
}

/// CUDA's kernels are written for tiles of kTilePoints.
Tile cuda_tile(int dims) {
  static constexpr Tile kTiles[3] = {{1, 1, 64}, {1, 8, 8}, {4, 4, 4}};
  return kTiles[dims - 1];
}

/// The default first. A piece is summed in one chain, whose rounding grows with its length: on the CPU none is longer
/// than the default's.
std::vector<std::int64_t> piece_sizes(int dims, Backend backend) {
  if (backend == Backend::cuda && dims < 3) return {256, 512, 1024, 2048, 128};
  if (backend == Backend::cuda) return {512, 256, 1024, 2048, 128};
  if (dims == 1) return {4096, 2048, 1024};
  return {8192, 4096, 2048};
}

/// Powers of four: classes of problems are factors of four apart.
int quarters(double value) { return static_cast<int>(std::lround(std::log2(value) / 2)); }

std::int64_t typical_coils(std::int64_t coils) { return coils >= 5 ? 8 : coils >= 2 ? 4 : 1; }

TuningEntry to_entry(const NufftTuning& tuning) {
  return {{"tile_z", tuning.tile[0]},        {"tile_y", tuning.tile[1]},        {"tile_x", tuning.tile[2]},
          {"most_piece", tuning.most_piece}, {"most_group", tuning.most_group}, {"most_threads", tuning.most_threads}};
}

/// The candidate that an entry names, if any; whatever a file says, nothing else is used.
std::optional<NufftTuning> from_entry(const TuningEntry& entry, const std::vector<NufftTuning>& candidates) {
  for (const NufftTuning& candidate : candidates)
    if (to_entry(candidate) == entry) return candidate;
  return std::nullopt;
}

struct Problem {
  Shape image;
  std::vector<double> coordinates;
  std::int64_t samples = 0, coils = 0;
};

double volume_of(const Shape& image) {
  double product = 1;
  for (const auto extent : image) product *= static_cast<double>(extent);
  return product;
}

double work_of(double samples, double grid_points, std::int64_t coils, int width, std::size_t dims) {
  constexpr double kPerPoint = 4;  // the cost of writing a grid point, in additions to one
  return static_cast<double>(coils) * (samples * std::pow(width, dims) + kPerPoint * grid_points);
}

/// A part of a problem with the same density everywhere, on an image that is `factor` times smaller along each axis:
/// every so-manieth stretch of the samples, and of these every factor-th sample, so that neighbours along a readout
/// stay as far apart on the grid as they were.
Problem reduced(HostView<const double> coordinates, const Shape& image, std::int64_t coils, std::int64_t factor) {
  constexpr std::int64_t kStretch = 256;  // samples that are taken together: about a readout
  const auto dims = static_cast<std::int64_t>(image.rank());
  Problem problem{.image = {}, .coordinates = {}, .samples = 0, .coils = coils};
  for (const auto extent : image) problem.image.push_back((extent + factor - 1) / factor);
  const double kept = volume_of(problem.image) / volume_of(image);
  const std::int64_t stretches = std::max<std::int64_t>(1, std::llround(1 / (kept * static_cast<double>(factor))));
  for (std::int64_t s = 0; s < coordinates.shape()[0]; s += factor) {
    if (s / (kStretch * factor) % stretches != 0) continue;
    for (std::int64_t a = 0; a < dims; ++a) problem.coordinates.push_back(coordinates[s * dims + a]);
  }
  problem.samples = static_cast<std::int64_t>(problem.coordinates.size()) / dims;
  return problem;
}

/// A candidate, ready to run.
struct Trial {
  NufftTuning tuning;
  std::shared_ptr<const NufftPlan> plan;
  double best = 0;  ///< seconds, of the rounds so far
  /// The time by which candidates are compared.
  double score() const { return tuning.most_threads > 0 ? best / kThreadsBetter : best; }
};

/// Tries the tiles first, and then with the best of them the pieces' sizes, the groups of coils and the threads.
/// Candidates run by turns, so that other load on the machine slows all alike, and the slow ones drop out.
class Search {
 public:
  Search(Backend backend, const std::shared_ptr<Resources>& resources, int device, const std::stop_token& stop,
         const Problem& problem, const NufftOptions& options, double seconds)
      : context_(backend, resources, {.device = device, .memory_budget = kTrialMemory, .stop_token = stop}),
        problem_(problem),
        options_(options),
        begin_(Clock::now()),
        seconds_(seconds) {
    options_.use = NufftUse::adjoint;
    HostArray<cfloat> host = context_.allocate_host<cfloat>({problem.samples, problem.coils});
    for (std::int64_t i = 0; i < host.size(); ++i)
      host.data()[i] = {static_cast<float>(i % 97) / 97 - 0.5f, static_cast<float>(i % 89) / 89 - 0.5f};
    samples_ = context_.place<cfloat>(host);
  }

  NufftTuning best() {
    const auto dims = static_cast<int>(problem_.image.rank());
    const Backend backend = context_.backend();
    const NufftTuning usual = default_tuning(dims, options_.kernel_width, backend);
    std::vector<NufftTuning> round{usual};
    const auto add = [&round](NufftTuning tuning, const auto& change) {
      change(tuning);
      if (std::find(round.begin(), round.end(), tuning) == round.end()) round.push_back(tuning);
    };
    NufftTuning leader = usual;
    if (backend == Backend::cpu) {
      for (const Tile& tile : cpu_tiles(dims))
        add(usual, [&](NufftTuning& t) { std::copy(tile.begin(), tile.end(), t.tile); });
      leader = fastest(round, kTilesPart);
      round = {usual};
      add(leader, [](NufftTuning&) {});
    }
    for (const std::int64_t size : piece_sizes(dims, backend))
      add(leader, [&](NufftTuning& t) { t.most_piece = size; });
    if (backend == Backend::cpu) {
      if (problem_.coils >= 5) add(leader, [](NufftTuning& t) { t.most_group = 4; });
      if (const int half = context_.threads().size() / 2; half >= 1)
        add(leader, [&](NufftTuning& t) { t.most_threads = half; });
    }
    return fastest(round, 1);
  }

 private:
  static constexpr double kTilesPart = 0.6;  // of the time
  static constexpr double kPlansPart = 0.5;  // of a tournament's time, for plans

  double elapsed() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  std::shared_ptr<const NufftPlan> plan_of(const NufftTuning& tuning) {
    const auto dims = static_cast<std::int64_t>(problem_.image.rank());
    return NufftPlan::make(context_, {problem_.coordinates.data(), {problem_.samples, dims}}, problem_.image, options_,
                           tuning);
  }

  double run(const NufftPlan& plan) {
    if (grid_.size() == 0) {
      Shape shape{problem_.coils};
      for (const auto extent : plan.grid_shape()) shape.push_back(extent);
      grid_ = context_.allocate<cfloat>(shape);
    }
    context_.synchronize();
    const auto begin = Clock::now();
    plan.grid(context_, samples_.cview(), {}, grid_.view());
    context_.synchronize();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  /// The fastest in trials until `part` of the time has passed, or the first when no other is clearly better.
  NufftTuning fastest(const std::vector<NufftTuning>& tunings, double part) {
    const double start = elapsed(), end = part * seconds_;
    const auto in_time = [&](double share) { return elapsed() < start + share * (end - start); };
    std::vector<Trial> trials;
    for (const NufftTuning& tuning : tunings)
      if (trials.empty() || in_time(kPlansPart)) trials.push_back({tuning, plan_of(tuning)});
    for (Trial& trial : trials) trial.best = run(*trial.plan);
    for (int rounds = 1; trials.size() > 1 && in_time(1); ++rounds) {
      for (Trial& trial : trials)
        if (in_time(1)) trial.best = std::min(trial.best, run(*trial.plan));
      const double hopeless = kHopeless * leader_of(trials).score();
      if (rounds > 1)
        trials.erase(std::remove_if(trials.begin() + 1, trials.end(),
                                    [&](const Trial& trial) { return trial.score() > hopeless; }),
                     trials.end());
    }
    const Trial& leader = leader_of(trials);
    return leader.score() < kClearlyBetter * trials.front().score() ? leader.tuning : trials.front().tuning;
  }

  static const Trial& leader_of(const std::vector<Trial>& trials) {
    return *std::min_element(trials.begin(), trials.end(),
                             [](const Trial& a, const Trial& b) { return a.score() < b.score(); });
  }

  Context context_;
  const Problem& problem_;
  NufftOptions options_;
  const Clock::time_point begin_;
  const double seconds_;
  Array<cfloat> samples_, grid_;
};

}  // namespace

std::string describe(const NufftTuning& tuning) {
  std::string tiles;
  for (const std::int32_t extent : tuning.tile)
    if (extent > 1 || !tiles.empty()) tiles += fmt::format("{}{}", tiles.empty() ? "" : " x ", extent);
  return fmt::format("tiles of {}, pieces of {} samples, up to {} coils together, {}", tiles.empty() ? "1" : tiles,
                     tuning.most_piece, tuning.most_group,
                     tuning.most_threads == 0
                         ? "all threads"
                         : fmt::format("{} thread{}", tuning.most_threads, tuning.most_threads == 1 ? "" : "s"));
}

NufftTuning default_tuning(int dims, int /*kernel_width*/, Backend backend) {
  NufftTuning tuning;
  const Tile tile = backend == Backend::cuda ? cuda_tile(dims) : cpu_tiles(dims).front();
  std::copy(tile.begin(), tile.end(), tuning.tile);
  tuning.most_piece = piece_sizes(dims, backend).front();
  return tuning;
}

std::vector<NufftTuning> candidate_tunings(int dims, int kernel_width, Backend backend, int threads) {
  NufftTuning tuning = default_tuning(dims, kernel_width, backend);
  std::vector<NufftTuning> all;
  if (backend == Backend::cuda) {
    for (const std::int64_t size : piece_sizes(dims, backend)) {
      tuning.most_piece = size;
      all.push_back(tuning);
    }
    return all;
  }
  for (const std::int32_t most_threads : {0, threads / 2})
    for (const std::int32_t group : {8, 4})
      for (const Tile& tile : cpu_tiles(dims))
        for (const std::int64_t size : piece_sizes(dims, backend)) {
          std::copy(tile.begin(), tile.end(), tuning.tile);
          tuning.most_piece = size;
          tuning.most_group = group;
          tuning.most_threads = most_threads;
          all.push_back(tuning);
        }
  return all;
}

std::string problem_class(int dims, int kernel_width, double grid_points, double samples, std::int64_t coils) {
  return fmt::format("{}d, width {}, 4^{} grid points, 4^{} samples each, {} coils", dims, kernel_width,
                     quarters(grid_points), quarters(std::max(samples, 1.0) / grid_points),
                     coils >= 5   ? "5+"
                     : coils >= 2 ? "2-4"
                                  : "1");
}

/// A class to be tried out, by a part of the trajectory that was first of it.
struct NufftTuner::Wish {
  std::string key, name;
  Backend backend = Backend::cpu;
  int device = 0;
  NufftOptions options;
  Problem problem;
  std::shared_ptr<MemoryShare> kept;  // of the trajectory's memory
  std::uint64_t bytes() const { return problem.coordinates.capacity() * sizeof(double); }
};

namespace {

/// What of a problem decides whether and as which class it is tried.
struct Class {
  double work = 0;
  std::string name, key;
  bool worth_trying = false;
};

Class class_of(Resources& resources, const NufftTuner::Kind& kind) {
  const auto dims = static_cast<int>(kind.image.rank());
  const int width = kind.options.kernel_width;
  const auto samples = static_cast<double>(kind.samples);
  const double grid_points = volume_of(kind.image) * std::pow(kind.options.oversampling, dims);
  Class out;
  out.work = work_of(samples, grid_points, typical_coils(kind.coils), width, kind.image.rank());
  out.worth_trying = out.work >= kWorthTrying && kind.options.use != NufftUse::accumulate;
  if (!out.worth_trying) return out;
  out.name = problem_class(dims, width, grid_points, samples, kind.coils);
  out.key = fmt::format("{}; Echotrain {}.{}; NUFFT {}", describe(kind.backend, resources), ECHOTRAIN_VERSION,
                        kRevision, out.name);
  return out;
}

std::vector<NufftTuning> candidates_of(const Shape& image, const NufftOptions& options, Backend backend,
                                       Resources& resources) {
  return candidate_tunings(static_cast<int>(image.rank()), options.kernel_width, backend, resources.threads().size());
}

}  // namespace

NufftTuner::NufftTuner(std::string file, double seconds) : NufftTuner(std::move(file), seconds, nullptr) {}

NufftTuner::NufftTuner(const Resources& resources)
    : NufftTuner(resources.options().cache_folder.empty() ? std::string()
                                                          : (resources.options().cache_folder / "tuning.json").string(),
                 kSeconds, std::make_shared<MemoryAccount>(resources.memory())) {}

NufftTuner::NufftTuner(std::string file, double seconds, std::shared_ptr<MemoryAccount> account)
    : store_(std::move(file)), seconds_(seconds), account_(std::move(account)) {}

int NufftTuner::trials() const {
  const std::lock_guard lock(mutex_);
  return trials_;
}

std::size_t NufftTuner::wishes() const {
  const std::lock_guard lock(mutex_);
  return wishes_.size();
}

std::optional<NufftTuning> NufftTuner::known(Resources& resources, const Kind& kind) const {
  const Class problem = class_of(resources, kind);
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(problem.key);
  return found == known_.end() ? std::nullopt : std::optional<NufftTuning>(found->second);
}

NufftTuning NufftTuner::tuned(Context& context, HostView<const double> coordinates, const Shape& image,
                              const NufftOptions& options, std::int64_t coils) {
  const Backend backend = context.backend();
  const NufftTuning usual = default_tuning(static_cast<int>(image.rank()), options.kernel_width, backend);
  const Class problem = class_of(context.resources(), {backend, coordinates.shape()[0], image, options, coils});
  if (!problem.worth_trying) return usual;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(problem.key); found != known_.end()) return found->second;
    if (!looked_up_.insert(problem.key).second) return usual;
  }
  if (const auto kept = store_.find(problem.key))
    if (const auto tuning = from_entry(*kept, candidates_of(image, options, backend, context.resources()))) {
      const std::lock_guard lock(mutex_);
      return known_[problem.key] = *tuning;
    }
  Wish wish;
  wish.key = problem.key;
  wish.name = problem.name;
  wish.backend = backend;
  wish.device = context.device();
  wish.options = options;
  wish.problem.coils = typical_coils(coils);
  wish_for(wish, coordinates, image, problem.work);
  return usual;
}

/// A class for which there is no room is wished for no more: it keeps the default as long as the program runs.
void NufftTuner::wish_for(const Wish& what, HostView<const double> coordinates, const Shape& image, double work) {
  const double most_work = kMostWork[what.backend == Backend::cuda ? 1 : 0];
  std::int64_t factor = 1;
  const auto too_large = [&] {
    const double part = std::pow(factor, image.rank());
    return work / part > most_work || static_cast<double>(coordinates.shape()[0]) / part > kMostSamples;
  };
  while (too_large()) ++factor;
  try {
    const auto wish = std::make_shared<Wish>(what);
    wish->problem = reduced(coordinates, image, what.problem.coils, factor);
    wish->kept = std::make_shared<MemoryShare>(account_);
    wish->kept->grow_to(wish->bytes());  // not under the lock: caches may have to give way, whose locks come first
    const std::lock_guard lock(mutex_);
    std::uint64_t all = wish->bytes();
    for (const auto& each : wishes_) all += each->bytes();
    if (all <= kMostKept) wishes_.push_back(wish);
  } catch (const OverBudget&) {
  } catch (const std::bad_alloc&) {
  }
}

std::optional<std::string> NufftTuner::try_next(const std::shared_ptr<Resources>& resources,
                                                const std::stop_token& stop) {
  const std::lock_guard one(trying_);
  std::shared_ptr<const Wish> wish;
  {
    const std::lock_guard lock(mutex_);
    if (wishes_.empty() || stop.stop_requested()) return std::nullopt;
    wish = wishes_.front();
  }
  const std::vector<NufftTuning> candidates =
      candidates_of(wish->problem.image, wish->options, wish->backend, *resources);
  const auto acceptable = [&](const TuningEntry& entry) { return from_entry(entry, candidates).has_value(); };
  NufftTuning best = candidates.front();
  std::string how = "found";
  try {
    // Another program with the same folder may have tried it meanwhile.
    const auto kept = store_.find(wish->key);
    if (const auto tuning = kept ? from_entry(*kept, candidates) : std::nullopt) {
      best = *tuning;
      how = "known by now";
    } else {
      best = Search(wish->backend, resources, wish->device, stop, wish->problem, wish->options, seconds_).best();
      if (stop.stop_requested()) return std::nullopt;
      const auto say = [&](const std::string& text) { how += "; " + text; };
      best = *from_entry(store_.add(wish->key, to_entry(best), acceptable, say), candidates);
      const std::lock_guard lock(mutex_);
      ++trials_;
    }
  } catch (const Stopped&) {
    return std::nullopt;
  } catch (const std::exception& error) {
    how = fmt::format("not tried: {}", error.what());  // not kept on disk: there may be more memory next time
  }
  const std::lock_guard lock(mutex_);
  known_[wish->key] = best;
  wishes_.pop_front();
  return fmt::format("{}: {} ({})", wish->name, describe(best), how);
}

NufftTuning tuned(Context& context, HostView<const double> coordinates, const Shape& image, const NufftOptions& options,
                  std::int64_t coils) {
  Resources& resources = context.resources();
  if (!resources.options().autotune)
    return default_tuning(static_cast<int>(image.rank()), options.kernel_width, context.backend());
  return resources.get<NufftTuner>().tuned(context, coordinates, image, options, coils);
}

}  // namespace echotrain::numerics
