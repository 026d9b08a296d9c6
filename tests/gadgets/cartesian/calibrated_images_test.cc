// CalibratedImages: what is prepared before a frame's last readout has come, and that images do not show it.
#include "gadgets/cartesian/calibrated_images.h"

#include "tests/gadgets/encoding/parallel_scene.h"

namespace echotrain::testing {
namespace {

const std::string kGrappa = yaml("  - cartesian_kspace\n  - grappa: {kernel_x: 3}\n  - image: {component: complex}\n");

/// A scan that came readout by readout.
struct Paced {
  std::vector<protocol::Image> images;
  std::uint64_t early = 0;  ///< weights that were made before the last readout
  ScanNumbers work;
};

Paced paced(const protocol::Header& header, const std::vector<Acquisition>& scan, std::int64_t waiting = 0) {
  Paced out;
  numerics::Context compute(Backend::cpu, test_resources());
  Pipeline pipeline(PipelinePlan::check(config::read_pipeline(kGrappa, "test.yaml")), compute,
                    {[&](protocol::Image&& image, const ImageTimes&) { out.images.push_back(std::move(image)); },
                     [](protocol::Level, const std::string&) {}});
  pipeline.start(header);
  for (const Acquisition& readout : scan) {
    out.early = pipeline.counts().work.weights_made;
    pipeline.push({readout}, waiting);
  }
  pipeline.finish(End::complete);
  pipeline.wait();
  out.work = pipeline.counts().work;
  return out;
}

/// Returns the images of the scan in one batch, of which every frame ends before anything can be prepared.
std::vector<std::vector<cfloat>> images_at_once(const protocol::Header& header, const std::vector<Acquisition>& scan) {
  std::vector<std::vector<cfloat>> out;
  for (const auto& image : run(kGrappa, header, scan).images) out.push_back(pixels<cfloat>(image));
  return out;
}

void expect_images(const Paced& paced, const std::vector<std::vector<cfloat>>& truth) {
  ASSERT_EQ(paced.images.size(), truth.size());
  for (std::size_t i = 0; i < truth.size(); ++i) EXPECT_EQ(pixels<cfloat>(paced.images[i]), truth[i]) << i;
}

/// Frames of two repetitions. Rows of the band beside the lattice come for calibration alone where `apart`.
std::vector<Acquisition> repetitions(const ParallelScene& scene, const Leaving& left, bool apart = false) {
  std::mt19937 random(5);
  std::vector<Acquisition> out = scene.references(left, &random);
  for (std::uint16_t r = 0; r < 2; ++r)
    for (Acquisition& a : scene.frame(left, &random)) {
      a.head.idx.repetition = r;
      const int y = a.head.idx.kspace_encode_step_1, z = a.head.idx.kspace_encode_step_2;
      if (apart && !scene.on_lattice(y, z, left)) {
        a.head.flags = 0;
        set_flag(a, kCalibration);
      }
      out.push_back(std::move(a));
    }
  return out;
}

TEST(CalibratedImages, WeightsAreThereBeforeTheLastReadout) {
  struct Case {
    const char* what;
    std::array<int, 3> n;
    Leaving left;
    bool apart;
  };
  for (const Case& c : std::vector<Case>{
           {"before", {32, 40, 1}, {.ry = 3, .y0 = 2, .band = 16, .separate = true}, false},
           {"embedded", {32, 40, 1}, {.ry = 3, .y0 = 1, .band = 16}, false},
           {"put back", {32, 40, 1}, {.ry = 3, .y0 = 1, .band = 16}, true},
           {"volume", {12, 16, 16}, {.ry = 2, .rz = 2, .shift = 1, .z0 = 1, .band = 12, .separate = true}, false}}) {
    SCOPED_TRACE(c.what);
    const ParallelScene scene(c.n, 4);
    const auto header = scene.header_of(c.left, 2);
    const auto scan = repetitions(scene, c.left, c.apart);
    std::vector<Acquisition> first = scan;
    std::erase_if(first, [](const Acquisition& a) { return a.head.idx.repetition > 0; });
    EXPECT_EQ(paced(header, first).early, 1u);
    EXPECT_EQ(paced(header, first, /*waiting=*/1).early, 0u);  // those are for readouts that are there
    const Paced all = paced(header, scan);
    expect_images(all, images_at_once(header, scan));
    EXPECT_EQ(all.work.weights_made, 1u);
    EXPECT_EQ(all.work.weights_reused, 1u);
  }
}

// A reference line that comes once more, with other noise, after weights were made.
TEST(CalibratedImages, ALateReferenceLineCounts) {
  const ParallelScene scene({32, 40, 1}, 4);
  const Leaving left{.ry = 3, .y0 = 1, .band = 16};
  const auto header = scene.header_of(left);
  std::mt19937 random(6);
  std::vector<Acquisition> scan = scene.frame(left, &random);
  const auto without = images_at_once(header, scan);
  scan.insert(scan.end() - 1, scene.line(20, 0, &random));
  set_flag(*(scan.end() - 2), kCalibrationAndImaging);
  const auto truth = images_at_once(header, scan);
  EXPECT_NE(truth, without);
  const Paced late = paced(header, scan);
  expect_images(late, truth);
  EXPECT_EQ(late.early, 1u);
  EXPECT_EQ(late.work.weights_made, 2u);
}

// The header announces lines that do not come, so that weights made early do not fit; this is tried once.
TEST(CalibratedImages, FramesThatEndBeforeTheirLastLinesGetTheirOwnWeights) {
  const ParallelScene scene({32, 40, 1}, 4);
  const Leaving left{.ry = 3, .y0 = 1, .band = 16};
  const auto header = scene.header_of(left, 1, 2);
  std::mt19937 random(7);
  std::vector<Acquisition> scan;
  for (std::uint16_t slice = 0; slice < 2; ++slice) {
    std::vector<Acquisition> frame = scene.frame(left, &random);
    std::erase_if(frame, [](const Acquisition& a) { return a.head.idx.kspace_encode_step_1 > 34; });
    set_flag(frame.back(), kLastInSlice);
    for (Acquisition& a : frame) {
      a.head.idx.slice = slice;
      scan.push_back(std::move(a));
    }
  }
  const Paced cut = paced(header, scan);
  expect_images(cut, images_at_once(header, scan));
  EXPECT_EQ(cut.work.weights_made, 3u);
  EXPECT_EQ(cut.work.weights_reused, 0u);
}

// Frames that lack a line give no image: weights of the first come too early to know, those of others are not made.
TEST(CalibratedImages, NothingIsPreparedOnceAFrameWasRefused) {
  const ParallelScene scene({32, 40, 1}, 4);
  const Leaving left{.ry = 3, .y0 = 1, .band = 16};
  const auto header = scene.header_of(left, 1, 3);
  std::mt19937 random(8);
  std::vector<Acquisition> scan;
  for (std::uint16_t slice = 0; slice < 3; ++slice)
    for (Acquisition& a : scene.frame(left, &random)) {
      a.head.idx.slice = slice;
      if (a.head.idx.kspace_encode_step_1 != 34) scan.push_back(std::move(a));
    }
  const Paced all = paced(header, scan);
  EXPECT_TRUE(all.images.empty());
  EXPECT_EQ(all.work.frames_refused, 3u);
  EXPECT_EQ(all.work.weights_made, 1u);
}

}  // namespace
}  // namespace echotrain::testing
