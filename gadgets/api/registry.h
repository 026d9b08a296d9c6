// The Registry is the list of gadgets: name -> factory and declared parameters.
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

class AnyGadget;  // gadgets/api/gadget.h; code that only lists or checks pipelines needs no more of it

/// The way in which data may reach a gadget that has these options.
template <class G>
Delivery delivery_of(const typename G::Options& options) {
  if constexpr (requires { G::delivery(options); })
    return G::delivery(options);
  else
    return G::kDelivery;
}

/// A gadget's options struct with the values that a pipeline gives.
using GadgetOptions = std::any;

/// One way of using a gadget: its input, its output, and its factory.
struct GadgetForm {
  ItemType takes;
  ItemType gives;
  /// Reads a pipeline's parameters: a map, or null for the defaults. Throws ConfigError when they do not match the
  /// declaration.
  std::function<GadgetOptions(const config::Node& parameters)> parse;
  /// Makes the gadget from the options that parse() returned. Throws std::invalid_argument when options exclude each
  /// other.
  std::function<std::unique_ptr<AnyGadget>(const GadgetOptions& options)> make;
  /// The way in which data may reach the gadget.
  std::function<Delivery(const GadgetOptions& options)> delivery;
};

/// A gadget by name. A name may have several forms (fft: KSpace -> CoilImages, Grid -> OversampledImages); the pipeline
/// picks the form that takes the previous gadget's output.
struct GadgetEntry {
  std::string name;
  std::string summary;
  std::vector<ParameterInfo> parameters;
  std::vector<GadgetForm> forms;
};

/// Neighbouring gadgets of a pipeline that one gadget can replace.
struct Fusion {
  std::vector<std::string> names;
  ItemType takes;  ///< input type of the first gadget's form
  /// Makes the one gadget from the neighbours' options; returns null when it cannot have these options.
  std::function<std::unique_ptr<AnyGadget>(std::span<const GadgetOptions> options)> make;
  bool cpu_only = false;  ///< on a GPU the neighbours are not replaced
};

class Registry {
 public:
  /// The registry of all gadgets of this program (gadgets/builtin).
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

  /// Adds a fusion. Fusions are tried in the order in which they were added.
  void fuse(Fusion fusion) { fusions_.push_back(std::move(fusion)); }
  const std::vector<Fusion>& fusions() const { return fusions_; }

  /// Records that this program was built without a family of gadgets.
  void leave_out(std::string family) { left_out_.push_back(std::move(family)); }
  /// The families that this program was built without (CMake's ECHOTRAIN_PARTS).
  const std::vector<std::string>& left_out() const { return left_out_; }

  /// Adds the gadgets of `other`; names that exist here already keep their meaning.
  void take(Registry&& other);

  const GadgetEntry* find(std::string_view name) const;
  std::vector<std::string> names() const;
  /// Describes a gadget for a terminal: doc, ports and parameters. Throws std::out_of_range for an unknown name.
  std::string explain(std::string_view name) const;

 private:
  std::map<std::string, GadgetEntry, std::less<>> entries_;
  std::vector<Fusion> fusions_;
  std::vector<std::string> left_out_;
};

}  // namespace echotrain
