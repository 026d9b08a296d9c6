#include "server/scan/queries.h"

#include <fmt/format.h>
#include <ismrmrd/version.h>

#include <algorithm>
#include <chrono>

#include "gadgets/numerics/core/context.h"
#include "gadgets/shared/store/noise_store.h"

namespace echotrain::server {

namespace {

/// Whether the noise of this measurement is known, for clients that would otherwise send the noise scan again.
std::string answer_noise(const std::string& measurement_id, numerics::Resources& resources) {
  const auto record = resources.get<NoiseStore>().find(measurement_id);
  if (!record) return "unknown";
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  const double hours = static_cast<double>(std::max<std::int64_t>(0, now - record->made_unix_s)) / 3600;
  return fmt::format("known {} coils {} us {:.1f} h", record->coils, record->dwell_us, hours);
}

}  // namespace

std::string_view version() { return ECHOTRAIN_VERSION; }

std::string answer_query(std::string_view name, const Catalogue& catalogue, numerics::Resources& resources) {
  // Gadgetron's clients ask these to learn whom they talk to.
  if (name == "gadgetron::version") return fmt::format("Echotrain {} (speaks Gadgetron's protocol)", version());
  if (name == "gadgetron::build") return fmt::format("Echotrain {}", version());
  if (name == "gadgetron::info")
    return fmt::format("Echotrain {}\nISMRMRD {}.{}.{}\n{}", version(), ISMRMRD_VERSION_MAJOR, ISMRMRD_VERSION_MINOR,
                       ISMRMRD_VERSION_PATCH, numerics::describe(numerics::Backend::cpu, resources));
  if (name == "ismrmrd::version")
    return fmt::format("{}.{}.{}", ISMRMRD_VERSION_MAJOR, ISMRMRD_VERSION_MINOR, ISMRMRD_VERSION_PATCH);
  if (name == "echotrain::version") return std::string(version());
  if (name == "echotrain::pipelines") return catalogue.describe();
  constexpr std::string_view kNoise = "echotrain::noise/";
  if (name.starts_with(kNoise)) return answer_noise(std::string(name.substr(kNoise.size())), resources);
  return "Unknown query";
}

}  // namespace echotrain::server
