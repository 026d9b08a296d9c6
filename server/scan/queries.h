// A query is a client's question to the server: a QUERY message, which a text answers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "gadgets/numerics/core/resources.h"
#include "server/scan/pipeline_catalogue.h"

namespace echotrain::server {

/// The client that asks. Answers about noise and reference lines go to the client that left them only; to others they
/// are unknown.
struct QueryClient {
  std::string owner;  ///< the client's identity
  /// Names the device of its header, perhaps at length; nothing before that has come: any device, if it is one. The
  /// text must outlive the answer.
  std::optional<std::string_view> device;
  /// Is told of so many bytes before a long answer is made of them; may throw numerics::OverBudget.
  std::function<void(std::uint64_t)> pay = nullptr;
};

/// Returns the text that answers the query `name`; "Unknown query" for a name that is not known.
std::string answer_query(std::string_view name, const PipelineCatalogue& catalogue, numerics::Resources& resources,
                         const QueryClient& asker);

/// Returns the program's version.
std::string_view version();

}  // namespace echotrain::server
