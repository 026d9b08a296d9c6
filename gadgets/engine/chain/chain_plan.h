// A ChainPlan is a checked chain of gadgets; with its branches, a tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/branch_spec.h"
#include "gadgets/api/items.h"
#include "gadgets/api/registry.h"
#include "gadgets/engine/chain/delivery.h"

namespace echotrain {

struct ChainPlan;

struct BranchPlan {
  config::BranchSpec spec;
  bool takes_messages = false;      ///< the branch takes images that the client sends, in a pipeline of readouts
  std::uint16_t series_offset = 0;  ///< added to image_series_index of its images
  std::shared_ptr<const ChainPlan> chain;
};

/// The input at the beginning of a chain.
struct ChainEntrance {
  config::Input input = config::Input::readouts;
  std::optional<ItemType> type;  ///< empty: the type among those of `input` that the first gadget takes
  bool sent = false;             ///< images come from a client, so that their series and image_type are known
  bool branch = false;           ///< the chain belongs to a branch
};

/// The plan. Vectors are indexed by a gadget's place in the file's chain. A branch has its place among them; it changes
/// no type.
struct ChainPlan {
  std::vector<config::GadgetSpec> gadgets;
  std::vector<ItemType> types;           ///< along the chain, entrance first: one more than gadgets
  std::vector<const GadgetForm*> forms;  ///< null: a branch
  std::vector<GadgetOptions> options;    ///< read once for all scans; empty: a branch
  std::map<std::size_t, BranchPlan> branches;
  struct Fused {
    std::size_t first, count;
    const Fusion* fusion;
  };
  std::vector<Fused> fused;  ///< neighbours that may run as one gadget

  /// The deliveries that the gadgets of the whole tree can take. Where a branch takes only some frames, windows come
  /// whole.
  std::vector<GadgetDelivery> reached() const;
  /// True if images that the client sends have branches of their own, in a pipeline of readouts.
  bool takes_messages() const;
  /// Describes the plan: a line per gadget, branches with theirs below them, indented; and one per group of gadgets
  /// that run as one.
  std::string describe() const;
};

/// Checks that gadgets exist, parameters are right and types fit together, in the chain and in its branches. Throws
/// config::ConfigError with file:line:column when something does not fit. `branches` counts branches in the order of
/// the file: the images of number n have series numbers 1000 n above, unless the file says otherwise.
std::shared_ptr<const ChainPlan> check_chain(const std::vector<config::GadgetSpec>& gadgets, ChainEntrance entrance,
                                             const Registry& registry, int& branches);

/// Puts two blanks before each line of `text`.
std::string indented(const std::string& text);

}  // namespace echotrain
