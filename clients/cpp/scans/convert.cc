#include "clients/cpp/scans/convert.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <ostream>
#include <string_view>
#include <system_error>
#include <utility>

#include "clients/cpp/base/errors.h"
#include "clients/cpp/connection/config_message.h"
#include "clients/cpp/connection/scan_source.h"
#include "clients/cpp/scans/verify.h"
#include "protocol/files/dataset.h"
#include "protocol/files/stream_file.h"

namespace echotrain::client {
namespace {

using namespace protocol;

bool is_pipe(const std::filesystem::path& path) { return path == "-"; }

bool is_hdf5(const std::filesystem::path& path) {
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  std::array<char, kSignature.size()> begin{};
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::system_error(errno, std::generic_category(), "cannot open " + path.string());
  file.read(begin.data(), begin.size());
  return file && std::string_view(begin.data(), begin.size()) == kSignature;
}

struct Counts {
  std::size_t readouts = 0, waveforms = 0, images = 0, configurations = 0, texts = 0, queries = 0;

  std::string text() const { return fmt::format("{} readouts, {} waveforms, {} images", readouts, waveforms, images); }
  /// What is left out, as an HDF5 file has no place for it.
  std::string left_out() const {
    std::string all;
    const auto add = [&](std::size_t n, const char* what) {
      if (n > 0) all += fmt::format("{}{} {}{}", all.empty() ? "" : ", ", n, what, n == 1 ? "" : "s");
    };
    add(configurations, "configuration");
    add(texts, "text");
    add(queries, "query or response message");
    return all;
  }
};

// --- stream to HDF5
// ----------------------------------------------------------------------------------------------------

class ToDataset {
 public:
  explicit ToDataset(const ConvertOptions& o) : file_(o.output, o.group) {}

  void take(const Message& message) {
    std::visit([this](const auto& content) { take(content); }, message);
  }
  void finish() { file_.flush(); }
  const Counts& counts() const { return counts_; }

 private:
  void take(const HeaderText& header) {
    if (header.xml != kNoHeader) file_.header_xml(header.xml);
  }
  void take(const Acquisition& readout) {
    file_.append(readout);
    ++counts_.readouts;
  }
  void take(const Waveform& waveform) {
    file_.append(waveform);
    ++counts_.waveforms;
  }
  void take(const Image& image) {
    file_.append(image);
    ++counts_.images;
  }
  void take(const ConfigFile& /*config*/) { ++counts_.configurations; }
  void take(const ConfigText& /*config*/) { ++counts_.configurations; }
  void take(const Text& /*text*/) { ++counts_.texts; }
  void take(const Query& /*query*/) { ++counts_.queries; }
  void take(const Response& /*response*/) { ++counts_.queries; }
  void take(const Close& /*close*/) {}

  DatasetWriter file_;
  Counts counts_;
};

int to_dataset(const ConvertOptions& o, std::ostream& out, std::ostream& err) {
  Limits limits;
  limits.response_bytes = limits.text_bytes;  // the stream may be a server's
  StreamReader stream = is_pipe(o.input) ? StreamReader(stdin, limits) : StreamReader(o.input, limits);
  const std::string name = is_pipe(o.input) ? "stdin" : o.input.string();
  auto message = stream.next();
  if (!message && message.error().code != "truncated")  // before the output is touched
    throw UsageError(fmt::format("{}: is neither an HDF5 file nor a stream: {}", name, message.error().message));
  if (!is_pipe(o.input)) warn_of_damage(o.input, err);
  ToDataset dataset(o);
  bool closed = false;
  while (message && *message && !closed) {
    dataset.take(**message);
    closed = std::holds_alternative<Close>(**message);
    if (!closed) message = stream.next();
  }
  dataset.finish();
  out << fmt::format("{}: {}\n", o.output.string(), dataset.counts().text());
  if (const std::string left_out = dataset.counts().left_out(); !left_out.empty())
    out << fmt::format("left out, as ISMRMRD HDF5 has no place for it: {}\n", left_out);
  if (!message)
    err << fmt::format("warning: {}: {}; everything before is in {}\n", name, message.error().message,
                       o.output.string());
  else if (!closed)
    err << fmt::format("warning: {}: ends without CLOSE, so the scan was not over\n", name);
  return message || message.error().code == "truncated" ? 0 : 1;
}

// --- HDF5 to stream
// ----------------------------------------------------------------------------------------------------

/// Bytes to a file or to stdout.
class Output {
 public:
  explicit Output(const std::filesystem::path& path)
      : file_(is_pipe(path) ? stdout : std::fopen(path.c_str(), "wb"), FileCloser{!is_pipe(path)}) {
    if (!file_) throw std::system_error(errno, std::generic_category(), "cannot make " + path.string());
  }
  void write(const Buffer& bytes) {
    if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail();
  }
  void finish() {
    if (std::fflush(file_.get()) != 0) fail();
  }

 private:
  [[noreturn]] static void fail() {
    throw std::system_error(errno, std::generic_category(), "cannot write the stream");
  }
  FileHandle file_;
};

int to_stream(const ConvertOptions& o, std::ostream& out, std::ostream& err) {
  DatasetSource scan(o.input, o.group);
  Buffer bytes;
  if (!o.config.empty()) bytes = config_message(o.config, /*text_wanted=*/false, /*token=*/"");
  if (!scan.header_xml().empty()) encode(HeaderText{scan.header_xml()}, bytes);
  Output stream(o.output);
  stream.write(bytes);
  Counts counts;
  while (const auto chunk = scan.next()) stream.write(chunk->bytes);

  // The source has been read to its end, so nobody else uses the HDF5 library.
  const DatasetReader reader(o.input, o.group);
  counts.readouts = reader.acquisitions();
  counts.waveforms = reader.waveforms();
  std::ostream& report = is_pipe(o.output) ? err : out;
  for (const std::string& series : reader.image_series()) {
    for (std::size_t i = 0; i < reader.images(series); ++i) {
      const Image image = reader.image(series, i);
      const std::string comes_back_as = fmt::format("image_{}", +image.head.image_series_index);
      if (i == 0 && series != comes_back_as)
        report << fmt::format("the stream cannot hold the name of series '{}'; it comes back as '{}'\n", series,
                              comes_back_as);
      ++counts.images;
      if (counts.readouts == 0) continue;  // the images were the scan, and are sent already
      bytes.clear();
      encode(image, bytes);
      stream.write(bytes);
    }
  }
  bytes.clear();
  encode(Close{}, bytes);
  stream.write(bytes);
  stream.finish();
  report << fmt::format("{}: {}\n", is_pipe(o.output) ? "stdout" : o.output.string(), counts.text());
  return 0;
}

}  // namespace

config::OptionTable<ConvertOptions> convert_options() {
  using O = ConvertOptions;
  return config::OptionTable<O>()
      .path("input", &O::input, "IN", "HDF5 file, or stream file (a raw capture), or - for a stream on stdin")
      .positional()
      .required()
      .path("output", &O::output, "OUT", "the other of the two; a stream may go to - (stdout)")
      .positional()
      .required()
      .path("config", &O::config, "NAME|FILE.yaml", "begin the stream with a pipeline: a name, or a .yaml file")
      .letter('c')
      .text("group", &O::group, "group of the HDF5 file")
      .letter('g');
}

int convert(const ConvertOptions& o, std::ostream& out, std::ostream& err) {
  if (!is_pipe(o.input) && is_hdf5(o.input)) return to_stream(o, out, err);
  if (is_pipe(o.output)) throw UsageError("only a stream can go to stdout: name an HDF5 file to write");
  if (!o.config.empty()) throw UsageError("-c is for the beginning of a stream, and an HDF5 file has no place for it");
  return to_dataset(o, out, err);
}

}  // namespace echotrain::client
