// Reference lines of an earlier scan, against the same lines sent with the scan itself.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "gadgets/shared/store/calibration_store.h"
#include "tests/gadgets/encoding/parallel_scene.h"

namespace echotrain::testing {
namespace {

using protocol::Level;

std::string grappa_chain(const std::string& gadget = "external_calibration", const std::string& between = "",
                         const std::string& grappa = "otherwise: transform") {
  return yaml("  - " + gadget + "\n" + between + "  - cartesian_kspace\n  - grappa: {" + grappa +
              "}\n  - image: {component: magnitude}\n");
}

/// The facts of a header about its scan and the one that has its reference lines.
struct Calibrated {
  std::string id, mode, from;
  std::vector<std::string> labels = {};
};

protocol::Header with(protocol::Header header, const Calibrated& about) {
  header.measurement_id = about.id;
  for (auto& encoding : header.encodings)
    if (!about.mode.empty()) encoding.calibration_mode = about.mode;
  header.coil_labels = about.labels;
  if (!about.from.empty()) header.dependencies = {{"Calibration", about.from}};
  return header;
}

std::vector<Acquisition> joined(std::vector<Acquisition> a, std::vector<Acquisition> b) {
  a.insert(a.end(), std::make_move_iterator(b.begin()), std::make_move_iterator(b.end()));
  return a;
}

/// Coils in another order, or some of them.
std::vector<Acquisition> of_coils(const std::vector<Acquisition>& scan, const std::vector<std::size_t>& coils) {
  std::vector<Acquisition> out;
  for (const Acquisition& line : scan) {
    const auto all = pixels<cfloat>({.pixels = line.data});
    const std::size_t samples = line.head.number_of_samples;
    std::vector<cfloat> data;
    for (const std::size_t c : coils)
      data.insert(data.end(), all.begin() + static_cast<std::ptrdiff_t>(samples * c),
                  all.begin() + static_cast<std::ptrdiff_t>(samples * (c + 1)));
    Acquisition moved = readout(static_cast<int>(coils.size()), std::move(data));
    const auto channels = moved.head.active_channels;
    moved.head = line.head;
    moved.head.active_channels = moved.head.available_channels = channels;
    out.push_back(std::move(moved));
  }
  return out;
}

std::string noted(const Outcome& out, const std::string& name) {
  const std::string& text = out.images.at(0).attributes;
  const auto at = text.find("<name>" + name + "</name>");
  if (at == std::string::npos) return "";
  const auto begin = text.find("<value>", at) + 7;
  return text.substr(begin, text.find('<', begin) - begin);
}

class ExternalCalibrationTest : public OnEachBackend {
 protected:
  /// Scans of one program, whose store lasts as long as this.
  Outcome scan(const protocol::Header& header, std::vector<Acquisition> lines, const std::string& text = grappa_chain(),
               End end = End::complete, Split split = nullptr) {
    RunOptions options = here();
    options.resources = resources_;
    options.end = end;
    options.split = std::move(split);
    return run(text, header, std::move(lines), options);
  }
  static std::vector<float> image(const Outcome& out) {
    EXPECT_EQ(out.images.size(), 1u);
    return out.images.empty() ? std::vector<float>{} : pixels<float>(out.images[0]);
  }
  protocol::Header of_scene(const Calibrated& about) const { return with(scene_.header_of(left_), about); }

  const Leaving left_{.ry = 2, .band = 16, .separate = true};
  const ParallelScene scene_{{32, 32, 1}, 5};
  std::shared_ptr<numerics::Resources> resources_ = test_resources();
};

TEST_P(ExternalCalibrationTest, TwoConnectionsGiveTheBitsOfOne) {
  const auto together = scan(of_scene({"", "separate", ""}), scene_.scan(left_));
  for (const std::size_t n : {1u, 5u, 1000u}) {
    const auto split = [n](std::size_t) { return n; };
    const auto first =
        scan(of_scene({"before", "separate", ""}), scene_.references(left_), grappa_chain(), End::complete, split);
    EXPECT_TRUE(first.images.empty());
    EXPECT_EQ(first.said(Level::info, "16 reference lines of 5 coils are kept for scans that name measurement before"),
              1);
    for (const std::string mode : {"external", "separate"}) {
      const auto apart =
          scan(of_scene({"", mode, "before"}), scene_.frame(left_), grappa_chain(), End::complete, split);
      EXPECT_EQ(image(apart), image(together)) << mode;
      EXPECT_EQ(apart.warned(""), 0);
      EXPECT_EQ(apart.said(Level::info, "are those of another scan, before (16 lines, "), 1);
      EXPECT_EQ(noted(apart, "calibration"), mode + " 16 x 32");
      EXPECT_EQ(noted(apart, "calibration_from"), "store");
      EXPECT_LE(std::stoi(noted(apart, "calibration_age_s")), 60);
    }
  }
  EXPECT_EQ(noted(together, "calibration_from"), "");
  EXPECT_LT(nrmse(image(together), scene_.root_sum_of_squares()), 0.05);
}

// Lines of a scan that was accelerated itself: the band of its first repetition, whichever flag its lines have.
TEST_P(ExternalCalibrationTest, EmbeddedLinesServeLaterScans) {
  const Leaving embedded{.ry = 2, .band = 16};
  auto first = scene_.frame(embedded), second = first;
  const ParallelScene other({32, 32, 1}, 5, 3);
  for (auto& line : second = other.frame(embedded)) line.head.idx.repetition = 1;
  scan(with(scene_.header_of(embedded, 2), {"before", "embedded", ""}), joined(first, second));
  const auto apart = scan(of_scene({"", "external", "before"}), scene_.frame(left_));
  EXPECT_EQ(image(apart), image(scan(of_scene({}), scene_.scan(left_))));
}

// What is done to this scan's channels is done to those lines: by the noise that this scan knows, and to as many
// virtual coils.
TEST_P(ExternalCalibrationTest, ChannelsAreMadeAsThoseOfTheScan) {
  std::mt19937 random(4);
  std::vector<Acquisition> noise_lines;
  for (int i = 0; i < 8; ++i) {
    noise_lines.push_back(readout(5, noise(5 * 64, random, 1 + i)));
    set_flag(noise_lines.back(), kNoise);
  }
  const std::string between = "  - noise_adjust\n  - coil_compression: {channels: 4}\n";
  const std::string text = grappa_chain("external_calibration", between);
  const auto together = scan(of_scene({}), joined(noise_lines, scene_.scan(left_)), text);
  // The scan before is whitened by noise of its own, or not at all, and compressed to other coils.
  for (const bool whitened : {false, true}) {
    auto lines = scene_.references(left_);
    if (whitened) lines = joined(of_coils(noise_lines, {4, 3, 2, 1, 0}), std::move(lines));
    scan(of_scene({"before", "separate", ""}), std::move(lines),
         grappa_chain("external_calibration", "  - noise_adjust\n  - coil_compression: {channels: 3}\n"));
    const auto apart = scan(of_scene({"", "external", "before"}), joined(noise_lines, scene_.frame(left_)), text);
    EXPECT_EQ(image(apart), image(together));
  }
  // Whitened before they come here, they are kept as if they were not: float32, of a matrix whose condition is 10.
  const std::string first = "noise_adjust\n  - external_calibration", after = "  - coil_compression: {channels: 4}\n";
  for (const bool whitened : {false, true}) {
    auto lines = scene_.references(left_);
    if (whitened) lines = joined(of_coils(noise_lines, {4, 3, 2, 1, 0}), std::move(lines));
    scan(of_scene({"before", "separate", ""}), std::move(lines), grappa_chain(first, after));
    const auto apart = scan(of_scene({"", "external", "before"}), joined(noise_lines, scene_.frame(left_)),
                            grappa_chain(first, after));
    EXPECT_EQ(noted(apart, "calibration_from"), "store");
    EXPECT_LT(nrmse(image(apart), image(together)), 1e-4);
  }
}

TEST_P(ExternalCalibrationTest, CoilsAreMatchedByTheirLabels) {
  scan(with(scene_.header_of(left_), {"before", "separate", "", {"A", "B", "C", "D", "E"}}), scene_.references(left_));
  const auto apart =
      scan(of_scene({"", "external", "before", {"D", "A", "E", "B"}}), of_coils(scene_.frame(left_), {3, 0, 4, 1}));
  EXPECT_EQ(image(apart), image(scan(of_scene({}), of_coils(scene_.scan(left_), {3, 0, 4, 1}))));
  EXPECT_EQ(apart.warned(""), 0);
  const auto other = scan(of_scene({"", "external", "before", {"A", "B", "C", "D", "X"}}), scene_.frame(left_));
  EXPECT_EQ(other.warned("the measurement before that the header names for calibration has no coil 'X': the scan is "
                         "reconstructed without reference lines"),
            1);
  EXPECT_EQ(noted(other, "calibration"), "none");
  EXPECT_EQ(noted(other, "calibration_from"), "");
  const auto unlabelled = scan(of_scene({"", "external", "before"}), scene_.frame(left_));
  EXPECT_EQ(unlabelled.warned("labels of this scan do not name its 5 coils"), 1);
  // The store takes neither lines nor labels where the labels do not name the coils one by one.
  const auto unclear = scan(of_scene({"unclear", "separate", "", {"A"}}), scene_.references(left_));
  EXPECT_EQ(unclear.said(Level::info, "1 labels of the header do not name 5 coils"), 1);
}

// A calibration scan of fewer lines and samples over the same field of view, and one of more.
TEST_P(ExternalCalibrationTest, LinesKeepTheirPlaceInAnotherMatrix) {
  const auto together = scan(of_scene({}), scene_.scan(left_));
  for (const int extent : {20, 48}) {
    HeaderSpec spec{.encoded = {extent, extent, 1}, .encoded_fov = {32, 32, 1}};
    spec.limits = limit("kspace_encoding_step_1", 0, extent - 2, extent / 2 - 1);  // row 1 is step 0
    std::vector<Acquisition> lines;
    for (const Acquisition& line : scene_.references(left_)) {
      const auto all = pixels<cfloat>({.pixels = line.data});
      std::vector<cfloat> data(static_cast<std::size_t>(5 * extent));
      for (int c = 0; c < 5; ++c)
        for (int x = 0; x < extent; ++x) {
          const int from = x - extent / 2 + 16;
          if (from >= 0 && from < 32)
            data[static_cast<std::size_t>(c * extent + x)] = all[static_cast<std::size_t>(c * 32 + from)];
        }
      lines.push_back(readout(5, std::move(data)));
      set_flag(lines.back(), kCalibration);
      const int y = line.head.idx.kspace_encode_step_1 - 16 + extent / 2 - 1;
      lines.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
      lines.back().head.center_sample = 0;  // as some senders leave it
    }
    scan(with(header(spec), {"before", "", ""}), lines);
    const auto apart = scan(of_scene({"", "external", "before"}), scene_.frame(left_));
    EXPECT_EQ(apart.warned(""), 0) << extent;
    EXPECT_EQ(noted(apart, "calibration"), extent > 32 ? "external 16 x 32" : "external 16 x 20");
    if (extent > 32) {
      EXPECT_EQ(image(apart), image(together));
    } else {
      EXPECT_LT(nrmse(image(apart), image(together)), 0.02);
    }
  }
  HeaderSpec wide{.encoded = {32, 32, 1}, .encoded_fov = {64, 32, 1}};
  wide.limits = step_limit(32);
  scan(with(header(wide), {"wide", "", ""}), scene_.references(left_));
  const auto refused = scan(of_scene({"", "external", "wide"}), scene_.frame(left_));
  EXPECT_EQ(refused.warned("has another field of view: 64 x 32 x 1 mm: the scan is reconstructed without"), 1);
}

TEST_P(ExternalCalibrationTest, OwnLinesComeFirst) {
  scan(of_scene({"before", "separate", ""}), scene_.references(left_));
  const ParallelScene other({32, 32, 1}, 5, 2);
  const auto own = scan(of_scene({"", "external", "before"}), joined(other.references(left_), scene_.frame(left_)));
  EXPECT_EQ(image(own), image(scan(of_scene({}), joined(other.references(left_), scene_.frame(left_)))));
  EXPECT_EQ(own.said(Level::info, "another scan"), 0);
  EXPECT_EQ(noted(own, "calibration_from"), "");
  // Nor are they asked for where the header says that lines are embedded, or leaves nothing out.
  const Leaving embedded{.ry = 2, .band = 16}, all{};
  const auto inside = scan(with(scene_.header_of(embedded), {"", "embedded", "nobody"}), scene_.frame(embedded));
  const auto whole = scan(with(scene_.header_of(all), {"", "external", "nobody"}), scene_.frame(all));
  for (const auto& out : {inside, whole}) EXPECT_EQ(out.warned(""), 0);
}

TEST_P(ExternalCalibrationTest, MissingLinesAreAWarningOrAnError) {
  const auto plain = image(scan(of_scene({}), scene_.frame(left_)));
  const auto unknown = scan(of_scene({"", "external", "1.2.840.113619.2.55"}), scene_.frame(left_));
  EXPECT_EQ(unknown.warned("the measurement ...619.2.55 that the header names for calibration is not known here "
                           "(reference lines are kept for 24 h, in memory): the scan is reconstructed without"),
            1);
  EXPECT_EQ(image(unknown), plain);
  const auto unnamed = scan(of_scene({"", "external", ""}), scene_.frame(left_));
  EXPECT_EQ(unnamed.warned("calibration is external, but names no measurement that has it"), 1);
  const std::string strict = grappa_chain("external_calibration: {require_calibration: true}");
  for (const std::string from : {"1.2.840.113619.2.55", ""}) {
    const std::string error = client_error([&] {
      scan(of_scene({"", "external", from}), scene_.frame(left_), strict);
    });
    EXPECT_EQ(error.rfind("external_calibration: require_calibration: true, but ", 0), 0u) << error;
  }
  scan(of_scene({"before", "separate", ""}), scene_.references(left_));
  EXPECT_EQ(scan(of_scene({"", "external", "before"}), scene_.frame(left_), strict).images.size(), 1u);
  // One of several measurements is known.
  auto several = of_scene({"", "external", "before"});
  several.dependencies = {{"Calibration", "before"}, {"SenMap", "nobody"}, {"Noise", "noise"}};
  EXPECT_EQ(noted(scan(several, scene_.frame(left_), strict), "calibration_from"), "store");
}

TEST_P(ExternalCalibrationTest, WhatIsNotKept) {
  const auto known = [&](const std::string& id) {
    return resources_->get<CalibrationStore>().find({"", "", id}) != nullptr;
  };
  scan(of_scene({"cut", "separate", ""}), scene_.references(left_), grappa_chain(), End::truncated);
  scan(of_scene({"unasked", "separate", ""}), scene_.references(left_),
       grappa_chain("external_calibration: {keep: false}"));
  scan(of_scene({"none", "separate", ""}), scene_.frame(left_));
  for (const char* id : {"cut", "unasked", "none"}) EXPECT_FALSE(known(id)) << id;
  auto options = test_resource_options();
  options.scan_store_bytes = 20000;
  resources_ = std::make_shared<numerics::Resources>(options);
  const auto large = scan(of_scene({"large", "separate", ""}), scene_.references(left_));
  EXPECT_EQ(large.said(Level::info, "they are more than scan_store_mib allows"), 1);
  EXPECT_FALSE(known("large"));
  auto few = scene_.references(left_);
  few.resize(8);
  scan(of_scene({"few", "separate", ""}), std::move(few));
  EXPECT_TRUE(known("few"));
}

TEST_P(ExternalCalibrationTest, LinesOfAnotherPlaceAreRefused) {
  using Head = protocol::AcquisitionHeader;
  const auto refusal = [&](const std::function<void(Head&)>& move) {
    auto lines = scene_.references(left_);
    for (auto& line : lines) move(line.head);
    scan(of_scene({"before", "separate", ""}), std::move(lines));
    return client_error([&] { scan(of_scene({"", "external", "before"}), scene_.frame(left_)); });
  };
  const std::string none = client_error([] {});
  EXPECT_EQ(refusal([](Head& head) { head.position[2] = 0.9f; }), none);
  const std::string apart = refusal([](Head& head) { head.position[2] = 12.5f; });
  EXPECT_NE(apart.find("slice 0 is not where the reference lines of measurement before were acquired"),
            std::string::npos);
  EXPECT_NE(apart.find("its position differs by 12.5 mm."), std::string::npos) << apart;
  const std::string table = refusal([](Head& head) { head.patient_table_position[2] = -30; });
  EXPECT_NE(table.find(": its table position differs by 30.0 mm."), std::string::npos) << table;
  // The plane is turned by 2 degrees, as one of the phantom's was, where both have directions.
  const auto turn = [](Head& head, double degrees) {
    const auto c = static_cast<float>(std::cos(degrees * std::numbers::pi / 180));
    const auto s = static_cast<float>(std::sin(degrees * std::numbers::pi / 180));
    const float read[3] = {c, s, 0}, phase[3] = {-s, c, 0}, slice[3] = {0, 0, 1};
    std::copy_n(read, 3, &head.read_dir[0]);
    std::copy_n(phase, 3, &head.phase_dir[0]);
    std::copy_n(slice, 3, &head.slice_dir[0]);
  };
  const auto refusal_of_turned = [&](double degrees) {
    auto lines = scene_.references(left_), frame = scene_.frame(left_);
    for (auto& line : lines) turn(line.head, 30 + degrees);
    for (auto& line : frame) turn(line.head, 30);
    scan(of_scene({"before", "separate", ""}), std::move(lines));
    return client_error([&] { scan(of_scene({"", "external", "before"}), frame); });
  };
  EXPECT_EQ(refusal_of_turned(0.4), none);
  const std::string turned = refusal_of_turned(2);
  EXPECT_NE(turned.find("its readout direction differs by 2.0 degrees, its phase direction differs by 2.0 degrees."),
            std::string::npos)
      << turned;
}
ECHOTRAIN_ON_BACKENDS(ExternalCalibrationTest);

}  // namespace
}  // namespace echotrain::testing
