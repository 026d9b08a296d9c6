// The readouts that an input chooses are plain ones, among them odd ones, for a header and a style.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "protocol/data/header.h"
#include "protocol/data/layout.h"
#include "protocol/data/messages.h"
#include "tests/fuzz/semantic/choices.h"
#include "tests/fuzz/semantic/headers.h"

namespace echotrain::fuzz {

/// Makes the readouts of a scan, which are alike unless one is odd.
class ReadoutMaker {
 public:
  ReadoutMaker(Source& source, const protocol::Header& header, Style style, config::TrajectoryUnit unit)
      : source_(source), header_(header), style_(std::move(style)), unit_(unit) {
    const protocol::Encoding& encoding = header.encodings.front();
    channels_ = one_of(source, {1u, 2u, 3u, 4u, 8u, 1u, 2u, 33u});
    samples_ = std::min(one_of(source, {encoding.encoded.matrix[0], encoding.encoded.matrix[0],
                                        2 * encoding.encoded.matrix[0], odd_size(source, 1021)}),
                        8192u);
    value_ = source.number<std::uint8_t>() % 4 == 1 ? source.number<std::uint8_t>() : 0;
    path_ = source.number<std::uint8_t>() % 4 == 1 ? source.number<std::uint8_t>() : 0;
    last_flag_ = one_of(source, {8, 14, 8, 25, 2, 6, 10, 0});
    descending_ = source.one_in(4);
    lines_ =
        count_of(encoding.kspace_encoding_step_1, style_.axes == 0 || style_.echoes ? encoding.encoded.matrix[1] : 24);
    planes_ = style_.volume ? count_of(encoding.kspace_encoding_step_2, encoding.encoded.matrix[2]) : 1;
    for (const auto& one : {encoding.slice, encoding.contrast, encoding.phase, encoding.set})
      parts_.push_back(one ? std::min<std::uint32_t>(one->maximum - one->minimum + 1u, 4) : 1);
  }

  /// Readouts of one frame, in order.
  std::uint32_t per_frame() const { return std::clamp(lines_ * planes_, 1u, 160u); }

  /// The next plain readout; its samples and trajectory are still to be filled in.
  protocol::Acquisition next() {
    const protocol::Encoding& encoding = header_.encodings.front();
    const std::uint32_t in_frame = count_ % per_frame(), frame = count_ / per_frame();
    protocol::Acquisition out;
    auto& head = out.head;
    head.version = 1;
    head.scan_counter = ++count_;
    head.acquisition_time_stamp = 10 * count_;
    head.active_channels = head.available_channels = static_cast<std::uint16_t>(channels_);
    head.number_of_samples = static_cast<std::uint16_t>(samples_);
    head.center_sample = static_cast<std::uint16_t>(samples_ / 2);
    head.trajectory_dimensions = static_cast<std::uint16_t>(style_.axes);
    head.sample_time_us = 0.05f;
    head.read_dir[0] = head.phase_dir[1] = head.slice_dir[2] = 1;
    const float echoes[] = {static_cast<float>(in_frame), 1, 0.3f, 1540, 5, 0};
    std::copy(std::begin(echoes), std::end(echoes), head.user_float);
    const std::uint32_t line = descending_ ? lines_ - 1 - in_frame % lines_ : in_frame % lines_;
    head.idx.kspace_encode_step_1 = first(encoding.kspace_encoding_step_1, line);
    head.idx.kspace_encode_step_2 = first(encoding.kspace_encoding_step_2, in_frame / lines_);
    std::uint32_t rest = frame;
    const auto part = [&](const std::optional<protocol::CounterLimit>& limit, std::uint32_t n) {
      const std::uint32_t value = rest % n;
      rest /= n;
      return first(limit, value);
    };
    head.idx.slice = part(encoding.slice, parts_[0]);
    head.idx.contrast = part(encoding.contrast, parts_[1]);
    head.idx.phase = part(encoding.phase, parts_[2]);
    head.idx.set = part(encoding.set, parts_[3]);
    head.position[2] = static_cast<float>(5 * head.idx.slice);
    head.idx.repetition = first(
        encoding.repetition,
        encoding.repetition ? std::min<std::uint32_t>(rest, encoding.repetition->maximum - encoding.repetition->minimum)
                            : rest);
    head.idx.average = first(encoding.average, 0);
    head.idx.segment = first(encoding.segment, 0);
    if (in_frame + 1 == per_frame() && last_flag_ > 0) head.flags = protocol::acquisition_flag(last_flag_);
    return out;
  }

  /// Changes one thing.
  void make_odd(protocol::Acquisition& readout) {
    auto& head = readout.head;
    const std::uint16_t any = source_.number<std::uint16_t>();
    std::uint16_t* const counters[] = {&counters_.kspace_encode_step_1,
                                       &counters_.kspace_encode_step_2,
                                       &counters_.average,
                                       &counters_.slice,
                                       &counters_.contrast,
                                       &counters_.phase,
                                       &counters_.repetition,
                                       &counters_.set,
                                       &counters_.segment};
    float* const directions[] = {&directions_[0], &directions_[3], &directions_[6], &directions_[9]};
    switch (source_.number<std::uint8_t>() % 20) {
      case 0:
        head.flags = source_.number<std::uint64_t>() & ~protocol::kCompressionFlags;
        break;
      case 1:
        head.flags = (head.flags ^ (1ull << any % 52)) & ~protocol::kCompressionFlags;
        break;
      case 2:
        head.number_of_samples = static_cast<std::uint16_t>(odd_size(source_, 8191) - 1);
        break;
      case 3:
        head.active_channels = static_cast<std::uint16_t>(any % 5);
        break;
      case 4:
        head.discard_pre = static_cast<std::uint16_t>(any % (samples_ + 2));
        break;
      case 5:
        head.discard_post = static_cast<std::uint16_t>(any % (samples_ + 2));
        break;
      case 6:
        head.center_sample = static_cast<std::uint16_t>(any % (samples_ + 2));
        break;
      case 7:
        head.encoding_space_ref = static_cast<std::uint16_t>(any % (header_.encodings.size() + 1));
        break;
      case 8:
      case 9:
        counters_ = head.idx;
        *counters[any % 9] =
            source_.one_in(4) ? source_.number<std::uint16_t>() : static_cast<std::uint16_t>(source_.below(5));
        head.idx = counters_;
        break;
      case 10:
        head.trajectory_dimensions = static_cast<std::uint16_t>(any % 4);
        break;
      case 11:
        head.version = 0;
        break;
      case 12:
        for (int i = 0; i < 3; ++i) directions[any % 4][i] = odd_float(source_);
        std::copy_n(&directions_[0], 3, head.position);
        std::copy_n(&directions_[3], 3, head.read_dir);
        std::copy_n(&directions_[6], 3, head.phase_dir);
        std::copy_n(&directions_[9], 3, head.slice_dir);
        break;
      case 13:
        head.acquisition_time_stamp = source_.number<std::uint32_t>();
        break;
      case 14:
        head.user_float[any % 8] = odd_float(source_);
        break;
      case 15:  // noise, calibration, reverse, navigator, phase correction and the like
        head.flags = protocol::acquisition_flag(19 + any % 13);
        break;
      case 16:
        value_ = static_cast<std::uint8_t>(any);
        break;
      case 17:
        path_ = static_cast<std::uint8_t>(any);
        break;
      case 18:
        head.sample_time_us = odd_float(source_);
        break;
      default:
        spike_ = odd_float(source_);
    }
  }

  void fill(protocol::Acquisition& readout) {
    const std::size_t samples = readout.head.number_of_samples, channels = readout.head.active_channels;
    std::vector<float> values(2 * samples * channels), path(samples * readout.head.trajectory_dimensions);
    fill_values(values);
    const bool stack = style_.volume && style_.axes == 2;  // the partitions of a spoke have one angle
    const std::uint32_t spoke = stack ? readout.head.idx.kspace_encode_step_1 : readout.head.scan_counter;
    if (!path.empty()) fill_path(path, samples, readout.head.trajectory_dimensions, spoke);
    readout.data = protocol::Payload::take(std::move(values));
    readout.trajectory = protocol::Payload::take(std::move(path));
  }

 private:
  static std::uint32_t count_of(const std::optional<protocol::CounterLimit>& limit, std::uint32_t otherwise) {
    return limit ? std::clamp<std::uint32_t>(limit->maximum - limit->minimum + 1u, 1, 128)
                 : std::clamp(otherwise, 1u, 128u);
  }
  static std::uint16_t first(const std::optional<protocol::CounterLimit>& limit, std::uint32_t value) {
    return static_cast<std::uint16_t>((limit ? limit->minimum : 0u) + value);
  }

  // Noise, where nothing else was chosen.
  void fill_values(std::vector<float>& values) {
    static constexpr float kScales[] = {1, 0, 1e-42f, 1e38f, 1e30f, 1e18f, 1e-30f, 3.4e38f, 1e-3f};
    const float scale = value_ < 250 ? kScales[value_ % std::size(kScales)] : 1;
    for (float& value : values) value = scale * (static_cast<float>(random() >> 8) / 8388608.0f - 1);
    if (value_ >= 250) std::fill(values.begin(), values.end(), value_ % 2 == 0 ? 1.0f : 3.4e38f);
    if (spike_ && !values.empty()) values[random() % values.size()] = *std::exchange(spike_, std::nullopt);
  }

  // A spoke, golden angles apart, in the unit of the wire; with an odd path something else.
  void fill_path(std::vector<float>& path, std::size_t samples, std::size_t axes, std::uint32_t number) {
    const protocol::Encoding& encoding = header_.encodings.front();
    const double angle = number * std::numbers::pi * 0.618033988749895, polar = std::acos(std::sin(0.7 * number));
    const double direction[] = {std::cos(angle), std::sin(angle), style_.axes >= 3 ? std::cos(polar) : 0.0};
    for (std::size_t s = 0; s < samples; ++s)
      for (std::size_t a = 0; a < axes; ++a) {
        double k = (static_cast<double>(s) - static_cast<double>(samples / 2)) / static_cast<double>(samples);
        if (path_ % 16 == 1) k = 0;
        if (path_ % 16 == 2) k = static_cast<double>(random()) / 4294967296.0 - 0.5;
        if (path_ % 16 == 3) k = s % 2 == 0 ? 0.5 : -0.5;
        if (path_ % 16 == 4) k = 1e-42;
        if (path_ % 16 == 5) k *= 1e30;
        if (path_ % 16 == 6) k *= 1.9;
        if (path_ % 16 == 7) k = std::abs(k);
        const double unit = a >= 3 ? 1 : units(encoding, a);
        const bool weight = a + 1 == axes && axes > (style_.volume && style_.axes >= 3 ? 3 : 2);
        path[s * axes + a] = static_cast<float>(weight ? std::abs(k) : a < 3 ? k * direction[a] * unit : k);
      }
    if (path_ % 16 == 8) path[random() % path.size()] = std::numeric_limits<float>::quiet_NaN();
  }

  double units(const protocol::Encoding& encoding, std::size_t a) const {
    switch (unit_) {
      case config::TrajectoryUnit::cycles_per_fov:
        return encoding.encoded.matrix[a];
      case config::TrajectoryUnit::radians_per_pixel:
        return 2 * std::numbers::pi;
      case config::TrajectoryUnit::cycles_per_m:
        return 1000 * encoding.encoded.matrix[a] / encoding.encoded.fov_mm[a];
      default:
        return 1;
    }
  }

  std::uint32_t random() { return random_ = 1664525 * random_ + 1013904223; }

  Source& source_;
  const protocol::Header& header_;
  const Style style_;
  const config::TrajectoryUnit unit_;
  std::uint32_t channels_, samples_, lines_, planes_;
  std::vector<std::uint32_t> parts_;  // slices, contrasts, phases, sets
  std::uint8_t value_, path_;         // what samples and positions are
  std::optional<float> spike_;
  int last_flag_;
  bool descending_;
  std::uint32_t count_ = 0;
  std::uint32_t random_ = 1;
  ISMRMRD::ISMRMRD_EncodingCounters counters_{};  // of a head, whose fields have no alignment
  float directions_[12] = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
};

}  // namespace echotrain::fuzz
