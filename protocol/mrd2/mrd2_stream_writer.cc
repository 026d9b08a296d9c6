#include <fmt/format.h>

#include <array>
#include <bit>
#include <cerrno>
#include <system_error>
#include <vector>

#include "protocol/data/pixels.h"
#include "protocol/mrd2/header_text.h"
#include "protocol/mrd2/model.h"
#include "protocol/mrd2/mrd2_stream.h"
#include "protocol/mrd2/records.h"

namespace echotrain::protocol::mrd2 {
namespace {

constexpr std::uint32_t kEncodingVersion = 1;
constexpr std::string_view kNoHeaderText = "Dummy XML header";  // what FIRE sends where there is none

FileHandle open_for_writing(const std::filesystem::path& path) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) throw std::system_error(errno, std::generic_category(), "cannot make " + path.string());
  return FileHandle(file, FileCloser{true});
}

}  // namespace

struct Mrd2Writer::Impl {
  explicit Impl(FileHandle file) : out(std::move(file)) {}

  ValueWriter out;
  bool begun = false, header_done = false;
  LeftOut left_out;

  void begin() {
    if (begun) return;
    begun = true;
    out.bytes(std::as_bytes(std::span(kMagic)));
    out.bytes(std::as_bytes(std::span(&kEncodingVersion, 1)));
    out.text(model_text());
  }

  void no_header() {
    begin();
    if (!header_done) out.natural(0);
    header_done = true;
  }

  Status header(const std::string& xml) {
    if (header_done) return Error{"unexpected-message", "a header after the beginning of an MRD 2 stream"};
    if (xml == kNoHeaderText) return {};
    std::vector<std::string> lost;
    const auto value = read_header_text(xml, Limits{}, lost);
    if (!value) return value.error();
    for (const std::string& path : lost) ++left_out["header element " + path];
    begin();
    out.write(*model().steps[0].type, *value);
    header_done = true;
    return {};
  }

  /// One block of one item.
  void item(const Value& record) {
    no_header();
    const Type& type = *model().steps[1].type;
    std::size_t which = 0;
    while (type.members.at(which).type.get() != record.type) ++which;
    out.natural(1);
    out.natural(which);
    out.write(*record.type, record);
  }
};

Mrd2Writer::Mrd2Writer(const std::filesystem::path& file) : impl_(std::make_unique<Impl>(open_for_writing(file))) {}
Mrd2Writer::Mrd2Writer(std::FILE* file) : impl_(std::make_unique<Impl>(FileHandle(file, FileCloser{false}))) {}
Mrd2Writer::~Mrd2Writer() = default;
Mrd2Writer::Mrd2Writer(Mrd2Writer&&) noexcept = default;

Status Mrd2Writer::write(const Message& message) {
  const auto wrong_size = [](std::string_view what) {
    return Error{"malformed", fmt::format("{} does not have the data that its head says", what)};
  };
  if (const auto* header = std::get_if<HeaderText>(&message)) return impl_->header(header->xml);
  if (const auto* readout = std::get_if<Acquisition>(&message)) {
    const AcquisitionHeader& head = readout->head;
    const std::uint64_t samples = std::uint64_t{head.number_of_samples};
    if (readout->data.bytes.size() != samples * head.active_channels * sizeof(std::complex<float>) ||
        readout->trajectory.bytes.size() != samples * head.trajectory_dimensions * sizeof(float))
      return wrong_size("a readout");
    impl_->item(acquisition_record(*readout));
  } else if (const auto* waveform = std::get_if<Waveform>(&message)) {
    if (waveform->data.bytes.size() !=
        std::uint64_t{waveform->head.number_of_samples} * waveform->head.channels * sizeof(std::uint32_t))
      return wrong_size("a waveform");
    impl_->item(waveform_record(*waveform));
  } else if (const auto* image = std::get_if<Image>(&message)) {
    const auto size = pixel_bytes(image->head, ~std::uint64_t{0});
    if (!size || *size != image->pixels.bytes.size()) return wrong_size("an image");
    bool meta_lost = false;
    impl_->item(image_record(*image, meta_lost));
    if (meta_lost) ++impl_->left_out["image's attributes that are no ismrmrdMeta text"];
  }
  return {};
}

void Mrd2Writer::finish() {
  impl_->no_header();
  impl_->out.natural(0);
  impl_->out.flush();
}

const LeftOut& Mrd2Writer::left_out() const { return impl_->left_out; }

}  // namespace echotrain::protocol::mrd2
