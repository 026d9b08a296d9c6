#include "server/scan/queries.h"

#include <fmt/format.h>
#include <ismrmrd/version.h>

#include "gadgets/numerics/core/context.h"

namespace echotrain::server {

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
  return "Unknown query";
}

}  // namespace echotrain::server
