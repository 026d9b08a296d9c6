#include "protocol/data/acquisition_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <pugixml.hpp>

#include "protocol/data/layout.h"
#include "protocol/data/xml_check.h"

namespace echotrain::protocol {
namespace {

constexpr std::uint64_t kNoise = acquisition_flag(19);
constexpr std::uint64_t kCalibration = acquisition_flag(20);
constexpr std::uint64_t kCalibrationAndImaging = acquisition_flag(21);
constexpr std::uint64_t kReverse = acquisition_flag(22);
constexpr std::uint64_t kNavigation = acquisition_flag(23);
constexpr std::uint64_t kPhaseCorrection = acquisition_flag(24);
// HP feedback, dummy scan, RT feedback, surface coil correction, phase stabilisation reference and phase stabilisation.
constexpr std::uint64_t kSpecial = acquisition_flag(26) | acquisition_flag(27) | acquisition_flag(28) |
                                   acquisition_flag(29) | acquisition_flag(30) | acquisition_flag(31);

// A float is finite unless all bits of its exponent are set; one more there then reaches the sign's bit. The bytes of
// the wire need no alignment. The lanes let the compiler test many numbers at a time, none of which waits for another:
// comparisons, or one result for all, have made this six times as slow with some instructions.
bool all_finite(std::span<const std::byte> bytes) {
  constexpr std::uint32_t kAllButSign = 0x7fffffff, kOneMore = 0x00800000;
  constexpr std::size_t kLanes = 16;
  std::array<std::uint32_t, kLanes> sums{};
  const auto test = [&sums](const std::byte* at, std::size_t floats) {
    for (std::size_t i = 0; i < floats; ++i) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, at + i * sizeof(bits), sizeof(bits));
      sums[i] |= (bits & kAllButSign) + kOneMore;
    }
  };
  for (; bytes.size() >= sizeof(sums); bytes = bytes.subspan(sizeof(sums))) test(bytes.data(), kLanes);
  test(bytes.data(), bytes.size() / sizeof(float));
  std::uint32_t all = 0;
  for (const std::uint32_t sum : sums) all |= sum;
  return all <= kAllButSign;
}

constexpr std::array<std::string_view, 9> kCounters = {"kspace_encode_step_1",
                                                       "kspace_encode_step_2",
                                                       "average",
                                                       "slice",
                                                       "contrast",
                                                       "phase",
                                                       "repetition",
                                                       "set",
                                                       "segment"};

/// "counter NAME WHAT" of each, made once.
std::array<std::string, kCounters.size()> kinds(std::string_view what) {
  std::array<std::string, kCounters.size()> all;
  for (std::size_t i = 0; i < all.size(); ++i) all.at(i) = fmt::format("counter {} {}", kCounters.at(i), what);
  return all;
}

struct Counter {
  std::size_t which;  // of kCounters
  std::uint16_t value;
  const std::optional<CounterLimit>& limit;
  std::string_view name() const { return kCounters.at(which); }
  bool outside_limits() const { return limit && (value < limit->minimum || value > limit->maximum); }
};

}  // namespace

ReadoutKind readout_kind(const AcquisitionHeader& head) {
  const std::uint64_t flags = head.flags;
  if ((flags & kNoise) != 0) return ReadoutKind::noise;
  if ((flags & kPhaseCorrection) != 0) return ReadoutKind::phase_correction;
  if ((flags & kNavigation) != 0) return ReadoutKind::navigator;
  if ((flags & kSpecial) != 0) return ReadoutKind::other;
  if ((flags & kCalibration) != 0 && (flags & kCalibrationAndImaging) == 0) return ReadoutKind::calibration;
  return (flags & kReverse) != 0 ? ReadoutKind::other : ReadoutKind::imaging;
}

ReadoutKind readout_kind(const AcquisitionHeader& head, Trajectory trajectory) {
  const ReadoutKind kind = readout_kind(head);
  if (kind != ReadoutKind::other || trajectory != Trajectory::epi || (head.flags & kReverse) == 0) return kind;
  AcquisitionHeader forward = head;
  forward.flags &= ~kReverse;
  return readout_kind(forward);
}

bool all_finite(const Acquisition& acquisition) {
  return all_finite(acquisition.trajectory.bytes) && all_finite(acquisition.data.bytes);
}

template <class Text>
SkipReason AcquisitionCheck::because(std::string_view kind, const Text& text) {
  return {kind, told_.insert(kind).second ? text() : std::string()};
}

std::optional<SkipReason> AcquisitionCheck::check_counters(const AcquisitionHeader& head, const Encoding& encoding) {
  const ISMRMRD::ISMRMRD_EncodingCounters idx = head.idx;
  const Counter step_1{0, idx.kspace_encode_step_1, encoding.kspace_encoding_step_1};
  const Counter step_2{1, idx.kspace_encode_step_2, encoding.kspace_encoding_step_2};
  const auto outside_matrix = [this](const Counter& counter, std::uint32_t size) {
    static const auto& all = *new auto(kinds("outside the matrix"));
    return because(all.at(counter.which), [&] {
      return fmt::format("idx.{} is {}; the encoded matrix has {}", counter.name(), counter.value, size);
    });
  };
  // Where a trajectory places the samples, the steps only number the readouts.
  if (encoding.trajectory == Trajectory::cartesian || encoding.trajectory == Trajectory::epi) {
    const auto& matrix = encoding.encoded.matrix;
    if (step_1.value >= matrix[1]) return outside_matrix(step_1, matrix[1]);
    if (step_2.value >= matrix[2]) return outside_matrix(step_2, matrix[2]);
  }
  for (const Counter& counter : {step_1, step_2, Counter{2, idx.average, encoding.average},
                                 Counter{3, idx.slice, encoding.slice}, Counter{4, idx.contrast, encoding.contrast},
                                 Counter{5, idx.phase, encoding.phase}, Counter{6, idx.repetition, encoding.repetition},
                                 Counter{7, idx.set, encoding.set}, Counter{8, idx.segment, encoding.segment}}) {
    static const auto& all = *new auto(kinds("outside its limits"));
    // Siemens' EPI counts directions as segments, of which siemens_to_ismrmrd's limits do not know.
    if (counter.which == 8 && encoding.trajectory == Trajectory::epi) continue;
    if (counter.outside_limits())
      return because(all.at(counter.which), [&] {
        return fmt::format("idx.{} is {}; the header's limits are {} to {}", counter.name(), counter.value,
                           counter.limit->minimum, counter.limit->maximum);
      });
  }
  return std::nullopt;
}

std::optional<SkipReason> AcquisitionCheck::check(const Acquisition& acquisition) {
  const AcquisitionHeader& head = acquisition.head;
  const Shape shape{head.active_channels, head.number_of_samples, head.trajectory_dimensions};
  const std::uint16_t space = head.encoding_space_ref;
  if (shape.samples == 0 || shape.channels == 0) {
    return because("readout without samples", [&] {
      return fmt::format("readout has {} samples and {} channels", shape.samples, shape.channels);
    });
  }
  if (space >= header_.encodings.size()) {
    return because("encoding space not in the header", [&] {
      return fmt::format("encoding_space_ref is {}; the header has {} encodings", space, header_.encodings.size());
    });
  }
  const ReadoutKind kind = readout_kind(head, header_.encodings[space].trajectory);
  if (head.discard_pre + head.discard_post > shape.samples) {
    return because("more samples to discard than there are", [&] {
      return fmt::format("discard_pre {} + discard_post {} exceed {} samples", +head.discard_pre, +head.discard_post,
                         shape.samples);
    });
  }
  // Only lines that are placed in k-space need their place; noise and the like often carry odd values.
  if (kind == ReadoutKind::imaging || kind == ReadoutKind::calibration) {
    if (head.center_sample >= shape.samples) {
      return because("center_sample outside the readout", [&] {
        return fmt::format("center_sample is {}; the readout has {} samples", +head.center_sample, shape.samples);
      });
    }
    if (auto reason = check_counters(head, header_.encodings[space])) return reason;
  }
  if (!acquisition.known_finite && !all_finite(acquisition.trajectory.bytes)) {
    return because("non-finite trajectory",
                   [&] { return fmt::format("trajectory of readout {} has NaN or infinity", +head.scan_counter); });
  }
  if (!acquisition.known_finite && !all_finite(acquisition.data.bytes)) {
    return because("non-finite samples",
                   [&] { return fmt::format("data of readout {} has NaN or infinity", +head.scan_counter); });
  }
  if (kind == ReadoutKind::other) return std::nullopt;  // a mixture of purposes has no common shape
  const auto [group, added] = groups_.try_emplace({space, kind}, shape);
  const Shape& first = group->second;
  if (first.channels != shape.channels || first.samples != shape.samples ||
      first.trajectory_dimensions != shape.trajectory_dimensions) {
    return because("readout shape differs from its group", [&] {
      return fmt::format(
          "readout has {} channels x {} samples with {} trajectory dimensions; the first of its group "
          "had {} x {} with {}",
          shape.channels, shape.samples, shape.trajectory_dimensions, first.channels, first.samples,
          first.trajectory_dimensions);
    });
  }
  return std::nullopt;
}

std::optional<SkipReason> check_attributes(const Image& image, const Limits& limits) {
  constexpr const char* kKind = "image attributes not readable";
  const std::string& text = image.attributes;
  if (text.empty()) return std::nullopt;
  if (auto danger = xml_problem(text, limits)) return SkipReason{kKind, *std::move(danger)};
  pugi::xml_document document;
  const auto parsed = document.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  if (!parsed) return SkipReason{kKind, fmt::format("not XML: {} at byte {}", parsed.description(), parsed.offset)};
  if (!document.child("ismrmrdMeta")) return SkipReason{kKind, "the root element is not 'ismrmrdMeta'"};
  return std::nullopt;
}

}  // namespace echotrain::protocol
