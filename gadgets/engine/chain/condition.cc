#include "gadgets/engine/chain/condition.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <type_traits>
#include <variant>

#include "gadgets/shared/incoming/meta_notes.h"
#include "protocol/data/meta.h"

namespace echotrain {
namespace {

using config::When;
using protocol::ReadoutKind;
using Counters = std::array<std::uint16_t, config::kCounters.size()>;

constexpr std::size_t kEncoding = 0, kRepetition = 4;  // index in config::kCounters
static_assert(config::kCounters[kRepetition] == "repetition");

ReadoutKind kind_of(const std::string& name) {
  static const std::map<std::string, ReadoutKind> kinds = {{"imaging", ReadoutKind::imaging},
                                                           {"noise", ReadoutKind::noise},
                                                           {"calibration", ReadoutKind::calibration},
                                                           {"navigator", ReadoutKind::navigator},
                                                           {"phase_correction", ReadoutKind::phase_correction},
                                                           {"other", ReadoutKind::other}};
  return kinds.at(name);
}

/// The bit of an acquisition flag; ISMRMRD: flag v has bit v - 1, ACQ_IS_REVERSE is 22, ACQ_USER1 is 57.
std::uint64_t flag_of(const std::string& name) {
  if (name == "reverse") return 1ull << 21;
  return 1ull << (56 + static_cast<unsigned>(name.back() - '1'));
}

/// FrameKey::series of frames made of readouts.
std::uint16_t content_of(const std::string& name) {
  if (name == "g_factor") return 1;
  return name == "snr" ? 2 : 0;
}

std::uint16_t image_type_of(const std::string& name) {
  static const std::map<std::string, std::uint16_t> types = {{"magnitude", ISMRMRD::ISMRMRD_IMTYPE_MAGNITUDE},
                                                             {"phase", ISMRMRD::ISMRMRD_IMTYPE_PHASE},
                                                             {"real", ISMRMRD::ISMRMRD_IMTYPE_REAL},
                                                             {"imag", ISMRMRD::ISMRMRD_IMTYPE_IMAG},
                                                             {"complex", ISMRMRD::ISMRMRD_IMTYPE_COMPLEX}};
  return types.at(name);
}

template <class T>
bool among(const std::vector<T>& values, const T& value) {
  return values.empty() || std::find(values.begin(), values.end(), value) != values.end();
}

Counters counters_of(const FrameKey& key, std::uint16_t series) {
  return {key.encoding, key.slice, key.contrast, key.phase, key.repetition, key.set, series};
}

}  // namespace

/// The values of one frame or image that conditions test.
struct Condition::Facts {
  Counters counters{};
  std::uint64_t flags = 0;
  std::uint16_t content = 0, image_type = 0;
  const std::map<std::string, std::string>* notes = nullptr;
  const std::string* attributes = nullptr;

  explicit Facts(const Frame& frame)
      : counters(counters_of(frame.key, frame.source ? frame.source->head.image_series_index : std::uint16_t{0})),
        flags(frame.reference.flags),
        content(frame.source ? std::uint16_t{0} : frame.key.series),
        image_type(frame.source ? frame.source->head.image_type : std::uint16_t{0}),
        notes(&frame.notes) {
    // A frame of a fixed number of readouts goes on through repetitions, and its key tells the latest one so far.
    if (frame.expected_readouts > 0 && !frame.source) counters[kRepetition] = frame.reference.idx.repetition;
  }

  Facts(const protocol::Image& message, const Frame* frame) : attributes(&message.attributes) {
    const protocol::ImageHeader& head = message.head;
    const auto encoding = frame != nullptr ? frame->key.encoding : std::uint16_t{0};
    counters = {encoding, head.slice, head.contrast, head.phase, head.repetition, head.set, head.image_series_index};
    if (frame != nullptr) {
      flags = frame->reference.flags;
      content = frame->source ? std::uint16_t{0} : frame->key.series;
    }
    image_type = head.image_type;
  }

  /// The values of a meta attribute.
  std::vector<std::string> values(const std::string& name) const {
    std::vector<std::string> found;
    if (notes != nullptr) {
      if (const auto note = notes->find(name); note != notes->end()) found = values_of(note->second);
    } else {
      for (const auto& [each, value] : protocol::meta_values(*attributes))
        if (each == name) found.push_back(value);
    }
    return found;
  }
};

Condition::Condition(const When& when) : counters_(when.counters), meta_(when.meta) {
  for (const std::string& name : when.kinds) kinds_.push_back(kind_of(name));
  for (const std::string& name : when.flags) flags_ |= flag_of(name);
  for (const std::string& name : when.contents) contents_.push_back(content_of(name));
  for (const std::string& name : when.image_types) image_types_.push_back(image_type_of(name));
  space_only_ = !counters_[kEncoding].empty() && std::all_of(when.keys.begin(), when.keys.end(), [](const auto& key) {
    return key.first == "encoding" || key.first == "item";
  });
}

bool Condition::admits_space(std::uint16_t encoding) const {
  const auto& ranges = counters_[kEncoding];
  return ranges.empty() || std::any_of(ranges.begin(), ranges.end(), [&](const When::Range& range) {
           return encoding >= range.first && encoding <= range.last;
         });
}

bool Condition::holds(const Facts& facts) const {
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    const auto inside = [value = facts.counters[i]](const When::Range& range) {
      return value >= range.first && value <= range.last;
    };
    if (!counters_[i].empty() && std::none_of(counters_[i].begin(), counters_[i].end(), inside)) return false;
  }
  if (flags_ != 0 && (facts.flags & flags_) == 0) return false;
  if (!among(contents_, facts.content) || !among(image_types_, facts.image_type)) return false;
  return std::all_of(meta_.begin(), meta_.end(), [&](const auto& wanted) {
    const std::vector<std::string> values = facts.values(wanted.first);
    return std::any_of(values.begin(), values.end(), [&](const auto& value) { return among(wanted.second, value); });
  });
}

bool Condition::holds(const Readouts& readouts) const {
  if (!among(kinds_, readouts.kind)) return false;
  return readouts.kind != ReadoutKind::imaging || holds(Facts(*readouts.frame));
}

bool Condition::holds(const protocol::Image& message) const { return holds(Facts(message, nullptr)); }

bool Condition::holds(const Item& item) const {
  return std::visit(
      [this](const auto& each) {
        using T = std::decay_t<decltype(each)>;
        if constexpr (std::is_same_v<T, RawBatch> || std::is_same_v<T, Waveform>)
          return false;
        else if constexpr (std::is_base_of_v<Readouts, T>)
          return holds(static_cast<const Readouts&>(each));
        else if constexpr (std::is_same_v<T, Image>)
          return holds(Facts(each.message, each.frame.get()));
        else
          return holds(Facts(*each.frame));
      },
      item);
}

void check_condition(const When& when, ItemType type, bool sent) {
  const bool readouts = type == ItemType::readouts || type == ItemType::plane_readouts;
  const bool messages = type == ItemType::image;
  const bool images = messages || type == ItemType::coil_images;
  const std::string here = sent && !messages ? "images that a client sent" : std::string(to_string(type));
  for (const auto& given : when.keys) {
    const std::string& key = given.first;
    const auto refuse = [&](const std::string& what) {
      throw config::ConfigError(given.second, fmt::format("'{}' {}, but here are {}", given.first, what, here));
    };
    if (key == "item" && (*when.item == config::Input::images ? !images : !readouts))
      refuse(*when.item == config::Input::images ? "asks for images" : "asks for readouts");
    if (key == "kind" && !readouts) refuse("tells readouts apart");
    if ((key == "flag" || key == "encoding" || key == "content") && sent && !messages)
      refuse("is known of images made of readouts");
    if (key == "content" && !images) refuse("tells images apart");
    if ((key == "series" || key == "image_type") && !messages && !sent)
      refuse("is known once there are messages, that is behind 'image', and of images that a client sent");
    if (key == "meta" && !images) refuse("tells images apart");
  }
}

}  // namespace echotrain
