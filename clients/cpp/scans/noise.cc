#include "clients/cpp/scans/noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "clients/cpp/base/json_output.h"
#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/connection/query.h"
#include "clients/cpp/connection/remote_options.h"
#include "gadgets/numerics/mri/coils/coil.h"
#include "protocol/data/acquisition_check.h"
#include "protocol/data/header.h"
#include "protocol/files/dataset.h"

namespace echotrain::client {
namespace {

/// The noise readouts of a group together.
struct GroupNoise {
  std::optional<numerics::NoiseCovariance> covariance;
  std::size_t readouts = 0;
  double dwell_us = 0;
};

/// The facts that are printed.
struct CoilNoise {
  std::string about;                          // a line without its samples
  std::vector<numerics::cdouble> covariance;  // [coil, coil]
  std::vector<std::string> labels;
};

GroupNoise noise_of(const protocol::DatasetReader& reader) {
  GroupNoise out;
  for (std::size_t i = 0; i < reader.acquisitions(); ++i) {
    const protocol::Acquisition readout = reader.acquisition(i);
    const protocol::AcquisitionHeader head = readout.head;
    if (protocol::readout_kind(head) != protocol::ReadoutKind::noise) continue;
    const int coils = head.active_channels;
    if (!out.covariance) {
      out.covariance.emplace(coils);
      out.dwell_us = head.sample_time_us;
    }
    if (coils != out.covariance->coils())
      throw std::runtime_error(
          fmt::format("noise readouts have {} channels, but those before had {}", coils, out.covariance->coils()));
    std::vector<numerics::cfloat> samples(static_cast<std::size_t>(coils) * head.number_of_samples);
    readout.data.copy_to(samples.data());
    out.covariance->add({samples.data(), {coils, head.number_of_samples}});
    ++out.readouts;
  }
  return out;
}

std::vector<std::string> labels_of(const std::string& xml, std::size_t coils) {
  const auto header = protocol::parse_header(xml, {});
  std::vector<std::string> labels;
  if (header && header->coil_labels.size() == coils) labels = header->coil_labels;
  labels.resize(coils);
  return labels;
}

// Calls `take` with each pair of coils whose correlation is above `least`.
template <class Take>
void for_correlated(const std::vector<numerics::cdouble>& covariance, const std::vector<double>& deviations,
                    double least, const Take& take) {
  const std::size_t coils = deviations.size();
  for (std::size_t a = 0; a < coils; ++a)
    for (std::size_t b = a + 1; b < coils; ++b) {
      const double both = 2 * deviations[a] * deviations[b];
      const double correlation = both > 0 ? std::abs(covariance[a * coils + b]) / both : 0;
      if (correlation > least) take(a, b, correlation);
    }
}

// Prints it, or, with a document, adds it there.
void print_noise(const CoilNoise& noise, const std::string& of, double least, std::ostream& out, Json* document) {
  const std::vector<numerics::cdouble>& covariance = noise.covariance;
  const std::size_t coils = noise.labels.size();
  std::vector<double> deviations;
  for (std::size_t c = 0; c < coils; ++c) deviations.push_back(std::sqrt(covariance[c * coils + c].real() / 2));
  std::vector<double> sorted = deviations;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(coils / 2), sorted.end());
  const double median = sorted[coils / 2];

  if (document != nullptr) {
    Json each = {{"of", of}, {"about", noise.about}, {"coils", Json::array()}, {"correlated", Json::array()}};
    for (std::size_t c = 0; c < coils; ++c)
      each["coils"].push_back({{"deviation", deviations[c]},
                               {"of_median", median > 0 ? deviations[c] / median : 0},
                               {"label", noise.labels[c]}});
    for_correlated(covariance, deviations, least, [&](std::size_t a, std::size_t b, double correlation) {
      each["correlated"].push_back({{"coils", {a, b}}, {"correlation", correlation}});
    });
    (*document)["noise"].push_back(std::move(each));
    return;
  }
  out << of << '\n' << "  " << noise.about << '\n';
  out << "  coil          std  of median  label\n";
  for (std::size_t c = 0; c < coils; ++c)
    out << fmt::format("  {:4}  {:11.5g}  {:9.3f}  {}\n", c, deviations[c], median > 0 ? deviations[c] / median : 0,
                       noise.labels[c]);
  for_correlated(covariance, deviations, least, [&](std::size_t a, std::size_t b, double correlation) {
    out << fmt::format("  coils {} and {}: correlation {:.3f}\n", a, b, correlation);
  });
}

/// Reads the answer to echotrain::noise_matrix/ID (docs/protocol.md); nothing when it is not of that form.
std::optional<CoilNoise> noise_in(const std::string& answer) {
  std::istringstream in(answer);
  std::string line, word;
  std::size_t coils = 0, samples = 0;
  double dwell_us = 0, age_s = 0;
  constexpr std::size_t kMostCoils = 1024;
  if (!std::getline(in, line)) return std::nullopt;
  std::istringstream head(line);
  const auto named = [&](const char* name, auto& value) { return head >> word && word == name && head >> value; };
  if (!named("coils", coils) || !named("samples", samples) || !named("us", dwell_us) || !named("age_s", age_s) ||
      coils < 1 || coils > kMostCoils)
    return std::nullopt;
  CoilNoise noise{
      fmt::format("{} samples of {} coils, {:g} us a sample, {:.1f} h ago", samples, coils, dwell_us, age_s / 3600),
      std::vector<numerics::cdouble>(coils * coils),
      {}};
  for (std::size_t c = 0; c < coils; ++c) {
    if (!std::getline(in, line) || !line.starts_with("label ")) return std::nullopt;
    noise.labels.push_back(line.substr(6));
  }
  for (std::size_t a = 0; a < coils; ++a)
    for (std::size_t b = 0; b <= a; ++b) {
      double real = 0, imaginary = 0;
      if (!(in >> real >> imaginary)) return std::nullopt;
      noise.covariance[a * coils + b] = {real, imaginary};
      noise.covariance[b * coils + a] = {real, -imaginary};
    }
  return noise;
}

void noise_of_server(const NoiseOptions& options, std::ostream& out, Json* document) {
  const ServerAddress server = parse_server(options.server, options.tls, options.tls_settings);
  const std::chrono::duration<double> timeout(options.timeout_s);
  const std::string pipelines = ask(server, "echotrain::pipelines", timeout);
  protocol::Buffer config;  // of any pipeline: it gives a session, and nothing is sent to it
  encode_config(pipelines.substr(0, pipelines.find(':')), "", RemoteOptions().token(), config);
  const std::string answer = ask(server, "echotrain::noise_matrix/" + options.id, timeout, config);
  if (answer == "unknown")
    throw std::runtime_error(fmt::format("{} keeps no noise of the measurement {}", options.server, options.id));
  const auto noise = noise_in(answer);
  if (!noise) throw std::runtime_error(fmt::format("{} does not know the question for noise", options.server));
  print_noise(*noise, "measurement " + options.id, options.correlation, out, document);
}

void noise_of_file(const NoiseOptions& options, std::ostream& out, Json* document) {
  bool found = false;
  for (const auto& group : protocol::DatasetReader::groups(options.input)) {
    const protocol::DatasetReader reader(options.input, group);
    const GroupNoise noise = noise_of(reader);
    if (!noise.covariance || noise.covariance->samples() < 2) continue;
    found = true;
    const auto coils = static_cast<std::size_t>(noise.covariance->coils());
    print_noise({fmt::format("{} noise readouts, {} samples of {} coils, {:g} us a sample", noise.readouts,
                             noise.covariance->samples(), coils, noise.dwell_us),
                 noise.covariance->covariance(), labels_of(reader.header_xml(), coils)},
                "group " + group, options.correlation, out, document);
  }
  if (!found) throw std::runtime_error(options.input.string() + " holds no noise readouts (flag 19)");
}

}  // namespace

config::OptionTable<NoiseOptions> noise_options() {
  using O = NoiseOptions;
  return config::OptionTable<O>()
      .path("input", &O::input, "IN.h5", "ISMRMRD file")
      .positional()
      .text("server", &O::server, "HOST:PORT of a server that was sent a noise scan, in place of a file")
      .text("id", &O::id, "measurement ID of that scan")
      .flag("tls", &O::tls, "connect with TLS, to the server's TLS port")
      .group("", &O::tls_settings, tls_options())
      .number("timeout", &O::timeout_s, 0.001, 1e6, "longest wait for the server's answer")
      .unit("s")
      .number("correlation", &O::correlation, 0, 1, "list pairs of coils whose correlation is above this")
      .flag("json", &O::json, kJsonHelp);
}

void noise(const NoiseOptions& options, std::ostream& out) {
  if (options.input.empty() == options.server.empty()) throw UsageError("give a file, or --server and --id");
  if (options.server.empty() != options.id.empty()) throw UsageError("--server and --id belong together; give both");
  if (options.server.empty() && (options.tls || !options.tls_settings.ca.empty()))
    throw UsageError("--tls and --ca are for --server");
  Json document = json_document("noise");
  document["noise"] = Json::array();
  Json* const wanted = options.json ? &document : nullptr;
  options.server.empty() ? noise_of_file(options, out, wanted) : noise_of_server(options, out, wanted);
  if (options.json) write_json(document, out);
}

}  // namespace echotrain::client
