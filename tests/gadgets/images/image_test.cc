// The messages that leave a pipeline: pixel types, geometry, counters, meta attributes.
#include "gadgets/images/image.h"

#include <ismrmrd/meta.h>

#include "gadgets/images/scale.h"
#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

std::string image_yaml(const std::string& parameters, const std::string& combine = "none") {
  return yaml("  - cartesian_kspace\n  - fft\n  - coil_combine: {method: " + combine + "}\n  - image: {" + parameters +
              "}\n");
}

/// Random lines of two coils, 6 x 4.
std::vector<Acquisition> random_scan(double strength = 1) {
  std::mt19937 random(9);
  std::vector<Acquisition> scan;
  for (int y = 0; y < 4; ++y) {
    scan.push_back(readout(2, noise(12, random, strength)));
    scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
  }
  return scan;
}

/// A frame whose image has the value `value` everywhere: all of k-space but its centre is zero.
std::vector<Acquisition> constant_frame(int nx, int ny, double value) {
  std::vector<Acquisition> scan;
  for (int y = 0; y < ny; ++y) {
    std::vector<cfloat> data(static_cast<std::size_t>(nx));
    if (y == ny / 2) data[static_cast<std::size_t>(nx / 2)] = static_cast<float>(value * nx * ny);
    scan.push_back(readout(1, std::move(data)));
    scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
  }
  return scan;
}

protocol::Image only(const Outcome& out) {
  EXPECT_EQ(out.images.size(), 1u);
  return out.images.at(0);
}

protocol::Header small() { return header({.encoded = {6, 4, 1}}); }

using ImageTest = OnEachBackend;

TEST_P(ImageTest, ComponentsOfTheComplexImage) {
  const auto complex = only(run(image_yaml("component: complex"), small(), random_scan(), here()));
  EXPECT_EQ(+complex.head.data_type, ISMRMRD::ISMRMRD_CXFLOAT);
  EXPECT_EQ(+complex.head.image_type, ISMRMRD::ISMRMRD_IMTYPE_COMPLEX);
  EXPECT_EQ(+complex.head.channels, 2);
  const auto truth = pixels<cfloat>(complex);
  ASSERT_EQ(truth.size(), 48u);

  struct Case {
    std::string name;
    int type;
    std::function<double(cfloat)> value;
  };
  const std::vector<Case> cases = {
      {"magnitude", ISMRMRD::ISMRMRD_IMTYPE_MAGNITUDE, [](cfloat v) { return std::abs(cdouble(v)); }},
      {"phase", ISMRMRD::ISMRMRD_IMTYPE_PHASE, [](cfloat v) { return std::arg(cdouble(v)); }},
      {"real", ISMRMRD::ISMRMRD_IMTYPE_REAL, [](cfloat v) { return v.real(); }},
      {"imag", ISMRMRD::ISMRMRD_IMTYPE_IMAG, [](cfloat v) { return v.imag(); }}};
  for (const Case& c : cases)
    for (const double scale : {1.0, 250.0}) {
      const auto image =
          only(run(image_yaml(fmt::format("component: {}, scale: {}", c.name, scale)), small(), random_scan(), here()));
      EXPECT_EQ(+image.head.data_type, ISMRMRD::ISMRMRD_FLOAT);
      EXPECT_EQ(+image.head.image_type, c.type);
      const auto values = pixels<float>(image);
      ASSERT_EQ(values.size(), truth.size());
      for (std::size_t i = 0; i < truth.size(); ++i) {
        const double want = c.value(truth[i]) * (c.name == "phase" ? 1 : scale);
        EXPECT_NEAR(values[i], want, 1e-6 * std::max(1.0, scale)) << c.name;
      }
    }
  const auto scaled =
      pixels<cfloat>(only(run(image_yaml("component: complex, scale: 4"), small(), random_scan(), here())));
  for (std::size_t i = 0; i < truth.size(); ++i) EXPECT_EQ(scaled[i], 4.0f * truth[i]);
}

TEST_P(ImageTest, RootSumOfSquares) {
  const auto coils = pixels<cfloat>(only(run(image_yaml("component: complex"), small(), random_scan(), here())));
  const auto image = only(run(image_yaml("", "rss"), small(), random_scan(), here()));
  EXPECT_EQ(+image.head.channels, 1);
  const auto values = pixels<float>(image);
  ASSERT_EQ(values.size(), 24u);
  for (std::size_t i = 0; i < 24; ++i)
    EXPECT_NEAR(values[i], std::sqrt(std::norm(cdouble(coils[i])) + std::norm(cdouble(coils[24 + i]))), 1e-6);
}

TEST_P(ImageTest, Uint16RoundsAndClamps) {
  const auto scan = random_scan(2);  // magnitudes about 0.6 in the image
  const auto complex = pixels<cfloat>(only(run(image_yaml("component: complex"), small(), scan, here())));
  const auto image = only(run(image_yaml("component: magnitude, type: uint16, scale: 1e5"), small(), scan, here()));
  EXPECT_EQ(+image.head.data_type, ISMRMRD::ISMRMRD_USHORT);
  const auto values = pixels<std::uint16_t>(image);
  ASSERT_EQ(values.size(), complex.size());
  int clamped = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double want = std::min(65535.0, 1e5 * std::abs(cdouble(complex[i])));
    clamped += want == 65535 ? 1 : 0;
    EXPECT_NEAR(values[i], want, 0.5 + 0.02);  // rounded, after float32
  }
  EXPECT_GT(clamped, 0);
  EXPECT_LT(clamped, 48);
  for (const auto& [value, want] : {std::pair{2.4, 2}, {2.6, 3}, {0.4, 0}, {65535.4, 65535}, {70000.0, 65535}}) {
    const auto constant = pixels<std::uint16_t>(
        only(run(image_yaml("type: uint16"), header({.encoded = {4, 4, 1}}), constant_frame(4, 4, value), here())));
    EXPECT_EQ(constant, std::vector<std::uint16_t>(16, static_cast<std::uint16_t>(want))) << value;
  }
}

TEST_P(ImageTest, EachFrameHasItsContentsAndCounters) {
  // Two slices interleaved line by line, two contrasts, three repetitions; the value tells the frame.
  std::vector<Acquisition> scan;
  for (int repetition = 0; repetition < 3; ++repetition)
    for (int contrast = 0; contrast < 2; ++contrast) {
      const auto a = constant_frame(4, 4, 100 * repetition + 10 * contrast + 1),
                 b = constant_frame(4, 4, 100 * repetition + 10 * contrast + 2);
      for (std::size_t y = 0; y < 4; ++y)
        for (int slice = 0; slice < 2; ++slice) {
          scan.push_back(slice == 0 ? a[y] : b[y]);
          auto& idx = scan.back().head.idx;
          idx.slice = static_cast<std::uint16_t>(slice);
          idx.contrast = static_cast<std::uint16_t>(contrast);
          idx.repetition = static_cast<std::uint16_t>(repetition);
          if (y == 3) set_flag(scan.back(), kLastInSlice);
        }
    }
  const auto out = run(image_yaml(""), header({.encoded = {4, 4, 1}}), scan, here());
  ASSERT_EQ(out.images.size(), 12u);
  std::size_t i = 0;
  for (int repetition = 0; repetition < 3; ++repetition)
    for (int contrast = 0; contrast < 2; ++contrast)
      for (int slice = 0; slice < 2; ++slice, ++i) {
        const auto& head = out.images[i].head;
        EXPECT_EQ(+head.repetition, repetition);
        EXPECT_EQ(+head.contrast, contrast);
        EXPECT_EQ(+head.slice, slice);
        EXPECT_EQ(+head.image_index, static_cast<int>(i) + 1);
        EXPECT_EQ(+head.image_series_index, 1);
        for (float v : pixels<float>(out.images[i])) EXPECT_NEAR(v, 100 * repetition + 10 * contrast + slice + 1, 1e-4);
      }
  EXPECT_EQ(out.counts.frames, 12u);
  EXPECT_EQ(out.counts.images_out, 12u);
  EXPECT_EQ(out.counts.readouts, 48u);
}

ECHOTRAIN_ON_BACKENDS(ImageTest);

TEST(ImageHeaderTest, GeometryAndTimesAreThoseOfTheFirstReadout) {
  HeaderSpec spec{.encoded = {8, 4, 1}, .recon = {4, 4, 1}};
  spec.encoded_fov = {400, 200, 5};
  spec.recon_fov = {200, 200, 4};
  auto scan = constant_frame(8, 4, 1);
  std::mt19937 random(1);
  auto noise_first = readout(1, noise(8, random));
  set_flag(noise_first, kNoise);
  noise_first.head.acquisition_time_stamp = 1;
  auto& head = scan[0].head;
  head.measurement_uid = 77;
  head.acquisition_time_stamp = 1234567;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto f = static_cast<float>(i);
    head.position[i] = 10 + f;
    head.read_dir[i] = 20 + f;
    head.phase_dir[i] = 30 + f;
    head.slice_dir[i] = 40 + f;
    head.patient_table_position[i] = 50 + f;
    head.physiology_time_stamp[i] = 600 + static_cast<std::uint32_t>(i);
  }
  head.idx.phase = 0;
  for (auto& a : scan) {
    a.head.idx.phase = 3;
    a.head.idx.set = 4;
  }
  head.user_int[7] = -5;
  head.user_float[0] = 2.5f;
  scan[1].head.acquisition_time_stamp = 9;
  scan.insert(scan.begin(), noise_first);
  const auto image = only(run(image_yaml(""), header(spec), scan));
  const protocol::ImageHeader out = image.head;
  EXPECT_EQ(+out.version, 1);
  EXPECT_EQ(+out.measurement_uid, 77u);
  EXPECT_EQ(+out.acquisition_time_stamp, 1234567u);
  EXPECT_EQ(+out.phase, 3);
  EXPECT_EQ(+out.set, 4);
  EXPECT_EQ(+out.user_int[7], -5);
  EXPECT_EQ(+out.user_float[0], 2.5f);
  const std::array<int, 3> matrix{4, 4, 1}, fov{200, 200, 4};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(+out.matrix_size[i], matrix[i]);
    EXPECT_EQ(+out.field_of_view[i], static_cast<float>(fov[i]));
    EXPECT_EQ(+out.position[i], 10 + static_cast<float>(i));
    EXPECT_EQ(+out.read_dir[i], 20 + static_cast<float>(i));
    EXPECT_EQ(+out.phase_dir[i], 30 + static_cast<float>(i));
    EXPECT_EQ(+out.slice_dir[i], 40 + static_cast<float>(i));
    EXPECT_EQ(+out.patient_table_position[i], 50 + static_cast<float>(i));
    EXPECT_EQ(+out.physiology_time_stamp[i], 600u + i);
  }
  EXPECT_EQ(+out.attribute_string_len, image.attributes.size());
}

TEST(ImageHeaderTest, EncodingsAreSeriesWithTheirOwnIndex) {
  const auto h = header({HeaderSpec{.encoded = {4, 4, 1}}, HeaderSpec{.encoded = {8, 6, 1}}});
  std::vector<Acquisition> scan;
  for (int repetition = 0; repetition < 2; ++repetition)
    for (int encoding = 0; encoding < 2; ++encoding)
      for (auto& a : encoding == 0 ? constant_frame(4, 4, 1) : constant_frame(8, 6, 2)) {
        a.head.encoding_space_ref = static_cast<std::uint16_t>(encoding);
        a.head.idx.repetition = static_cast<std::uint16_t>(repetition);
        scan.push_back(a);
      }
  const auto out = run(image_yaml(""), h, scan);
  ASSERT_EQ(out.images.size(), 4u);
  std::vector<std::array<int, 4>> seen;
  for (const auto& image : out.images)
    seen.push_back(
        {image.head.image_series_index, image.head.image_index, image.head.matrix_size[0], image.head.repetition});
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, (std::vector<std::array<int, 4>>{{1, 1, 4, 0}, {1, 2, 4, 1}, {2, 1, 8, 0}, {2, 2, 8, 1}}));
}

/// A frame's images of one voxel, of value 2i.
CoilImages made(numerics::Context& compute, int encoding, int series) {
  const auto frame = std::make_shared<Frame>();
  frame->key.encoding = static_cast<std::uint16_t>(encoding);
  frame->key.series = static_cast<std::uint16_t>(series);
  const std::vector<cfloat> value = {{0, 2}};
  return {frame, compute.upload<cfloat>({value.data(), {1, 1, 1, 1}})};
}

TEST(ImageHeaderTest, FurtherSeriesOfAnEncodingHaveNumbersOfTheirOwn) {
  numerics::Context compute(Backend::cpu, test_resources());
  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
  ImageOutput output({.component = "magnitude_and_phase"});
  output.start(header(std::vector<HeaderSpec>(2)), scan);
  std::vector<int> numbers;
  for (int series = 0; series < 3; ++series)
    for (int encoding = 0; encoding < 2; ++encoding)
      output.process(made(compute, encoding, series),
                     [&](Image&& image) { numbers.push_back(image.message.head.image_series_index); });
  // Magnitude and phase of encodings 0 and 1: images, g-factors, SNR.
  EXPECT_EQ(numbers, (std::vector<int>{1, 3, 2, 4, 5, 7, 6, 8, 9, 11, 10, 12}));
}

TEST(ImageHeaderTest, ScaleLeavesOtherUnitsAlone) {
  numerics::Context compute(Backend::cpu, test_resources());
  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
  Scale scale({.percentile = 100, .to = 50});
  scale.start(header(HeaderSpec{}), scan);
  std::vector<cfloat> values;
  for (const int series : {1, 0, 2, 0})
    scale.process(made(compute, 0, series), [&](CoilImages&& out) {
      values.push_back(elements(compute, out.data).at(0));
      EXPECT_EQ(out.frame->notes.contains("scale_factor"), series == 0);
    });
  EXPECT_EQ(values, (std::vector<cfloat>{{0, 2}, {0, 50}, {0, 2}, {0, 50}}));
}

TEST(ImageHeaderTest, IndicesOfALongSeriesBeginAgainAtOne) {
  static_assert(ImageOutput::index_after(0) == 1);
  EXPECT_EQ(ImageOutput::index_after(65534), 65535);
  EXPECT_EQ(ImageOutput::index_after(65535), 1);
}

TEST(ImageHeaderTest, MetaAttributesParse) {
  auto scan = constant_frame(4, 4, 1);
  scan.erase(scan.begin());
  const auto image = only(run(image_yaml(""), header({.encoded = {4, 4, 1}}), scan));
  EXPECT_TRUE(image.attributes.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ismrmrdMeta>"))
      << image.attributes;
  ISMRMRD::MetaContainer meta;
  ISMRMRD::deserialize(image.attributes.c_str(), meta);
  EXPECT_STREQ(meta.as_str("DataRole"), "Image");
  EXPECT_STREQ(meta.as_str("echotrain_backend"), "cpu");
  EXPECT_EQ(meta.as_long("echotrain_readouts"), 3);
  EXPECT_EQ(meta.as_long("missing_lines"), 1);
  EXPECT_EQ(meta.as_long("echotrain_frame"), 0);
}

TEST(ImageHeaderTest, NamesTheLastReadoutOfItsFrame) {
  std::vector<Acquisition> scan;
  for (int repetition = 0; repetition < 3; ++repetition)
    for (Acquisition& readout : constant_frame(4, 4, 1)) {
      readout.head.idx.repetition = static_cast<std::uint16_t>(repetition);
      scan.push_back(readout);
      scan.back().number = scan.size();
      scan.back().arrival = std::chrono::steady_clock::now();
    }
  using Numbers = std::vector<long>;
  for (const auto& [frame, expected] : {std::pair<std::string, Numbers>{"auto", {4, 8, 12}},
                                        {"{readouts: 6}", {6, 12}},
                                        {"{readouts: 4, stride: 3}", {4, 7, 10}}}) {
    Numbers numbers;
    const std::string gadgets = "  - cartesian_kspace\n  - fft\n  - coil_combine\n  - image\n";
    for (const auto& image :
         run(yaml(gadgets, "frame: " + frame + "\n"), header({.encoded = {4, 4, 1}}), scan).images) {
      ISMRMRD::MetaContainer meta;
      ISMRMRD::deserialize(image.attributes.c_str(), meta);
      numbers.push_back(meta.as_long("echotrain_last_readout"));
    }
    EXPECT_EQ(numbers, expected) << frame;
  }
}

TEST(ImageHeaderTest, LateReadoutsAreWarnedAboutOnce) {
  std::vector<Acquisition> scan = constant_frame(4, 4, 1);
  scan.pop_back();
  for (auto a : constant_frame(4, 4, 1)) {
    a.head.idx.repetition = 1;
    scan.push_back(a);
  }
  scan.push_back(scan[0]);
  scan.push_back(scan[1]);
  const auto out = run(image_yaml(""), header({.encoded = {4, 4, 1}}), scan);
  EXPECT_EQ(out.images.size(), 2u);
  EXPECT_EQ(out.counts.late_readouts, 2u);
  EXPECT_EQ(out.warned("left out and counted"), 1);
}

TEST(ImageHeaderTest, ATruncatedScanGivesOnlyWholeImages) {
  std::vector<Acquisition> scan = constant_frame(4, 4, 1);
  set_flag(scan.back(), kLastInSlice);
  for (int y = 0; y < 3; ++y) {
    scan.push_back(scan[static_cast<std::size_t>(y)]);
    scan.back().head.idx.repetition = 1;
  }
  const auto out = run(image_yaml(""), header({.encoded = {4, 4, 1}}), scan, {.end = End::truncated});
  EXPECT_EQ(out.images.size(), 1u);
  EXPECT_EQ(out.warned("1 unfinished frame(s) dropped"), 1);
}

}  // namespace
}  // namespace echotrain::testing
