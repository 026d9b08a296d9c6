// Pipelines whose input is images: what comes back of images that no gadget, or some gadget, has changed.
#include "gadgets/shared/incoming/image_input.h"

#include <cmath>
#include <limits>

#include "gadgets/shared/incoming/meta_notes.h"
#include "tests/gadgets/sent_images.h"

namespace echotrain::testing {
namespace {

class ImagesInTest : public OnEachBackend {
 protected:
  Outcome through(const std::string& gadgets, std::vector<protocol::Image> images) {
    return run_images(gadgets, std::move(images), here());
  }
  /// Expects that pixels of this type come back unchanged.
  template <class T>
  void expect_back(const std::vector<T>& pixels, int image_type) {
    const int n = static_cast<int>(pixels.size()) / 2;
    protocol::Image sent = sent_image(pixels, {n, 1, 1}, {{"DataRole", "Segmentation"}}, image_type);  // 2 channels
    const Outcome out = through("  - image\n", {sent});
    ASSERT_EQ(out.images.size(), 1u);
    const protocol::ImageHeader head = out.images[0].head;
    EXPECT_EQ(testing::pixels<T>(out.images[0]), pixels);
    EXPECT_EQ(+head.data_type, wire_type<T>());
    EXPECT_EQ(+head.image_type, image_type);
    EXPECT_EQ(+head.channels, 2);
    EXPECT_EQ(meta_of(out.images[0], "DataRole"), Values{"Segmentation"});
    EXPECT_TRUE(out.texts.empty()) << out.texts[0].second;
  }
};
ECHOTRAIN_ON_BACKENDS(ImagesInTest);

TEST_P(ImagesInTest, AllTypesOfPixelsComeBackAsTheyWent) {
  for (const int type : {0, 1, 2, 3, 4, 5}) {
    expect_back<std::uint16_t>({0, 1, 40000, 65535}, type);
    expect_back<std::uint32_t>({0, 7, 1u << 24, 4294967040u}, type);
    if (type == 1) continue;  // a magnitude has no sign
    expect_back<std::int16_t>({-32768, -1, 2, 32767}, type);
    expect_back<std::int32_t>({-2147483647 - 1, -3, 1 << 24, 5}, type);
    expect_back<float>({-1.25f, 0, 3e30f, 1e-30f}, type);
    expect_back<double>({-0.25, 1024, 1e-3f, 65537}, type);
    expect_back<cfloat>({{1, -2}, {0, 0.5f}, {-3e20f, 4}, {5, 6}}, type);
    expect_back<cdouble>({{1, -2}, {0, 0.5}, {-3, 4}, {5, 6}}, type);
  }
}

TEST_P(ImagesInTest, HeadersComeBackAsTheyWent) {
  protocol::Image sent = sent_image<float>({1, 2, 3, 4, 5, 6}, {3, 2, 1});
  protocol::ImageHeader& head = sent.head;
  head.flags = 1ull << 40;
  head.measurement_uid = 77;
  head.average = 1;
  head.slice = 2;
  head.contrast = 3;
  head.phase = 4;
  head.repetition = 5;
  head.set = 6;
  head.acquisition_time_stamp = 123456;
  head.image_index = 9;
  head.image_series_index = 21;
  for (std::size_t a = 0; a < 3; ++a) {
    head.position[a] = 10.5f * static_cast<float>(a);
    head.patient_table_position[a] = -3.25f;
    head.physiology_time_stamp[a] = static_cast<std::uint32_t>(100 + a);
  }
  for (std::size_t i = 0; i < 8; ++i) {
    head.user_int[i] = static_cast<std::int32_t>(i) - 4;
    head.user_float[i] = 0.5f * static_cast<float>(i);
  }
  const Outcome out = through("  - image\n", {sent});
  ASSERT_EQ(out.images.size(), 1u);
  protocol::ImageHeader back = out.images[0].head;
  EXPECT_EQ(std::size_t{back.attribute_string_len}, out.images[0].attributes.size());
  back.attribute_string_len = head.attribute_string_len;
  EXPECT_EQ(std::memcmp(&back, &head, sizeof(head)), 0);
  EXPECT_EQ(out.counts.images_in, 1u);
  EXPECT_EQ(out.counts.frames, 1u);
}

TEST_P(ImagesInTest, MetaAttributesAreCarriedThrough) {
  const protocol::Image sent = sent_image<float>({1, 2}, {2, 1, 1},
                                                 {{"SeriesDescription", "t1 &lt;3D&gt;"},
                                                  {"ImageProcessingHistory", "PYTHON"},
                                                  {"ImageProcessingHistory", "FILTER"},
                                                  {"WindowCenter", "16384"},
                                                  {"WindowWidth", "32768"},
                                                  {"IceMiniHead", "PFhNaW5pSGVhZD4="},
                                                  {"ImageRowDir", "1.000000000000000000"},
                                                  {"ImageRowDir", "0.0"},
                                                  {"ImageRowDir", "0.0"},
                                                  {"empty", ""},
                                                  {"echotrain_frame", "41"}});
  const Outcome out = through("  - image\n", {sent});
  ASSERT_EQ(out.images.size(), 1u);
  const protocol::Image& image = out.images[0];
  EXPECT_EQ(meta_of(image, "SeriesDescription"), Values{"t1 <3D>"});
  EXPECT_EQ(meta_of(image, "ImageProcessingHistory"), (Values{"PYTHON", "FILTER", "ECHOTRAIN"}));
  EXPECT_EQ(meta_of(image, "WindowCenter"), Values{"16384"});
  EXPECT_EQ(meta_of(image, "IceMiniHead"), Values{"PFhNaW5pSGVhZD4="});
  EXPECT_EQ(meta_of(image, "ImageRowDir"), (Values{"1.000000000000000000", "0.0", "0.0"}));
  EXPECT_EQ(meta_of(image, "ImageColumnDir"), (Values{"0", "1", "0"}));  // of the header
  EXPECT_EQ(meta_of(image, "empty"), Values{""});
  EXPECT_EQ(meta_of(image, "DataRole"), Values{"Image"});
  EXPECT_EQ(meta_of(image, "Keep_image_geometry"), Values{"1"});
  EXPECT_EQ(meta_of(image, "echotrain_frame"), Values{"0"});
}

TEST_P(ImagesInTest, TheMiniHeadGoesWithItsGeometryOrItsWindow) {
  const Attributes meta{{"IceMiniHead", "x"}, {"WindowCenter", "5"}, {"WindowWidth", "10"}, {"ImageRowDir", "9"}};
  protocol::Image sent = sent_image<float>({1, 2, 3, 4}, {2, 2, 1}, meta);
  sent.head.read_dir[0] = -1;  // orient turns it
  const auto back = [&](const std::string& gadgets) {
    Outcome out = through(gadgets, {sent});
    EXPECT_EQ(out.images.size(), 1u);
    return out.images.at(0);
  };
  EXPECT_EQ(meta_of(back("  - image\n"), "IceMiniHead"), Values{"x"});
  EXPECT_EQ(meta_of(back("  - filter\n  - image\n"), "IceMiniHead"), Values{"x"});
  EXPECT_EQ(meta_of(back("  - filter\n  - image\n"), "ImageRowDir"), Values{"9"});
  for (const char* gadget : {"orient", "resize: {crop_x: 1}", "scale", "sobel", "invert_contrast",
                             "label: {window_center: 1, window_width: 3}"})
    EXPECT_EQ(meta_of(back("  - " + std::string(gadget) + "\n  - image\n"), "IceMiniHead"), Values{}) << gadget;
  EXPECT_EQ(meta_of(back("  - image: {scale: 2}\n"), "IceMiniHead"), Values{});
  EXPECT_EQ(meta_of(back("  - image: {scale: 2}\n"), "WindowWidth"), Values{"20"});
  const protocol::Image turned = back("  - orient\n  - image\n");
  EXPECT_EQ(pixels<float>(turned), (std::vector<float>{2, 1, 4, 3}));
  EXPECT_EQ(meta_of(turned, "ImageRowDir"), (Values{"1", "0", "0"}));
  EXPECT_EQ(meta_of(turned, "WindowWidth"), Values{"10"});
}

TEST_P(ImagesInTest, SlicesBecomeVolumesOfTheirSeriesAndCounters) {
  std::vector<protocol::Image> sent;
  for (const int series : {3, 8})
    for (int slice = 2; slice >= 0; --slice)
      for (const int contrast : {0, 1}) {
        const float value = static_cast<float>(100 * series + 10 * slice + contrast);
        protocol::Image image = sent_image<float>({value, value + 0.5f}, {2, 1, 1});
        image.head.image_series_index = static_cast<std::uint16_t>(series);
        image.head.slice = static_cast<std::uint16_t>(slice);
        image.head.contrast = static_cast<std::uint16_t>(contrast);
        image.head.position[2] = 5.0f * static_cast<float>(slice);
        sent.push_back(image);
      }
  for (const char* stack : {"stack_slices: {slices: 3}", "stack_slices"}) {  // at once, or at the end
    const Outcome out = through("  - " + std::string(stack) + "\n  - image\n", sent);
    ASSERT_EQ(out.images.size(), 4u) << stack;
    const bool at_once = std::string(stack) != "stack_slices";
    for (std::size_t i = 0; i < 4; ++i) {
      const protocol::ImageHeader& head = out.images[i].head;
      const int series = (at_once ? i / 2 : i % 2) == 0 ? 3 : 8, contrast = static_cast<int>(at_once ? i % 2 : i / 2);
      EXPECT_EQ(+head.image_series_index, series);
      EXPECT_EQ(+head.contrast, contrast);
      EXPECT_EQ(+head.matrix_size[2], 3);
      EXPECT_EQ(+head.field_of_view[2], 15);
      EXPECT_EQ(+head.position[2], 5);
      const auto base = static_cast<float>(100 * series + contrast);
      EXPECT_EQ(pixels<float>(out.images[i]),
                (std::vector<float>{base, base + 0.5f, base + 10, base + 10.5f, base + 20, base + 20.5f}));
    }
  }
}

TEST_P(ImagesInTest, SlicesOfA3DScanAreNoVolumesOfOne) {
  std::vector<protocol::Image> sent;
  for (int slice = 0; slice < 4; ++slice) {
    sent.push_back(sent_image<float>({1, 2}, {2, 1, 1}));
    sent.back().head.slice = static_cast<std::uint16_t>(slice);
    sent.back().head.position[2] = static_cast<float>(slice);
  }
  const auto h = header({.encoded = {8, 8, 4}, .limits = limit("slice", 0, 0, 0)});
  const Outcome out = run_images("  - stack_slices\n  - image\n", sent, here(), h);
  ASSERT_EQ(out.images.size(), 1u);
  EXPECT_EQ(+out.images[0].head.matrix_size[2], 4);
}

TEST_P(ImagesInTest, SeriesAndTypesAreNotMixed) {
  std::vector<protocol::Image> sent;
  for (int repetition = 0; repetition < 2; ++repetition)
    for (const auto& [series, type] : {std::pair{1, 1}, std::pair{1, 3}, std::pair{2, 1}}) {
      sent.push_back(
          sent_image<float>({static_cast<float>(10 * series + type + 2 * repetition), 1}, {2, 1, 1}, {}, type));
      sent.back().head.image_series_index = static_cast<std::uint16_t>(series);
      sent.back().head.repetition = static_cast<std::uint16_t>(repetition);
    }
  const Outcome out = through("  - average: {over: repetition}\n  - image\n", sent);
  ASSERT_EQ(out.images.size(), 3u);
  std::vector<float> means;
  for (const protocol::Image& image : out.images) means.push_back(pixels<float>(image)[0]);
  EXPECT_EQ(means, (std::vector<float>{12, 14, 22}));
  // Each series has a factor of its own.
  const Outcome scaled = through("  - scale: {percentile: 100, to: 50}\n  - image\n", sent);
  ASSERT_EQ(scaled.images.size(), 6u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FLOAT_EQ(pixels<float>(scaled.images[i])[0], 50);
}

TEST_P(ImagesInTest, PhasesPassWhereAnglesCannotBeSummed) {
  for (const char* gadget : {"resize: {matrix_x: 8}", "average: {over: set}", "sobel", "scale", "filter",
                             "invert_contrast", "denoise: {noise_level: 1}"}) {
    const Outcome out = through("  - " + std::string(gadget) + "\n  - image\n",
                                {sent_image<std::uint16_t>({0, 4095, 2048, 7}, {2, 2, 1}, {}, 2)});
    ASSERT_EQ(out.images.size(), 1u) << gadget;
    EXPECT_EQ(pixels<std::uint16_t>(out.images[0]), (std::vector<std::uint16_t>{0, 4095, 2048, 7})) << gadget;
    EXPECT_EQ(out.warned("leaves phase images as they are"), 1) << gadget;
  }
  const Outcome cut =
      through("  - resize: {crop_x: 1}\n  - image\n", {sent_image<std::uint16_t>({1, 2, 3, 4}, {2, 2, 1}, {}, 2)});
  EXPECT_EQ(pixels<std::uint16_t>(cut.images.at(0)), (std::vector<std::uint16_t>{2, 4}));
}

TEST_P(ImagesInTest, ComponentsAndTypesAreThoseAskedFor) {
  const protocol::Image sent = sent_image<cfloat>({{3, 4}, {-1, 0}}, {2, 1, 1}, {}, 5);
  Outcome out = through("  - image: {component: magnitude_and_phase}\n", {sent});
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_EQ(pixels<float>(out.images[0]), (std::vector<float>{5, 1}));
  EXPECT_EQ(+out.images[0].head.image_series_index, 1);
  EXPECT_EQ(+out.images[0].head.image_type, 1);
  EXPECT_NEAR(pixels<float>(out.images[1])[1], M_PI, 1e-6);
  EXPECT_EQ(+out.images[1].head.image_series_index, 101);
  EXPECT_EQ(+out.images[1].head.image_type, 2);
  out = through("  - image: {component: real, type: int16, scale: 2}\n", {sent});
  EXPECT_EQ(pixels<std::int16_t>(out.images.at(0)), (std::vector<std::int16_t>{6, -2}));
  EXPECT_EQ(+out.images[0].head.image_type, 3);
  out =
      through("  - image: {component: complex, type: double}\n", {sent_image<std::int16_t>({-5, 6}, {2, 1, 1}, {}, 3)});
  EXPECT_EQ(pixels<cdouble>(out.images.at(0)), (std::vector<cdouble>{-5, 6}));
  // An integer type does not fit a phase: it becomes floating point.
  out = through("  - image: {component: phase}\n", {sent_image<std::int16_t>({-5, 6}, {2, 1, 1}, {}, 3)});
  EXPECT_EQ(+out.images.at(0).head.data_type, 5);
  // What a type cannot hold is cut, and the image says so.
  out = through("  - image: {type: int16}\n", {sent_image<float>({1e6f, -1e6f}, {2, 1, 1}, {}, 3)});
  EXPECT_EQ(pixels<std::int16_t>(out.images.at(0)), (std::vector<std::int16_t>{32767, -32768}));
  EXPECT_EQ(meta_of(out.images[0], "echotrain_saturated_pixels"), Values{"2"});
  EXPECT_EQ(out.warned("2 of 2 pixels of image 1 of series 1 are beyond what their type holds"), 1);
}

TEST_P(ImagesInTest, ReadoutsAreLeftOut) {
  RunOptions options = here();
  options.images = {sent_image<float>({1, 2}, {2, 1, 1})};
  const Outcome out = run(yaml("  - image\n", "input: images\n"), header({.encoded = {4, 4, 1}}),
                          {readout(1, std::vector<cfloat>(4)), readout(1, std::vector<cfloat>(4))}, options);
  EXPECT_EQ(out.images.size(), 1u);
  EXPECT_EQ(out.warned("takes images; the scan's readouts are left out"), 1);
}

TEST_P(ImagesInTest, AFieldOfViewThatIsMissingIsTakenFromTheHeader) {
  protocol::Image sent = sent_image<float>({1, 2}, {2, 1, 1});
  for (std::size_t a = 0; a < 3; ++a) sent.head.field_of_view[a] = 0;
  Outcome out = run_images("  - image\n", {sent}, here(), header({.encoded = {4, 4, 1}, .encoded_fov = {40, 30, 5}}));
  EXPECT_EQ(+out.images.at(0).head.field_of_view[0], 40);
  EXPECT_EQ(out.warned("no field of view; that of the header is taken"), 1);
  out = through("  - image\n", {sent});
  EXPECT_EQ(+out.images.at(0).head.field_of_view[0], 2);
}

TEST_P(ImagesInTest, PixelsThatDoNotFitTheirHeaderAreRefused) {
  protocol::Image sent = sent_image<float>({1, 2}, {2, 1, 1});
  sent.head.matrix_size[1] = 3;
  EXPECT_NE(client_error([&] { through("  - image\n", {sent}); }).find("which do not fit its header"),
            std::string::npos);
}

TEST_P(ImagesInTest, ImagesHaveAsManyChannelsAsReadoutsMayHave) {
  const std::vector<float> pixels(1025, 1.0f);
  EXPECT_EQ(through("  - image\n", {sent_image(std::vector<float>(pixels.begin(), pixels.end() - 1), {1, 1, 1})})
                .images.size(),
            1u);
  EXPECT_NE(client_error([&] {
              through("  - image\n", {sent_image(pixels, {1, 1, 1})});
            }).find("has 1025 channels; at most 1024 are taken"),
            std::string::npos);
}

/// Images of a client may say nothing of directions, and have any size.
TEST_P(ImagesInTest, ImagesOfDifferentSizesAreNoVolume) {
  protocol::Image large = sent_image(std::vector<float>(64 * 64, 1.0f), {64, 64, 1});
  protocol::Image small = sent_image<float>({2}, {1, 1, 1});
  small.head.slice = 1;
  for (protocol::Image* image : {&large, &small})
    for (std::size_t a = 0; a < 3; ++a)
      image->head.slice_dir[a] = image->head.read_dir[a] = image->head.phase_dir[a] = 0;
  const Outcome out = through("  - stack_slices: {slices: 2}\n  - image\n", {large, small});
  EXPECT_EQ(out.images.size(), 2u);
  EXPECT_EQ(out.warned("differ in size"), 1);
}

/// The header's limits say which rows a complex image was made of; partial_fourier completes it.
TEST_P(ImagesInTest, PartialFourierKnowsWhatTheHeaderSays) {
  const int n = 32, from = 12;  // rows 12..31 came: k from -4
  std::mt19937 random(4);
  std::vector<double> object(static_cast<std::size_t>(n * n));
  for (int y = 8; y < 24; ++y)
    for (int x = 8; x < 24; ++x) object[static_cast<std::size_t>(y * n + x)] = 1 + 0.1 * ((x / 4 + y / 3) % 3);
  std::vector<cfloat> cut(object.size());  // zero-filled, by direct sums in float64
  for (int x = 0; x < n; ++x) {
    std::vector<cdouble> k(static_cast<std::size_t>(n));
    for (int j = from; j < n; ++j)
      for (int y = 0; y < n; ++y)
        k[static_cast<std::size_t>(j)] +=
            object[static_cast<std::size_t>(y * n + x)] * std::polar(1.0, -2 * M_PI * (j - n / 2) * (y - n / 2) / n);
    for (int y = 0; y < n; ++y) {
      cdouble sum = 0;
      for (int j = from; j < n; ++j)
        sum += k[static_cast<std::size_t>(j)] * std::polar(1.0, 2 * M_PI * (j - n / 2) * (y - n / 2) / n);
      cut[static_cast<std::size_t>(y * n + x)] = cfloat(sum / static_cast<double>(n));
    }
  }
  const auto h =
      header({.encoded = {n, n, 1}, .limits = limit("kspace_encoding_step_1", 0, n - 1 - from, n / 2 - from)});
  protocol::Image sent = sent_image(cut, {n, n, 1}, {}, 5);
  for (std::size_t a = 0; a < 2; ++a) sent.head.field_of_view[a] = n;
  const Outcome before = run_images("  - image\n", {sent}, here(), h);
  const Outcome after = run_images("  - partial_fourier: {iterations: 5}\n  - image\n", {sent}, here(), h);
  const double error = nrmse(pixels<cfloat>(before.images.at(0)), object);
  EXPECT_LT(nrmse(pixels<cfloat>(after.images.at(0)), object), error / 3);
  EXPECT_EQ(meta_of(after.images[0], "partial_fourier"), Values{"pocs, y 0.625"});
  const Outcome magnitude =
      run_images("  - partial_fourier\n  - image\n", {sent_image<float>({1, 2}, {2, 1, 1})}, here(), h);
  EXPECT_EQ(magnitude.images.size(), 1u);
  EXPECT_EQ(magnitude.warned("partial_fourier completes complex images"), 1);
}

TEST(MetaNotesTest, HoldSeveralValuesOfAName) {
  EXPECT_EQ(values_of(note_of({"a", "", "b c"})), (Values{"a", "", "b c"}));
  EXPECT_EQ(values_of(""), Values{""});
  const auto notes = notes_of(attributes_xml({{"n", "1"}, {"m", "x"}, {"n", "2"}, {"echotrain_frame", "3"}}));
  EXPECT_EQ(notes.size(), 2u);
  EXPECT_EQ(values_of(notes.at("n")), (Values{"1", "2"}));
  EXPECT_TRUE(notes_of("no XML").empty());
}

TEST(ImageLoaderTest, PipelinesOfImagesBeginWithImages) {
  const auto refused = [](const std::string& gadgets, const std::string& keys) -> std::string {
    try {
      PipelinePlan::check(config::read_pipeline(yaml(gadgets, keys), "p.yaml"));
    } catch (const config::ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused("  - orient\n  - image\n", "input: images\n"), "");
  EXPECT_NE(refused("  - noise_adjust\n", "input: images\n")
                .find("p.yaml:6:5: with 'input: images' a pipeline begins with "
                      "images, but 'noise_adjust' takes Readouts"),
            std::string::npos);
  EXPECT_NE(refused("  - orient\n  - image\n", "").find("for images of the client write 'input: images'"),
            std::string::npos);
  EXPECT_NE(refused("  - orient\n", "input: images\n").find("ends with CoilImages"), std::string::npos);
}

}  // namespace
}  // namespace echotrain::testing
