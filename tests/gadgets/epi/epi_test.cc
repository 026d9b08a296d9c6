// EPI from readouts to images, against images that are known in closed form.
#include "gadgets/engine/readout_batch.h"
#include "gadgets/epi/epi_phase_correction.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "tests/gadgets/epi/epi_scan.h"
#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

/// Scans whose odd/even phase is linear, not a delay's, are regridded as the header says.
std::string epi(const std::string& correction = "", const std::string& regrid = "delay: given") {
  const auto options = [](const std::string& name, const std::string& text) {
    return "  - " + name + (text.empty() ? "" : ": {" + text + "}") + "\n";
  };
  return yaml(options("ramp_regrid", regrid) + options("epi_phase_correction", correction) +
              "  - cartesian_kspace\n  - fft\n  - image: {component: complex}\n");
}

std::string meta_of(const protocol::Image& image, const std::string& name) {
  const auto at = image.attributes.find("<name>" + name + "</name>");
  if (at == std::string::npos) return "(none)";
  const auto begin = image.attributes.find("<value>", at) + 7;
  return image.attributes.substr(begin, image.attributes.find('<', begin) - begin);
}

std::vector<cdouble> all_coils(const EpiScan& scan) {
  std::vector<cdouble> out;
  for (int c = 0; c < scan.coils(); ++c) {
    const auto image = scan.image(c);
    out.insert(out.end(), image.begin(), image.end());
  }
  return out;
}

template <class T>
std::vector<double> magnitudes(const std::vector<T>& values) {
  std::vector<double> out;
  for (const auto& v : values) out.push_back(std::abs(cdouble(v)));
  return out;
}

// The Gaussians reach 1e-4 of their energy beyond the points that ramps leave; float32 is good to 1e-6.
constexpr double kGood = 2e-3;

using EpiTest = OnEachBackend;

TEST_P(EpiTest, RampsAndTheOddEvenPhaseAreTakenOut) {
  const EpiScan scan({.constant = {0.4, 0.4}, .slope = {-0.09, -0.09}});
  const auto truth = all_coils(scan);
  const Outcome out = run(epi(), scan.header(), scan.scan(), here());
  ASSERT_EQ(out.images.size(), 1u);
  EXPECT_LT(nrmse(pixels<cfloat>(out.images[0]), truth), kGood);
  EXPECT_EQ(meta_of(out.images[0], "epi_correction"), "linear");
  EXPECT_NEAR(std::stod(meta_of(out.images[0], "epi_slope")), -0.09, 1e-4);
  EXPECT_NEAR(std::stod(meta_of(out.images[0], "epi_constant")), 0.4, 1e-3);
  EXPECT_LT(std::stod(meta_of(out.images[0], "ghost_level")), 1e-3);
  EXPECT_GT(std::stod(meta_of(out.images[0], "ghost_level_uncorrected")), 0.1);
  EXPECT_EQ(out.warned(""), 0);
  EXPECT_EQ(out.said(protocol::Level::info, "not used"), 0);

  const Outcome off = run(epi("method: none"), scan.header(), scan.scan(), here());
  EXPECT_GT(nrmse(pixels<cfloat>(off.images.at(0)), truth), 0.1);
  RunOptions one = here();
  one.split = [](std::size_t) { return 1; };
  EXPECT_EQ(pixels<cfloat>(run(epi(), scan.header(), scan.scan(), one).images.at(0)), pixels<cfloat>(out.images[0]));
}

TEST_P(EpiTest, RegularLinesNeedNoDescription) {
  for (const int n : {48, 47}) {
    const EpiScan scan({.n = n, .regular = true});
    const Outcome out = run(epi(), scan.with(""), scan.scan(), here());
    EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), scan.image(0)), kGood) << n;
    EXPECT_EQ(out.warned("no trajectoryDescription; readouts are taken for regular lines"), 1);
  }
}

TEST_P(EpiTest, AGivenTrajectoryIsFollowed) {
  const EpiScan scan({});
  auto readouts = scan.scan();
  for (auto& each : readouts) {
    std::vector<float> path;
    for (const double k : scan.path((each.head.flags & 1ull << (kReverse - 1)) != 0)) {
      path.push_back(static_cast<float>(k));
      path.push_back(0);
    }
    each.trajectory = protocol::Payload::take(std::move(path));
    each.head.trajectory_dimensions = 2;
  }
  const Outcome out = run(epi(), scan.with(""), readouts, here());
  EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), scan.image(0)), kGood);
  EXPECT_EQ(out.warned(""), 0);
}

/// Eddy currents that die away along the train: a separate scan without phase encoding tells each line's phase.
TEST_P(EpiTest, LinesOfASeparateScanTellEachLinesPhase) {
  const EpiScan scan({.constant = {0.4, 0.4}, .slope = {-0.09, -0.09}, .navigators = 0, .settles = 1.5});
  std::vector<Acquisition> readouts;
  for (int l = 0; l < 48; ++l) {
    readouts.push_back(scan.line(24, l % 2 == 1, l));
    set_flag(readouts.back(), kPhaseCorrection);
  }
  for (int repetition = 0; repetition < 2; ++repetition)  // each frame is a train of its own
    for (Acquisition& line : scan.scan()) {
      line.head.idx.repetition = static_cast<std::uint16_t>(repetition);
      readouts.push_back(std::move(line));
    }
  for (const std::size_t batch : {1, 13, 1000}) {
    RunOptions options = here();
    options.split = [&](std::size_t) { return batch; };
    const Outcome each = run(epi(), scan.header(), readouts, options);
    ASSERT_EQ(each.images.size(), 2u);
    for (const auto& image : each.images) {
      EXPECT_LT(nrmse(pixels<cfloat>(image), all_coils(scan)), 2 * kGood);  // the last line has no phase of its own
      EXPECT_EQ(meta_of(image, "epi_own_phases"), "24");
    }
    EXPECT_EQ(each.warned(""), 0);
  }
  const Outcome alike = run(epi("lines: alike"), scan.header(), readouts, here());
  for (const auto& image : alike.images) EXPECT_GT(nrmse(pixels<cfloat>(image), all_coils(scan)), 0.05);
  // Trains that begin the other way, or go on after the navigators' last line, have no lines of the same number there.
  auto other = readouts;
  for (std::size_t i = 0; i < 48; ++i) other[i] = scan.line(24, i % 2 == 0, static_cast<int>(i));
  for (std::size_t i = 0; i < 48; ++i) set_flag(other[i], kPhaseCorrection);
  const Outcome opposite = run(epi(), scan.header(), other, here()),
                mean = run(epi("lines: alike"), scan.header(), other, here());
  EXPECT_EQ(pixels<cfloat>(opposite.images.at(0)), pixels<cfloat>(mean.images.at(0)));
}

/// The first sample of a line holds nothing that could be used.
void spoil(Acquisition& line) {
  std::vector<cfloat> data(line.data.bytes.size() / sizeof(cfloat));
  line.data.copy_to(data.data());
  data[0] = 1000;
  line.data = protocol::Payload::take(std::move(data));
  line.head.discard_pre = 1;
}

TEST_P(EpiTest, DiscardedSamplesAreNotUsed) {
  const EpiScan scan({});
  auto readouts = scan.scan();
  for (std::size_t l = 1; l < readouts.size(); l += 3) spoil(readouts[l]);
  const Outcome out = run(epi(), scan.header(), readouts, here());
  EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), scan.image(0)), kGood);
  RunOptions one = here();
  one.split = [](std::size_t) { return 1; };
  EXPECT_EQ(pixels<cfloat>(run(epi(), scan.header(), readouts, one).images.at(0)), pixels<cfloat>(out.images[0]));
}

TEST_P(EpiTest, DiscardedSamplesOfATrajectoryAreNotUsed) {
  const EpiScan scan({});
  auto readouts = scan.scan();
  for (auto& each : readouts) {
    std::vector<float> path;
    for (const double k : scan.path((each.head.flags & 1ull << (kReverse - 1)) != 0))
      path.push_back(static_cast<float>(k));
    path[0] = 0;
    spoil(each);
    each.trajectory = protocol::Payload::take(std::move(path));
    each.head.trajectory_dimensions = 1;
  }
  const Outcome out = run(epi(), scan.with(""), readouts, here());
  EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), scan.image(0)), kGood);
}

TEST_P(EpiTest, CoilsMayDiffer) {
  const EpiScan scan({.constant = {0.6, -0.5}, .slope = {-0.05, 0.08}});
  const auto truth = all_coils(scan);
  const Outcome each = run(epi("coils: each"), scan.header(), scan.scan(), here());
  EXPECT_LT(nrmse(pixels<cfloat>(each.images.at(0)), truth), 0.02);
  const Outcome joint = run(epi(), scan.header(), scan.scan(), here());
  EXPECT_GT(nrmse(pixels<cfloat>(joint.images.at(0)), truth), 0.2);
  const EpiScan same({});
  const Outcome pointwise = run(epi("method: pointwise"), same.header(), same.scan(), here());
  EXPECT_LT(nrmse(pixels<cfloat>(pointwise.images.at(0)), same.image(0)), kGood);
}

TEST_P(EpiTest, PrecessionIsNotTakenForAnOddEvenPhase) {
  const double pi = std::numbers::pi;
  const EpiScan still({}), moving({.precession = 2 * pi * 3 / 48});  // three lines
  auto truth = magnitudes(still.image(0));
  std::rotate(truth.begin(), truth.begin() + 3 * 48, truth.end());
  const Outcome out = run(epi(), moving.header(), moving.scan(), here());
  EXPECT_LT(nrmse(magnitudes(pixels<cfloat>(out.images.at(0))), truth), kGood);
}

TEST_P(EpiTest, ADriftOfTheFieldMovesNoImage) {
  const EpiScan first({}), later({.precession = 0.3, .offset = 1.1, .repetition = 1});
  auto readouts = first.scan();
  for (auto& each : later.scan()) readouts.push_back(std::move(each));
  const Outcome out = run(epi(), first.header(), readouts, here());
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_LT(nrmse(pixels<cfloat>(out.images[1]), first.image(0)), kGood);
  EXPECT_NEAR(std::stod(meta_of(out.images[1], "epi_drift")), 0.3, 1e-4);
  const Outcome off = run(epi("b0_drift: false"), first.header(), readouts, here());
  EXPECT_GT(nrmse(magnitudes(pixels<cfloat>(off.images.at(1))), magnitudes(first.image(0))), 0.1);
}

// Trains that begin with a reversed line are compared with those that do not.
TEST_P(EpiTest, ADriftIsToldByTrainsOfTheOtherDirections) {
  const EpiScan first({.precession = 0.2}), other({.precession = 0.35, .offset = 1.1, .repetition = 1});
  auto readouts = first.scan();
  for (int l = 0; l < 3; ++l) {
    readouts.push_back(other.line(24, l % 2 == 0, l - 3));
    set_flag(readouts.back(), kPhaseCorrection);
  }
  for (int y = 0; y < 48; ++y) readouts.push_back(other.line(y, y % 2 == 0, y));
  set_flag(readouts.back(), kLastInSlice);
  const Outcome out = run(epi(), first.header(), readouts, here());
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_LT(nrmse(pixels<cfloat>(out.images[1]), pixels<cfloat>(out.images[0])), kGood);
  EXPECT_NEAR(std::stod(meta_of(out.images[1], "epi_drift")), 0.15, 1e-4);
}

TEST_P(EpiTest, NavigatorsOfAScanBefore) {
  const EpiScan scan({.navigators = 12});
  auto readouts = scan.scan();
  for (const auto& each : EpiScan({.navigators = 0, .repetition = 1}).scan()) readouts.push_back(each);
  const Outcome out = run(epi(), scan.header(), readouts, here());
  ASSERT_EQ(out.images.size(), 2u);
  for (const auto& image : out.images) EXPECT_LT(nrmse(pixels<cfloat>(image), scan.image(0)), kGood);
  EXPECT_EQ(out.warned(""), 0);
}

TEST_P(EpiTest, ALateGradientIsFoundAndFollowed) {
  const EpiScan scan({.slope = {0}, .late = 3.4});
  for (const std::size_t batch : {1, 1000}) {
    RunOptions options = here();
    options.split = [&](std::size_t) { return batch; };
    const Outcome out = run(epi("", "delay: navigators"), scan.header(), scan.scan(), options);
    EXPECT_EQ(out.said(protocol::Level::info, "the readout gradient comes 3.40 us late"), 1);
    EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), scan.image(0)), kGood);
  }
  const Outcome given = run(epi("", "delay: given, delay_us: 3.4"), scan.header(), scan.scan(), here());
  EXPECT_LT(nrmse(pixels<cfloat>(given.images.at(0)), scan.image(0)), kGood);
  const Outcome off = run(epi("", "delay: given"), scan.header(), scan.scan(), here());
  EXPECT_GT(nrmse(pixels<cfloat>(off.images.at(0)), scan.image(0)), 0.02);
}

TEST_P(EpiTest, PlainReferenceLinesTellNothingOfTheDelay) {
  const EpiScan scan({.slope = {0}, .late = 3.4}), plain({.slope = {0}, .regular = true});
  std::vector<Acquisition> readouts;
  for (int y = 20; y < 28; ++y) {
    readouts.push_back(plain.line(y, false, 0));
    set_flag(readouts.back(), kCalibration);
  }
  for (auto& each : scan.scan()) readouts.push_back(std::move(each));
  const Outcome out = run(epi("", "delay: navigators"), scan.header(), readouts, here());
  EXPECT_EQ(out.said(protocol::Level::info, "the readout gradient comes 3.40 us late"), 1);
  EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), scan.image(0)), kGood);

  const EpiScan none({.navigators = 0});
  const Outcome without = run(epi("", "delay: navigators"), none.header(), none.scan(), here());
  EXPECT_EQ(without.said(protocol::Level::info, "no phase-correction lines came before to tell"), 1);
}

TEST_P(EpiTest, PlainReferencesNeedNoNavigators) {
  const EpiScan scan({.slope = {0}}), plain({.slope = {0}, .regular = true});
  std::vector<Acquisition> readouts;
  for (int y = 20; y < 28; ++y) {
    readouts.push_back(plain.line(y, false, 0));
    set_flag(readouts.back(), kCalibration);
  }
  for (auto& each : scan.scan()) readouts.push_back(std::move(each));
  const Outcome out = run(epi("", "delay: given"), scan.header(), readouts, here());
  EXPECT_EQ(out.warned(""), 0);
  EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), scan.image(0)), kGood);
}

TEST_P(EpiTest, NavigatorsOfSlicesAtOnceAreComparedAmongThemselves) {
  const EpiScan single({.precession = 0.3, .offset = 1.1}), at_once({}), later({.precession = 0.2, .repetition = 1});
  auto readouts = single.scan();
  for (auto& each : readouts)
    if ((each.head.flags & 1ull << (kPhaseCorrection - 1)) == 0) set_flag(each, kCalibration);
  for (auto& each : at_once.scan()) readouts.push_back(std::move(each));
  for (auto& each : later.scan()) readouts.push_back(std::move(each));
  const std::string factor =
      "<accelerationFactor><kspace_encoding_step_1>1</kspace_encoding_step_1><kspace_encoding_step_2>1"
      "</kspace_encoding_step_2></accelerationFactor><multiband><multiband_factor>2</multiband_factor></multiband>";
  protocol::Header header = single.with(single.description(), factor);
  header.xml.clear();  // it is not read again
  const Outcome out = run(epi(), header, readouts, here());
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_LT(nrmse(pixels<cfloat>(out.images[0]), at_once.image(0)), kGood);
  EXPECT_LT(nrmse(pixels<cfloat>(out.images[1]), at_once.image(0)), kGood);
  EXPECT_NEAR(std::stod(meta_of(out.images[0], "epi_drift")), 0, 1e-6);
  EXPECT_NEAR(std::stod(meta_of(out.images[1], "epi_drift")), 0.2, 1e-4);
  const Outcome off = run(epi(), single.header(), readouts, here());  // all of one slice: images follow the references
  EXPECT_NEAR(std::stod(meta_of(off.images.at(0), "epi_drift")), -0.3, 1e-4);
}

/// What the header says is parsed once, for all gadgets and encodings.
TEST_P(EpiTest, TheHeadersTextIsNotReadAgain) {
  const EpiScan scan({});
  protocol::Header header = scan.header();
  header.xml.clear();
  const Outcome out = run(epi(), header, scan.scan(), here());
  EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), scan.image(0)), kGood);
  EXPECT_EQ(out.warned(""), 0);
}

TEST_P(EpiTest, ImagesSayWhereBlipsGo) {
  const EpiScan scan({});
  EXPECT_EQ(meta_of(run(epi(), scan.header(), scan.scan(), here()).images.at(0), "epi_blips"), "up");
  auto readouts = scan.scan();
  readouts.resize(3);
  for (int y = 47; y >= 0; --y) readouts.push_back(scan.line(y, y % 2 == 0, 47 - y));
  set_flag(readouts.back(), kLastInSlice);
  for (const std::size_t batch : {1, 1000}) {
    RunOptions options = here();
    options.split = [&](std::size_t) { return batch; };
    const Outcome out = run(epi(), scan.header(), readouts, options);
    EXPECT_EQ(meta_of(out.images.at(0), "epi_blips"), "down");
    EXPECT_LT(nrmse(pixels<cfloat>(out.images[0]), scan.image(0)), kGood);
  }
}

TEST_P(EpiTest, CalibrationLinesOfSlicesMayComeTogether) {
  const EpiScan scans[] = {EpiScan({}), EpiScan({.constant = {-0.5}, .slope = {0.04}})};
  std::vector<Acquisition> readouts;
  for (int l = 0; l < 51; ++l)
    for (std::uint16_t slice = 0; slice < 2; ++slice) {
      readouts.push_back(scans[slice].scan().at(static_cast<std::size_t>(l)));
      readouts.back().head.idx.slice = slice;
      if (l >= 3) set_flag(readouts.back(), kCalibration);
    }
  std::vector<std::vector<cfloat>> made;
  for (const std::size_t batch : {1, 1000}) {
    std::vector<cfloat>& data = made.emplace_back();
    RunOptions options = here();
    options.split = [&](std::size_t) { return batch; };
    options.tap = "epi_phase_correction";
    options.on_item = [&](const Item& item, numerics::Context& compute) {
      const auto lines = elements(compute, std::get<Readouts>(item).data);
      data.insert(data.end(), lines.begin(), lines.end());
    };
    run(epi(), scans[0].header(), readouts, options);
    ASSERT_EQ(data.size(), 2u * 48 * 48);
  }
  EXPECT_EQ(made[0], made[1]);
}

TEST_P(EpiTest, EntropyFindsWhatNavigatorsDoNotTell) {
  // Navigators of another phase than the lines': three of one scan, lines of two frames of another.
  const EpiScan told({.constant = {0.3}, .slope = {-0.07}}), scan({});
  const EpiScan later({.navigators = 0, .repetition = 1});
  auto readouts = scan.scan();
  auto navigators = told.scan();
  std::copy_n(navigators.begin(), 3, readouts.begin());
  for (auto& each : later.scan()) readouts.push_back(std::move(each));
  for (const std::size_t batch : {1, 1000}) {
    RunOptions options = here();
    options.split = [&](std::size_t) { return batch; };
    const Outcome out = run(epi("refine: entropy"), scan.header(), readouts, options);
    ASSERT_EQ(out.images.size(), 2u);
    for (const auto& image : out.images) EXPECT_LT(nrmse(pixels<cfloat>(image), scan.image(0)), 0.01);
    EXPECT_EQ(out.said(protocol::Level::info, "the image of slice 0 asks for"), 1);
    EXPECT_EQ(out.warned(""), 0);
  }
  const Outcome plain = run(epi(), scan.header(), readouts, here());
  EXPECT_GT(nrmse(pixels<cfloat>(plain.images.at(0)), scan.image(0)), 0.04);
}

ECHOTRAIN_ON_BACKENDS(EpiTest);

TEST(EpiInputTest, MissingAndOddNavigatorsAreToldOf) {
  const EpiScan none({.navigators = 0}), one({.navigators = 1}), two({.navigators = 2});
  const Outcome without = run(epi(), none.header(), none.scan());
  EXPECT_EQ(without.warned("no phase-correction lines (flag 24) came before the lines of slice 0"), 1);
  EXPECT_EQ(meta_of(without.images.at(0), "epi_correction"), "entropy");
  EXPECT_LT(nrmse(pixels<cfloat>(without.images.at(0)), none.image(0)), 0.01);
  const Outcome single = run(epi(), one.header(), one.scan());
  EXPECT_EQ(single.warned("the 1 phase-correction line(s) of slice 0 all run the same way"), 1);
  EXPECT_LT(nrmse(pixels<cfloat>(single.images.at(0)), one.image(0)), 0.01);
  const Outcome pair = run(epi(), two.header(), two.scan());
  EXPECT_EQ(pair.said(protocol::Level::info, "two phase-correction lines"), 1);
  EXPECT_LT(nrmse(pixels<cfloat>(pair.images.at(0)), two.image(0)), kGood);  // nothing precesses here

  // Reversed lines that are not stored in the order of time, against their flag.
  const EpiScan scan({});
  auto wrong = scan.scan();
  wrong[1] = scan.line(24, false, -2);
  set_flag(wrong[1], kPhaseCorrection);
  set_flag(wrong[1], kReverse);
  EXPECT_EQ(run(epi(), scan.header(), wrong).warned("look like mirrored ones"), 1);
}

TEST(EpiInputTest, LinesThatRunOneWayAreToldOf) {
  const EpiScan scan({});
  auto readouts = scan.scan();
  for (std::size_t i = 3; i < readouts.size(); ++i)
    readouts[i].head.flags = readouts[i].head.flags & ~(1ull << (kReverse - 1));
  const std::string said = "0 of the 48 lines of slice 0 are flagged as reversed (flag 22), but its phase-correction";
  EXPECT_EQ(run(epi(), scan.header(), readouts).warned(said), 1);
  // Trains of three lines, each of which begins forward.
  readouts = scan.scan();
  readouts.resize(3);
  for (int y = 0; y < 48; ++y) readouts.push_back(scan.line(y, y % 3 == 1, y % 3));
  set_flag(readouts.back(), kLastInSlice);
  const Outcome out = run(epi(), scan.header(), readouts);
  EXPECT_EQ(out.warned(""), 0);
  EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), scan.image(0)), kGood);
}

TEST(EpiInputTest, FewerNavigatorsThanAnnouncedAreToldOf) {
  const EpiScan two({.navigators = 2});
  std::string text = two.description();
  text.insert(text.find("<userParameterLong>"),
              "<userParameterLong><name>numberOfNavigators</name><value>3</value></userParameterLong>");
  const Outcome out = run(epi(), two.with(text), two.scan());
  EXPECT_EQ(out.warned("2 phase-correction line(s) came for slice 0, but the header's numberOfNavigators is 3"), 1);
  EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), two.image(0)), kGood);
  const EpiScan scan({});
  EXPECT_EQ(run(epi(), scan.with(text), scan.scan()).warned(""), 0);
}

TEST(EpiInputTest, CoilsThatChangeAreRefused) {
  const EpiScan two({.constant = {0.6, -0.5}, .slope = {-0.05, 0.08}}), one({});
  auto readouts = two.scan();
  readouts.resize(5);
  readouts.push_back(one.line(2, false, 2));
  set_flag(readouts.back(), kCalibration);
  const std::string said = client_error([&] { run(epi("coils: each"), two.header(), readouts); });
  EXPECT_NE(said.find("have 2 coils and 48 samples, but lines of the image have 1"), std::string::npos) << said;
}

/// The account pays for what is kept of navigators, however many shots there are.
TEST(EpiMemoryTest, ShotsCostTheSame) {
  numerics::Context compute(Backend::cpu, test_resources());
  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, [](protocol::Level, const std::string&) {});
  EpiPhaseCorrection gadget({});
  std::vector<Acquisition> navigators = EpiScan({.n = 16, .regular = true}).scan();
  const std::vector<Acquisition> lines(navigators.begin() + 3, navigators.end());
  navigators.resize(3);
  gadget.start(EpiScan({.n = 16, .regular = true}).header(), scan);
  std::uint64_t few = 0, many = 0;
  for (int shot = 1; shot <= 100; ++shot) {
    for (const bool learns : {true, false}) {
      Readouts readouts = make_batch(compute, learns ? navigators : lines, !learns);
      readouts.kind = learns ? protocol::ReadoutKind::phase_correction : protocol::ReadoutKind::calibration;
      gadget.process(std::move(readouts), [](Readouts&&) {});
    }
    many = compute.account()->used();
    if (shot == 2) few = many;
  }
  EXPECT_GT(few, 0u);
  EXPECT_EQ(many, few);
}

TEST(EpiInputTest, NavigatorsOfAnotherSliceServeWithAWarning) {
  const EpiScan scan({});
  auto readouts = scan.scan();
  auto other = EpiScan({.navigators = 0}).scan();
  for (auto& each : other) {
    each.head.idx.slice = 1;
    readouts.push_back(std::move(each));
  }
  const Outcome out = run(epi(), scan.header(), readouts);
  ASSERT_EQ(out.images.size(), 2u);
  EXPECT_EQ(out.warned("slice 1 has no phase-correction lines"), 1);
  EXPECT_LT(nrmse(pixels<cfloat>(out.images[1]), scan.image(0)), kGood);
}

TEST(EpiInputTest, DescriptionsThatDoNotFitAreRefusedOrToldOf) {
  const EpiScan scan({});
  const auto refused = [&](const protocol::Header& header) {
    return client_error([&] { run(epi(), header, scan.scan()); });
  };
  EXPECT_NE(refused(scan.with("")).find("the header has no trajectoryDescription, and readouts have 73 samples"),
            std::string::npos);
  EXPECT_NE(refused(scan.with(scan.description(60))).find("numSamples is 60, but readouts have 73"), std::string::npos);
  EXPECT_NE(refused(scan.with("<trajectoryDescription><identifier>Own</identifier></trajectoryDescription>"))
                .find("'Own' has no rampUpTime"),
            std::string::npos);
  const EpiScan late({.delay = 80});
  EXPECT_NE(refused(late.header()).find("but the gradient ends at 260 us"), std::string::npos);

  const EpiScan regular({.n = 47, .regular = true});
  const Outcome out = run(epi(), regular.with(late.description()), regular.scan());
  EXPECT_EQ(out.warned("trajectoryDescription does not fit the readouts"), 1);
  EXPECT_LT(nrmse(pixels<cfloat>(out.images.at(0)), regular.image(0)), kGood);
}

TEST(EpiInputTest, OtherTrajectoriesAndPipelinesAreRefused) {
  const EpiScan scan({});
  EXPECT_NE(client_error([&] {
              run(epi(), header({.encoded = {8, 8, 1}}), {});
            }).find("header's trajectory is 'cart"),
            std::string::npos);
  const std::string plain = yaml("  - cartesian_kspace\n  - fft\n  - image: {component: complex}\n");
  EXPECT_NE(client_error([&] { run(plain, scan.header(), {}); }).find("use epi_2d"), std::string::npos);
  const std::string unregridded =
      yaml("  - epi_phase_correction\n  - cartesian_kspace\n  - fft\n  - image: {component: complex}\n");
  EXPECT_NE(client_error([&] { run(unregridded, scan.header(), scan.scan()); }).find("73 samples"), std::string::npos);
  auto narrow = scan.scan();
  for (int i = 0; i < 3; ++i) narrow[static_cast<std::size_t>(i)] = readout(1, std::vector<cfloat>(48, 1));
  for (int i = 0; i < 3; ++i) set_flag(narrow[static_cast<std::size_t>(i)], kPhaseCorrection);
  EXPECT_NE(client_error([&] { run(unregridded, scan.header(), narrow); }).find("put ramp_regrid before"),
            std::string::npos);
}

}  // namespace
}  // namespace echotrain::testing
