#include "server/detached/detached_queries.h"

#include <array>
#include <charconv>
#include <utility>

#include "server/net/tokens.h"

namespace echotrain::server {

std::optional<DetachedQuery> read_detached_query(std::string_view text) {
  using Kind = DetachedQuery::Kind;
  constexpr std::array kNames{std::pair{Kind::resume, std::string_view("echotrain::detach/resume/")},
                              std::pair{Kind::fetch, std::string_view("echotrain::fetch/")},
                              std::pair{Kind::look, std::string_view("echotrain::scan/")},
                              std::pair{Kind::cancel, std::string_view("echotrain::cancel/")}};
  const std::size_t line = text.find('\n');
  std::string_view name = text.substr(0, line);
  if (name.ends_with('\r')) name.remove_suffix(1);
  DetachedQuery query;
  if (line != std::string_view::npos) query.token = token_in(text.substr(line + 1));
  if (name == "echotrain::detach/new") return query;
  query.kind = Kind::list;
  if (name == "echotrain::scans") return query;
  for (const auto& [kind, before] : kNames) {
    if (!name.starts_with(before)) continue;
    name.remove_prefix(before.size());
    query.kind = kind;
    query.id = name.substr(0, name.find('/'));
    if (query.id.size() < name.size()) {
      const std::string_view number = name.substr(query.id.size() + 1);
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), query.images);
      if (error != std::errc() || end != number.data() + number.size()) query.id.clear();
    }
    return query;
  }
  return std::nullopt;
}

}  // namespace echotrain::server
