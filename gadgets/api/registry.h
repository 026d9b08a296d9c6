// The list of gadgets: name -> factory and declared parameters.
#pragma once

#include <any>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gadgets/api/items.h"
#include "gadgets/api/parameters.h"
#include "gadgets/api/scan.h"

namespace echotrain {

class AnyGadget;  // gadgets/api/gadget.h; whoever only lists or checks pipelines needs no more of it

/// How data may reach a gadget that has these options.
template <class G>
Delivery delivery_of(const typename G::Options& options) {
  if constexpr (requires { G::delivery(options); })
    return G::delivery(options);
  else
    return G::kDelivery;
}

/// A gadget's options struct with the values that a pipeline gives.
using GadgetOptions = std::any;

/// One way a gadget can be used: what it takes, what it gives, and how to make it.
struct GadgetForm {
  ItemType takes;
  ItemType gives;
  /// Reads a pipeline's parameters: a map, or null for the defaults. ConfigError when they do not match the
  /// declaration.
  std::function<GadgetOptions(const config::Node& parameters)> parse;
  /// Makes the gadget from the options that parse() returned. std::invalid_argument when options exclude each other.
  std::function<std::unique_ptr<AnyGadget>(const GadgetOptions& options)> make;
  /// How data may reach the gadget.
  std::function<Delivery(const GadgetOptions& options)> delivery;
};

/// A gadget by name. A name may have several forms (fft: KSpace -> CoilImages, Grid -> OversampledImages); the pipeline
/// picks the one that takes what the gadget before it gives.
struct GadgetEntry {
  std::string name;
  std::string summary;
  std::vector<ParameterInfo> parameters;
  std::vector<GadgetForm> forms;
};

/// Neighbouring gadgets of a pipeline that one gadget can replace.
struct Fusion {
  std::vector<std::string> names;
  ItemType takes;  ///< input type of the first one's form
  /// Makes the one gadget from the neighbours' options; null when it cannot have these options.
  std::function<std::unique_ptr<AnyGadget>(std::span<const GadgetOptions> options)> make;
  bool cpu_only = false;  ///< on a GPU the neighbours are not replaced
};

class Registry {
 public:
  /// All gadgets of this program (gadgets/builtin).
  static const Registry& builtin();

  template <class G>
  void add() {
    GadgetEntry& entry = entries_[std::string(G::kName)];
    entry.name = G::kName;
    entry.summary = G::kSummary;
    entry.parameters = G::parameters().info();
    entry.forms.push_back({item_type<typename G::Input>, item_type<typename G::Output>,
                           [](const config::Node& node) -> GadgetOptions { return G::parameters().read(node); },
                           [](const GadgetOptions& options) -> std::unique_ptr<AnyGadget> {
                             return std::make_unique<G>(std::any_cast<const typename G::Options&>(options));
                           },
                           [](const GadgetOptions& options) {
                             return delivery_of<G>(std::any_cast<const typename G::Options&>(options));
                           }});
  }

  /// Fusions are tried in the order in which they were added.
  void fuse(Fusion fusion) { fusions_.push_back(std::move(fusion)); }
  const std::vector<Fusion>& fusions() const { return fusions_; }

  /// Says that this program was built without a family of gadgets.
  void leave_out(std::string family) { left_out_.push_back(std::move(family)); }
  /// The families that this program was built without (CMake's ECHOTRAIN_PARTS).
  const std::vector<std::string>& left_out() const { return left_out_; }

  /// Adds the gadgets of `other`; names that exist here already keep their meaning.
  void take(Registry&& other);

  const GadgetEntry* find(std::string_view name) const;
  std::vector<std::string> names() const;
  /// Doc, ports and parameters of a gadget as text for a terminal. std::out_of_range for an unknown name.
  std::string explain(std::string_view name) const;

 private:
  std::map<std::string, GadgetEntry, std::less<>> entries_;
  std::vector<Fusion> fusions_;
  std::vector<std::string> left_out_;
};

}  // namespace echotrain
