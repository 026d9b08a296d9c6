// A foreign name is a configuration of another server: clients that were made for that server ask for it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace echotrain::config {

/// Configurations of Gadgetron's distribution or of python-ismrmrd-server that one pipeline of ours answers.
struct ForeignNames {
  std::string_view patterns;  ///< names between blanks; "a{b,c}" stands for ab and ac
  std::string_view pipeline;  ///< ours, or the nearest one; empty: none is near
  bool alias;                 ///< clients get that pipeline; otherwise they are told of it
  std::string_view differs;   ///< what differs, or what to do instead; empty: nothing to speak of
};

/// Returns all of them, in the order of docs/from-gadgetron.md, which has the same table.
std::span<const ForeignNames> foreign_names();

/// Returns the names that patterns stand for.
std::vector<std::string> expanded(std::string_view patterns);

/// Finds the entry that has the name; nullptr when there is none.
const ForeignNames* find_foreign(std::string_view name);

}  // namespace echotrain::config
