// Channels that are left out.
#include "tests/gadgets/scan.h"

namespace echotrain::testing {
namespace {

constexpr std::int64_t kLive = 5;

/// A line of five channels of noise; the strengths of the channels are given.
Acquisition live_line(std::uint16_t step, const std::vector<float>& strengths, std::mt19937& random) {
  auto data = noise(kLive * 8, random);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] *= strengths[i / 8];
  Acquisition out = readout(kLive, std::move(data));
  out.head.idx.kspace_encode_step_1 = step;
  return out;
}

std::string without(const std::string& options, const std::string& before = "") {
  return yaml(before + "  - channels: " + options +
              "\n  - cartesian_kspace\n  - fft\n  - image: {component: complex}\n");
}

protocol::Header eight_lines() { return header({.encoded = {8, 8, 1}, .limits = step_limit(8)}); }

/// Returns the output of `channels`: for each kind that comes, [channel, sample] of its first readout.
std::map<protocol::ReadoutKind, std::vector<cfloat>> first_readouts(const std::string& options,
                                                                    std::vector<Acquisition> scan, Backend backend,
                                                                    std::vector<std::string>* texts = nullptr) {
  std::map<protocol::ReadoutKind, std::vector<cfloat>> out;
  RunOptions o{.backend = backend, .tap = "channels"};
  o.on_item = [&](const Item& item, numerics::Context& compute) {
    const auto& r = std::get<Readouts>(item);
    if (r.heads.empty()) return;
    const auto all = r.host_data ? std::vector<cfloat>(r.host_data.data(), r.host_data.data() + r.host_data.size())
                                 : elements(compute, r.data);
    const auto each = static_cast<std::ptrdiff_t>(all.size() / r.heads.size());
    EXPECT_EQ(static_cast<std::ptrdiff_t>(r.heads.front().active_channels) * r.heads.front().number_of_samples, each);
    out.try_emplace(r.kind, all.begin(), all.begin() + each);
  };
  const Outcome outcome = run(without(options), eight_lines(), std::move(scan), o);
  if (texts != nullptr)
    for (const auto& [level, text] : outcome.texts) texts->push_back(text);
  return out;
}

/// These channels of a readout of eight samples.
std::vector<cfloat> of_channels(const Acquisition& line, const std::vector<std::size_t>& channels) {
  const auto all = pixels<cfloat>({.pixels = line.data});
  std::vector<cfloat> out;
  for (const std::size_t c : channels)
    out.insert(out.end(), all.begin() + static_cast<std::ptrdiff_t>(8 * c),
               all.begin() + static_cast<std::ptrdiff_t>(8 * c + 8));
  return out;
}

using ChannelsTest = OnEachBackend;
using protocol::ReadoutKind;

TEST_P(ChannelsTest, DeadAndNamedOnesAreLeftOutEverywhere) {
  std::mt19937 random(1);
  auto noisy = live_line(0, {1, 1, 1e-4f, 2, 1}, random);
  set_flag(noisy, kNoise);
  auto navigator = live_line(0, {1, 1, 1, 1, 1}, random);
  set_flag(navigator, kNavigator);
  const auto line = live_line(3, {1, 1, 1, 1, 1}, random);
  std::vector<std::string> texts;
  auto got = first_readouts("{drop: \"4\"}", {noisy, navigator, line}, GetParam(), &texts);
  EXPECT_EQ(got.at(ReadoutKind::noise), of_channels(noisy, {0, 1, 3}));
  EXPECT_EQ(got.at(ReadoutKind::navigator), of_channels(navigator, {0, 1, 3}));
  EXPECT_EQ(got.at(ReadoutKind::imaging), of_channels(line, {0, 1, 3}));
  EXPECT_EQ(std::count(texts.begin(), texts.end(), "channels: channel 2 is dead and is left out"), 1);

  got = first_readouts("{drop_dead: false, drop: \"1, 3\"}", {noisy, line}, GetParam());
  EXPECT_EQ(got.at(ReadoutKind::imaging), of_channels(line, {0, 2, 4}));
  got = first_readouts("{dead_below: 0.00001}", {noisy, line}, GetParam());
  EXPECT_EQ(got.at(ReadoutKind::imaging), of_channels(line, {0, 1, 2, 3, 4}));
}

TEST_P(ChannelsTest, TheFirstReadoutDecidesHoweverTheyCome) {
  std::mt19937 random(2);
  std::vector<Acquisition> scan;
  for (std::uint16_t step = 0; step < 8; ++step)
    scan.push_back(live_line(step, step == 0 ? std::vector<float>{1, 0, 1, 1, 1} : std::vector<float>(5, 1), random));
  const auto whole = run(without("{}"), eight_lines(), scan, here());
  RunOptions o = here();
  o.split = [](std::size_t) { return std::size_t{1}; };
  const auto single = run(without("{}"), eight_lines(), scan, o);
  ASSERT_EQ(whole.images.size(), 1u);
  ASSERT_EQ(single.images.size(), 1u);
  EXPECT_EQ(whole.images[0].head.channels, 4);
  EXPECT_EQ(pixels<cfloat>(whole.images[0]), pixels<cfloat>(single.images[0]));
  const std::string& meta = whole.images[0].attributes;
  const std::size_t at = meta.find("<name>channels_left_out</name>");
  ASSERT_NE(at, std::string::npos);
  EXPECT_EQ(meta.find("<value>1</value>", at), meta.find("<value>", at));
}

TEST_P(ChannelsTest, ADeadChannelNoLongerKeepsNoiseFromBeingWhitened) {
  std::mt19937 random(3);
  const std::vector<float> strengths{1, 1, 0, 2, 1};
  std::vector<Acquisition> scan;
  for (int i = 0; i < 20; ++i) {
    scan.push_back(live_line(0, strengths, random));
    set_flag(scan.back(), kNoise);
  }
  scan.push_back(live_line(3, strengths, random));
  const std::string rest = "  - noise_adjust\n  - cartesian_kspace\n  - fft\n  - image\n";
  EXPECT_NE(client_error([&] { run(yaml(rest), eight_lines(), scan, here()); }).find("no usable covariance"),
            std::string::npos);
  EXPECT_EQ(run(yaml("  - channels\n" + rest), eight_lines(), scan, here()).images.at(0).head.channels, 4);
}

TEST_P(ChannelsTest, WrongNamesAreSaid) {
  std::mt19937 random(4);
  const std::vector<Acquisition> scan{live_line(0, {1, 1, 1, 1, 1}, random)};
  const auto error = [&](const std::string& options) {
    return client_error([&] { run(without(options), eight_lines(), scan, here()); });
  };
  EXPECT_EQ(error("{drop: \"5\"}"), "channels: drop names channel 5, but readouts have 5");
  EXPECT_EQ(error("{drop: \"1, two\"}"),
            "channels: drop names 'two', which is neither a number nor a label of a channel");
  EXPECT_EQ(error("{drop: \"0 1 2 3 4\"}"), "channels: none of 5 channels is left");
}

TEST_P(ChannelsTest, LabelsOfTheHeaderNameChannels) {
  std::mt19937 random(5);
  auto h = eight_lines();
  h.coil_labels = {"Body1", "Body2", "Spine3", "Spine4", "Head"};
  const auto dropped = [&](const std::string& names) {
    const auto out = run(without("{drop: \"" + names + "\"}"), h, {live_line(0, {1, 1, 1, 1, 1}, random)}, here());
    const std::string& meta = out.images.at(0).attributes;
    const std::size_t at = meta.find("<value>", meta.find("<name>channels_left_out</name>")) + 7;
    return meta.substr(at, meta.find('<', at) - at);
  };
  EXPECT_EQ(dropped("Spine3"), "2");
  EXPECT_EQ(dropped("Head, 1, Body1"), "0 1 4");
}

ECHOTRAIN_ON_BACKENDS(ChannelsTest);

}  // namespace
}  // namespace echotrain::testing
