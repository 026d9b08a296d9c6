#include "gadgets/numerics/nufft/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/nufft/nufft_plan.h"

namespace echotrain::numerics {
namespace {

using Clock = std::chrono::steady_clock;
using Tile = std::array<std::int32_t, 3>;

// Raise it when kernels or candidates change so that earlier choices mean nothing.
constexpr int kRevision = 3;
constexpr double kWorthTrying = 1e7;        // multiplications and additions; about a millisecond on two cores
constexpr double kMostWork[] = {5e7, 1e9};  // the same, in one run of a trial: CPU, CUDA
constexpr double kMostSamples = 5e5;        // in a trial, which makes their plan anew for every candidate
constexpr double kClearlyBetter = 0.97;     // share of the default's time
constexpr double kThreadsBetter = 0.85;     // for fewer threads, which look better than they are while others compute
constexpr double kHopeless = 1.08;          // times the best time; slower candidates drop out
constexpr std::uint64_t kTrialMemory = 4ull << 30;
constexpr std::chrono::milliseconds kPatience(20);  // between two looks at whether to stop

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
  std::int64_t samples, coils;
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
  Search(const Context& session, const Problem& problem, const NufftOptions& options, double seconds)
      : context_(session.backend(), session.shared_resources(),
                 {.device = session.device(),
                  .memory_budget = kTrialMemory,
                  .stop_token = session.stop_token(),
                  .group = session.group(),
                  .account = session.account()}),
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

  Context context_;  // the trial's own: it leaves the session's budget and stream alone
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

NufftTuner::NufftTuner(std::string file, double seconds) : store_(std::move(file)), seconds_(seconds) {}

NufftTuner::NufftTuner(const Resources& resources)
    : NufftTuner(resources.options().cache_folder.empty()
                     ? std::string()
                     : (resources.options().cache_folder / "tuning.json").string()) {}

int NufftTuner::trials() const {
  const std::lock_guard lock(mutex_);
  return trials_;
}

NufftTuning NufftTuner::tuned(Context& context, HostView<const double> coordinates, const Shape& image,
                              const NufftOptions& options, std::int64_t coils) {
  const auto dims = static_cast<int>(image.rank());
  const int width = options.kernel_width;
  const Backend backend = context.backend();
  const auto samples = static_cast<double>(coordinates.shape()[0]);
  const double grid_points = volume_of(image) * std::pow(options.oversampling, dims);
  const std::int64_t typical = typical_coils(coils);
  const double work = work_of(samples, grid_points, typical, width, image.rank());
  const NufftTuning usual = default_tuning(dims, width, backend);
  if (work < kWorthTrying || options.use == NufftUse::accumulate) return usual;

  const std::string key =
      fmt::format("{}; Echotrain {}.{}; NUFFT {}", describe(backend, context.resources()), ECHOTRAIN_VERSION, kRevision,
                  problem_class(dims, width, grid_points, samples, coils));
  std::unique_lock lock(mutex_, std::defer_lock);
  while (!lock.try_lock_for(kPatience)) {
    context.check_stop();
    if (Yield* const yield = Yield::of_thread()) yield->rest();  // who tries out may need the core
  }
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  const std::vector<NufftTuning> candidates = candidate_tunings(dims, width, backend, context.threads().size());
  if (const auto kept = store_.find(key))
    if (const auto tuning = from_entry(*kept, candidates)) return known_[key] = *tuning;

  NufftTuning best = usual;
  try {
    const KeepsCore keeps;  // a pause would count as time
    ++trials_;
    const double most_work = kMostWork[backend == Backend::cuda ? 1 : 0];
    std::int64_t factor = 1;
    const auto too_large = [&] {
      const double part = std::pow(factor, dims);
      return work / part > most_work || samples / part > kMostSamples;
    };
    while (too_large()) ++factor;
    const Problem problem = reduced(coordinates, image, typical, factor);
    best = Search(context, problem, options, seconds_).best();
  } catch (const ResourceError&) {
    return known_[key] = usual;  // not kept on disk, as there may be more memory next time
  } catch (const std::bad_alloc&) {
    return known_[key] = usual;
  }
  const auto acceptable = [&](const TuningEntry& entry) { return from_entry(entry, candidates).has_value(); };
  return known_[key] = *from_entry(store_.add(key, to_entry(best), acceptable), candidates);
}

NufftTuning tuned(Context& context, HostView<const double> coordinates, const Shape& image, const NufftOptions& options,
                  std::int64_t coils) {
  Resources& resources = context.resources();
  if (!resources.options().autotune)
    return default_tuning(static_cast<int>(image.rank()), options.kernel_width, context.backend());
  return resources.get<NufftTuner>().tuned(context, coordinates, image, options, coils);
}

}  // namespace echotrain::numerics
