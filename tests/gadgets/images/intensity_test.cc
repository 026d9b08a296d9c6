// Images without their receive field, whose true field is known.
#include "gadgets/images/intensity.h"

#include <filesystem>

#include "gadgets/shared/program/scan_environment.h"
#include "protocol/files/dataset.h"
#include "tests/gadgets/images/intensity_scene.h"
#include "tests/gadgets/sent_images.h"
#include "tests/support/sources.h"

namespace echotrain::testing {
namespace {

using protocol::Level;

std::string intensity_chain(const std::string& method, const std::string& before = "") {
  return yaml(before + "  - cartesian_kspace\n  - fft\n  - coil_combine\n  - intensity: {method: " + method +
              "}\n  - image\n");
}

std::vector<Acquisition> joined(std::vector<Acquisition> a, std::vector<Acquisition> b) {
  a.insert(a.end(), std::make_move_iterator(b.begin()), std::make_move_iterator(b.end()));
  return a;
}

/// The standard deviation over the mean of the image over the object, where there is one.
double spread(const std::vector<float>& image, const Box& box) {
  double n = 0, sum = 0, squares = 0;
  std::size_t v = 0;
  for (int z = 0; z < box.n[2]; ++z)
    for (int y = 0; y < box.n[1]; ++y)
      for (int x = 0; x < box.n[0]; ++x, ++v) {
        const double object = ReceiveScene::object(box.at(x, y, z));
        if (object < 0.3) continue;
        const double ratio = static_cast<double>(image[v]) / object;
        ++n, sum += ratio, squares += ratio * ratio;
      }
  return std::sqrt(squares / n - sum * sum / n / n) / (sum / n);
}

class IntensityTest : public OnEachBackend {
 protected:
  Outcome scan(const protocol::Header& header, std::vector<Acquisition> lines, const std::string& text) {
    RunOptions options = here();
    options.resources = resources_;
    return run(text, header, std::move(lines), options);
  }
  static std::vector<float> image(const Outcome& out, std::size_t i = 0) {
    EXPECT_GT(out.images.size(), i);
    return out.images.size() > i ? pixels<float>(out.images[i]) : std::vector<float>{};
  }
  std::shared_ptr<numerics::Resources> resources_ = test_resources();
};

// The issue asks for 3 %. The prescan has another field of view, matrix, place and direction than the image, which is
// 3D where the prescan is, too.
TEST_P(IntensityTest, APrescanGivesTheKnownField) {
  const Box plane{}, wide = turned({{40, 36, 1}, {300, 270, 5}, {12, -7, 0}}, 25);
  const Box volume{{40, 36, 6}, {224, 210, 60}, {0, 0, 4}},
      block = turned({{32, 28, 10}, {300, 270, 120}, {9, 5, -3}}, 90);
  for (const auto& [box, prescan] : {std::pair{plane, wide}, {plane, block}, {volume, block}}) {
    const ReceiveScene scene{.noise = 0.02};
    const auto h = header_of(box, prescan);
    const auto before = scan(h, ReceiveScene{}.lines(box, false), intensity_chain("none")),
               after = scan(h, joined(scene.prescan(prescan), ReceiveScene{}.lines(box, false)),
                            intensity_chain("prescan"));
    EXPECT_GT(spread(image(before), box), 0.2);
    EXPECT_LT(spread(image(after), box), 0.03);
    EXPECT_EQ(meta_of(after.images.at(0), "intensity_field"), Values{"prescan"});
    EXPECT_NEAR(std::stod(meta_of(after.images.at(0), "intensity_spread").at(0)), spread(image(before), box), 0.1);
    EXPECT_EQ(meta_of(after.images.at(0), "ImageProcessingHistory"), (Values{"INTENSITY", "ECHOTRAIN"}));
    EXPECT_EQ(after.warned(""), 0);
    EXPECT_EQ(after.said(Level::info, "special readouts"), 0);
    EXPECT_EQ(meta_of(before.images.at(0), "intensity_field"), Values{});
  }
}

TEST_P(IntensityTest, APrescanOfAnEarlierScanGivesTheSameImage) {
  const Box box{}, wide = turned({{40, 36, 1}, {300, 270, 5}}, 25);
  const ReceiveScene scene;
  protocol::Header first = header_of(box, wide), second = first;
  first.measurement_id = "before";
  first.coil_labels = {"A", "B", "C", "D"};
  second.dependencies = {{"SurfaceCoilCorrection", "before"}};
  second.coil_labels = {"D", "C", "B", "A"};
  const auto prescan = scene.prescan(wide);
  const auto kept = scan(first, prescan, intensity_chain("auto"));
  EXPECT_EQ(kept.said(Level::info, "the prescan of 4 coils is kept for scans that name measurement before"), 1);
  // Coils in another order: the sum of squares has the same terms.
  auto lines = scene.lines(box, false);
  for (auto& line : lines) {
    auto data = pixels<cfloat>({.pixels = line.data});
    for (std::size_t c = 0; c < 2; ++c)
      std::swap_ranges(data.begin() + static_cast<std::ptrdiff_t>(64 * c),
                       data.begin() + static_cast<std::ptrdiff_t>(64 * (c + 1)),
                       data.begin() + static_cast<std::ptrdiff_t>(64 * (3 - c)));
    line.data = protocol::Payload::take(std::move(data));
  }
  const auto later = scan(second, lines, intensity_chain("prescan")),
             own = scan(header_of(box, wide), joined(prescan, scene.lines(box, false)), intensity_chain("prescan"));
  EXPECT_LT(nrmse(image(later), image(own)), 1e-4);  // the field is found to 1e-5
  EXPECT_EQ(later.said(Level::info, "the receive field is that of another scan, before ("), 1);
  EXPECT_EQ(meta_of(later.images.at(0), "intensity_field"), Values{"prescan of another scan"});
  second.coil_labels = {"D", "C", "B", "E"};
  const auto unknown = scan(second, lines, intensity_chain("prescan"));
  EXPECT_EQ(unknown.warned("intensity: the prescan has no coil 'E': images are not corrected"), 1);
}

// Records are found by client, device and ID: of two clients that both call a scan "before", each has its own.
TEST_P(IntensityTest, NobodyElseFindsAPrescan) {
  const Box box{};
  const ReceiveScene scene;
  protocol::Header first = header_of(box, box), second = first;
  first.measurement_id = "before";
  second.dependencies = {{"SurfaceCoilCorrection", "before"}};
  const auto scan_of = [&](const std::string& owner, const protocol::Header& header, std::vector<Acquisition> lines) {
    Outcome out;
    numerics::Context compute(GetParam(), resources_);
    compute.cache<ScanEnvironment>().owner = owner;
    Pipeline pipeline(PipelinePlan::check(config::read_pipeline(intensity_chain("auto"), "test.yaml")), compute,
                      {[&](protocol::Image&& image, const ImageTimes&) { out.images.push_back(std::move(image)); },
                       [](protocol::Level, const std::string&) {}});
    pipeline.start(header);
    pipeline.push(std::move(lines));
    pipeline.finish(End::complete);
    pipeline.wait();
    return out;
  };
  scan_of("A", first, scene.prescan(box));
  const auto field = [&](const std::string& owner, const protocol::Header& header) {
    return meta_of(scan_of(owner, header, scene.lines(box, false)).images.at(0), "intensity_field");
  };
  EXPECT_EQ(field("A", second), Values{"prescan of another scan"});
  EXPECT_EQ(field("B", second), Values{"n4"});
  EXPECT_EQ(field("", second), Values{"n4"});
  second.xml.replace(second.xml.find("<experimentalConditions>"), 0,
                     "<acquisitionSystemInformation><deviceSerialNumber>7</deviceSerialNumber>"
                     "</acquisitionSystemInformation>");
  EXPECT_EQ(field("A", second), Values{"n4"});
}

// The images are the root sum of squares of whitened coils, so the field must be, too.
TEST_P(IntensityTest, ThePrescanIsWhitenedAsTheScan) {
  const Box box{}, wide{{40, 36, 1}, {300, 270, 5}};
  const std::vector<double> deviations{1, 8, 0.5, 3};
  std::mt19937 random(4);
  std::vector<Acquisition> all;
  for (int i = 0; i < 64; ++i) {
    std::vector<cfloat> data;
    for (const double s : deviations)
      for (const cfloat v : noise(64, random, s)) data.push_back(v);
    all.push_back(readout(4, std::move(data)));
    set_flag(all.back(), kNoise);
  }
  const ReceiveScene scene;
  all = joined(std::move(all), joined(scene.prescan(wide), scene.lines(box, false)));
  const auto after = scan(header_of(box, wide), all, intensity_chain("prescan", "  - noise_adjust\n"));
  EXPECT_LT(spread(image(after), box), 0.03);
  // Not whitened, the field is another one.
  std::vector<double> weights;
  for (const double s : deviations) weights.push_back(1 / (s * s));
  std::vector<float> wrong;
  for (int y = 0; y < 60; ++y)
    for (int x = 0; x < 64; ++x) {
      const Place p = box.at(x, y, 0);
      wrong.push_back(static_cast<float>(scene.object(p) * scene.field(p, weights) / scene.field(p)));
    }
  EXPECT_GT(spread(wrong, box), 0.1);
}

TEST_P(IntensityTest, WithoutAPrescanItIsN4) {
  const Box box{};
  const auto h = header_of(box, box);
  const ReceiveScene scene;
  const auto before = scan(h, scene.lines(box, false), intensity_chain("none"));
  for (const std::string method : {"auto", "n4"}) {
    const auto after = scan(h, scene.lines(box, false), intensity_chain(method));
    EXPECT_LT(spread(image(after), box), 0.6 * spread(image(before), box));
    EXPECT_EQ(meta_of(after.images.at(0), "intensity_field"), Values{"n4"});
    EXPECT_EQ(after.warned(""), 0);
  }
  const auto only = scan(h, scene.lines(box, false), intensity_chain("prescan"));
  EXPECT_EQ(image(only), image(before));
  EXPECT_EQ(meta_of(only.images.at(0), "intensity_field"), Values{"none"});
  EXPECT_EQ(only.said(Level::info, "intensity: the scan has no prescan (readouts of flag 29)"), 1);
}

// A slice's later image is divided by the first one's field, though it shows something else, whose own field would be
// another one; and nothing but pixels comes to the host.
TEST_P(IntensityTest, LaterImagesHaveTheFieldOfTheFirst) {
  const Box box{};
  Box moved = box;
  moved.position[0] = 40;
  const auto h = header_of(box, box);
  const ReceiveScene scene;
  const auto first = scene.lines(box, false);
  auto second = scene.lines(moved, false);
  for (auto& line : second) {
    line.head.position[0] = 0;
    line.head.idx.repetition = 1;
  }
  const auto two = scan(h, joined(first, second), intensity_chain("n4")), one = scan(h, first, intensity_chain("n4")),
             alone = scan(h, second, intensity_chain("n4")),
             plain = scan(h, joined(first, second), intensity_chain("none"));
  ASSERT_EQ(two.images.size(), 2u);
  EXPECT_EQ(image(two), image(one));
  std::vector<float> expected;
  const auto divided = image(two), whole = image(plain), later = image(plain, 1);
  for (std::size_t v = 0; v < later.size(); ++v) expected.push_back(later[v] * (divided[v] / whole[v]));
  EXPECT_LT(nrmse(image(two, 1), expected), 1e-5);
  EXPECT_GT(nrmse(image(alone), expected), 0.05);
  const auto plain_one = scan(h, first, intensity_chain("none"));
  EXPECT_EQ(two.device_to_host_bytes - one.device_to_host_bytes,
            plain.device_to_host_bytes - plain_one.device_to_host_bytes);
}

TEST_P(IntensityTest, APrescanThatDoesNotFitIsTold) {
  const Box box{}, wide{{40, 36, 1}, {300, 270, 5}};
  const auto h = header_of(box, wide);
  const ReceiveScene scene;
  const auto n4 = image(scan(h, scene.lines(box, false), intensity_chain("n4")));
  using Change = std::function<void(Acquisition&)>;
  const auto told = [&](const Change& change, const std::string& text, bool erase = false) {
    auto prescan = scene.prescan(wide);
    if (erase) std::erase_if(prescan, [](const Acquisition& a) { return a.head.active_channels == 2; });
    for (auto& line : prescan) change(line);
    const auto out = scan(h, joined(std::move(prescan), scene.lines(box, false)), intensity_chain("auto"));
    EXPECT_EQ(out.warned("intensity: the prescan " + text), 1) << text;
    EXPECT_EQ(image(out), n4) << text;
  };
  told([](Acquisition& line) { line.head.patient_table_position[2] = 40; },
       "was made at another position of the table: slice 0 is corrected by N4");
  told([](Acquisition& line) { line.head.position[2] = 12; }, "does not hold this slice: slice 0 is corrected by N4");
  told([](Acquisition& line) { line.head.position[0] = 400; }, "does not hold this slice: slice 0 is corrected by N4");
  told([](Acquisition&) {}, "has no readouts of two coils with different numbers of channels", true);
  told(
      [](Acquisition& line) {
        line.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(line.head.idx.kspace_encode_step_1 / 2 * 2);
      },
      "leaves out lines");
  told([](Acquisition& line) { line.head.idx.kspace_encode_step_1 = 999; }, "has no Cartesian lines within its matrix");
}

TEST_P(IntensityTest, ReadoutsOfFlag29AreToldWhereNoGadgetTakesThem) {
  const Box box{};
  const ReceiveScene scene;
  const auto out =
      scan(header_of(box, box), joined(scene.prescan(box), scene.lines(box, false)), intensity_chain("n4"));
  EXPECT_EQ(out.said(Level::info, "the scan holds special readouts; they are not used for images"), 1);
}

TEST_P(IntensityTest, QuantitiesPhasesAndEmptyImagesPass) {
  std::vector<float> head;
  for (int v = 0; v < 32 * 32; ++v) head.push_back(100.0f + 3.0f * static_cast<float>(v % 32));
  const std::string gadgets = "  - intensity\n  - image\n";
  const auto same = [&](const protocol::Image& image) { return run_images(gadgets, {image}, here()); };
  const auto snr = same(sent_image(head, {32, 32, 1}, {{"DataRole", "Quantitative"}}));
  EXPECT_EQ(pixels<float>(snr.images.at(0)), head);
  EXPECT_EQ(snr.said(Level::info, "images in units of SNR, and other quantities, are not corrected"), 1);
  EXPECT_EQ(pixels<float>(same(sent_image(head, {32, 32, 1}, {}, 2)).images.at(0)), head);  // phases
  const std::vector<float> zeros(32 * 32, 0);
  EXPECT_EQ(pixels<float>(same(sent_image(zeros, {32, 32, 1})).images.at(0)), zeros);
  const auto then = run_images(gadgets, {sent_image(zeros, {32, 32, 1}), sent_image(head, {32, 32, 1})}, here());
  EXPECT_NE(pixels<float>(then.images.at(1)), head);  // the empty one has not fixed the field
  auto bad = head;
  bad[5] = std::numeric_limits<float>::infinity();
  const auto odd = same(sent_image(bad, {32, 32, 1}));
  EXPECT_EQ(odd.warned("intensity: slice 0 is not corrected: bias field: the image holds voxels that are not finite"),
            1);
  EXPECT_EQ(pixels<float>(odd.images.at(0)), bad);
  EXPECT_NE(pixels<float>(same(sent_image(head, {32, 32, 1})).images.at(0)), head);
}

// Measured: a phantom by a head coil of 16 channels and by the body coil. The field is fitted from the central 32 x 32,
// and judged at 128 x 128. The issue asks for 5 % (25 % uncorrected). A body coil's voxel has noise of 5.6 %, so both
// are means of 3 x 3.
TEST_P(IntensityTest, AMeasuredFieldIsWithinFivePercent) {
  const char* folder = std::getenv("ECHOTRAIN_DATA");
  const std::filesystem::path data =
      (folder != nullptr ? folder : source_path("../shared/data")) / "cartesian_flash_phantom";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << "no measured data at " << data;
  const auto read = [&](const char* name) {
    const protocol::DatasetReader reader(data / name);
    std::vector<Acquisition> lines;
    for (std::size_t i = 0; i < reader.acquisitions(); ++i) lines.push_back(reader.acquisition(i));
    return std::pair{*protocol::parse_header(reader.header_xml(), {}), lines};
  };
  const auto [h, array] = read("headcoil16.h5");
  const auto body = read("bodycoil2.h5").second;
  auto prescan = joined(array, body);
  std::erase_if(prescan, [](const Acquisition& line) {
    return line.head.idx.kspace_encode_step_1 < 48 || line.head.idx.kspace_encode_step_1 >= 80;
  });
  for (auto& line : prescan) set_flag(line, 29);
  const auto mean = [](const std::vector<float>& of) {
    std::vector<double> out(of.size(), 0);
    for (int y = 1; y < 127; ++y)
      for (int x = 1; x < 127; ++x)
        for (int k = 0; k < 9; ++k)
          out[static_cast<std::size_t>(128 * y + x)] +=
              of[static_cast<std::size_t>(128 * (y + k / 3 - 1) + x + k % 3 - 1)];
    return out;
  };
  const auto uncorrected = mean(image(scan(h, array, intensity_chain("none")))),
             corrected = mean(image(scan(h, joined(std::move(prescan), array), intensity_chain("prescan")))),
             reference = mean(image(scan(h, body, intensity_chain("none"))));
  std::vector<double> sorted = reference;
  std::sort(sorted.begin(), sorted.end());
  const auto deviation = [&](const std::vector<double>& of) {
    double n = 0, sum = 0, squares = 0;
    for (std::size_t v = 0; v < of.size(); ++v)
      if (reference[v] > 0.5 * sorted[sorted.size() * 99 / 100]) {
        const double ratio = of[v] / reference[v];
        ++n, sum += ratio, squares += ratio * ratio;
      }
    return std::sqrt(squares / n - sum * sum / n / n) / (sum / n);
  };
  RecordProperty("uncorrected", std::to_string(deviation(uncorrected)));
  RecordProperty("corrected", std::to_string(deviation(corrected)));
  EXPECT_NEAR(deviation(uncorrected), 0.25, 0.01);
  EXPECT_LT(deviation(corrected), 0.05);
}

ECHOTRAIN_ON_BACKENDS(IntensityTest);

}  // namespace
}  // namespace echotrain::testing
