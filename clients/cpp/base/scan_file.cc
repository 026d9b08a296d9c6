#include "clients/cpp/base/scan_file.h"

#include <fmt/format.h>

#include <ostream>
#include <utility>

#include "clients/cpp/base/usage_error.h"
#include "protocol/data/pluralized.h"
#include "protocol/files/dataset.h"
#include "protocol/pulseq/pulseq_reader.h"
#include "protocol/twix/raid.h"
#include "protocol/twix/twix_reader.h"

namespace echotrain::client {

using namespace protocol;

config::OptionTable<MeasurementChoice> measurement_options() {
  using O = MeasurementChoice;
  return config::OptionTable<O>()
      .integer("measurement", &O::measurement, 0, twix::kMostMeasurements,
               "which measurement of a Siemens file, from 1; 0: the last one, with the noise of those before it")
      .flag("patient", &O::patient, "keep a Siemens file's name, ID, birth date, sex and weight of the patient")
      .path("seq", &O::sequence, "FILE.seq",
            "the scan's Pulseq file: labels, field of view, matrix and trajectory come from it");
}

bool is_scanner_file(const std::filesystem::path& file) { return twix::file_kind(file) != twix::FileKind::other; }

void refuse_choice(const std::filesystem::path& file, const MeasurementChoice& choice) {
  if (choice.measurement > 0 || choice.patient)
    throw UsageError(fmt::format("--measurement and --patient are for raw data of Siemens scanners, which {} is not",
                                 file.string()));
}

namespace {

std::unique_ptr<ScanReader> open_plain(const std::filesystem::path& file, const std::string& group,
                                       const MeasurementChoice& choice, std::ostream& err) {
  if (!is_scanner_file(file)) {
    refuse_choice(file, choice);
    return std::make_unique<DatasetReader>(file, group);
  }
  twix::TwixOptions options;
  options.measurement = static_cast<std::size_t>(choice.measurement);
  options.patient = choice.patient;
  auto reader = std::make_unique<twix::TwixReader>(file, options);
  for (const std::string& note : reader->notes())
    err << fmt::format("{}: {}: {}\n", file.string(), reader->name(), note);
  return reader;
}

}  // namespace

std::unique_ptr<ScanReader> open_scan_file(const std::filesystem::path& file, const std::string& group,
                                           const MeasurementChoice& choice, std::ostream& err) {
  auto plain = open_plain(file, group, choice, err);
  if (choice.sequence.empty()) return plain;
  auto reader = std::make_unique<pulseq::PulseqReader>(std::move(plain), choice.sequence);
  for (const std::string& note : reader->notes()) err << fmt::format("{}: {}\n", choice.sequence.string(), note);
  return reader;
}

std::vector<Preparation> open_preparations(const std::filesystem::path& file, const MeasurementChoice& choice,
                                           std::ostream& err) {
  std::vector<Preparation> out;
  if (!is_scanner_file(file)) return out;
  const auto scan = static_cast<std::size_t>(choice.measurement);
  std::vector<std::string> refused;
  const twix::TwixFile raid(file);
  for (const std::size_t number : raid.preparations(scan, refused)) {
    try {
      auto reader =
          std::make_unique<twix::TwixReader>(raid, twix::TwixOptions{.measurement = number, .preparation_for = scan});
      std::string name = reader->name();
      out.push_back({std::move(name), std::move(reader)});
    } catch (const DatasetError& error) {
      refused.emplace_back(error.what());
    }
  }
  for (const std::string& why : refused) err << "warning: " << why << '\n';
  return out;
}

void announce(const std::filesystem::path& file, const Preparation& preparation, std::ostream& err) {
  err << fmt::format("{}: {} goes first: {} of noise or for receive fields\n", file.string(), preparation.name,
                     pluralized(preparation.reader->acquisitions(), "readout"));
}

}  // namespace echotrain::client
