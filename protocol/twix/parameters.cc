#include "protocol/twix/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "protocol/data/layout.h"
#include "protocol/data/text.h"

namespace echotrain::protocol::twix {
namespace {

constexpr std::size_t kMostBuffers = 64, kMostName = 64, kMostValues = 64, kMostValueBytes = 1024, kMostNames = 20000;
constexpr std::size_t kDeepest = 64;

// Beginnings of the protocol's names that are kept.
constexpr std::string_view kKept[] = {
    "adFlipAngleDegree[",
    "alTE[",
    "alTI[",
    "alTR[",
    "lContrasts",
    "sCoilSelectMeas.aRxCoilSelectData[0].asList[",
    "sFastImaging.lEPIFactor",
    "sKSpace.",
    "sPat.",
    "sPrepPulses.ucInversion",
    "sProtConsistencyInfo.flNominalB0",
    "sRXSPEC.alDwellTime[",
    "sSliceAcceleration.lMultiBandFactor",
    "sSliceArray.asSlice[0].",
    "sSliceArray.lSize",
    "sTXSPEC.asNucleusInfo[0].lFrequency",
    "sTXSPEC.asNucleusInfo[0].tNucleus",
    "tProtocolName",
};
constexpr std::string_view kKeptMaps[] = {"DERIVED", "DICOM", "RECOMPOSE", "YAPS"};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string_view unquoted(std::string_view text) {
  while (text.size() >= 2 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  return text;
}

/// The tokens of XProtocol: "texts", <tags>, braces and words.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : rest_(text) {}

  enum class Kind { end, text, tag, open, close, word };
  Kind next(std::string_view& token) {
    constexpr std::string_view kSpace = " \t\r\n\v\f", kEnds = " \t\r\n\v\f{}<\"";
    const std::size_t first = rest_.find_first_not_of(kSpace);
    if (first == std::string_view::npos) return Kind::end;
    rest_.remove_prefix(first);
    switch (rest_.front()) {
      case '{':
        token = take(1);
        return Kind::open;
      case '}':
        token = take(1);
        return Kind::close;
      case '"':
        token = enclosed('"');
        return Kind::text;
      case '<':
        token = enclosed('>');
        return Kind::tag;
      default:
        token = take(std::max<std::size_t>(1, std::min(rest_.find_first_of(kEnds), rest_.size())));
        return Kind::word;
    }
  }

 private:
  std::string_view take(std::size_t n) {
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(std::min(n, rest_.size()));
    return taken;
  }
  std::string_view enclosed(char end) {
    const std::size_t last = rest_.find(end, 1);
    const std::string_view whole = take(last == std::string_view::npos ? rest_.size() : last + 1);
    return whole.substr(1, whole.size() - (last == std::string_view::npos ? 1 : 2));
  }
  std::string_view rest_;
};

}  // namespace

void Parameters::add(std::string name, std::vector<std::string>&& values) {
  if (values_.size() < kMostNames) values_.try_emplace(std::move(name), std::move(values));
}

std::string_view Parameters::text(const std::string& name, std::size_t index) const {
  const auto found = values_.find(name);
  return found == values_.end() || index >= found->second.size() ? std::string_view() : found->second[index];
}

std::optional<double> Parameters::number(const std::string& name, std::size_t index) const {
  std::string_view value = text(name, index);
  if (value.starts_with("0x")) {
    value.remove_prefix(2);
    std::uint64_t whole = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), whole, 16);
    if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
    return static_cast<double>(whole);
  }
  double out = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out);
  if (error != std::errc() || end != value.data() + value.size() || !std::isfinite(out)) return std::nullopt;
  return out;
}

std::optional<long> Parameters::whole(const std::string& name, long least, std::size_t index) const {
  const auto value = number(name, index);
  if (!value || *value != std::floor(*value) || *value < static_cast<double>(least) || *value > 2147483648.0)
    return std::nullopt;
  return static_cast<long>(*value);
}

std::vector<std::string> Parameters::names(std::string_view beginning) const {
  std::vector<std::string> out;
  for (auto at = values_.lower_bound(beginning); at != values_.end() && at->first.starts_with(beginning); ++at)
    out.push_back(at->first);
  return out;
}

void read_ascconv(std::string_view text, Parameters& to) {
  const std::size_t begin = text.find("### ASCCONV BEGIN");
  if (begin == std::string_view::npos) return;
  text = text.substr(begin, text.find("### ASCCONV END", begin) - begin);
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = trimmed(line.substr(0, equals)), value = unquoted(trimmed(line.substr(equals + 1)));
    const bool kept =
        std::any_of(std::begin(kKept), std::end(kKept), [&](auto known) { return name.starts_with(known); });
    if (!kept || name.size() > 2 * kMostName || value.size() > kMostValueBytes) continue;
    to.add(std::string(name), {std::string(value)});
  }
}

void read_xprotocol(std::string_view text, Parameters& to) {
  struct Frame {
    std::string_view name, map;  // map: the nearest named map, this one included
    bool parameter = false, kept = false;
    std::vector<std::string> values;
  };
  Tokens tokens(text);
  std::vector<Frame> frames;
  Frame pending;
  bool attribute = false;  // the next value belongs to a tag such as <Precision>
  std::string_view token;
  for (auto kind = tokens.next(token); kind != Tokens::Kind::end; kind = tokens.next(token)) {
    const std::string_view map = frames.empty() ? std::string_view() : frames.back().map;
    switch (kind) {
      case Tokens::Kind::tag: {
        const std::size_t dot = token.find('.');
        attribute = dot == std::string_view::npos;
        pending = {};
        if (attribute || !token.starts_with("Param")) break;
        pending.name = unquoted(token.substr(dot + 1));
        pending.parameter = token.substr(0, dot) != "ParamMap";
        pending.kept =
            pending.parameter && std::find(std::begin(kKeptMaps), std::end(kKeptMaps), map) != std::end(kKeptMaps);
        break;
      }
      case Tokens::Kind::open:
        if (frames.size() == kDeepest) return;
        pending.map = pending.parameter || pending.name.empty() ? map : pending.name;
        frames.push_back(std::exchange(pending, {}));
        attribute = false;
        break;
      case Tokens::Kind::close:
        if (frames.empty()) return;
        if (frames.back().kept && frames.back().name.size() <= kMostName && !frames.back().values.empty())
          to.add(fmt::format("{}.{}", frames.back().map, frames.back().name), std::move(frames.back().values));
        frames.pop_back();
        attribute = false;
        break;
      default:
        if (!std::exchange(attribute, false) && !frames.empty() && frames.back().kept &&
            frames.back().values.size() < kMostValues && token.size() <= kMostValueBytes)
          frames.back().values.emplace_back(token);
    }
  }
}

std::optional<Parameters> Parameters::read(std::span<const std::byte> header, std::string& error) {
  if (header.size() < 8) {
    error = "it is shorter than its two lengths";
    return std::nullopt;
  }
  const std::uint32_t count = load<std::uint32_t>(header, 4);
  if (count == 0 || count > kMostBuffers) {
    error = fmt::format("it has {} texts; 1 to {} are read", count, kMostBuffers);
    return std::nullopt;
  }
  std::map<std::string_view, std::string_view> buffers;
  std::size_t at = 8;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string_view name = cut_at_nul(as_text(header.subspan(at, std::min(kMostName, header.size() - at))));
    at += name.size() + 1;
    if (name.size() == kMostName || at + 4 > header.size()) {
      error = fmt::format("text {} of {} has no name and length", i + 1, count);
      return std::nullopt;
    }
    const std::uint64_t length = load<std::uint32_t>(header, at);
    at += 4;
    if (length > header.size() - at) {
      error = fmt::format("'{}' is {} bytes long; {} are left", printable(name), length, header.size() - at);
      return std::nullopt;
    }
    buffers.try_emplace(name, as_text(header.subspan(at, length)));
    at += length;
  }
  Parameters out;
  read_ascconv(buffers["MeasYaps"], out);
  if (out.values_.empty()) read_ascconv(buffers["Meas"], out);
  if (out.values_.empty()) {
    error = "none of its texts has the protocol (ASCCONV)";
    return std::nullopt;
  }
  read_xprotocol(buffers["Meas"], out);
  read_xprotocol(buffers["Dicom"], out);
  return out;
}

}  // namespace echotrain::protocol::twix
