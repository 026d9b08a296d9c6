#include "server/admin/noise_page.h"

#include <algorithm>
#include <chrono>
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

}  // namespace

std::string noise_json(const std::vector<NoiseStore::Listed>& known) {
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto& [digest, record] : known) {
    nlohmann::ordered_json deviations = nlohmann::ordered_json::array();
    for (std::size_t c = 0; c < static_cast<std::size_t>(record->coils); ++c)
      deviations.push_back(std::sqrt(variance(*record, c) / 2));  // half of the power is in the real part
    all.push_back({{"id_digest", digest},
                   {"age_s", std::max<std::int64_t>(0, now - record->made_unix_s)},
                   {"coils", record->coils},
                   {"samples", record->samples},
                   {"dwell_us", record->dwell_us},
                   {"labels", record->labels},
                   {"std", std::move(deviations)},
                   {"largest_correlation", largest_correlation(*record)}});
  }
  const nlohmann::ordered_json page{{"noise", std::move(all)}};
  return page.dump(2, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace echotrain::server
