// Cardiac phases of readouts by an ECG or by stamps: where each readout goes, which are left out, and which lines are
// borrowed.
#include <cmath>
#include <set>
#include <variant>

#include "gadgets/readouts/heartbeats.h"
#include "tests/gadgets/scan.h"
#include "tests/support/resources.h"

namespace echotrain::testing {
namespace {

/// An ECG of 1 kHz whose message begins at `begin_ms`: [channel, sample].
protocol::Waveform ecg(double begin_ms, const std::vector<std::vector<std::uint32_t>>& channels, double tick_ms = 2.5) {
  protocol::Waveform out;
  out.head.version = 1;
  out.head.time_stamp = static_cast<std::uint32_t>(std::lround(begin_ms / tick_ms));
  out.head.channels = static_cast<std::uint16_t>(channels.size());
  out.head.number_of_samples = static_cast<std::uint16_t>(channels[0].size());
  out.head.sample_time_us = 1000;
  std::vector<std::uint32_t> values;
  for (const auto& channel : channels) values.insert(values.end(), channel.begin(), channel.end());
  out.data = protocol::Payload::take(std::move(values));
  return out;
}

/// An ECG of one channel with a trigger at each of `times`, in messages of 100 samples.
std::vector<protocol::Waveform> triggers(const std::set<int>& times, int until) {
  std::vector<protocol::Waveform> out;
  for (int begin = 0; begin < until; begin += 100) {
    std::vector<std::uint32_t> channel(100);
    for (int s = 0; s < 100; ++s) channel[static_cast<std::size_t>(s)] = times.contains(begin + s) ? 1 : 0;
    out.push_back(ecg(begin, {channel}));
  }
  return out;
}

TEST(HeartbeatsTest, RisingEdgesOfATriggerChannel) {
  Heartbeats beats({.trigger_channel = 1, .min_interval_ms = 60});
  std::vector<std::uint32_t> lead(100, 2048), marks(100);
  for (const int at : {0, 1, 2, 30, 80, 81}) marks[static_cast<std::size_t>(at)] = 16384;
  EXPECT_FALSE(beats.add(ecg(100, {lead})));  // this lead has no such channel
  EXPECT_TRUE(beats.add(ecg(200, {lead, std::vector<std::uint32_t>(100)})) || beats.triggers().empty());
  EXPECT_TRUE(beats.add(ecg(300, {lead, marks})));
  // 30 comes within 60 ms of the one before; 1, 2 and 81 are no edges.
  EXPECT_EQ(beats.triggers(), (std::vector<double>{300, 380}));
  auto other = ecg(400, {lead, marks});
  other.head.waveform_id = 1;  // pulse oximetry
  EXPECT_FALSE(beats.add(other));
}

TEST(HeartbeatsTest, AChannelThatBeginsHighHasNotRisen) {
  Heartbeats beats({.trigger_channel = 0});
  std::vector<std::uint32_t> marks(10, 1);
  EXPECT_FALSE(beats.add(ecg(0, {marks})));
}

TEST(HeartbeatsTest, TheClockRunsOnBySamplesAndJumpsOverGaps) {
  Heartbeats beats({.trigger_channel = 0, .min_interval_ms = 1});
  std::vector<std::uint32_t> marks(9);
  marks[8] = 1;
  // 9 ms are no whole number of ticks: stamps are cut to 0, 7.5 and 17.5 ms, but samples follow each other.
  beats.add(ecg(0, {marks}));
  beats.add(ecg(7.5, {marks}));
  beats.add(ecg(17.5, {marks}));
  beats.add(ecg(1000, {marks}));
  EXPECT_EQ(beats.triggers(), (std::vector<double>{8, 17, 26, 1008}));
}

TEST(HeartbeatsTest, TheHeaderNamesTheTriggerChannel) {
  const auto xml = [](const std::string& information) {
    return "<ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\">" + information + "</ismrmrdHeader>";
  };
  const std::string ecg_information =
      "<waveformInformation><waveformId>0</waveformId><waveformTriggerChannel>4</waveformTriggerChannel>"
      "</waveformInformation>";
  const std::string pulse =
      "<waveformInformation><waveformId>1</waveformId><waveformTriggerChannel>1</waveformTriggerChannel>"
      "</waveformInformation>";
  EXPECT_EQ(Heartbeats::trigger_channel(xml(pulse + ecg_information)), 4);
  EXPECT_EQ(Heartbeats::trigger_channel(xml(pulse)), -1);
  EXPECT_EQ(Heartbeats::trigger_channel(xml("")), -1);
  EXPECT_EQ(Heartbeats::trigger_channel("no XML"), -1);
}

/// R waves of height `height` at irregular times, T waves of 0.4 of it, a drifting baseline and noise.
struct Lead {
  std::vector<double> beats;
  std::vector<std::uint32_t> values;
  Lead(double interval, double height, int samples) {
    std::mt19937 random(3);
    std::uniform_real_distribution<double> jitter(0.9, 1.1), noise(-20, 20);
    for (double t = 0.6 * interval; t < samples + interval; t += interval * jitter(random)) beats.push_back(t);
    for (int s = 0; s < samples; ++s) {
      double value = 30000 + 100 * std::sin(s / 900.0) + noise(random);
      for (const double beat : beats) {
        const double r = (s - beat) / (0.012 * interval), t = (s - beat - 0.3 * interval) / (0.05 * interval);
        value += height * (std::exp(-r * r / 2) + 0.4 * std::exp(-t * t / 2));
      }
      values.push_back(static_cast<std::uint32_t>(value));
    }
    std::erase_if(beats, [&](double beat) { return beat > samples - 1; });
  }
};

TEST(HeartbeatsTest, RWavesOfEitherPolarityAndAnyRate) {
  for (const double interval : {110.0, 800.0})
    for (const double height : {1000.0, -1000.0})
      for (const int samples : {1500, 9000}) {  // shorter than the window too
        SCOPED_TRACE(fmt::format("interval {}, height {}, {} samples", interval, height, samples));
        const Lead lead(interval, height, samples);
        Heartbeats beats({.lead = 1});
        for (int begin = 0; begin < samples; begin += 50) {
          std::vector<std::uint32_t> part(lead.values.begin() + begin, lead.values.begin() + begin + 50);
          beats.add(ecg(begin, {std::vector<std::uint32_t>(50, 7), part}));
        }
        beats.finish();
        EXPECT_EQ(beats.samples(), static_cast<std::uint64_t>(samples));
        ASSERT_EQ(beats.triggers().size(), lead.beats.size());
        for (std::size_t i = 0; i < lead.beats.size(); ++i) EXPECT_NEAR(beats.triggers()[i], lead.beats[i], 2.5);
      }
}

TEST(HeartbeatsTest, AFlatLineHasNone) {
  Heartbeats beats({});
  for (int begin = 0; begin < 5000; begin += 100) beats.add(ecg(begin, {std::vector<std::uint32_t>(100, 2048)}));
  EXPECT_FALSE(beats.finish());
  EXPECT_TRUE(beats.triggers().empty());
}

TEST(HeartbeatsTest, StampsTellOfTheRWaveBeforeEachReadout) {
  Heartbeats beats({.min_interval_ms = 60});
  EXPECT_FALSE(beats.add_stamp(1000, 0));      // the scan's first readout may carry none
  EXPECT_TRUE(beats.add_stamp(1005, 305));     // the R wave was at 700
  EXPECT_FALSE(beats.add_stamp(1010, 307.5));  // stamps and times are cut to whole ticks: 702.5 is the same beat
  EXPECT_FALSE(beats.add_stamp(1700, 1000));
  EXPECT_TRUE(beats.add_stamp(1705, 0));  // in its tick
  EXPECT_FALSE(beats.add_stamp(1707.5, 0));
  EXPECT_TRUE(beats.add_stamp(2510, 5));
  EXPECT_EQ(beats.triggers(), (std::vector<double>{700, 1705, 2505}));
  Heartbeats nobody_wrote_them({});
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(nobody_wrote_them.add_stamp(5 * i, 0));
}

/// A message that reaches a pipeline.
using Message = std::variant<Acquisition, protocol::Waveform>;

/// A line of 4 samples that was acquired at `time_ms`.
Acquisition line(double time_ms, int step, cfloat value, int repetition = 0, int phase = 0) {
  Acquisition out = readout(1, std::vector<cfloat>(4, value));
  out.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(step);
  out.head.idx.repetition = static_cast<std::uint16_t>(repetition);
  out.head.idx.phase = static_cast<std::uint16_t>(phase);
  out.head.acquisition_time_stamp = static_cast<std::uint32_t>(std::lround(time_ms / 2.5));
  return out;
}

/// phases: as the header's limits say, 0 for no limit; steps: R.
protocol::Header lines_header(int lines, int phases = 1, int steps = 1) {
  HeaderSpec spec{.encoded = {4, lines, 1}};
  spec.limits = step_limit(lines) + (phases > 0 ? limit("phase", 0, phases - 1, 0) : "");
  if (steps > 1)
    spec.parallel = fmt::format(
        "<accelerationFactor><kspace_encoding_step_1>{}</kspace_encoding_step_1><kspace_encoding_step_2>1"
        "</kspace_encoding_step_2></accelerationFactor><calibrationMode>interleaved</calibrationMode>",
        steps);
  return header(spec);
}

std::string binning(const std::string& parameters, const std::string& before = "") {
  return yaml(before + "  - cardiac_binning: {trigger_channel: 0, " + parameters +
                  "}\n  - cartesian_kspace\n  - fft\n  - image: {component: complex}\n",
              "frame: {until: last_in_repetition}\n");
}

struct Binned {
  Outcome out;
  /// The lines that came, by (repetition, phase), as (step, value).
  std::map<std::pair<int, int>, std::multiset<std::pair<int, int>>> lines;
};

Binned run_binning(const std::string& text, const protocol::Header& measurement, std::vector<Message> messages,
                   const RunOptions& options, std::size_t batch = 1) {
  Binned result;
  numerics::Context compute(options.backend, test_resources());
  Pipeline pipeline(
      PipelinePlan::check(config::read_pipeline(text, "test.yaml")), compute,
      {[&](protocol::Image&& image, const ImageTimes& /*times*/) { result.out.images.push_back(std::move(image)); },
       [&](protocol::Level level, const std::string& said) { result.out.texts.emplace_back(level, said); }});
  pipeline.tap("cardiac_binning", [&](const Item& item) {
    const auto* readouts = std::get_if<Readouts>(&item);
    if (readouts == nullptr || readouts->heads.empty()) return;
    const auto values = elements(compute, readouts->data);
    const FrameKey key = readouts->frame->key;
    for (std::size_t i = 0; i < readouts->heads.size(); ++i)
      result.lines[{key.repetition, key.phase}].insert(
          {readouts->heads[i].idx.kspace_encode_step_1, static_cast<int>(values[4 * i].real())});
  });
  pipeline.start(measurement);
  std::vector<Acquisition> waiting;
  const auto push = [&] {
    if (!waiting.empty()) pipeline.push(std::exchange(waiting, {}));
  };
  for (Message& message : messages) {
    if (auto* acquisition = std::get_if<Acquisition>(&message)) {
      waiting.push_back(std::move(*acquisition));
      if (waiting.size() == batch) push();
    } else {
      push();
      pipeline.push(std::move(std::get<protocol::Waveform>(message)));
    }
  }
  push();
  pipeline.finish(options.end);
  pipeline.wait();
  return result;
}

std::string meta(const protocol::Image& image, const std::string& name) {
  const auto at = image.attributes.find("<name>" + name + "</name>");
  if (at == std::string::npos) return "(none)";
  const auto begin = image.attributes.find("<value>", at) + 7;
  return image.attributes.substr(begin, image.attributes.find('<', begin) - begin);
}

/// Four phases; beats of 200, 400 and 200 ms from 100 on.
std::vector<Message> scan_of_beats(const std::vector<Acquisition>& readouts, bool ecg_first = true) {
  std::vector<Message> out;
  for (auto& waveform : triggers({100, 300, 700, 900}, 1200)) out.emplace_back(std::move(waveform));
  out.insert(ecg_first ? out.end() : out.begin(), readouts.begin(), readouts.end());
  return out;
}

std::vector<Message> messages(const std::vector<Acquisition>& readouts) { return {readouts.begin(), readouts.end()}; }

using Lines = std::multiset<std::pair<int, int>>;
using CardiacBinningTest = OnEachBackend;

TEST_P(CardiacBinningTest, EachIntervalIsDividedByItsOwnLength) {
  const std::vector<Acquisition> readouts = {
      line(95, 0, 1),                                                            // before the first beat
      line(100, 0, 2),  line(147.5, 0, 3), line(150, 0, 4),  line(297.5, 0, 5),  // quarters of 50 ms
      line(300, 1, 6),  line(397.5, 1, 7), line(400, 1, 8),  line(697.5, 1, 9),  // of 100 ms
      line(900, 1, 10), line(1095, 0, 11), line(1100, 0, 12)};  // the last beat is taken as long as the median
  for (const bool ecg_first : {true, false}) {
    const auto binned =
        run_binning(binning("phases: 4, fill: none"), lines_header(2), scan_of_beats(readouts, ecg_first), here());
    EXPECT_EQ(binned.lines.at({0, 0}), (Lines{{0, 2}, {0, 3}, {1, 6}, {1, 7}, {1, 10}}));
    EXPECT_EQ(binned.lines.at({0, 1}), (Lines{{0, 4}, {1, 8}}));
    EXPECT_EQ(binned.lines.count({0, 2}), 0u);
    EXPECT_EQ(binned.lines.at({0, 3}), (Lines{{0, 5}, {1, 9}, {0, 11}}));
    ASSERT_EQ(binned.out.images.size(), 3u);
    EXPECT_EQ(binned.out.warned("some cardiac phases got no readouts"), 1);
    EXPECT_EQ(binned.out.said(protocol::Level::info, "belong to no regular heartbeat"), 1);
    const auto& last = binned.out.images[2];
    EXPECT_EQ(+last.head.phase, 3);
    EXPECT_EQ(meta(last, "ungated_readouts"), "2");
    EXPECT_EQ(meta(last, "heartbeats"), "4");
    EXPECT_EQ(meta(last, "mean_rr_ms"), "266.667");
    EXPECT_EQ(meta(last, "missing_lines"), "0");
    EXPECT_EQ(meta(binned.out.images[1], "echotrain_readouts"), "2");
  }
}

TEST_P(CardiacBinningTest, NotesOfGadgetsBeforeItStay) {
  const auto binned = run_binning(binning("phases: 4", "  - noise_adjust\n"), lines_header(1),
                                  scan_of_beats({line(110, 0, 2), line(310, 0, 6)}), here());
  EXPECT_EQ(meta(binned.out.images.at(0), "noise"), "none");
  EXPECT_EQ(meta(binned.out.images.at(0), "heartbeats"), "4");
}

TEST_P(CardiacBinningTest, RepeatedLinesAreAveraged) {
  // One line, k = 0 of y: the image is its transform. Two readouts of the same phase, 2 and 6.
  const auto binned =
      run_binning(binning("phases: 4"), lines_header(1), scan_of_beats({line(110, 0, 2), line(310, 0, 6)}), here());
  const auto values = pixels<cfloat>(binned.out.images.at(0));
  EXPECT_NEAR(std::abs(cdouble(values[2]) - 4.0), 0, 1e-6);
}

TEST_P(CardiacBinningTest, MissingLinesComeFromTheNearestPhaseAroundTheCycle) {
  const std::vector<Acquisition> readouts = {line(105, 0, 1), line(160, 0, 2),   // phases 0 and 1 of line 0
                                             line(320, 1, 3), line(690, 1, 4)};  // at 0.05 and 0.975 of line 1
  const auto binned =
      run_binning(binning("phases: 4, fill: nearest"), lines_header(2), scan_of_beats(readouts), here());
  EXPECT_EQ(binned.lines.at({0, 0}), (Lines{{0, 1}, {1, 3}}));
  EXPECT_EQ(binned.lines.at({0, 1}), (Lines{{0, 2}, {1, 3}}));
  EXPECT_EQ(binned.lines.at({0, 2}), (Lines{{0, 2}, {1, 4}}));
  EXPECT_EQ(binned.lines.at({0, 3}), (Lines{{0, 1}, {1, 4}}));  // 0.875 is nearer to 0.025 than to 0.3
  EXPECT_EQ(meta(binned.out.images.at(3), "borrowed_lines"), "1");
  EXPECT_EQ(meta(binned.out.images.at(2), "borrowed_lines"), "2");
}

TEST_P(CardiacBinningTest, MissingLinesAreInterpolatedAroundTheCycle) {
  const std::vector<Acquisition> readouts = {line(105, 0, 1000), line(160, 0, 2000),   // 0.025 and 0.3 of line 0
                                             line(320, 1, 3000), line(690, 1, 4000)};  // at 0.05 and 0.975 of line 1
  const auto binned = run_binning(binning("phases: 4"), lines_header(2), scan_of_beats(readouts), here());
  EXPECT_EQ(binned.lines.at({0, 0}), (Lines{{0, 1000}, {1, 3000}}));
  // 0.375 lies 0.325 after 0.05 and 0.6 before 0.975: (3000 * 0.6 + 4000 * 0.325) / 0.925 = 3351.35
  EXPECT_EQ(binned.lines.at({0, 1}), (Lines{{0, 2000}, {1, 3351}}));
  // 0.625 of line 0 lies 0.325 after 0.3 and 0.4 before 1.025: (2000 * 0.4 + 1000 * 0.325) / 0.725 = 1551.72
  // of line 1, (3000 * 0.35 + 4000 * 0.575) / 0.925 = 3621.62
  EXPECT_EQ(binned.lines.at({0, 2}), (Lines{{0, 1551}, {1, 3621}}));
  // 0.875 of line 0: (2000 * 0.15 + 1000 * 0.575) / 0.725 = 1206.90
  EXPECT_EQ(binned.lines.at({0, 3}), (Lines{{0, 1206}, {1, 4000}}));
  EXPECT_EQ(meta(binned.out.images.at(2), "borrowed_lines"), "2");
}

TEST_P(CardiacBinningTest, OfAnAcceleratedScanOnlyTheNearestLatticeIsFilled) {
  // R = 2, two beats of 200 ms in two phases: the first has lines 1 and 3, and once line 0; the second 0 and 2.
  const std::vector<Acquisition> readouts = {line(110, 1, 11), line(120, 3, 13), line(130, 0, 10),
                                             line(310, 1, 11), line(410, 0, 20), line(420, 2, 22)};
  std::vector<Message> messages;
  for (auto& waveform : triggers({100, 300, 500}, 600)) messages.emplace_back(std::move(waveform));
  messages.insert(messages.end(), readouts.begin(), readouts.end());
  const auto binned = run_binning(binning("phases: 2, fill: linear"), lines_header(4, 1, 2), messages, here());
  EXPECT_EQ(binned.lines.at({0, 0}), (Lines{{1, 11}, {3, 13}, {0, 10}, {1, 11}}));
  EXPECT_EQ(binned.lines.at({0, 1}), (Lines{{0, 20}, {2, 22}}));
  EXPECT_EQ(meta(binned.out.images.at(0), "borrowed_lines"), "0");
  EXPECT_EQ(meta(binned.out.images.at(0), "missing_lines"), "0");
  // Without line 2, the second phase's nearest lattice is that of the first, of which it has nothing; line 0 stays.
  messages.pop_back();
  const auto other = run_binning(binning("phases: 2, fill: linear"), lines_header(4, 1, 2), messages, here());
  EXPECT_EQ(other.lines.at({0, 1}), (Lines{{0, 20}, {1, 11}, {3, 13}}));
  EXPECT_EQ(meta(other.out.images.at(1), "borrowed_lines"), "2");
}

std::string by_index() {
  return yaml(
      "  - cardiac_binning: {beats: index}\n  - cartesian_kspace: {calibration: none}\n  - fft\n"
      "  - image: {component: complex}\n");
}

TEST_P(CardiacBinningTest, PhasesThatTheSenderCountsWaitOnlyForWhatTheyLack) {
  // Three phases, R = 2, lines 0 and 2 of each. The second lacks line 2; the others do not wait for it.
  std::vector<Acquisition> readouts;
  for (int phase : {0, 1, 2})
    for (int y : {0, 2}) readouts.push_back(line(0, y, static_cast<float>(1000 * phase + y), 0, phase));
  readouts.erase(readouts.begin() + 3);
  set_flag(readouts.back(), kLastInRepetition);
  const std::string text = by_index();
  for (const std::size_t batch : {1u, 100u}) {
    const auto binned = run_binning(text, lines_header(4, 3, 2), messages(readouts), here(), batch);
    ASSERT_EQ(binned.out.images.size(), 3u);
    EXPECT_EQ(+binned.out.images[0].head.phase, 0);
    EXPECT_EQ(+binned.out.images[1].head.phase, 2);
    EXPECT_EQ(+binned.out.images[2].head.phase, 1);
    EXPECT_EQ(binned.lines.at({0, 0}), (Lines{{0, 0}, {2, 2}}));
    EXPECT_EQ(binned.lines.at({0, 1}), (Lines{{0, 1000}, {2, 1002}}));  // halfway between 2 and 2002
    EXPECT_EQ(meta(binned.out.images[2], "borrowed_lines"), "1");
    EXPECT_EQ(meta(binned.out.images[0], "heartbeats"), "(none)");
  }
  EXPECT_NE(client_error([&] {
              run_binning(text, lines_header(4, 2, 2), messages(readouts), here());
            }).find("idx.phase of a readout is 2, but the header's limits announce 2 phases"),
            std::string::npos);
}

/// Lines 0 and 2 of each phase; values `more` + 10 phase + line.
std::vector<Acquisition> counted_phases(int phases, int more = 0) {
  std::vector<Acquisition> out;
  for (int phase = 0; phase < phases; ++phase) {
    for (int y : {0, 2}) out.push_back(line(0, y, static_cast<float>(more + 10 * phase + y), 0, phase));
    set_flag(out.back(), kLastInSlice);
  }
  return out;
}

/// A scan of 10 announced phases brings 4, and brings them again without counting the repetition.
TEST_P(CardiacBinningTest, APhaseThatComesAgainBeginsAnotherHeartbeat) {
  std::vector<Acquisition> readouts = counted_phases(4);
  for (auto& again : counted_phases(4, 100)) readouts.push_back(std::move(again));
  for (const std::size_t batch : {1u, 100u}) {
    const auto binned = run_binning(by_index(), lines_header(4, 10, 2), messages(readouts), here(), batch);
    ASSERT_EQ(binned.out.images.size(), 8u);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(+binned.out.images[i].head.phase, static_cast<int>(i % 4));
    EXPECT_EQ(binned.lines.at({0, 3}), (Lines{{0, 30}, {2, 32}, {0, 130}, {2, 132}}));
  }
}

TEST_P(CardiacBinningTest, WithoutALimitThereAreAsManyPhasesAsCome) {
  std::vector<Acquisition> readouts = counted_phases(20);
  readouts.erase(readouts.begin() + 1);  // line 2 of phase 0: halfway between phases 19 and 1, around the cycle
  const auto binned = run_binning(by_index(), lines_header(4, 0, 2), messages(readouts), here());
  ASSERT_EQ(binned.out.images.size(), 20u);
  EXPECT_EQ(binned.lines.at({0, 0}), (Lines{{0, 0}, {2, (12 + 192) / 2}}));
  EXPECT_EQ(binned.lines.at({0, 19}), (Lines{{0, 190}, {2, 192}}));
  for (const int announced : {0, 60000}) {
    readouts.back().head.idx.phase = 1000;
    EXPECT_NE(client_error([&] {
                run_binning(by_index(), lines_header(4, announced, 2), messages(readouts), here());
              }).find("idx.phase of a readout is 1000; at most 1000 phases are sorted"),
              std::string::npos);
  }
}

TEST_P(CardiacBinningTest, BeatsOfUnusualLengthAreLeftOut) {
  std::vector<Message> messages;
  for (auto& waveform : triggers({100, 300, 500, 700, 1100, 1300}, 1500)) messages.emplace_back(std::move(waveform));
  for (const double time : {110.0, 910.0, 1110.0}) messages.emplace_back(line(time, 0, static_cast<float>(time)));
  const auto kept = [&](const std::string& reject) {
    return run_binning(binning("phases: 2, fill: none, reject: " + reject), lines_header(1), messages, here()).lines;
  };
  EXPECT_EQ(kept("0.5").at({0, 0}), (Lines{{0, 110}, {0, 1110}}));  // 400 ms after three of 200 is a missed trigger
  EXPECT_EQ(kept("0.5").count({0, 1}), 0u);
  EXPECT_EQ(kept("0").at({0, 1}), (Lines{{0, 910}}));
}

TEST_P(CardiacBinningTest, BeatsThatAreLeftOutAreToldOneByOne) {
  std::vector<Message> messages;
  for (auto& waveform : triggers({100, 300, 500, 700, 1100, 1300, 1400, 1600}, 1800))
    messages.emplace_back(std::move(waveform));
  for (const double time : {110.0, 710.0, 910.0, 1110.0, 1310.0, 1410.0}) messages.emplace_back(line(time, 0, 1));
  const auto binned = run_binning(binning("phases: 1, reject: 0.4"), lines_header(1), messages, here());
  const std::string first =
                        "beat 4 (600 ms after the first) is left out: it lasts 400 ms, and 200 ms are usual; "
                        "readouts of slice 0: 2",
                    second =
                        "beat 6 (1200 ms after the first) is left out: it lasts 100 ms, and 200 ms are usual; "
                        "readouts of slice 0: 1";
  for (const std::string& text : {first, second}) {
    EXPECT_EQ(binned.out.said(protocol::Level::info, text), 1);
    EXPECT_NE(binned.out.images.at(0).attributes.find(text), std::string::npos);
  }
  EXPECT_EQ(meta(binned.out.images.at(0), "rejected_beats"), first);
  EXPECT_EQ(meta(binned.out.images.at(0), "ungated_readouts"), "3");
}

TEST_P(CardiacBinningTest, WhenAndHowMessagesArriveDoesNotShow) {
  std::mt19937 random(8);
  std::vector<Acquisition> readouts;
  for (int i = 0; i < 90; ++i) {
    Acquisition a = readout(2, noise(8, random));
    a.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(i / 10 % 3);
    a.head.idx.repetition = static_cast<std::uint16_t>(i / 45);
    a.head.acquisition_time_stamp = static_cast<std::uint32_t>(40 + 4 * i);
    readouts.push_back(a);
  }
  set_flag(readouts[44], kLastInRepetition);
  set_flag(readouts[89], kLastInMeasurement);
  const auto text = binning("phases: 3");
  const auto images = [&](int late, std::size_t batch) {  // each ECG message `late` readouts late
    std::vector<Message> messages;
    auto waves = triggers({100, 300, 480, 700, 900}, 1000);
    std::size_t next = 0;
    for (std::size_t i = 0; i < readouts.size(); ++i) {
      messages.emplace_back(readouts[i]);
      while (next < waves.size() && waves[next].head.time_stamp + 4u * static_cast<unsigned>(late) <= 40 + 4 * i)
        messages.emplace_back(waves[next++]);
    }
    while (next < waves.size()) messages.emplace_back(waves[next++]);
    std::vector<std::vector<cfloat>> out;
    for (const auto& image : run_binning(text, lines_header(3), std::move(messages), here(), batch).out.images)
      out.push_back(pixels<cfloat>(image));
    return out;
  };
  const auto first = images(0, 1);
  EXPECT_EQ(first.size(), 6u);
  EXPECT_EQ(images(30, 1), first);
  EXPECT_EQ(images(1000, 7), first);
  EXPECT_EQ(images(5, 100), first);
}

TEST_P(CardiacBinningTest, CountedPhasesOfTheSenderAreOneGroup) {
  // Without a limit of one phase the repetition is whole when the next begins.
  std::vector<Acquisition> readouts;
  for (int repetition : {0, 1})
    for (int i = 0; i < 4; ++i)
      readouts.push_back(
          line(110 + 400 * repetition + 50 * i, i % 2, static_cast<float>(10 * repetition + i), repetition, i));
  set_flag(readouts[3], kLastInRepetition);
  set_flag(readouts[7], kLastInRepetition);
  for (const std::size_t batch : {1u, 100u}) {
    std::vector<Message> messages;
    for (auto& waveform : triggers({100, 300, 500, 700}, 1000)) messages.emplace_back(std::move(waveform));
    messages.insert(messages.end(), readouts.begin(), readouts.end());
    const auto binned = run_binning(binning("phases: 2, fill: none"), lines_header(2, 0), messages, here(), batch);
    EXPECT_EQ(binned.out.images.size(), 4u);
    EXPECT_EQ(binned.lines.at({0, 0}), (Lines{{0, 0}, {1, 1}}));
    EXPECT_EQ(binned.lines.at({0, 1}), (Lines{{0, 2}, {1, 3}}));
    EXPECT_EQ(binned.lines.at({1, 1}), (Lines{{0, 12}, {1, 13}}));
  }
}

TEST_P(CardiacBinningTest, AScanWithoutHeartbeatsIsRefused) {
  const auto error = [&](std::vector<Message> messages) {
    return client_error([&] { run_binning(binning("phases: 4"), lines_header(1), std::move(messages), here()); });
  };
  EXPECT_NE(error({line(100, 0, 1)}).find("came without one"), std::string::npos);
  EXPECT_NE(error({line(100, 0, 1), triggers({50}, 100)[0]}).find("found 1 heartbeats in 100 samples"),
            std::string::npos);
}

TEST_P(CardiacBinningTest, ABrokenOffScanGivesNoImages) {
  RunOptions options = here();
  options.end = End::truncated;
  const auto binned =
      run_binning(binning("phases: 4"), lines_header(1), scan_of_beats({line(110, 0, 1), line(310, 0, 2)}), options);
  EXPECT_TRUE(binned.out.images.empty());
}

/// `line` whose stamps say that the R wave was `since_r_ms` before and the last breath began `since_breath_ms` before.
Acquisition stamped(double time_ms, double since_r_ms, int step, cfloat value, double since_breath_ms = 0) {
  Acquisition out = line(time_ms, step, value);
  out.head.physiology_time_stamp[0] = static_cast<std::uint32_t>(std::lround(since_r_ms / 2.5));
  out.head.physiology_time_stamp[1] = static_cast<std::uint32_t>(std::lround(since_breath_ms / 2.5));
  return out;
}

TEST_P(CardiacBinningTest, StampsTakeTheEcgsPlace) {
  // R waves at 100, 300, 700 and 900 ms.
  const auto readouts =
      messages({stamped(110, 10, 0, 1), stamped(250, 150, 0, 2), stamped(310, 10, 1, 3), stamped(610, 310, 1, 4),
                stamped(705, 5, 0, 5), stamped(890, 190, 1, 6), stamped(905, 5, 1, 7), stamped(1300, 400, 0, 8)});
  for (const std::size_t batch : {1u, 3u, 100u}) {
    const auto binned =
        run_binning(binning("phases: 4, fill: none, beats: stamps"), lines_header(2), readouts, here(), batch);
    EXPECT_EQ(binned.lines.at({0, 0}), (Lines{{0, 1}, {1, 3}, {0, 5}, {1, 7}}));
    EXPECT_EQ(binned.lines.at({0, 3}), (Lines{{0, 2}, {1, 4}, {1, 6}}));
    ASSERT_EQ(binned.out.images.size(), 2u);
    EXPECT_EQ(meta(binned.out.images[0], "heartbeats"), "4");
    EXPECT_EQ(meta(binned.out.images[0], "mean_rr_ms"), "266.667");
    EXPECT_EQ(meta(binned.out.images[0], "ungated_readouts"), "1");  // the last, far behind the last beat
    EXPECT_EQ(meta(binned.out.images[0], "breathing_readouts"), "(none)");
  }
}

TEST_P(CardiacBinningTest, SystoleKeepsItsLengthWhereTheHeartBeatsFaster) {
  // Weissler, 1968: 546 - 2.1 times the rate. 1000 ms are 60 a minute and 420 ms of systole, 0.42 of the cycle; 600 ms
  // are 100 a minute and 336 ms, of which 0.56 of the interval.
  const auto readouts = messages({stamped(0, 2.5, 0, 1), stamped(1000, 2.5, 0, 2), stamped(1325, 327.5, 0, 3),
                                  stamped(1347.5, 350, 0, 4), stamped(1600, 2.5, 0, 5)});
  const auto linear = run_binning(binning("phases: 50, fill: none, beats: stamps"), lines_header(1), readouts, here());
  const auto weissler = run_binning(binning("phases: 50, fill: none, beats: stamps, systole: weissler"),
                                    lines_header(1), readouts, here());
  // 327.5 of 336 ms of systole: 0.42 * 0.9747 = 0.4094; 350 is 14 of 264 ms of diastole: 0.42 + 0.58 * 0.0530 = 0.4508.
  EXPECT_EQ(weissler.lines.at({0, 20}), (Lines{{0, 3}}));
  EXPECT_EQ(weissler.lines.at({0, 22}), (Lines{{0, 4}}));
  EXPECT_EQ(linear.lines.at({0, 27}), (Lines{{0, 3}}));  // 327.5 / 600 = 0.5458
  EXPECT_EQ(linear.lines.at({0, 29}), (Lines{{0, 4}}));
}

TEST_P(CardiacBinningTest, OtherStatesOfBreathingAreLeftOut) {
  const auto readouts =
      messages({stamped(110, 10, 0, 1, 500), stamped(120, 20, 1, 2, 997.5), stamped(130, 30, 0, 3, 1000),
                stamped(140, 40, 1, 4, 2997.5), stamped(150, 50, 0, 5, 3000), stamped(305, 5, 0, 6, 1500)});
  const auto binned = run_binning(binning("phases: 1, fill: none, beats: stamps, respiratory: stamp, "
                                          "respiratory_from_ms: 1000, respiratory_to_ms: 3000"),
                                  lines_header(2), readouts, here());
  EXPECT_EQ(binned.lines.at({0, 0}), (Lines{{0, 3}, {1, 4}, {0, 6}}));
  EXPECT_EQ(meta(binned.out.images.at(0), "breathing_readouts"), "3");
  EXPECT_EQ(meta(binned.out.images.at(0), "ungated_readouts"), "3");
  EXPECT_EQ(binned.out.said(protocol::Level::info, "of another state of breathing"), 1);
}

TEST_P(CardiacBinningTest, StampsThatCannotBeAreRefused) {
  const auto error = [&](const std::string& parameters, const std::vector<Acquisition>& readouts) {
    return client_error([&] {
      run_binning(binning("phases: 4, beats: stamps, " + parameters), lines_header(1), messages(readouts), here());
    });
  };
  EXPECT_NE(
      error("fill: none", {line(100, 0, 1), line(900, 0, 1)}).find("physiology_time_stamp[0] is 0 in all 2 readouts"),
      std::string::npos);
  EXPECT_NE(error("fill: none", {stamped(0, 10, 0, 1), stamped(0, 5, 0, 1), stamped(0, 2.5, 0, 1), stamped(0, 0, 0, 1)})
                .find("acquisition_time_stamp stays 0"),
            std::string::npos);
  EXPECT_NE(error("stamp: 1, respiratory: stamp", {}).find("are both 1"), std::string::npos);
  EXPECT_NE(error("respiratory_from_ms: 5, respiratory_to_ms: 5", {}).find("no breath lies between"),
            std::string::npos);
}

ECHOTRAIN_ON_BACKENDS(CardiacBinningTest);

}  // namespace
}  // namespace echotrain::testing
