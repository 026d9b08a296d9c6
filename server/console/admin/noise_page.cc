#include "server/console/admin/noise_page.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace echotrain::server {
namespace {

double variance(const NoiseRecord& record, std::size_t coil) {
  return record.covariance[coil * static_cast<std::size_t>(record.coils) + coil].real();
}

double largest_correlation(const NoiseRecord& record) {
  const auto coils = static_cast<std::size_t>(record.coils);
  double largest = 0;
  for (std::size_t a = 0; a < coils; ++a)
    for (std::size_t b = 0; b < a; ++b)
      largest = std::max(
          largest, std::abs(record.covariance[a * coils + b]) / std::sqrt(variance(record, a) * variance(record, b)));
  return largest;
}

std::int64_t age_s(std::int64_t made_unix_s) { return std::max<std::int64_t>(0, unix_seconds() - made_unix_s); }

std::string text_of(const nlohmann::ordered_json& page) {
  return page.dump(2, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string noise_json(const std::vector<NoiseStore::Listed>& known) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& [digest, record] : known) {
    nlohmann::ordered_json deviations = nlohmann::ordered_json::array();
    for (std::size_t c = 0; c < static_cast<std::size_t>(record->coils); ++c)
      deviations.push_back(std::sqrt(variance(*record, c) / 2));  // half of the power is in the real part
    all.push_back({{"id_digest", digest},
                   {"age_s", age_s(record->made_unix_s)},
                   {"coils", record->coils},
                   {"samples", record->samples},
                   {"dwell_us", record->dwell_us},
                   {"labels", record->labels},
                   {"std", std::move(deviations)},
                   {"largest_correlation", largest_correlation(*record)}});
  }
  return text_of({{"noise", std::move(all)}});
}

std::string calibration_json(const std::vector<CalibrationStore::Listed>& known) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& [digest, record] : known)
    all.push_back({{"id_digest", digest},
                   {"age_s", age_s(record->made_unix_s)},
                   {"coils", record->coils},
                   {"lines", record->count()},
                   {"bytes", record->bytes()},
                   {"labels", record->labels}});
  return text_of({{"calibration", std::move(all)}});
}

}  // namespace echotrain::server
