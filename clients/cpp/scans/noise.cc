#include "clients/cpp/scans/noise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "gadgets/numerics/coils/coil.h"
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

void print_noise(const GroupNoise& noise, const std::vector<std::string>& labels, double least, std::ostream& out) {
  const std::vector<numerics::cdouble> covariance = noise.covariance->covariance();
  const std::size_t coils = labels.size();
  std::vector<double> deviations;
  for (std::size_t c = 0; c < coils; ++c) deviations.push_back(std::sqrt(covariance[c * coils + c].real() / 2));
  std::vector<double> sorted = deviations;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(coils / 2), sorted.end());
  const double median = sorted[coils / 2];

  out << fmt::format("  {} noise readouts, {} samples of {} coils, {:g} us a sample\n", noise.readouts,
                     noise.covariance->samples(), coils, noise.dwell_us);
  out << "  coil          std  of median  label\n";
  for (std::size_t c = 0; c < coils; ++c)
    out << fmt::format("  {:4}  {:11.5g}  {:9.3f}  {}\n", c, deviations[c], median > 0 ? deviations[c] / median : 0,
                       labels[c]);
  for (std::size_t a = 0; a < coils; ++a)
    for (std::size_t b = a + 1; b < coils; ++b) {
      const double both = 2 * deviations[a] * deviations[b];
      const double correlation = both > 0 ? std::abs(covariance[a * coils + b]) / both : 0;
      if (correlation > least) out << fmt::format("  coils {} and {}: correlation {:.3f}\n", a, b, correlation);
    }
}

}  // namespace

config::OptionTable<NoiseOptions> noise_options() {
  return config::OptionTable<NoiseOptions>()
      .path("input", &NoiseOptions::input, "IN.h5", "ISMRMRD file")
      .positional()
      .required()
      .number("correlation", &NoiseOptions::correlation, 0, 1, "list pairs of coils whose correlation is above this");
}

void noise(const NoiseOptions& options, std::ostream& out) {
  bool found = false;
  for (const auto& group : protocol::DatasetReader::groups(options.input)) {
    const protocol::DatasetReader reader(options.input, group);
    const GroupNoise noise = noise_of(reader);
    if (!noise.covariance || noise.covariance->samples() < 2) continue;
    found = true;
    out << fmt::format("group {}\n", group);
    print_noise(noise, labels_of(reader.header_xml(), static_cast<std::size_t>(noise.covariance->coils())),
                options.correlation, out);
  }
  if (!found) throw std::runtime_error(options.input.string() + " holds no noise readouts (flag 19)");
}

}  // namespace echotrain::client
