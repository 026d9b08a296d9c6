// A scan by several ranks gives the images of a single process; here the ranks are threads that only meet as processes
// would.
#include "gadgets/engine/ranked_pipeline.h"

#include <gmock/gmock.h>

#include <limits>
#include <map>

#include "gadgets/shared/store/noise_store.h"
#include "tests/gadgets/blob.h"
#include "tests/support/resources.h"
#include "tests/support/thread_ranks.h"

namespace echotrain::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const Blob kBlob{2, {3, -2, 0}};

/// Two frames of three coils, the last of which sees `last`, in batches of 17 readouts.
std::vector<protocol::Image> scan_of(Followers* followers, const std::string& text, const RunOptions& options = {},
                                     int tapped = 0, const Blob& last = kBlob) {
  std::vector<protocol::Image> images;
  numerics::Context compute(Backend::cpu, test_resources());
  PipelineSink sink;
  sink.image = [&](protocol::Image&& image, const ImageTimes&) { images.push_back(std::move(image)); };
  sink.text = [](protocol::Level, const std::string&) {};
  RankedPipeline pipeline(followers, PipelinePlan::check(config::read_pipeline(text, "test.yaml")), compute,
                          std::move(sink), options.read_asset);
  int items = 0;
  if (tapped > 0) {
    EXPECT_TRUE(pipeline.tap("fhd", [&](const Item&) { ++items; }));
  }
  pipeline.start(header({.encoded = {40, 33, 1}, .trajectory = "radial"}));
  for (protocol::Image image : options.images) pipeline.push(std::move(image));
  for (int repetition = 0; repetition < 2; ++repetition) {
    auto scan = sample(radial(61, 50), {kBlob, kBlob, last});
    for (auto& readout : scan) readout.head.idx.repetition = static_cast<std::uint16_t>(repetition);
    for (auto at = scan.begin(); at != scan.end();) {
      const auto n = std::min<std::ptrdiff_t>(17, scan.end() - at);
      pipeline.push(std::vector<Acquisition>(std::make_move_iterator(at), std::make_move_iterator(at + n)));
      at += n;
    }
  }
  pipeline.finish(End::complete);
  pipeline.wait();
  EXPECT_EQ(pipeline.counts().frames, 2u);
  EXPECT_EQ(items, tapped);
  return images;
}

std::string solver(const std::string& fhd, const std::string& maps, const std::string& pcg) {
  return yaml("  - density_compensation: {method: none}\n  - fhd: {" + fhd + "}\n" + maps + "  - pcg: {" + pcg +
              "}\n  - coil_combine: {method: none}\n  - image: {component: complex}\n");
}

/// `lead` on rank 0 of `size`, follow() on the others.
std::vector<std::string> errors_of(int size, const std::function<void(Followers&)>& lead) {
  return errors_of_ranks(size, [&](ThreadRanks& ranks) {
    if (ranks.rank() > 0) return follow(ranks, test_resources());
    Followers followers(ranks);
    lead(followers);
    EXPECT_TRUE(followers.dismiss());
  });
}

TEST(RankedPipelineTest, GivesWhatOneProcessGives) {
  for (const std::string maps : {"", "  - coil_maps: {method: adaptive}\n"})
    for (const std::string fhd : {"method: exact", "method: nufft"})
      for (const std::string prior : {"prior: smoothness", "prior: anatomical, warm_start: true"}) {
        const std::string text = solver(fhd, maps, "iterations: 12, lambda: 1e-2, " + prior);
        const std::map<int, std::vector<protocol::Image>> alone = {{0, scan_of(nullptr, text)},
                                                                   {2, scan_of(nullptr, text, {}, 2)}};
        const auto lead = [&](Followers& followers) {
          // Followers serve scan after scan, also one with taps.
          for (const auto& [tapped, truths] : alone) {
            const auto images = scan_of(&followers, text, {}, tapped);
            ASSERT_EQ(images.size(), 2u);
            ASSERT_EQ(truths.size(), 2u);
            for (std::size_t i = 0; i < 2; ++i) {
              const auto image = pixels<cfloat>(images[i]), truth = pixels<cfloat>(truths[i]);
              EXPECT_LT(nrmse(image, truth), 1e-4) << text;
              if (maps.empty()) {
                EXPECT_TRUE(image == truth) << text << "tapped: " << tapped;  // each coil's image by itself
              }
            }
          }
        };
        for (const int size : {2, 3}) EXPECT_THAT(errors_of(size, lead), Each(IsEmpty())) << text;
      }
}

// The worst coil image is another rank's; the images' texts must tell of all coils.
TEST(RankedPipelineTest, SaysTheSameOfItsImages) {
  const std::string text = solver("method: nufft", "", "iterations: 7, prior: smoothness, lambda: 1e-2");
  const Blob last{1, {-6, 4, 0}};
  const auto alone = scan_of(nullptr, text, {}, 0, last);
  EXPECT_THAT(errors_of(3,
                        [&](Followers& followers) {
                          const auto images = scan_of(&followers, text, {}, 0, last);
                          ASSERT_EQ(images.size(), alone.size());
                          EXPECT_EQ(images[0].attributes, alone[0].attributes);
                        }),
              Each(IsEmpty()));
}

// Each rank has a store of its own, so that ranks could whiten differently.
TEST(RankedPipelineTest, NoiseOfOtherScansIsNotUsed) {
  const auto resources = test_resources();
  NoiseRecord record;
  record.coils = 1;
  record.covariance = {4.0};
  record.samples = 100;
  record.made_unix_s = std::numeric_limits<std::int32_t>::max();
  resources->get<NoiseStore>().add({"", "", "noise"}, record);
  const auto said = [&](Followers* followers) {
    std::vector<std::string> texts;
    numerics::Context compute(Backend::cpu, resources);
    PipelineSink sink;
    sink.image = [](protocol::Image&&, const ImageTimes&) {};
    sink.text = [&](protocol::Level, const std::string& text) { texts.push_back(text); };
    const auto plan = PipelinePlan::check(config::read_pipeline(
        yaml("  - noise_adjust\n  - cartesian_kspace\n  - fft\n  - image: {component: complex}\n"), "test.yaml"));
    RankedPipeline pipeline(followers, plan, compute, std::move(sink));
    protocol::Header named = header({.encoded = {8, 8, 1}, .limits = step_limit(8)});
    named.noise_dependency = "noise";
    pipeline.start(named);
    std::vector<Acquisition> lines;
    for (std::uint16_t step = 0; step < 8; ++step) {
      lines.push_back(readout(1, std::vector<cfloat>(8, cfloat(1))));
      lines.back().head.idx.kspace_encode_step_1 = step;
    }
    pipeline.push(std::move(lines));
    pipeline.finish(End::complete);
    pipeline.wait();
    return texts;
  };
  const auto refusal = HasSubstr("is not used by several ranks, each of which has a store of its own: images are NOT");
  EXPECT_THAT(said(nullptr), AllOf(Contains(HasSubstr("noise of another scan")), Not(Contains(refusal))));
  EXPECT_THAT(errors_of(2, [&](Followers& followers) { EXPECT_THAT(said(&followers), Contains(refusal)); }),
              Each(IsEmpty()));
}

TEST(RankedPipelineTest, FilesAreThoseOfRankZero) {
  protocol::Image maps;
  maps.head.version = 1;
  maps.head.data_type = 7;  // complex float
  maps.head.matrix_size[0] = 40;
  maps.head.matrix_size[1] = 33;
  maps.head.matrix_size[2] = 1;
  maps.head.channels = 3;
  maps.pixels = protocol::Payload::take(std::vector<cfloat>(std::size_t{3} * 33 * 40, cfloat(0.5f, 0.25f)));
  RunOptions options;
  int reads = 0;
  options.read_asset = [&](const std::string& name) {
    ++reads;
    if (name != "maps.h5") throw ClientError("no file " + name);
    return std::vector{maps};
  };
  const auto text = [](const std::string& file) {
    return solver("method: exact", "  - coil_maps: {method: given, file: " + file + "}\n", "iterations: 5");
  };
  const auto alone = scan_of(nullptr, text("maps.h5"), options);
  EXPECT_THAT(errors_of(3,
                        [&](Followers& followers) {
                          const auto images = scan_of(&followers, text("maps.h5"), options);
                          EXPECT_LT(nrmse(pixels<cfloat>(images.at(0)), pixels<cfloat>(alone.at(0))), 1e-4);
                        }),
              Each(IsEmpty()));
  EXPECT_EQ(reads, 2);  // once alone, and once by rank 0
  EXPECT_THAT(errors_of(2, [&](Followers& followers) { scan_of(&followers, text("none.h5"), options); }),
              Each(HasSubstr("none.h5")));
}

TEST(RankedPipelineTest, WhatOneRankRefusesEndsTheScan) {
  const auto errors = errors_of(2, [&](Followers& followers) {
    EXPECT_THROW(scan_of(&followers, solver("dimensions: 3, method: exact", "", "iterations: 5")), ClientError);
    EXPECT_FALSE(followers.dismiss());  // they are in the middle of the scan
    throw std::runtime_error("over");
  });
  EXPECT_EQ(errors[0], "over");
  EXPECT_THAT(errors[1], HasSubstr("3D data"));
}

}  // namespace
}  // namespace echotrain::testing
