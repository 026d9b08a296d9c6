#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <system_error>

#include "protocol/data/text.h"
#include "protocol/mrd2/header_text.h"
#include "protocol/mrd2/model.h"
#include "protocol/mrd2/mrd2_stream.h"
#include "protocol/mrd2/records.h"

namespace echotrain::protocol::mrd2 {
namespace {

constexpr std::uint32_t kVersion = 1;              // of the encoding
constexpr std::uint64_t kHeadBytes = 64ull << 20;  // of memory, for the small values of an item
constexpr std::size_t kMostReasons = 64;           // that are told apart
constexpr std::size_t kHeaderStep = 0, kDataStep = 1;

FileHandle open_for_reading(const std::filesystem::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) throw std::system_error(errno, std::generic_category(), "cannot open " + path.string());
  return FileHandle(file, FileCloser{true});
}

}  // namespace

struct Mrd2Reader::Impl {
  Impl(FileHandle file, const Limits& given, std::span<const std::byte> begun)
      : limits(given), source(std::move(file), begun) {}

  Limits limits;
  ByteSource source;
  Schema schema;
  enum class State { begin, header, data, closed, failed } state = State::begin;
  std::uint64_t items_left = 0, items = 0, item_begin = 0;  // items_left: in this block
  LeftOut left_out;
  Error failure;

  std::optional<Message> next() {
    if (state == State::begin) {
      read_beginning();
      state = State::header;
    }
    if (state == State::header) {
      state = State::data;
      if (auto header = read_header()) return header;
    }
    while (state == State::data) {
      if (items_left == 0) items_left = source.natural();
      if (items_left == 0) {
        state = State::closed;
        return Close{};
      }
      --items_left;
      ++items;
      if (auto message = read_item()) return message;
    }
    return std::nullopt;
  }

  void read_beginning() {
    std::array<std::byte, kMagic.size()> magic{};
    source.read(magic);
    if (!std::equal(magic.begin(), magic.end(), std::as_bytes(std::span(kMagic)).begin()))
      refuse("malformed", 0, "no stream of yardl: it does not begin with 'yardl'");
    std::array<std::byte, 4> version{};
    source.read(version);
    if (const auto number = std::bit_cast<std::uint32_t>(version); number != kVersion)
      refuse("bad-version", kMagic.size(), fmt::format("version {} of yardl's encoding; only 1 is supported", number));
    const std::uint64_t length = source.natural();
    if (length > kMostSchemaBytes)
      refuse("too-large", source.position(),
             fmt::format("a schema of {} bytes; at most {} are allowed", length, kMostSchemaBytes));
    const std::uint64_t begin = source.position();
    const auto bytes = source.bytes(length);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text == model_text()) {
      schema = model();
      return;
    }
    schema = read_schema(text, begin);
    const auto& steps = schema.steps;
    if (schema.protocol != "Mrd" || steps.size() != 2 || steps[kHeaderStep].is_stream || !steps[kDataStep].is_stream ||
        !steps[kHeaderStep].type->is_optional() || steps[kDataStep].type->kind != Type::Kind::choice)
      refuse("bad-schema", begin,
             fmt::format("the protocol '{}', which is not 'Mrd' with a header and a stream of data",
                         quotable(schema.protocol)));
    note_unknown_fields();
  }

  /// Fields that this program does not know are left out of every record.
  void note_unknown_fields() {
    for (const char* name :
         {"Header", "EncodingType", "SequenceParametersType", "MeasurementInformationType", "AcquisitionHeader",
          "EncodingCounters", "Acquisition", "ImageHeader", "Image<float32>", "Waveform<uint32>"}) {
      const Type* theirs = find_type(schema, name);
      const Type* ours = find_type(model(), name);
      if (theirs == nullptr || theirs->kind != Type::Kind::record) continue;
      for (const auto& field : theirs->members)
        if (std::none_of(ours->members.begin(), ours->members.end(),
                         [&](const auto& known) { return known.name == field.name; }))
          left_out[fmt::format("field {}.{}, which MRD 2.1 does not know", name, quotable(field.name))] = 1;
    }
  }

  std::optional<Message> read_header() {
    item_begin = source.position();
    ValueReader reader(source, std::min(kHeadBytes, 4 * limits.header_bytes));
    const Value header = reader.read(*schema.steps[kHeaderStep].type);
    if (header.is_null()) return std::nullopt;
    if (header.type->kind != Type::Kind::record) refuse("bad-schema", item_begin, "a header that is no record");
    return HeaderText{header_text(header)};
  }

  std::optional<Message> read_item() {
    item_begin = source.position();
    const Type& type = *schema.steps[kDataStep].type;
    const std::uint64_t which = source.natural();
    if (which >= type.members.size() || !type.members[which].type)
      refuse("malformed", item_begin, fmt::format("an item of kind {}; there are {}", which, type.members.size()));
    const Type& item = *type.members[which].type;
    const bool readout = item.name == "Acquisition", waveform = item.name == "Waveform<uint32>";
    if (!readout && !waveform && item.name.rfind("Image<", 0) != 0) {
      ValueReader(source, 0).skip(item);
      ++left_out[type.members[which].name.empty() ? quotable(item.name) : quotable(type.members[which].name)];
      return std::nullopt;
    }
    const std::uint64_t most = readout    ? limits.acquisition_bytes
                               : waveform ? limits.waveform_bytes
                                          : limits.image_bytes + limits.attribute_bytes;
    const Value value = ValueReader(source, most + kHeadBytes).read(item);
    try {
      if (readout) return read_acquisition(value);
      if (waveform) return read_waveform(value);
      return read_image(value);
    } catch (const DoesNotFit& error) {
      const std::string what = fmt::format("{} that ISMRMRD cannot hold: {}", quotable(item.name), error.what());
      const bool room = left_out.size() < kMostReasons || left_out.count(what) > 0;
      ++left_out[room ? what : "further items that ISMRMRD cannot hold"];
      return std::nullopt;
    }
  }
};

Mrd2Reader::Mrd2Reader(const std::filesystem::path& file, const Limits& limits)
    : impl_(std::make_unique<Impl>(open_for_reading(file), limits, std::span<const std::byte>())) {}

Mrd2Reader::Mrd2Reader(std::FILE* file, const Limits& limits, std::span<const std::byte> begun)
    : impl_(std::make_unique<Impl>(FileHandle(file, FileCloser{false}), limits, begun)) {}

Mrd2Reader::~Mrd2Reader() = default;
Mrd2Reader::Mrd2Reader(Mrd2Reader&&) noexcept = default;

Result<std::optional<Message>> Mrd2Reader::next() {
  if (impl_->state == Impl::State::failed) return impl_->failure;
  try {
    return impl_->next();
  } catch (const Refusal& refusal) {
    Error& failure = impl_->failure = refusal.error;
    if (impl_->items > 0)
      failure.message =
          fmt::format("item {}, which begins at byte {}: {}", impl_->items, impl_->item_begin, failure.message);
    impl_->state = Impl::State::failed;
    return failure;
  }
}

const LeftOut& Mrd2Reader::left_out() const { return impl_->left_out; }

}  // namespace echotrain::protocol::mrd2
