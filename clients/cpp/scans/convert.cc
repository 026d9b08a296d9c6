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

int from_stream(const ConvertOptions& o, Format to, MessageInput& input, std::ostream& out, std::ostream& err) {
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

/// An HDF5 file's messages as they go to a server, then its images, if they were not the scan, and CLOSE.
int from_dataset(const ConvertOptions& o, Format to, std::ostream& out, std::ostream& err) {
  DatasetSource scan(o.input, o.group);
  const auto output = open_output(o, to);
  if (!scan.header_xml().empty()) output->take(HeaderText{scan.header_xml()});
  while (auto chunk = scan.next()) output->take(*std::move(chunk));

  // The source has been read to its end, so nobody else uses the HDF5 library.
  const DatasetReader reader(o.input, o.group);
  std::ostream& report = report_of(o, out, err);
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
      .path("input", &O::input, "IN", "HDF5 file, stream file (a raw capture) or MRD 2 stream, or - for one on stdin")
      .positional()
      .required()
      .path("output", &O::output, "OUT", "file to write; a stream may go to - (stdout)")
      .positional()
      .required()
      .choice("to", &O::to, {"auto", "hdf5", "stream", "mrd2"},
              "what to write; auto: a stream of an HDF5 file or to stdout, and an HDF5 file of a stream")
      .path("config", &O::config, "NAME|FILE.yaml", "begin the stream with a pipeline: a name, or a .yaml file")
      .letter('c')
      .text("group", &O::group, "group of the HDF5 file")
      .letter('g');
}

int convert(const ConvertOptions& o, std::ostream& out, std::ostream& err) {
  MessageInput input(o.input);
  const bool to_stream = input.format() == Format::hdf5 || (input.format() == Format::mrd2 && is_pipe(o.output));
  const Format to = o.to == "hdf5"     ? Format::hdf5
                    : o.to == "mrd2"   ? Format::mrd2
                    : o.to == "stream" ? Format::stream
                    : to_stream        ? Format::stream
                                       : Format::hdf5;
  if (is_pipe(o.output) && to == Format::hdf5)
    throw UsageError("only a stream can go to stdout: name an HDF5 file to write, or say --to stream or --to mrd2");
  if (!o.config.empty() && to != Format::stream)
    throw UsageError("-c is for the beginning of a stream; HDF5 files and MRD 2 have no place for it");
  if (to == input.format())
    throw UsageError(fmt::format("{} is what the input is already: say --to with another format", format_name(to)));
  return input.format() == Format::hdf5 ? from_dataset(o, to, out, err) : from_stream(o, to, input, out, err);
}

}  // namespace echotrain::client
