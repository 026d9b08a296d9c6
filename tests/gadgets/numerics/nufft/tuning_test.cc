// The tuner: what it tries, what it remembers, and that results do not depend on it beyond rounding.
#include "gadgets/numerics/nufft/tuning.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <thread>

#include "gadgets/numerics/nufft/nufft.h"
#include "tests/support/backends.h"
#include "tests/support/direct_sum.h"
#include "tests/support/matter_of_time.h"
#include "tests/support/nufft_problem.h"
#include "tests/support/resources.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::make_problem;
using testing::Problem;

constexpr double kShortTrial = 0.05;  // seconds

/// A folder for one test.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "echotrain-tuning-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const std::string& name = "tuning.json") const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

void write_text(const std::string& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

nlohmann::json read_json(const std::string& file) {
  std::ifstream stream(file);
  return nlohmann::json::parse(stream);
}

HostView<const double> coordinates_of(const Problem& p) {
  return {p.coordinates.data(), {p.count(), static_cast<std::int64_t>(p.image.rank())}};
}

template <class B>
class TuningTest : public testing::OnBackend<B> {
 protected:
  NufftTuning tuned_by(NufftTuner& tuner, const Problem& p) {
    asked(tuner, p);
    while (tuner.try_next(this->context().shared_resources())) {
    }
    return asked(tuner, p);
  }
  NufftTuning asked(NufftTuner& tuner, const Problem& p) {
    return tuner.tuned(this->context(), coordinates_of(p), p.image, p.options, p.coils);
  }
  std::vector<NufftTuning> candidates(const Problem& p) {
    return candidate_tunings(static_cast<int>(p.image.rank()), p.options.kernel_width, B::kBackend,
                             this->context().threads().size());
  }
  NufftTuning usual(const Problem& p) {
    return default_tuning(static_cast<int>(p.image.rank()), p.options.kernel_width, B::kBackend);
  }
  bool is_candidate(const Problem& p, const NufftTuning& tuning) {
    const auto all = candidates(p);
    return std::find(all.begin(), all.end(), tuning) != all.end();
  }
  std::vector<cfloat> adjoint(const Problem& p, const NufftTuning& tuning) {
    const auto plan = NufftPlan::make(this->context(), coordinates_of(p), p.image, p.options, tuning);
    EXPECT_EQ(plan->tuning(), tuning);
    auto samples = this->upload(p.samples, {p.count(), p.coils});
    auto weights = this->upload(p.weights, {p.count()});
    Shape shape{p.coils};
    for (const auto extent : p.image) shape.push_back(extent);
    auto image = this->context().template allocate<cfloat>(shape);
    plan->adjoint(this->context(), samples.cview(), weights.cview(), image.view());
    return this->download(image);
  }
};
TYPED_TEST_SUITE(TuningTest, Backends, testing::BackendNames);

/// Enough work for a trial, and quick to try.
Problem worth_trying() { return make_problem({128, 120}, 4, {5, 1.5}, 110000, 7); }

TYPED_TEST(TuningTest, EveryCandidateGivesTheSameImage) {
  // Grids larger than most tiles, and tiles with more samples than most pieces take.
  for (const Shape& size : {Shape{1500}, Shape{67, 90}, Shape{13, 24, 46}}) {
    const Problem p = make_problem(size, 5, {5, 1.5}, 7000, 11);
    const auto all = this->candidates(p);
    ASSERT_EQ(all.front(), this->usual(p));
    const auto expected = this->adjoint(p, all.front());
    const auto truth = testing::direct_adjoint(p.coordinates, p.samples, p.weights, p.coils, p.image);
    Shape grid;  // only the tolerance's small part depends on it
    for (const auto extent : size) grid.push_back(extent * 3 / 2);
    ASSERT_LT(testing::relative_error(expected, truth, truth.size()), testing::tolerance(p.options, p.image, grid));
    // Sums of some thousand numbers in fp32, in another order: each differs by some 1e-7.
    // A longer chain of sums would round more.
    for (const NufftTuning& tuning : all) EXPECT_LE(tuning.most_piece, 8192);
    for (const NufftTuning& tuning : all)
      EXPECT_LT(testing::relative_error(this->adjoint(p, tuning), expected, expected.size()), 1e-6) << describe(tuning);
  }
}

TYPED_TEST(TuningTest, ChoosesOnceAndRemembers) {
  const Folder folder;
  const Problem p = worth_trying();
  NufftTuner first(folder.file("a/b/tuning.json"), kShortTrial);
  const NufftTuning chosen = this->tuned_by(first, p);
  EXPECT_TRUE(this->is_candidate(p, chosen)) << describe(chosen);
  EXPECT_EQ(first.trials(), 1);
  EXPECT_EQ(this->tuned_by(first, p), chosen);
  EXPECT_EQ(first.trials(), 1);

  NufftTuner later(folder.file("a/b/tuning.json"), kShortTrial);
  EXPECT_EQ(this->tuned_by(later, p), chosen);
  EXPECT_EQ(later.trials(), 0);

  // Another class is another trial.
  Problem wider = p;
  wider.options.kernel_width = 8;
  this->tuned_by(later, wider);
  EXPECT_EQ(later.trials(), 1);
  EXPECT_EQ(read_json(folder.file("a/b/tuning.json"))["entries"].size(), 2u);
}

// On a scan's path nothing is tried, whatever it asks for.
TYPED_TEST(TuningTest, WhoAsksGetsTheDefaultUntilItIsTried) {
  const Folder folder;
  const Problem p = worth_trying();
  NufftTuner tuner(folder.file(), kShortTrial);
  const auto resources = this->context().shared_resources();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(this->asked(tuner, p), this->usual(p));
  EXPECT_EQ(tuner.trials(), 0);
  EXPECT_EQ(tuner.wishes(), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder.file()));
  const NufftTuner::Kind kind{TypeParam::kBackend, p.count(), p.image, p.options, p.coils};
  EXPECT_EQ(tuner.known(*resources, kind), std::nullopt);

  std::stop_source scan_comes;
  scan_comes.request_stop();
  EXPECT_EQ(tuner.try_next(resources, scan_comes.get_token()), std::nullopt);
  EXPECT_EQ(tuner.wishes(), 1u) << "it is tried later";
  const auto said = tuner.try_next(resources);
  ASSERT_TRUE(said.has_value());
  EXPECT_NE(said->find("2d, width 5, "), std::string::npos) << *said;
  EXPECT_EQ(tuner.trials(), 1);
  EXPECT_EQ(tuner.wishes(), 0u);
  EXPECT_EQ(tuner.known(*resources, kind), this->asked(tuner, p));
  EXPECT_EQ(tuner.try_next(resources), std::nullopt);
}

// A trial that a scan interrupts ends within some pieces of work, and leaves no choice behind.
TYPED_TEST(TuningTest, AScanEndsATrial) {
  // It may have ended by itself: a GPU has few candidates, and the slow ones drop out in some 50 ms.
  if (TypeParam::kBackend == Backend::cuda) GTEST_SKIP() << "no trial on a GPU lasts long enough to be interrupted";
  const Folder folder;
  const Problem p = worth_trying();
  NufftTuner tuner(folder.file(), 60);
  this->asked(tuner, p);
  std::stop_source scan_comes;
  std::thread scan([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the plans of its seven tiles alone take longer
    scan_comes.request_stop();
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(tuner.try_next(this->context().shared_resources(), scan_comes.get_token()), std::nullopt);
  // Pieces have some 5 ms, plans some 50; the machine may be busy. An uninterrupted trial takes a minute.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << kMatterOfTime;
  scan.join();
  EXPECT_EQ(tuner.wishes(), 1u);
  EXPECT_EQ(this->asked(tuner, p), this->usual(p));
  EXPECT_FALSE(std::filesystem::exists(folder.file()));
}

// What another program with the same folder has found meanwhile is taken.
TYPED_TEST(TuningTest, TwoProgramsAgree) {
  const Folder folder;
  const Problem p = worth_trying();
  NufftTuner one(folder.file(), kShortTrial), other(folder.file(), kShortTrial);
  this->asked(other, p);
  const NufftTuning chosen = this->tuned_by(one, p);
  EXPECT_EQ(this->tuned_by(other, p), chosen);
  EXPECT_EQ(other.trials(), 0);
}

TYPED_TEST(TuningTest, TriesAPartOfALargeProblem) {
  const Problem p = make_problem({96, 90, 96}, 1, {5, 1.5}, 100000, 12);
  NufftTuner tuner("", kShortTrial);
  const auto ask = [&] { return tuner.tuned(this->context(), coordinates_of(p), p.image, p.options, 8); };
  EXPECT_EQ(ask(), this->usual(p));
  EXPECT_TRUE(tuner.try_next(this->context().shared_resources()));
  const NufftTuning chosen = ask();
  EXPECT_TRUE(this->is_candidate(p, chosen)) << describe(chosen);
  EXPECT_EQ(tuner.trials(), 1);
}

TYPED_TEST(TuningTest, SmallProblemsAndThoseWithoutTilesTakeTheDefault) {
  NufftTuner tuner("", kShortTrial);
  const Problem small = make_problem({32, 32}, 8, {5, 1.5}, 1000, 8);
  EXPECT_EQ(this->tuned_by(tuner, small), this->usual(small));
  Problem streamed = worth_trying();
  streamed.options.use = NufftUse::accumulate;
  EXPECT_EQ(this->tuned_by(tuner, streamed), this->usual(streamed));
  Problem none = worth_trying();
  none.coordinates.clear();
  EXPECT_EQ(this->tuned_by(tuner, none), this->usual(none));
  EXPECT_EQ(tuner.trials(), 0);
}

// Whatever is in the file, a choice is one of the candidates, and the file is usable afterwards.
TYPED_TEST(TuningTest, UnusableFilesAreRewritten) {
  const Problem p = worth_trying();
  const Folder folder;
  NufftTuner tuner(folder.file(), kShortTrial);
  this->tuned_by(tuner, p);
  nlohmann::json impossible = read_json(folder.file());
  for (auto& entry : impossible["entries"]) entry["tile_x"] = 0;
  nlohmann::json missing = impossible, text = impossible;
  for (auto& entry : missing["entries"]) entry.erase("tile_x");
  for (auto& entry : text["entries"]) entry["tile_x"] = "many";
  const std::string contents[] = {"",
                                  "no JSON \xff\xfe",
                                  "{\"format\": \"echotrain tuning 1\", \"entries\": {",
                                  "[1, 2, 3]",
                                  "{\"format\": \"something else\", \"entries\": {}}",
                                  "{\"format\": \"echotrain tuning 1\", \"entries\": 5}",
                                  std::string(3 << 20, ' '),
                                  std::string(200000, '['),
                                  impossible.dump(),
                                  missing.dump(),
                                  text.dump()};
  for (const std::string& content : contents) {
    write_text(folder.file(), content);
    NufftTuner again(folder.file(), kShortTrial);
    const NufftTuning tuning = this->tuned_by(again, p);
    EXPECT_TRUE(this->is_candidate(p, tuning)) << describe(tuning);
    EXPECT_EQ(again.trials(), 1) << content.substr(0, 80);
    NufftTuner later(folder.file(), kShortTrial);
    EXPECT_EQ(this->tuned_by(later, p), tuning);
    EXPECT_EQ(later.trials(), 0) << content.substr(0, 80);
  }
}

TYPED_TEST(TuningTest, PlacesThatCannotBeWrittenAreNoError) {
  const Problem p = worth_trying();
  const Folder folder;
  write_text(folder.file("plain"), "not a folder");
  std::filesystem::create_directory(folder.file("folder"));
  // Root ignores a file's permissions and runs many tests, so these are files that nobody can write.
  for (const std::string& file : {folder.file("plain/tuning.json"), folder.file("folder"), std::string("/proc/x/y"),
                                  std::string("/dev/null/tuning.json"), std::string("")}) {
    NufftTuner tuner(file, kShortTrial);
    const NufftTuning chosen = this->tuned_by(tuner, p);
    EXPECT_TRUE(this->is_candidate(p, chosen));
    EXPECT_EQ(this->tuned_by(tuner, p), chosen);
    EXPECT_EQ(tuner.trials(), 1);
  }
}

TYPED_TEST(TuningTest, ResourcesTurnItOnAndOff) {
  const Folder folder;
  const Problem p = worth_trying();
  ResourceOptions options = test_resource_options();
  options.cache_folder = folder.file("cache");
  for (const bool autotune : {false, true}) {
    options.autotune = autotune;
    Context context(TypeParam::kBackend, std::make_shared<Resources>(options));
    EXPECT_EQ(tuned(context, coordinates_of(p), p.image, p.options, p.coils), this->usual(p));
    EXPECT_EQ(context.resources().get<NufftTuner>().wishes(), autotune ? 1u : 0u);
    context.resources().get<NufftTuner>().try_next(context.shared_resources());
    const NufftTuning chosen = tuned(context, coordinates_of(p), p.image, p.options, p.coils);
    EXPECT_EQ(std::filesystem::exists(folder.file("cache/tuning.json")), autotune);
    EXPECT_TRUE(this->is_candidate(p, chosen));
    if (!autotune) {
      EXPECT_EQ(chosen, this->usual(p));
    }
    EXPECT_EQ(tuned(context, coordinates_of(p), p.image, p.options, p.coils), chosen);
    EXPECT_EQ(NufftPlan::make(context, coordinates_of(p), p.image, p.options, p.coils)->tuning(), chosen);
  }
}

// What ResourceOptions::autotune = false promises: these numbers, from release to release.
TYPED_TEST(TuningTest, TheDefaultsAreThese) {
  const bool cuda = TypeParam::kBackend == Backend::cuda;
  const auto tuning = [](std::int32_t z, std::int32_t y, std::int32_t x, std::int64_t piece) {
    return NufftTuning{.tile = {z, y, x}, .most_piece = piece, .most_group = 8, .most_threads = 0};
  };
  EXPECT_EQ(default_tuning(1, 5, TypeParam::kBackend), cuda ? tuning(1, 1, 64, 256) : tuning(1, 1, 512, 4096));
  EXPECT_EQ(default_tuning(2, 5, TypeParam::kBackend), cuda ? tuning(1, 8, 8, 256) : tuning(1, 32, 32, 8192));
  EXPECT_EQ(default_tuning(3, 5, TypeParam::kBackend), cuda ? tuning(4, 4, 4, 512) : tuning(8, 16, 32, 8192));
}

TYPED_TEST(TuningTest, ImpossibleTuningsAreRefused) {
  const Problem p = make_problem({20, 20}, 1, {5, 1.5}, 50, 9);
  const auto make = [&](const auto& change) {
    NufftTuning tuning = this->usual(p);
    change(tuning);
    return NufftPlan::make(this->context(), coordinates_of(p), p.image, p.options, tuning);
  };
  EXPECT_THROW(make([](NufftTuning& t) { t.tile[1] = 0; }), std::invalid_argument);
  EXPECT_THROW(make([](NufftTuning& t) { t.most_piece = 0; }), std::invalid_argument);
  EXPECT_THROW(make([](NufftTuning& t) { t.most_group = 3; }), std::invalid_argument);
  EXPECT_THROW(make([](NufftTuning& t) { t.most_threads = -1; }), std::invalid_argument);
  EXPECT_NE(make([](NufftTuning&) {}), nullptr);
}

TEST(TuningClass, SimilarProblemsAreOneClass) {
  const auto golden = problem_class(2, 5, 384.0 * 384, 402.0 * 512, 8);
  EXPECT_EQ(golden, "2d, width 5, 4^9 grid points, 4^0 samples each, 5+ coils");
  EXPECT_EQ(golden, problem_class(2, 5, 432.0 * 400, 302.0 * 576, 32));
  EXPECT_NE(golden, problem_class(2, 6, 384.0 * 384, 402.0 * 512, 8));
  EXPECT_NE(golden, problem_class(2, 5, 384.0 * 384, 402.0 * 512, 4));
  EXPECT_NE(golden, problem_class(2, 5, 384.0 * 384, 55.0 * 512, 8));
  EXPECT_NE(golden, problem_class(2, 5, 1024.0 * 1024, 2800.0 * 512, 8));
  EXPECT_EQ(problem_class(3, 5, 1e7, 3e5, 2), problem_class(3, 5, 1e7, 3e5, 4));
  EXPECT_NE(problem_class(3, 5, 1e7, 3e5, 2), problem_class(3, 5, 1e7, 3e5, 1));
}

TEST(TuningText, SaysEverything) {
  EXPECT_EQ(describe(NufftTuning{.tile = {8, 16, 32}, .most_piece = 8192, .most_group = 8, .most_threads = 0}),
            "tiles of 8 x 16 x 32, pieces of 8192 samples, up to 8 coils together, all threads");
  EXPECT_EQ(describe(NufftTuning{.tile = {1, 32, 64}, .most_piece = 512, .most_group = 4, .most_threads = 3}),
            "tiles of 32 x 64, pieces of 512 samples, up to 4 coils together, 3 threads");
}

const auto kAny = [](const TuningEntry&) { return true; };

TEST(TuningStore, TheFirstEntryStaysWhileItIsAcceptable) {
  const Folder folder;
  const TuningStore one(folder.file()), other(folder.file());
  EXPECT_EQ(one.find("key"), std::nullopt);
  EXPECT_EQ(one.add("key", {{"n", 1}}, kAny), (TuningEntry{{"n", 1}}));
  EXPECT_EQ(other.add("key", {{"n", 2}}, kAny), (TuningEntry{{"n", 1}}));
  EXPECT_EQ(other.find("key"), (TuningEntry{{"n", 1}}));
  EXPECT_EQ(other.add("key", {{"n", 3}}, [](const TuningEntry& e) { return e.at("n") != 1; }), (TuningEntry{{"n", 3}}));
  EXPECT_EQ(one.find("key"), (TuningEntry{{"n", 3}}));
}

TEST(TuningStore, TheNewestOfTooManyStay) {
  const Folder folder;
  const TuningStore store(folder.file());
  // As a version left it that bounded nothing and noted no times: more than 1 MiB.
  nlohmann::json entries = nlohmann::json::object();
  for (std::size_t i = 0; i < 3 * TuningStore::kMostEntries; ++i)
    entries[std::to_string(i) + std::string(400, 'x')] = {{"n", 1}};
  std::ofstream(folder.file()) << nlohmann::json{{"format", "echotrain tuning 1"}, {"entries", entries}};
  ASSERT_GT(std::filesystem::file_size(folder.file()), 1U << 20);
  std::vector<std::string> said;
  const auto say = [&](const std::string& text) { said.push_back(text); };
  EXPECT_EQ(store.find("0" + std::string(400, 'x')), (TuningEntry{{"n", 1}}));
  for (int i = 0; i < 3; ++i) store.add("new " + std::to_string(i), {{"n", i}}, kAny, say);
  EXPECT_EQ(store.find("new 0"), (TuningEntry{{"n", 0}}));
  EXPECT_EQ(store.find("new 2"), (TuningEntry{{"n", 2}}));
  EXPECT_EQ(read_json(folder.file())["entries"].size(), TuningStore::kMostEntries);
  ASSERT_EQ(said.size(), 3U) << "each of them takes another's place";
  EXPECT_NE(said[0].find("2049 went"), std::string::npos) << said[0];
  EXPECT_NE(said[2].find("1 went"), std::string::npos) << said[2];
  std::filesystem::resize_file(folder.file(), 17 << 20);
  store.add("later", {{"n", 9}}, kAny, say);
  EXPECT_NE(said.back().find("more than 16 MiB"), std::string::npos) << said.back();
  EXPECT_EQ(store.find("later"), (TuningEntry{{"n", 9}}));
}

TEST(TuningStore, ManyProcessesAtOnceLoseNothing) {
  constexpr int kProcesses = 4, kKeys = 25;
  const Folder folder;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const TuningStore store(folder.file());
      bool whole = true;
      for (int k = 0; k < kKeys; ++k) {
        const std::string key = std::to_string(p) + "." + std::to_string(k);
        store.add(key, {{"process", p}, {"key", k}}, kAny);
        whole = whole && store.find(key) == TuningEntry{{"process", p}, {"key", k}};
      }
      _exit(whole ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read_json(folder.file())["entries"].size(), static_cast<std::size_t>(kProcesses * kKeys));
  int files = 0;  // the file and its lock: no temporary one is left
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.file(""))) ++files;
  EXPECT_EQ(files, 2);
}

}  // namespace
}  // namespace echotrain::numerics
