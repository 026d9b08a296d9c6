// Steps of a chain with a fake in the place of the other program.
#include "tests/gadgets/scan.h"
#include "tests/gadgets/steps/fake_peer.h"
#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

using protocol::Close;
using protocol::HeaderText;
using protocol::Message;
using Messages = FakeWorld::Messages;

/// A pipeline whose `python` and `mrd_server` gadgets speak with a fake.
struct StepRun {
  std::vector<protocol::Image> images;
  std::vector<std::pair<protocol::Level, std::string>> texts;
  std::shared_ptr<FakeWorld> world = std::make_shared<FakeWorld>();
  std::stop_source stop;
  std::shared_ptr<numerics::Resources> resources = test_resources();
  PythonStart python;  // of the last python step
  std::optional<numerics::Context> compute;
  std::optional<Pipeline> pipeline;

  explicit StepRun(const std::string& gadgets, std::uint64_t memory = 0) {
    auto options = test_resource_options();
    options.memory_budget = memory;
    resources = std::make_shared<numerics::Resources>(options);
    auto& source = resources->get<PeerSource>();
    source.python = [this](const StepSettings&, const PythonStart& start, const PeerScan&) {
      python = start;
      return std::make_unique<FakePeer>(world);
    };
    source.server = [this](const std::string&, std::chrono::milliseconds, const std::stop_token&, const PeerScan&) {
      return std::make_unique<FakePeer>(world);
    };
    numerics::ContextOptions context;
    context.stop_token = stop.get_token();
    compute.emplace(Backend::cpu, resources, context);
    pipeline.emplace(
        PipelinePlan::check(config::read_pipeline(yaml(gadgets), "p.yaml")), *compute,
        PipelineSink{[this](protocol::Image&& image, const ImageTimes&) { images.push_back(std::move(image)); },
                     [this](protocol::Level level, const std::string& line) { texts.emplace_back(level, line); }});
  }
  /// Answers CLOSE with CLOSE, and all else with what `other` says.
  void answer(std::function<Messages(Message&&)> other) {
    world->answer = [other = std::move(other)](Message&& message) -> Messages {
      if (std::holds_alternative<Close>(message)) return {Message(Close{})};
      return other(std::move(message));
    };
  }
  std::string failure(const std::function<void()>& run) {
    try {
      run();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
};

Messages echo(Message&& message) {
  if (std::holds_alternative<HeaderText>(message) || std::holds_alternative<protocol::ConfigFile>(message)) return {};
  Messages back;
  back.push_back(std::move(message));
  return back;
}

protocol::Image step_image(std::uint16_t index) {
  protocol::Image image;
  image.head.version = 1;
  image.head.data_type = ISMRMRD::ISMRMRD_FLOAT;
  image.head.channels = image.head.matrix_size[1] = image.head.matrix_size[2] = 1;
  image.head.matrix_size[0] = 2;
  image.head.image_index = index;
  image.pixels = protocol::Payload::take(std::vector<float>{1, static_cast<float>(index)});
  return image;
}

Acquisition step_readout(std::uint16_t line, bool last, std::mt19937& random) {
  Acquisition out = readout(2, noise(16, random));
  out.head.idx.kspace_encode_step_1 = line;
  if (last) set_flag(out, kLastInSlice);
  return out;
}

std::vector<Acquisition> step_frame(std::mt19937& random) {
  std::vector<Acquisition> lines;
  for (std::uint16_t y = 0; y < 8; ++y) lines.push_back(step_readout(y, y == 7, random));
  return lines;
}

const HeaderSpec kSmall{.encoded = {8, 8, 1}, .limits = step_limit(8)};
const std::string kImages = "  - cartesian_kspace\n  - fft\n  - coil_combine\n  - image\n";

TEST(StepTest, ImagesGoOutAndComeBack) {
  StepRun run("  - python: {module: a, config: soft, threads: 3}\n");
  std::vector<std::string> greeted;
  run.answer([&](Message&& message) {
    if (auto* header = std::get_if<HeaderText>(&message)) greeted.push_back(header->xml);
    return echo(std::move(message));
  });
  run.pipeline->start(header(kSmall));
  run.pipeline->push(step_image(1));
  run.pipeline->push(step_image(2));
  run.pipeline->push(std::vector<Acquisition>{});
  EXPECT_EQ(run.images.size(), 2u);
  run.pipeline->finish(End::complete);
  run.pipeline->wait();
  ASSERT_EQ(run.images.size(), 2u);
  EXPECT_EQ(run.images[1].head.image_index, 2);
  ASSERT_EQ(greeted.size(), 1u);
  EXPECT_EQ(greeted[0], header(kSmall).xml);
  EXPECT_EQ(run.python.module, "a");
  EXPECT_EQ(run.python.function, "process");
  EXPECT_EQ(run.python.config, "soft");
  EXPECT_EQ(run.python.threads, 3);
  EXPECT_EQ(run.world->alive, 0);
  EXPECT_EQ(run.world->made, 1);
}

TEST(StepTest, TheFirstStepGetsReadoutsAsTheyCame) {
  StepRun run("  - python: {module: a}\n");
  std::mt19937 random(1);
  const auto lines = step_frame(random);
  std::vector<Acquisition> got;
  run.answer([&](Message&& message) {
    if (auto* came = std::get_if<Acquisition>(&message)) got.push_back(std::move(*came));
    return Messages{};
  });
  run.pipeline->start(header(kSmall));
  run.pipeline->push(std::vector<Acquisition>(lines));
  run.pipeline->finish(End::complete);
  ASSERT_EQ(got.size(), lines.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(std::memcmp(&got[i].head, &lines[i].head, sizeof lines[i].head), 0);
    EXPECT_TRUE(std::equal(got[i].data.bytes.begin(), got[i].data.bytes.end(), lines[i].data.bytes.begin(),
                           lines[i].data.bytes.end()));
  }
}

TEST(StepTest, ReadoutsFindTheirFramesAgain) {
  std::mt19937 random(2);
  const auto first = step_frame(random), second = step_frame(random);
  const auto images_of = [&](const std::string& gadgets) {
    StepRun run(gadgets);
    // Gives back none until eight are there, so that answers come between and after batches.
    auto held = std::make_shared<Messages>();
    run.answer([held](Message&& message) -> Messages {
      for (Message& each : echo(std::move(message))) held->push_back(std::move(each));
      return held->size() < 8 ? Messages{} : std::exchange(*held, {});
    });
    run.pipeline->start(header(kSmall));
    for (const auto& frame : {first, second})
      for (std::size_t i = 0; i < frame.size(); i += 3)
        run.pipeline->push(
            std::vector<Acquisition>(frame.begin() + static_cast<std::ptrdiff_t>(i),
                                     frame.begin() + static_cast<std::ptrdiff_t>(std::min(i + 3, frame.size()))));
    run.pipeline->finish(End::complete);
    run.pipeline->wait();
    return std::move(run.images);
  };
  const auto plain = images_of(kImages), stepped = images_of("  - python: {module: a, gives: readouts}\n" + kImages);
  ASSERT_EQ(plain.size(), 2u);
  ASSERT_EQ(stepped.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(std::equal(plain[i].pixels.bytes.begin(), plain[i].pixels.bytes.end(), stepped[i].pixels.bytes.begin(),
                           stepped[i].pixels.bytes.end()));
}

TEST(StepTest, ReadoutsMustComeBackOneForOne) {
  std::mt19937 random(3);
  const auto lines = step_frame(random);
  const auto failure = [&](auto answer) {
    StepRun run("  - python: {module: a, gives: readouts}\n" + kImages);
    run.answer(answer);
    run.pipeline->start(header(kSmall));
    return run.failure([&] {
      run.pipeline->push(std::vector<Acquisition>(lines));
      run.pipeline->finish(End::complete);
    });
  };
  EXPECT_EQ(failure([](Message&& message) { return echo(std::move(message)); }), "");
  EXPECT_THAT(failure([n = 0](Message&& message) mutable { return ++n == 4 ? Messages{} : echo(std::move(message)); }),
              ::testing::HasSubstr("7 readouts back for 8"));
  EXPECT_THAT(failure([](Message&& message) {
                Messages twice = echo(Message(message));
                for (Message& each : echo(std::move(message))) twice.push_back(std::move(each));
                return twice;
              }),
              ::testing::HasSubstr("one for each"));
  EXPECT_THAT(failure([](Message&& message) {
                Messages back = echo(std::move(message));
                for (Message& each : back) std::get<Acquisition>(each).head.idx.kspace_encode_step_1 = 99;
                return back;
              }),
              ::testing::HasSubstr("cannot be used"));
  EXPECT_THAT(failure([](Message&& message) {
                Messages back = echo(std::move(message));
                for (Message& each : back) each = step_image(1);
                return back;
              }),
              ::testing::HasSubstr("one readout for each"));
}

TEST(StepTest, AStepBetweenOthersTakesWhatTheyGive) {
  std::mt19937 random(4);
  StepRun run("  - noise_adjust\n  - python: {module: a}\n  - mrd_server: {address: 'there:9002', config: x}\n");
  run.resources->get<StepSettings>().servers = {"there:9002"};
  std::uint16_t images = 0;
  run.answer([&](Message&& message) -> Messages {
    if (std::holds_alternative<protocol::Image>(message)) return echo(std::move(message));
    auto* line = std::get_if<Acquisition>(&message);
    if (line == nullptr || (line->head.flags & 1ull << (kLastInSlice - 1)) == 0) return {};
    Messages back;
    back.emplace_back(step_image(++images));
    return back;
  });
  run.pipeline->start(header(kSmall));
  run.pipeline->push(step_frame(random));
  run.pipeline->push(step_frame(random));
  run.pipeline->finish(End::complete);
  run.pipeline->wait();
  EXPECT_EQ(run.images.size(), 2u);
  EXPECT_EQ(run.world->made, 2);
}

TEST(StepTest, WhoFailsIsHeardWithItsLastLines) {
  StepRun run("  - python: {module: broken}\n");
  run.pipeline->start(header(kSmall));
  run.world->lines = {"Traceback", "ValueError: no"};
  run.world->end = "has ended with exit code 1";
  EXPECT_EQ(run.failure([&] { run.pipeline->push(std::vector<Acquisition>{}); }),
            "python module 'broken' has ended with exit code 1; its last line: ValueError: no");
  ASSERT_EQ(run.texts.size(), 2u);
  EXPECT_EQ(run.texts[0], std::pair(protocol::Level::warning, std::string("python module 'broken': Traceback")));
  EXPECT_EQ(run.world->alive, 0);
}

TEST(StepTest, TextsGoToTheClientLineByLine) {
  StepRun run("  - python: {module: a}\n");
  run.answer([](Message&& message) -> Messages {
    if (!std::holds_alternative<HeaderText>(message)) return {};
    return {protocol::Text{"INFO     one\n"}, protocol::Text{"ERROR    two\n  three \n\n"}, protocol::Text{"INFORMAL"}};
  });
  run.pipeline->start(header(kSmall));
  run.pipeline->finish(End::complete);
  using protocol::Level;
  const std::vector<std::pair<Level, std::string>> want{
      {Level::info, "one"}, {Level::warning, "two"}, {Level::warning, "three"}, {Level::info, "INFORMAL"}};
  EXPECT_EQ(run.texts, want);
}

TEST(StepTest, AnErrorAsTheLastWordIsAFailure) {
  const auto failure = [](Messages said) {
    StepRun run("  - python: {module: a}\n");
    run.world->answer = [&](Message&& message) {
      return std::holds_alternative<HeaderText>(message) ? std::exchange(said, {}) : Messages{};
    };
    run.pipeline->start(header(kSmall));
    return run.failure([&] { run.pipeline->finish(End::complete); });
  };
  EXPECT_EQ(failure({protocol::Text{"ERROR    Traceback\n  no head\n"}, Close{}}),
            "python module 'a' has ended with an error: no head");
  EXPECT_EQ(failure({protocol::Text{"ERROR    no head"}, step_image(1), Close{}}), "");
  EXPECT_EQ(failure({protocol::Text{"WARNING  no head"}, Close{}}), "");
}

TEST(StepTest, SilenceEndsAScanOnlyWhileItWaits) {
  StepRun run("  - python: {module: slow, timeout_s: 0.2}\n");
  run.answer([](Message&&) { return Messages{}; });
  run.pipeline->start(header(kSmall));
  run.world->busy = 5;
  run.pipeline->push(step_image(1));  // waits for room
  EXPECT_GE(run.world->waits, 5);
  run.world->answer = [](Message&&) { return Messages{}; };  // no CLOSE
  EXPECT_THAT(run.failure([&] { run.pipeline->finish(End::complete); }),
              ::testing::HasSubstr("has neither taken nor given anything for 0.2 s"));
  EXPECT_EQ(run.world->alive, 0);
}

TEST(StepTest, AStoppedScanWaitsForNobody) {
  StepRun run("  - python: {module: slow}\n");
  run.pipeline->start(header(kSmall));
  run.stop.request_stop();
  EXPECT_THROW(run.pipeline->finish(End::complete), numerics::Stopped);
}

TEST(StepTest, AScanThatBrokeOffIsNotFinished) {
  StepRun run("  - python: {module: a}\n");
  bool closed = false;
  run.world->answer = [&](Message&& message) {
    closed = closed || std::holds_alternative<Close>(message);
    return echo(std::move(message));
  };
  run.pipeline->start(header(kSmall));
  run.pipeline->push(step_image(1));
  run.pipeline->finish(End::truncated);
  EXPECT_FALSE(closed);
  EXPECT_EQ(run.images.size(), 1u);  // what was here is given
  EXPECT_EQ(run.world->alive, 0);
}

TEST(StepTest, WhoClosesEarlyMayNotBeGivenMore) {
  StepRun run("  - python: {module: a}\n");
  run.world->answer = [](Message&& message) -> Messages {
    if (std::holds_alternative<HeaderText>(message)) return {Message(Close{})};
    return {};
  };
  run.pipeline->start(header(kSmall));
  run.pipeline->push(std::vector<Acquisition>{});
  EXPECT_THAT(run.failure([&] { run.pipeline->push(step_image(1)); }), ::testing::HasSubstr("the scan goes on"));
  StepRun other("  - python: {module: a}\n");
  other.world->answer = run.world->answer;
  other.pipeline->start(header(kSmall));
  other.pipeline->finish(End::complete);  // but to end first is no mistake
}

TEST(StepTest, TheMemoryOfItsProcessIsInTheBudget) {
  constexpr std::uint64_t kMiB = 1 << 20;
  StepRun run("  - python: {module: a}\n", 200 * kMiB);
  run.answer([](Message&&) { return Messages{}; });
  run.resources->get<StepSettings>().memory_bytes = 100 * kMiB;
  run.pipeline->start(header(kSmall));
  EXPECT_GE(run.resources->memory()->used(), 132 * kMiB);
  run.pipeline->finish(End::complete);
  EXPECT_LT(run.resources->memory()->used(), 32 * kMiB);
  StepRun large("  - python: {module: a}\n", 100 * kMiB);
  large.resources->get<StepSettings>().memory_bytes = 100 * kMiB;
  EXPECT_THROW(large.pipeline->start(header(kSmall)), numerics::OverBudget);
  EXPECT_EQ(large.world->made, 0);
}

TEST(StepTest, OnlyNamedServersAreAsked) {
  StepRun run("  - mrd_server: {address: 'there:9002', config: default.xml}\n");
  EXPECT_THAT(run.failure([&] { run.pipeline->start(header(kSmall)); }),
              ::testing::HasSubstr("option mrd_servers: none"));
  run.resources->get<StepSettings>().servers = {"there:9002"};
  std::vector<std::string> configs;
  run.answer([&](Message&& message) {
    if (auto* config = std::get_if<protocol::ConfigFile>(&message)) configs.push_back(config->name);
    return echo(std::move(message));
  });
  run.pipeline->start(header(kSmall));
  run.pipeline->push(step_image(1));
  run.pipeline->finish(End::complete);
  EXPECT_EQ(run.images.size(), 1u);
  EXPECT_EQ(configs, std::vector<std::string>{"default.xml"});
}

/// Returns the error of checking a pipeline of this gadget, or its item types where nothing is wrong.
std::string checked_step(const std::string& gadgets) {
  try {
    const auto plan = PipelinePlan::check(config::read_pipeline(yaml(gadgets), "p.yaml"));
    std::string types;
    for (const ItemType type : plan->types()) types += std::string(to_string(type)) + " ";
    return types;
  } catch (const config::ConfigError& error) {
    return error.what();
  }
}

TEST(StepTest, FormsFollowFromTheChain) {
  EXPECT_EQ(checked_step("  - python: {module: a}\n"), "RawBatch Image ");
  EXPECT_EQ(checked_step("  - noise_adjust\n  - python: {module: a}\n"), "Readouts Readouts Image ");
  EXPECT_EQ(checked_step("  - python: {module: a, gives: readouts}\n" + kImages),
            "Readouts Readouts KSpace CoilImages CoilImages Image ");
  EXPECT_EQ(checked_step(kImages + "  - python: {module: a}\n"), "Readouts KSpace CoilImages CoilImages Image Image ");
  EXPECT_THAT(checked_step(kImages + "  - python: {module: a, gives: readouts}\n"),
              ::testing::HasSubstr("gives: readouts is not possible here"));
  EXPECT_THAT(checked_step("  - python: {module: a, gives: readouts}\n"), ::testing::HasSubstr("ends with Readouts"));
  EXPECT_THAT(checked_step("  - cartesian_kspace\n  - python: {module: a}\n"), ::testing::HasSubstr("takes"));
  for (const char* name : {"", "..", "a/b", "a.b", "1a", "a b", "-c"})
    EXPECT_THAT(checked_step(fmt::format("  - python: {{module: '{}'}}\n", name)),
                ::testing::HasSubstr("no module's name"));
  for (const char* address : {"", "there", "there:", "there:0", "there:65536", "there:1x", ":9002", "a b:1"})
    EXPECT_THAT(checked_step(fmt::format("  - mrd_server: {{address: '{}', config: x}}\n", address)),
                ::testing::HasSubstr("is not HOST:PORT"));
  EXPECT_EQ(checked_step("  - mrd_server: {address: '[::1]:9002', config: x}\n"), "RawBatch Image ");
}

}  // namespace
}  // namespace echotrain::testing
