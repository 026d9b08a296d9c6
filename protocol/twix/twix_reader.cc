#include "protocol/twix/twix_reader.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <utility>

#include "protocol/data/layout.h"
#include "protocol/data/limits.h"
#include "protocol/data/pluralized.h"
#include "protocol/twix/header_text.h"
#include "protocol/twix/parameters.h"
#include "protocol/twix/raid.h"
#include "protocol/twix/survey.h"

namespace echotrain::protocol::twix {
namespace {

constexpr std::size_t kLeastHeader = 8;

struct Measured {
  Parameters parameters;
  Survey survey;
};

Measured measure(const RaidFile& file, const RaidEntry& entry) {
  const auto refuse = [&](const std::string& why) {
    throw DatasetError(fmt::format("{}: the header of measurement {} (byte {}) cannot be read: {}", file.name(),
                                   entry.number, entry.begin, why));
  };
  std::array<std::byte, kLeastHeader> begin{};
  const bool room = entry.end - entry.begin >= kLeastHeader;
  if (!room || file.read(entry.begin, begin) != begin.size()) refuse("the measurement is empty");
  const std::uint64_t length = load<std::uint32_t>(begin, 0);
  if (length > Limits{}.header_bytes || length > entry.end - entry.begin)
    refuse(fmt::format("it announces {} bytes; the measurement has {}, and at most {} are read", length,
                       entry.end - entry.begin, Limits{}.header_bytes));
  std::vector<std::byte> bytes(length);
  if (file.read(entry.begin, bytes) != length) refuse("the file ends in it");
  std::string error;
  auto parameters = Parameters::read(bytes, error);
  if (!parameters) refuse(error);
  return {*std::move(parameters), survey(file, entry, entry.begin + length)};
}

}  // namespace

struct TwixFile::Surveyed {
  explicit Surveyed(const std::filesystem::path& path) : file(path) {}

  /// What a measurement holds. Throws DatasetError, the same one each time, where it cannot be read.
  const Measured& of(std::size_t number) {
    const auto [at, fresh] = known.try_emplace(number);
    if (fresh) {
      try {
        at->second.emplace(measure(file, file.entry(number)));
      } catch (const DatasetError& error) {
        refused.emplace(number, error.what());
      }
    }
    if (!at->second) throw DatasetError(refused.at(number));
    return *at->second;
  }

  /// The measurement before `number` whose noise a scan uses that names none: the nearest one. One that is damaged has
  /// none.
  const RaidEntry* noise_before(std::size_t number) {
    for (std::size_t n = number; n-- > 1;) {
      try {
        if (of(n).survey.noise > 0) return &file.entry(n);
      } catch (const DatasetError&) {  // who wants it is told by preparations()
        continue;
      }
    }
    return nullptr;
  }

  const RaidFile file;
  std::map<std::size_t, std::optional<Measured>> known;  // by number
  std::map<std::size_t, std::string> refused;
};

struct TwixReader::Impl {
  Impl(std::shared_ptr<TwixFile::Surveyed> from, const TwixOptions& given)
      : options(given),
        surveyed(std::move(from)),
        file(surveyed->file),
        entry(file.entry(options.measurement)),
        measured(surveyed->of(entry.number)) {
    const RaidEntry* noise = measured.survey.noise > 0 ? nullptr : surveyed->noise_before(entry.number);
    HeaderContext context{entry.uid, noise != nullptr ? noise->uid : 0, options.patient};
    if (options.preparation_for && measured.survey.prescan == 0) {
      const Measured& scan = surveyed->of(file.entry(*options.preparation_for).number);
      context.scan = &scan.parameters;
      context.scan_survey = &scan.survey;
    }
    own_encoding = context.scan == nullptr;
    try {
      header = header_text(measured.parameters, measured.survey, context);
    } catch (const DatasetError& error) {
      const std::size_t of = own_encoding ? entry.number : file.entry(*options.preparation_for).number;
      throw DatasetError(fmt::format("{}: measurement {}: {}", file.name(), of, error.what()));
    }
    const Survey& s = measured.survey;
    rewind();
    if (!options.preparation_for) {
      readouts = s.readouts;
    } else {
      while (next_head()) ++readouts;
      rewind();
    }
  }

  void rewind() {
    position = measured.survey.begin;
    next = 0;
  }

  /// The next readout's head, whose samples begin at `position`; nothing behind the last one.
  std::optional<ScanHead> next_head() {
    position += std::exchange(pending, 0);
    std::array<std::byte, kScanHeadBytes> bytes{};
    while (position < measured.survey.end) {
      if (file.read(position, bytes) != bytes.size()) break;
      const ScanHead head = read_scan_head(bytes);
      const std::uint64_t length = head.length();
      if (length == 0 || length > measured.survey.end - position) break;  // the file has changed since
      const bool wanted = !head.is_other() && head.samples > 0 && head.channels > 0 &&
                          (!options.preparation_for || is_preparation(head));
      if (wanted) {
        position += kScanHeadBytes;
        pending = length - kScanHeadBytes;
        return head;
      }
      position += length;
    }
    return std::nullopt;
  }

  Acquisition read_next() {
    const auto head = next_head();
    if (!head)
      throw DatasetError(
          fmt::format("{}: has no readout {} any more; did another program change it?", file.name(), next));
    const std::size_t block = kChannelHeadBytes + std::size_t{8} * head->samples;
    buffer.resize(block * head->channels);
    if (file.read(position, buffer) != buffer.size())
      throw DatasetError(fmt::format("{}: ends in the readout at byte {}", file.name(), position));
    std::vector<float> samples(std::size_t{2} * head->samples * head->channels);
    for (std::size_t c = 0; c < head->channels; ++c)
      std::memcpy(samples.data() + c * 2 * head->samples, buffer.data() + c * block + kChannelHeadBytes,
                  block - kChannelHeadBytes);
    Acquisition out;
    out.head = acquisition_header(*head);
    out.head.sample_time_us = sample_time_us(measured.parameters, *head);
    out.head.available_channels = measured.survey.most_channels;
    out.data = Payload::take(std::move(samples));
    ++next;
    return out;
  }

  TwixOptions options;
  std::shared_ptr<TwixFile::Surveyed> surveyed;
  const RaidFile& file;
  const RaidEntry& entry;
  const Measured& measured;
  std::string header;
  bool own_encoding = true;  // in the header
  std::size_t readouts = 0;
  // Where reading stands: the index of the next readout, the place in the file, and what is to be skipped from there.
  std::size_t next = 0;
  std::uint64_t position = 0, pending = 0;
  std::vector<std::byte> buffer;
};

TwixReader::TwixReader(const TwixFile& file, const TwixOptions& options)
    : impl_(std::make_unique<Impl>(file.surveyed_, options)) {}
TwixReader::~TwixReader() = default;

std::string TwixReader::header_xml() const { return impl_->header; }
std::size_t TwixReader::acquisitions() const { return impl_->readouts; }
std::size_t TwixReader::measurement() const { return impl_->entry.number; }

std::string TwixReader::name() const {
  return fmt::format("measurement {}{}", impl_->entry.number,
                     impl_->entry.protocol.empty() ? "" : fmt::format(" ({})", impl_->entry.protocol));
}

Acquisition TwixReader::acquisition(std::size_t index) const {
  if (index >= impl_->readouts)
    throw DatasetError(fmt::format("{}: has no readout {}; there are {}", impl_->file.name(), index, impl_->readouts));
  if (index < impl_->next) {
    impl_->pending = 0;
    impl_->rewind();
  }
  while (impl_->next < index && impl_->next_head()) ++impl_->next;
  return impl_->read_next();
}

Waveform TwixReader::waveform(std::size_t /*index*/) const {
  throw DatasetError(impl_->file.name() + ": waveforms are not read of Siemens raw data");
}

std::size_t TwixReader::images(const std::string& /*series*/) const { return 0; }

Image TwixReader::image(const std::string& /*series*/, std::size_t /*index*/) const {
  throw DatasetError(impl_->file.name() + ": has no images");
}

std::vector<std::string> TwixReader::notes() const {
  std::vector<std::string> out;
  const Survey& s = impl_->measured.survey;
  if (s.sync_blocks > 0)
    out.push_back(fmt::format("left out: {} of other devices, such as physiology ({} bytes)",
                              pluralized(s.sync_blocks, "block"), s.sync_bytes));
  if (s.empty > 0) out.push_back(fmt::format("left out: {} without samples", pluralized(s.empty, "readout")));
  if (!s.complete)
    out.push_back(fmt::format("ends early, at byte {}; everything before is used{}", s.end,
                              impl_->entry.cut ? " (the directory announces more)" : ""));
  if (!impl_->own_encoding) return out;
  for (std::string& note : header_notes(impl_->measured.parameters, s)) out.push_back(std::move(note));
  return out;
}

TwixFile::TwixFile(const std::filesystem::path& file) : surveyed_(std::make_shared<Surveyed>(file)) {}

std::size_t TwixFile::measurements() const { return surveyed_->file.entries().size(); }

std::vector<std::size_t> TwixFile::preparations(std::size_t measurement, std::vector<std::string>& refused) const {
  const std::size_t last = surveyed_->file.entry(measurement).number;
  std::vector<std::size_t> out;
  for (std::size_t n = 1; n < last; ++n) {
    try {
      const Survey& found = surveyed_->of(n).survey;
      if (found.noise + found.prescan > 0) out.push_back(n);
    } catch (const DatasetError& error) {
      refused.emplace_back(error.what());
    }
  }
  return out;
}

}  // namespace echotrain::protocol::twix
