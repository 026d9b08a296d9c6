// Answers to QUERY messages.
#pragma once

#include <string>
#include <string_view>

#include "gadgets/numerics/core/resources.h"
#include "server/scan/catalogue.h"

namespace echotrain::server {

/// The text that answers the query `name`; "Unknown query" for a name that is not known.
std::string answer_query(std::string_view name, const Catalogue& catalogue, numerics::Resources& resources);

/// The program's version.
std::string_view version();

}  // namespace echotrain::server
