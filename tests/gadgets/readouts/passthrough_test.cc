// Connection tests: images come back unchanged, everything else is counted.
#include "tests/gadgets/scan.h"
#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

struct Session {
  std::vector<protocol::Image> images;
  std::vector<std::pair<protocol::Level, std::string>> texts;
  numerics::Context compute{Backend::cpu, test_resources()};
  Pipeline pipeline;
  explicit Session(const std::string& text)
      : pipeline(PipelinePlan::check(config::read_pipeline(text, "p.yaml")), compute,
                 {[this](protocol::Image&& image, const ImageTimes&) { images.push_back(std::move(image)); },
                  [this](protocol::Level level, const std::string& line) { texts.emplace_back(level, line); }}) {}
};

protocol::Image client_image(int seed) {
  protocol::Image image;
  std::memset(&image.head, 0x30 + seed, sizeof image.head);  // every byte of the header means something to somebody
  image.attributes = "<ismrmrdMeta><!-- " + std::to_string(seed) + " --></ismrmrdMeta>";
  image.pixels = protocol::Payload::take(std::vector<std::uint16_t>{1, 2, static_cast<std::uint16_t>(seed)});
  return image;
}

TEST(PassthroughTest, ImagesComeBackByteForByte) {
  Session session(yaml("  - passthrough\n"));
  session.pipeline.start(header(HeaderSpec{}));
  std::vector<protocol::Image> sent;
  for (int i = 0; i < 3; ++i) {
    sent.push_back(client_image(i));
    session.pipeline.push(protocol::Image(sent.back()));
    EXPECT_EQ(session.images.size(), static_cast<std::size_t>(i) + 1);  // at once, not at the end
  }
  session.pipeline.finish(End::complete);
  session.pipeline.wait();
  ASSERT_EQ(session.images.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(std::memcmp(&session.images[i].head, &sent[i].head, sizeof sent[i].head), 0);
    EXPECT_EQ(session.images[i].attributes, sent[i].attributes);
    EXPECT_EQ(session.images[i].pixels.bytes.data(), sent[i].pixels.bytes.data());  // not even copied
    EXPECT_EQ(session.images[i].pixels.bytes.size(), 6u);
  }
  EXPECT_EQ(session.pipeline.counts().images_in, 3u);
  EXPECT_EQ(session.pipeline.counts().images_out, 3u);
}

TEST(PassthroughTest, TheRestIsCountedInTheText) {
  Session session(yaml("  - passthrough\n"));
  session.pipeline.start(header(HeaderSpec{}));
  std::mt19937 random(1);
  session.pipeline.push({readout(2, noise(20, random)), readout(2, noise(20, random))});
  session.pipeline.push({readout(2, noise(20, random))});
  session.pipeline.push(protocol::Waveform{});
  session.pipeline.push(protocol::Waveform{});
  session.pipeline.push(client_image(1));
  session.pipeline.finish(End::complete);
  ASSERT_EQ(session.texts.size(), 1u);
  EXPECT_EQ(session.texts[0].first, protocol::Level::info);
  EXPECT_EQ(session.texts[0].second, "received 3 readouts (480 bytes of samples), 2 waveforms, 1 image");
  EXPECT_EQ(session.pipeline.counts().readouts, 3u);
  EXPECT_EQ(session.pipeline.counts().waveforms, 2u);
}

TEST(PassthroughTest, OtherPipelinesTakeNoImagesAndLetWaveformsBy) {
  Session session(yaml("  - cartesian_kspace\n  - fft\n  - image\n"));
  session.pipeline.start(header({.encoded = {8, 1, 1}}));
  session.pipeline.push(client_image(1));
  session.pipeline.push(client_image(2));
  session.pipeline.push(protocol::Waveform{});
  std::mt19937 random(1);
  session.pipeline.push({readout(1, noise(8, random))});
  session.pipeline.finish(End::complete);
  session.pipeline.wait();
  EXPECT_EQ(session.images.size(), 1u);  // the scan's own
  ASSERT_EQ(session.texts.size(), 1u);
  EXPECT_EQ(session.texts[0].first, protocol::Level::warning);
  EXPECT_EQ(session.texts[0].second,
            "pipeline 'test' reconstructs readouts and has no use for images; they are left out");
  EXPECT_EQ(session.pipeline.counts().images_in, 2u);
  EXPECT_EQ(session.pipeline.counts().images_out, 1u);
}

protocol::Image plain_image() {
  protocol::Image image;
  image.head.version = 1;
  image.head.data_type = ISMRMRD::ISMRMRD_USHORT;
  image.head.image_type = ISMRMRD::ISMRMRD_IMTYPE_MAGNITUDE;
  image.head.matrix_size[0] = 3;
  image.head.matrix_size[1] = image.head.matrix_size[2] = image.head.channels = 1;
  image.pixels = protocol::Payload::take(std::vector<std::uint16_t>{1, 2, 3});
  return image;
}

// What the session throws at the end of a scan of so many readouts and images; empty: nothing.
std::string refusal(const std::string& pipeline, int readouts, int images, End how = End::complete) {
  Session session(pipeline);
  session.pipeline.start(header({.encoded = {8, 1, 1}}));
  std::mt19937 random(1);
  for (int n = 0; n < images; ++n) session.pipeline.push(plain_image());
  for (int n = 0; n < readouts; ++n) session.pipeline.push({readout(1, noise(8, random))});
  try {
    session.pipeline.finish(how);
  } catch (const ClientError& error) {
    return error.what();
  }
  return "";
}

TEST(PassthroughTest, AScanOfTheOtherKindIsRefusedAtItsEnd) {
  const std::string readouts = yaml("  - cartesian_kspace\n  - fft\n  - image\n");
  const std::string images = yaml("  - image\n", "input: images\n");
  EXPECT_EQ(refusal(readouts, 0, 1),
            "pipeline 'test' reconstructs readouts, but the scan has 1 image and no readout: use a pipeline that takes "
            "images ('input: images'), such as 'images_denoise' or 'images_display'");
  EXPECT_EQ(refusal(images, 3, 0),
            "pipeline 'test' takes images, but the scan has 3 readouts and no image: use a pipeline that reconstructs "
            "readouts");
  // What has something to work on, ends early, or is empty, is not refused.
  EXPECT_EQ(refusal(readouts, 1, 2), "");
  EXPECT_EQ(refusal(images, 3, 1), "");
  EXPECT_EQ(refusal(readouts, 0, 2, End::truncated), "");
  EXPECT_EQ(refusal(images, 2, 0, End::truncated), "");
  EXPECT_EQ(refusal(readouts, 0, 0), "");
  EXPECT_EQ(refusal(images, 0, 0), "");
  EXPECT_EQ(refusal(yaml("  - passthrough\n"), 0, 2), "");
  EXPECT_EQ(refusal(yaml("  - passthrough\n"), 2, 0), "");
}

TEST(PassthroughTest, TapsSeeWhatAGadgetGives) {
  Session session(yaml("  - noise_adjust\n  - cartesian_kspace\n  - fft\n  - image\n"));
  int seen = 0;
  EXPECT_FALSE(session.pipeline.tap("gridding", [](const Item&) {}));
  EXPECT_TRUE(session.pipeline.tap("fft", [&](const Item& item) {
    ++seen;
    EXPECT_EQ(std::get<CoilImages>(item).data.shape(), (numerics::Shape{1, 1, 1, 8}));
  }));
  session.pipeline.start(header({.encoded = {8, 1, 1}}));
  std::mt19937 random(1);
  session.pipeline.push({readout(1, noise(8, random))});
  session.pipeline.finish(End::complete);
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace echotrain::testing
