#include "clients/cpp/scans/convert.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <ostream>
#include <string_view>
#include <utility>

#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/connection/config_message.h"
#include "clients/cpp/connection/scan_source.h"
#include "clients/cpp/scans/message_input.h"
#include "clients/cpp/scans/message_output.h"
#include "clients/cpp/scans/verify.h"
#include "protocol/files/dataset.h"

namespace echotrain::client {
namespace {

using namespace protocol;

bool is_pipe(const std::filesystem::path& path) { return path == "-"; }

std::ostream& report_of(const ConvertOptions& o, std::ostream& out, std::ostream& err) {
  return is_pipe(o.output) ? err : out;
}

void summarise(const ConvertOptions& o, MessageOutput& output, std::ostream& report) {
  report << fmt::format("{}: {}\n", is_pipe(o.output) ? "stdout" : o.output.string(), output.counts().text());
  if (const std::string left_out = output.left_out(); !left_out.empty())
    report << fmt::format("left out, as {} has no place for it: {}\n", output.format(), left_out);
}

std::unique_ptr<MessageOutput> open_output(const ConvertOptions& o, Format format) {
  if (format == Format::hdf5) return dataset_output(o.output, o.group);
  if (format == Format::mrd2) return is_pipe(o.output) ? mrd2_output(stdout) : mrd2_output(o.output);
  auto output = is_pipe(o.output) ? stream_output(stdout) : stream_output(o.output);
  if (!o.config.empty()) output->bytes(config_message(o.config, /*text_wanted=*/false, /*token=*/""));
  return output;
}

/// Names the measurements of a scanner's file that the converted one may use.
void tell_of_preparations(const ConvertOptions& o, std::ostream& report, std::ostream& err) {
  std::string names;
  for (const Preparation& each : open_preparations(o.input, o.choice, err))
    names += (names.empty() ? "" : ", ") + each.name;
  if (!names.empty())
    report << fmt::format("left out, as the output holds one scan: {}; --measurement N converts one of them\n", names);
}

int from_stream(const ConvertOptions& o, Format to, MessageInput& input, std::ostream& out, std::ostream& err) {
  refuse_choice(o.input, o.choice);
  const std::string name = is_pipe(o.input) ? "stdin" : o.input.string();
  auto message = input.next();
  if (!message && message.error().code != "truncated") {  // before the output is touched
    if (input.format() == Format::mrd2)
      throw std::runtime_error(fmt::format("{}: cannot be read as MRD 2: {}", name, message.error().message));
    throw UsageError(fmt::format("{}: is neither an HDF5 file nor a stream: {}", name, message.error().message));
  }
  if (!is_pipe(o.input)) warn_of_damage(o.input, err);
  const auto output = open_output(o, to);
  bool closed = false;
  while (message && *message && !closed) {
    output->take(**message);
    closed = std::holds_alternative<Close>(**message);
    if (!closed) message = input.next();
  }
  output->finish();
  std::ostream& report = report_of(o, out, err);
  summarise(o, *output, report);
  if (const std::string left_out = input.left_out(); !left_out.empty())
    report << fmt::format("left out, as ISMRMRD has no place for it: {}\n", left_out);
  if (!message)
    err << fmt::format("warning: {}: {}; everything before is in {}\n", name, message.error().message,
                       is_pipe(o.output) ? "the output" : o.output.string());
  else if (!closed)
    err << fmt::format("warning: {}: ends without CLOSE, so the scan was not over\n", name);
  return message || message.error().code == "truncated" ? 0 : 1;
}

/// A file's messages as they go to a server, then its images, if they were not the scan, and CLOSE.
int from_dataset(const ConvertOptions& o, Format to, std::ostream& out, std::ostream& err) {
  auto file = open_scan_file(o.input, o.group, o.choice, err);
  std::ostream& report = report_of(o, out, err);
  if (to == Format::hdf5 && !is_scanner_file(o.input)) {  // by one thread, as the HDF5 library needs it
    const auto output = open_output(o, to);
    if (const std::string xml = file->header_xml(); !xml.empty()) output->take(HeaderText{xml});
    for (std::size_t i = 0; i < file->acquisitions(); ++i) output->take(file->acquisition(i));
    for (std::size_t i = 0; i < file->waveforms(); ++i) output->take(file->waveform(i));
    output->finish();
    summarise(o, *output, report);
    return 0;
  }
  DatasetSource scan(std::move(file));
  const auto output = open_output(o, to);
  if (!scan.header_xml().empty()) output->take(HeaderText{scan.header_xml()});
  while (auto chunk = scan.next()) output->take(*std::move(chunk));

  if (is_scanner_file(o.input)) {
    output->take(Close{});
    output->finish();
    summarise(o, *output, report);
    tell_of_preparations(o, report, err);
    return 0;
  }
  // The source has been read to its end, so nobody else uses the HDF5 library.
  const DatasetReader reader(o.input, o.group);
  for (const std::string& series : reader.image_series()) {
    for (std::size_t i = 0; i < reader.images(series); ++i) {
      const Image image = reader.image(series, i);
      const std::string comes_back_as = fmt::format("image_{}", +image.head.image_series_index);
      if (i == 0 && series != comes_back_as)
        report << fmt::format("the stream cannot hold the name of series '{}'; it comes back as '{}'\n", series,
                              comes_back_as);
      if (reader.acquisitions() > 0) output->take(image);  // otherwise images were the scan, and are written already
    }
  }
  output->take(Close{});
  output->finish();
  summarise(o, *output, report);
  return 0;
}

}  // namespace

config::OptionTable<ConvertOptions> convert_options() {
  using O = ConvertOptions;
  return config::OptionTable<O>()
      .path("input", &O::input, "IN",
            "HDF5 file, stream file (a raw capture), MRD 2 stream, raw data of a Siemens scanner, or - for stdin")
      .positional()
      .required()
      .path("output", &O::output, "OUT", "file to write; a stream may go to - (stdout)")
      .positional()
      .required()
      .choice("to", &O::to, {"auto", "hdf5", "stream", "mrd2"},
              "what to write; auto: a stream of an HDF5 file or to stdout, and an HDF5 file of a stream")
      .path("config", &O::config, "NAME|FILE.yaml", "begin the stream with a pipeline: a name, or a .yaml file")
      .letter('c')
      .path("pipeline", &O::config, "NAME|FILE.yaml", "the same as --config")
      .text("group", &O::group, "group of the HDF5 file")
      .letter('g')
      .group("", &O::choice, measurement_options());
}

int convert(const ConvertOptions& o, std::ostream& out, std::ostream& err) {
  MessageInput input(o.input);
  const bool scanner = input.format() == Format::scanner;
  const bool sequence = !o.choice.sequence.empty();
  const bool to_stream = (input.format() == Format::hdf5 && (!sequence || is_pipe(o.output))) ||
                         ((scanner || input.format() == Format::mrd2) && is_pipe(o.output));
  const Format to = o.to == "hdf5"     ? Format::hdf5
                    : o.to == "mrd2"   ? Format::mrd2
                    : o.to == "stream" ? Format::stream
                    : to_stream        ? Format::stream
                                       : Format::hdf5;
  if (is_pipe(o.output) && to == Format::hdf5)
    throw UsageError("only a stream can go to stdout: name an HDF5 file to write, or say --to stream or --to mrd2");
  if (!o.config.empty() && to != Format::stream)
    throw UsageError("-c is for the beginning of a stream; HDF5 files and MRD 2 have no place for it");
  if (sequence && input.format() != Format::hdf5 && !scanner)
    throw UsageError("--seq takes an ISMRMRD file or raw data of a Siemens scanner: convert the stream first");
  if (to == input.format() && !sequence)
    throw UsageError(fmt::format("{} is what the input is already: say --to with another format", format_name(to)));
  return input.format() == Format::hdf5 || scanner ? from_dataset(o, to, out, err)
                                                   : from_stream(o, to, input, out, err);
}

}  // namespace echotrain::client
