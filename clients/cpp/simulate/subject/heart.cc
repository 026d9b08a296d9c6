#include "clients/cpp/simulate/subject/heart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "clients/cpp/simulate/subject/coils.h"

namespace echotrain::client {
namespace {

constexpr int kSamples = 50;  // per message; at 1 kHz a whole number of ticks
constexpr double kBaseline = 2048, kNoise = 10;
constexpr std::array<double, 4> kLeads = {1, 0.7, -0.5, 0.3};

struct Wave {
  double height, place, width;  // place and width (one sigma) as shares of the mean interval
};
constexpr Wave kWaves[] = {
    {100, -0.16, 0.025}, {-80, -0.03, 0.008}, {1000, 0, 0.011}, {-150, 0.03, 0.008}, {250, 0.3, 0.04}};

double systole_ms(double interval_ms) {
  const double beats_a_minute = 60000 / interval_ms;
  return std::clamp(546 - 2.1 * beats_a_minute, 0.2 * interval_ms, 0.8 * interval_ms);
}

}  // namespace

Heart::Heart(double rate, double jitter, std::uint64_t seed, Systole systole)
    : rate_(rate), jitter_(jitter), seed_(seed), systole_(systole) {
  beats_.push_back(0.4 * mean_interval_ms());
}

Heart::Heart(std::vector<double> beats_ms, std::uint64_t seed, Systole systole)
    : rate_(60000 * static_cast<double>(beats_ms.size() - 1) / (beats_ms.back() - beats_ms.front())),
      jitter_(0),
      seed_(seed),
      systole_(systole),
      told_(true),
      beats_(std::move(beats_ms)) {}

double Heart::beat_ms(std::size_t i) {
  while (beats_.size() <= i) {
    NoiseSource random(seed_ ^ (0x9e3779b97f4a7c15ull * beats_.size()), 1, 1,
                       false);  // the same for each beat in any order of calls
    const double deviate = std::clamp(random.normal(), -3.0, 3.0);
    beats_.push_back(beats_.back() + mean_interval_ms() * (1 + jitter_ * deviate));
  }
  return beats_[i];
}

std::size_t Heart::beats_until(double ms) {
  while (beats_.back() <= ms) beat_ms(beats_.size());
  return static_cast<std::size_t>(std::upper_bound(beats_.begin(), beats_.end(), ms) - beats_.begin());
}

double Heart::phase(double ms) {
  const std::size_t begun = beats_until(ms);
  if (begun == 0) return 1 - (beat_ms(0) - ms) / mean_interval_ms();
  const double begin = beat_ms(begun - 1), interval = beat_ms(begun) - begin;
  if (systole_ == Systole::linear) return (ms - begin) / interval;
  const double first = beat_ms(1) - beat_ms(0), share = systole_ms(first) / first, systole = systole_ms(interval);
  return ms - begin < systole ? share * (ms - begin) / systole
                              : share + (1 - share) * (ms - begin - systole) / (interval - systole);
}

double Heart::strength(double ms) {
  constexpr double kFilled = 0.8;
  const std::size_t begun = beats_until(ms);
  if (!told_ || begun < 2) return 1;
  return std::min(1.0, (beat_ms(begun - 1) - beat_ms(begun - 2)) / (kFilled * mean_interval_ms()));
}

std::vector<protocol::Waveform> Heart::ecg(double until_ms) {
  NoiseSource random(seed_ + 1, kNoise, 1, false);
  std::vector<protocol::Waveform> messages;
  for (int number = 0; number * kSamples < until_ms; ++number) {
    const double begin = number * kSamples;
    constexpr std::size_t channels = kLeads.size() + 1;
    std::vector<std::uint32_t> values(channels * kSamples);
    for (int s = 0; s < kSamples; ++s) {
      const double time = begin + s;
      const std::size_t begun = beats_until(time);
      double height = 0;
      // Adds the waves of the current beat and those that the next one has before its R wave.
      for (std::size_t b = begun > 0 ? begun - 1 : 0; b <= begun; ++b)
        for (const Wave& wave : kWaves) {
          const double x = ((time - beat_ms(b)) / mean_interval_ms() - wave.place) / wave.width;
          height += wave.height * std::exp(-0.5 * x * x);
        }
      for (std::size_t lead = 0; lead < kLeads.size(); ++lead)
        values[lead * kSamples + s] =
            static_cast<std::uint32_t>(std::lround(kBaseline + kLeads[lead] * height + kNoise * random.normal()));
      // Marks the first sample at or after the beat.
      values[kTriggerChannel * kSamples + s] = begun > 0 && time - beat_ms(begun - 1) < 1 ? 1 : 0;
    }
    protocol::Waveform waveform;
    waveform.head.version = 1;
    waveform.head.measurement_uid = 1;
    waveform.head.time_stamp = static_cast<std::uint32_t>(std::lround(begin / kTickMs));
    waveform.head.number_of_samples = kSamples;
    waveform.head.channels = channels;
    waveform.head.sample_time_us = 1000;
    waveform.head.waveform_id = 0;
    waveform.data = protocol::Payload::take(std::move(values));
    messages.push_back(std::move(waveform));
  }
  return messages;
}

}  // namespace echotrain::client
