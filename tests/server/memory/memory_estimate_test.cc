// The memory estimate follows from a scan's header and its pipeline.
#include "server/memory/memory_estimate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "config/pipeline_spec.h"
#include "tests/support/sources.h"

namespace echotrain::server {
namespace {

using numerics::MemoryBudget;

TEST(StepMemory, IsThatOfTheChainWhichTheHeaderChooses) {
  const std::string chain = "cartesian_kspace, fft, coil_combine, image";
  const auto plan = PipelinePlan::check(config::read_pipeline(
      fmt::format("echotrain: 1\nname: x\ndescription: x\npipeline: [{}]\naccelerated: [{}, python: {{module: a}}]\n",
                  chain, chain),
      "test"));
  config::ServerOptions options;
  options.steps.python_memory_mib = 100;
  protocol::Header header;
  header.encodings.resize(1);
  header.encodings[0].encoded.matrix = {8, 8, 1};
  EXPECT_EQ(step_memory(header, *plan, options), 0u);
  header.encodings[0].acceleration = {2, 1};
  EXPECT_EQ(step_memory(header, *plan, options), 132u << 20);  // and both queues
  const auto branched = PipelinePlan::check(config::read_pipeline(
      "echotrain: 1\nname: x\ndescription: x\npipeline: [cartesian_kspace, fft, branch: {pipeline: [image, python: "
      "{module: a}]}, image]\n",
      "test"));
  EXPECT_EQ(step_memory(header, *branched, options), 132u << 20);
  const auto arrays = PipelinePlan::check(config::read_pipeline(
      "echotrain: 1\nname: x\ndescription: x\npipeline: [cartesian_kspace, python: {module: a, takes: KSpace, gives: "
      "KSpace, shared_mib: 3}, fft, python: {module: a, takes: CoilImages, gives: Images}]\n",
      "test"));
  EXPECT_EQ(step_memory(header, *arrays, options), (100u + 2 * 3 + 100 + 2 * 64) << 20);  // and both areas of each
}

// The numbers are those of the rule in memory_estimate.h, worked out by hand.
TEST(MemoryEstimate, FollowsTheHeader) {
  protocol::Header header;
  header.xml.assign(1000, ' ');
  header.encodings.resize(1);
  protocol::Encoding& encoding = header.encodings[0];
  encoding.encoded.matrix = {256, 128, 1};
  encoding.recon.matrix = {128, 128, 1};
  header.receiver_channels = 4;
  const auto plan_of = [](const char* gadgets) {
    return PipelinePlan::check(
        config::read_pipeline(fmt::format("echotrain: 1\nname: x\ndescription: x\npipeline: [{}]\n", gadgets), "test"));
  };
  const auto direct = plan_of("passthrough");
  const std::uint64_t base = (2 << 20) + 8000 + 128 * 512, voxels = 256 * 128;
  const auto cpu = numerics::Backend::cpu;
  EXPECT_EQ(memory_estimate(header, *direct, cpu), base + 3 * voxels * 4 * 8);
  EXPECT_EQ(memory_estimate(header, *direct, numerics::Backend::cuda), base + voxels * 4 * 8);
  encoding.trajectory = protocol::Trajectory::radial;
  EXPECT_EQ(memory_estimate(header, *direct, cpu), base + 6 * voxels * 4 * 8);
  const auto solved = PipelinePlan::check(config::read_pipeline_file(shipped_pipelines() / "cg_sense_2d.yaml"));
  EXPECT_EQ(memory_estimate(header, *solved, cpu), base + (6 * 4 + 16) * voxels * 8);
  encoding.encoded.matrix[2] = 10;
  const std::uint64_t of_more_lines = 9 * 128 * 512;
  EXPECT_EQ(memory_estimate(header, *solved, cpu), base + of_more_lines + (6 * 4 + 32) * 10 * voxels * 8);
  header.receiver_channels.reset();
  EXPECT_EQ(memory_estimate(header, *solved, cpu), base + of_more_lines + (6 * 8 + 32) * 10 * voxels * 8);
  // Chains that join coils by weights or maps; of two chains, the header chooses.
  encoding.trajectory = protocol::Trajectory::cartesian;
  encoding.encoded.matrix[2] = 1;
  header.receiver_channels = 4;
  const auto shipped = [](const char* name) {
    return PipelinePlan::check(config::read_pipeline_file(shipped_pipelines() / name));
  };
  for (const std::uint16_t acceleration : {1, 2}) {
    encoding.acceleration[0] = acceleration;
    const std::uint64_t chosen = acceleration > 1 ? 5 : 3;
    EXPECT_EQ(memory_estimate(header, *shipped("cartesian_plain.yaml"), cpu), base + chosen * voxels * 4 * 8);
    EXPECT_EQ(memory_estimate(header, *shipped("cartesian_grappa.yaml"), cpu), base + 5 * voxels * 4 * 8);
    EXPECT_EQ(memory_estimate(header, *shipped("cartesian_sense.yaml"), cpu), base + (5 * 4 + 16) * voxels * 8);
  }
  // Branches take what their own chains do; those of images, a copy.
  encoding.acceleration[0] = 1;
  const auto branched = plan_of(
      "branch: {pipeline: [cartesian_kspace, grappa, image]}, cartesian_kspace, fft, branch: {pipeline: [orient, "
      "image]}, "
      "image");
  EXPECT_EQ(memory_estimate(header, *branched, cpu), base + (3 + 5 + 1) * voxels * 4 * 8);
  EXPECT_EQ(memory_estimate(header, *branched, numerics::Backend::cuda), base + 3 * voxels * 4 * 8);
  header.encodings.clear();
  EXPECT_EQ(memory_estimate(header, *solved, cpu), base - 128 * 512);
}

TEST(MemoryEstimate, ASessionHasHalfOfTheBudgetByDefault) {
  config::ServerOptions options;
  EXPECT_EQ(session_memory(options, MemoryBudget(std::uint64_t{1} << 30)), std::uint64_t{1} << 29);
  EXPECT_EQ(session_memory(options, MemoryBudget(std::uint64_t{1} << 40)), std::uint64_t{8} << 30);
  EXPECT_EQ(device_memory(options), std::uint64_t{8} << 30);
  options.session_memory_mib = 700;
  EXPECT_EQ(session_memory(options, MemoryBudget(std::uint64_t{1} << 30)), std::uint64_t{700} << 20);
  EXPECT_EQ(device_memory(options), std::uint64_t{700} << 20);
}

}  // namespace
}  // namespace echotrain::server
