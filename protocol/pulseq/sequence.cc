#include "protocol/pulseq/sequence.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <string_view>
#include <utility>

#include "protocol/data/text.h"
#include "protocol/files/scan_reader.h"

namespace echotrain::protocol::pulseq {
namespace {

constexpr double kMostSeconds = 1e7, kMostStrength = 1e15, kMostId = 4e9;
constexpr std::size_t kMostTokens = 16;

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::vector<std::string_view> tokens_of(std::string_view line, std::size_t most) {
  std::vector<std::string_view> out;
  while (out.size() < most && !(line = trimmed(line)).empty()) {
    const std::size_t end = std::min(line.find_first_of(" \t"), line.size());
    out.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return out;
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

class Parser {
 public:
  Parser(std::string name, std::string_view text) : text_(text) { out_.name = std::move(name); }

  Sequence parse() {
    while (next_line()) {
      if (line_.starts_with('[')) {
        begin_section();
      } else if (line_.starts_with("extension ") && (section_ == "[EXTENSIONS]" || section_ == "extension")) {
        begin_extension();
      } else {
        take_line();
      }
    }
    finish_shape();
    if (out_.minor == 0) refuse("there is no section [VERSION]; is this a Pulseq file?");
    if (out_.blocks.empty()) refuse("there are no blocks");
    for (Block& block : out_.blocks) block.seconds *= out_.block_raster_s;
    for (auto& [id, extension] : out_.extensions) extension.kind = kinds_[types_[id]];
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw DatasetError(fmt::format("{}: line {}: {}", out_.name, number_, why));
  }

  /// Goes to the next line that is neither empty nor a comment.
  bool next_line() {
    while (at_ < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_), text_.size());
      line_ = trimmed(text_.substr(at_, end - at_));
      at_ = end + 1;
      ++number_;
      if (!line_.empty() && line_.front() != '#') return true;
    }
    return false;
  }

  void begin_section() {
    finish_shape();
    if (section_ == "[VERSION]") check_version();
    section_ = std::string(line_);
    if (section_ != "[VERSION]" && section_ != "[DEFINITIONS]" && section_ != "[SIGNATURE]" && out_.minor == 0)
      refuse("the section [VERSION] must come before this one");
  }

  void check_version() {
    if (version_[0] != 1 || version_[1] < 4 || version_[1] > 5)
      refuse(fmt::format("version {}.{} is not read, only 1.4 and 1.5: write the sequence anew with such a Pulseq",
                         version_[0], version_[1]));
    out_.minor = static_cast<int>(version_[1]);
  }

  void begin_extension() {
    const auto words = tokens_of(line_, 3);
    const auto id = words.size() == 3 ? number_of(words[2]) : std::nullopt;
    if (!id) refuse("'extension' is followed by a name and a number");
    rotates_ = words[1] == "ROTATIONS";
    if (rotates_ && out_.minor < 5) refuse("the extension ROTATIONS is of version 1.5; this file says 1.4");
    section_ = "extension";
    library_ = words[1] == "LABELSET" ? &out_.sets : words[1] == "LABELINC" ? &out_.additions : nullptr;
    kinds_[*id] = library_ == &out_.sets        ? ExtensionKind::set_label
                  : library_ == &out_.additions ? ExtensionKind::add_label
                  : rotates_                    ? ExtensionKind::rotation
                                                : ExtensionKind::other;
  }

  double number(std::size_t place, double least, double most) const {
    const auto value = number_of(words_[place]);
    if (!value || *value < least || *value > most)
      refuse(fmt::format("'{}' should be a number from {} to {}", printable(words_[place], 32), least, most));
    return *value;
  }
  std::uint32_t whole(std::size_t place, double most = kMostId) const {
    const double value = number(place, 0, most);
    if (value != std::floor(value)) refuse(fmt::format("'{}' should be whole", words_[place]));
    return static_cast<std::uint32_t>(value);
  }
  double us(std::size_t place) const { return 1e-6 * number(place, 0, kMostSeconds); }
  double strength(std::size_t place) const { return number(place, -kMostStrength, kMostStrength); }
  void want(std::size_t words) const {
    if (words_.size() != words)
      refuse(fmt::format("{} values in {}; version 1.{} has {}", words_.size(), section_, out_.minor, words));
  }

  /// The event of the line's id, in a library that has room for it.
  template <class Event>
  Event& event(std::unordered_map<std::uint32_t, Event>& library) const {
    const std::uint32_t id = whole(0);
    if (library.size() == kMostEvents && !library.contains(id))
      refuse(fmt::format("more than {} events in {}", kMostEvents, section_));
    return library[id];
  }

  void take_line() {
    words_ = tokens_of(line_, kMostTokens);
    const bool new_kind = out_.minor >= 5;
    if (section_ == "[VERSION]") {
      take_version();
    } else if (section_ == "[DEFINITIONS]") {
      take_definition();
    } else if (section_ == "[BLOCKS]") {
      want(8);
      if (out_.blocks.size() == kMostBlocks) refuse(fmt::format("more than {} blocks", kMostBlocks));
      out_.blocks.push_back({number(1, 0, 1e9), whole(2), whole(6), whole(7), {whole(3), whole(4), whole(5)}});
    } else if (section_ == "[RF]") {
      want(new_kind ? 12 : 8);
      RfPulse pulse{strength(1), whole(2), whole(3), whole(4), us(new_kind ? 6 : 5), std::nullopt, 'u'};
      if (new_kind) {
        pulse.center_s = us(5);
        pulse.use = words_[11].front();
      }
      event(out_.rf) = pulse;
    } else if (section_ == "[GRADIENTS]") {
      take_gradient();
    } else if (section_ == "[TRAP]") {
      want(6);
      Gradient gradient;
      gradient.is_trapezoid = true;
      gradient.hz_per_m = strength(1);
      gradient.rise_s = us(2);
      gradient.flat_s = us(3);
      gradient.fall_s = us(4);
      gradient.delay_s = us(5);
      event(out_.gradients) = gradient;
    } else if (section_ == "[ADC]") {
      want(new_kind ? 9 : 6);
      event(out_.adcs) = {whole(1, kMostReadout), 1e-9 * number(2, 0, 1e12), us(3)};
    } else if (section_ == "[EXTENSIONS]") {
      want(4);
      event(out_.extensions) = {ExtensionKind::other, whole(2), whole(3)};
      types_[whole(0)] = whole(1);
    } else if (section_ == "extension" && library_ != nullptr) {
      want(3);
      event(*library_) = {std::string(words_[2].substr(0, 32)),
                          static_cast<std::int64_t>(number(1, -kMostId, kMostId))};
    } else if (section_ == "extension" && rotates_) {
      want(5);
      event(out_.rotations) = rotation();
    } else if (section_ == "[SHAPES]") {
      take_shape();
    } else if (section_.empty()) {
      refuse("text before the first section; is this a Pulseq file?");
    }  // else: triggers, delays, the signature, and sections of later revisions
  }

  /// The matrix of a quaternion, its real part first, which files round.
  Matrix3 rotation() const {
    std::array<double, 4> q{};
    double square = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      q[i] = number(i + 1, -2, 2);
      square += q[i] * q[i];
    }
    if (std::abs(square - 1) > 0.01) refuse("a rotation's four numbers should be a quaternion of length 1");
    for (double& part : q) part /= std::sqrt(square);
    const auto [w, x, y, z] = q;
    return {{{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
             {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
             {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}}};
  }

  void take_version() {
    constexpr std::string_view kParts[] = {"major", "minor"};
    for (std::size_t i = 0; i < 2; ++i)
      if (words_.size() == 2 && words_[0] == kParts[i]) version_[i] = number(1, 0, 1000);
  }

  void take_definition() {
    const std::string name(words_[0].substr(0, 64));
    out_.definitions[name] = std::string(trimmed(line_.substr(words_[0].size())));
    for (const auto& [raster, to] : {std::pair{"GradientRasterTime", &out_.gradient_raster_s},
                                     std::pair{"RadiofrequencyRasterTime", &out_.rf_raster_s},
                                     std::pair{"BlockDurationRaster", &out_.block_raster_s}})
      if (name == raster && words_.size() > 1) *to = number(1, 1e-9, 1);
  }

  void take_gradient() {
    const bool new_kind = out_.minor >= 5;
    want(new_kind ? 7 : 5);
    const std::size_t shape = new_kind ? 4 : 2;
    Gradient gradient;
    gradient.hz_per_m = strength(1);
    if (new_kind) {
      gradient.first = strength(2);
      gradient.last = strength(3);
    }
    gradient.shape = whole(shape);
    gradient.oversampled = words_[shape + 1] == "-1";
    if (!gradient.oversampled) gradient.times = whole(shape + 1);
    gradient.delay_s = us(shape + 2);
    event(out_.gradients) = gradient;
  }

  void take_shape() {
    if (words_.size() == 2 && (words_[0] == "shape_id" || words_[0] == "num_samples")) {
      if (words_[0] == "shape_id") {
        finish_shape();
        std::swap(words_[0], words_[1]);  // the id comes second here
        shape_ = &event(out_.shapes);
        *shape_ = {};
      } else if (shape_ != nullptr) {
        shape_->samples = whole(1, kMostShape);
      }
      return;
    }
    want(1);
    if (shape_ == nullptr || shape_->values.size() == shape_->samples) refuse("more values than the shape has samples");
    shape_->values.push_back(strength(0));
  }

  void finish_shape() {
    if (shape_ != nullptr && shape_->values.empty() && shape_->samples > 0) refuse("the shape before has no values");
    shape_ = nullptr;
  }

  std::string_view text_, line_;
  std::size_t at_ = 0, number_ = 0;
  std::string section_;
  std::vector<std::string_view> words_;
  std::array<double, 2> version_{};
  std::unordered_map<std::uint32_t, LabelEvent>* library_ = nullptr;
  std::unordered_map<std::uint32_t, double> types_;
  std::map<double, ExtensionKind> kinds_;  // by their number in the file
  bool rotates_ = false;                   // the section is the extension ROTATIONS
  Shape* shape_ = nullptr;
  Sequence out_;
};

}  // namespace

std::vector<double> Sequence::numbers(const std::string& definition) const {
  std::vector<double> out;
  const auto found = definitions.find(definition);
  if (found == definitions.end()) return out;
  for (const std::string_view word : tokens_of(found->second, kMostTokens)) {
    const auto value = number_of(word);
    if (!value) return {};
    out.push_back(*value);
  }
  return out;
}

Sequence read_sequence(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw DatasetError(fmt::format("{}: cannot be opened", file.string()));
  std::string text;
  std::array<char, 1 << 16> piece{};
  while (in.read(piece.data(), piece.size()) || in.gcount() > 0) {
    text.append(piece.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMostFileBytes)
      throw DatasetError(fmt::format("{}: larger than {} MiB, the most that is read of a sequence", file.string(),
                                     kMostFileBytes >> 20));
  }
  return Parser(file.string(), text).parse();
}

}  // namespace echotrain::protocol::pulseq
