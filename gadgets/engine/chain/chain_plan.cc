#include "gadgets/engine/chain/chain_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

#include "config/mistakes.h"
#include "gadgets/api/any_gadget.h"
#include "gadgets/engine/chain/condition.h"

namespace echotrain {
namespace {

constexpr int kOffsetOfSeries = 1000;  // distance between branches: more than the series that a chain makes

bool is_entrance(ItemType type, config::Input input) {
  if (input == config::Input::images) return type == ItemType::coil_images || type == ItemType::image;
  return type == ItemType::readouts || type == ItemType::raw_batch;
}

std::string takes_text(const GadgetEntry& entry) {
  std::string out;
  std::set<ItemType> told;
  for (const auto& form : entry.forms)
    if (told.insert(form.takes).second) out += (out.empty() ? "" : " or ") + std::string(to_string(form.takes));
  return out;
}

/// True if the gadget needs no parameter: one that does (`python`) converts what its user wants.
bool goes_alone(const GadgetForm& form) {
  try {
    form.make(form.parse(config::Node()));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// A hint that names the gadget which turns `from` into something `entry` takes; empty if there is none.
std::string bridge_hint(const Registry& registry, ItemType from, const GadgetEntry& entry) {
  for (const auto& name : registry.names())
    for (const auto& form : registry.find(name)->forms)
      if (form.takes == from && form.gives != from)
        for (const auto& wanted : entry.forms)
          if (form.gives == wanted.takes && goes_alone(form))
            return fmt::format("; put '{}' between them: it converts one to the other", name);
  return "";
}

const GadgetEntry& find_gadget(const Registry& registry, const config::GadgetSpec& gadget) {
  if (const GadgetEntry* entry = registry.find(gadget.name)) return *entry;
  std::vector<std::string> names = registry.names();
  names.emplace_back(config::kBranch);
  const std::string near = config::nearest(gadget.name, names);
  std::string fewer;
  if (!registry.left_out().empty() && !near.empty())
    fewer = " (This build leaves out some families of gadgets; ./run build makes one that has all.)";
  else if (!registry.left_out().empty())
    fewer = fmt::format(". This build has no gadgets of the families {}; ./run build makes one that has all",
                        fmt::join(registry.left_out(), ", "));
  throw config::ConfigError(gadget.mark, fmt::format("no gadget is called '{}'{}{}", gadget.name,
                                                     near.empty() ? "; see echotrain-server --list-gadgets"
                                                                  : fmt::format("; did you mean '{}'?", near),
                                                     fewer));
}

/// The forms that take the current type `from`, which has no value before the first gadget.
std::vector<const GadgetForm*> forms_that_take(const GadgetEntry& entry, std::optional<ItemType> from,
                                               config::Input input) {
  std::vector<const GadgetForm*> forms;
  for (const auto& form : entry.forms)
    if (from ? form.takes == *from : is_entrance(form.takes, input)) forms.push_back(&form);
  return forms;
}

/// Finds what each parameter alone has wrong, after all of them together were refused.
void find_all_in(const config::GadgetSpec& gadget, const GadgetForm& form) {
  if (gadget.parameters.kind() != config::Node::Kind::map) return;
  for (const config::Node::Entry& entry : gadget.parameters.as_map())
    config::Mistakes::attempt([&] { form.parse(config::Node::map(gadget.parameters.mark(), {entry})); });
}

/// The first of these forms that can have the gadget's parameters, which are added to `options`.
const GadgetForm* choose_form(const std::vector<const GadgetForm*>& forms, const config::GadgetSpec& gadget,
                              std::vector<GadgetOptions>& options) {
  for (const GadgetForm* form : forms) {
    GadgetOptions read;
    if (!config::Mistakes::attempt([&] { read = form->parse(gadget.parameters); })) {
      find_all_in(gadget, *form);
      options.push_back(std::move(read));
      return form;
    }
    try {
      form->make(read);
      options.push_back(std::move(read));
      return form;
    } catch (const std::invalid_argument& error) {
      if (form == forms.back())
        throw config::ConfigError(gadget.mark, fmt::format("'{}': {}", gadget.name, error.what()));
    }
  }
  return nullptr;
}

/// The error text for a pipeline that begins with this gadget.
std::string wrong_beginning(const GadgetEntry& entry, config::Input input) {
  if (input == config::Input::images)
    return fmt::format("with 'input: images' a pipeline begins with images, but '{}' takes {}", entry.name,
                       takes_text(entry));
  return fmt::format("a pipeline begins with readouts, but '{}' takes {}{}", entry.name, takes_text(entry),
                     forms_that_take(entry, std::nullopt, config::Input::images).empty()
                         ? ""
                         : "; for images of the client write 'input: images' before 'pipeline:'");
}

/// The type that a chain that begins with a branch gets: readouts, or images as its first gadget takes them.
ItemType type_at_branch(const std::vector<config::GadgetSpec>& chain, config::Input input, const Registry& registry) {
  if (input == config::Input::readouts) return ItemType::readouts;
  const GadgetEntry& first = find_gadget(registry, config::gadgets_in(chain).front());
  const auto forms = forms_that_take(first, std::nullopt, input);
  return forms.empty() ? ItemType::coil_images : forms.front()->takes;
}

/// The state of checking a chain: the type at the place that has been reached.
class Checking {
 public:
  Checking(ChainPlan& plan, ChainEntrance entrance, const Registry& registry, int& branches)
      : plan_(plan), at_(entrance), registry_(registry), branches_(branches) {
    if (at_.type) plan_.types.push_back(*at_.type);
  }

  void pass(const config::GadgetSpec& gadget) {
    lost_ = lost_ || gadget.name.empty();  // it could not be read
    if (gadget.name == config::kBranch) {
      if (!lost_) config::Mistakes::attempt([&] { pass_branch(gadget); });
      return;
    }
    if (!lost_) lost_ = !config::Mistakes::attempt([&] { pass_gadget(gadget); });
    if (lost_ && !gadget.name.empty()) config::Mistakes::attempt([&] { find_way(gadget); });
  }

  /// Checks the end of the chain.
  void end() const {
    if (lost_) return;
    const config::Mark& mark = plan_.gadgets.back().mark;
    if (!at_.type)
      throw config::ConfigError(
          mark,
          "all branches take the client's images and nothing takes readouts; write 'input: images' before "
          "'pipeline:', and leave 'item' out");
    if (*at_.type == ItemType::image || ends_in_branches()) return;
    throw config::ConfigError(
        mark, fmt::format("the {} ends with {}, which nobody takes; end it with 'image', which takes CoilImages",
                          at_.branch ? "branch" : "pipeline", to_string(*at_.type)));
  }

 private:
  void pass_gadget(const config::GadgetSpec& gadget) {
    const GadgetEntry& entry = find_gadget(registry_, gadget);
    const auto forms = forms_that_take(entry, at_.type, at_.input);
    if (forms.empty()) {
      if (!at_.type) throw config::ConfigError(gadget.mark, wrong_beginning(entry, at_.input));
      throw config::ConfigError(gadget.mark,
                                fmt::format("'{}' takes {}, but {} {}{}", gadget.name, takes_text(entry), giver(),
                                            to_string(*at_.type), bridge_hint(registry_, *at_.type, entry)));
    }
    const GadgetForm* form = choose_form(forms, gadget, plan_.options);
    begin_with(form->takes);
    if (form->takes == ItemType::image) at_.sent = true;  // its message tells the same of an image as the client's
    at_.type = form->gives;
    plan_.types.push_back(*at_.type);
    plan_.forms.push_back(form);
    previous_ = gadget.name;
  }

  void pass_branch(const config::GadgetSpec& gadget) {
    BranchPlan branch{.spec = config::read_branch(gadget), .chain = nullptr};
    const bool images_here = at_.type == ItemType::coil_images || at_.type == ItemType::image;
    branch.takes_messages =
        at_.input == config::Input::readouts && !images_here && branch.spec.when.item == config::Input::images;
    ChainEntrance inner = at_;
    if (branch.takes_messages) {
      if (at_.branch || !previous_.empty())
        throw config::ConfigError(gadget.mark,
                                  "images that the client sends enter where the pipeline begins; put this branch "
                                  "before the first gadget of the pipeline");
      inner = {config::Input::images, type_at_branch(branch.spec.gadgets, config::Input::images, registry_), true};
    } else {
      begin_with(at_.type ? *at_.type : type_at_branch(plan_.gadgets, at_.input, registry_));
      inner.type = at_.type;
    }
    inner.branch = true;
    check_condition(branch.spec.when, *inner.type, inner.sent);
    const int number = ++branches_;
    branch.series_offset = branch.spec.series_offset.value_or(static_cast<std::uint16_t>(number * kOffsetOfSeries));
    branch.chain = check_chain(branch.spec.gadgets, inner, registry_, branches_);
    plan_.branches.emplace(plan_.forms.size(), std::move(branch));
    plan_.forms.push_back(nullptr);
    plan_.options.emplace_back();
    if (at_.type) plan_.types.push_back(*at_.type);
  }

  /// Passes a gadget behind a mistake, where the type is not known: it is again, if the gadget gives but one.
  void find_way(const config::GadgetSpec& gadget) {
    const GadgetEntry& entry = find_gadget(registry_, gadget);
    std::vector<const GadgetForm*> forms;
    for (const GadgetForm& form : entry.forms) forms.push_back(&form);
    choose_form(forms, gadget, plan_.options);
    const ItemType gives = forms.front()->gives;
    lost_ = !std::all_of(forms.begin(), forms.end(), [&](const GadgetForm* form) { return form->gives == gives; });
    if (!lost_) at_.type = gives;
    plan_.forms.push_back(forms.front());
    previous_ = gadget.name;
  }

  /// The name of the giver of the current type, for messages.
  std::string giver() const {
    if (!previous_.empty()) return fmt::format("'{}' before it gives", previous_);
    return at_.branch ? "the branch gets" : "behind a branch there are";
  }

  /// Sets the type at the first gadget or branch that determines it.
  void begin_with(ItemType type) {
    if (at_.type) return;
    at_.type = type;
    plan_.types.assign(plan_.forms.size() + 1, type);  // branches for the client's images come first
  }

  bool ends_in_branches() const {
    const auto takes = [](const auto& branch) { return !branch.second.takes_messages; };
    std::size_t first = plan_.gadgets.size();
    while (first > 0 && plan_.forms[first - 1] == nullptr) --first;
    return std::any_of(plan_.branches.lower_bound(first), plan_.branches.end(), takes);
  }

  ChainPlan& plan_;
  ChainEntrance at_;
  const Registry& registry_;
  int& branches_;
  std::string previous_;  // the previous gadget
  bool lost_ = false;     // behind a mistake
};

void find_fusions(ChainPlan& plan, const Registry& registry) {
  const auto& gadgets = plan.gadgets;
  const auto fits = [&](const Fusion& fusion, std::size_t first) {
    return first + fusion.names.size() <= gadgets.size() && plan.types[first] == fusion.takes &&
           std::equal(fusion.names.begin(), fusion.names.end(), gadgets.begin() + static_cast<std::ptrdiff_t>(first),
                      [](const std::string& name, const auto& gadget) { return name == gadget.name; });
  };
  for (std::size_t i = 0; i < gadgets.size(); ++i)
    for (const Fusion& fusion : registry.fusions()) {
      if (!fits(fusion, i)) continue;
      if (!fusion.make(std::span(plan.options).subspan(i, fusion.names.size()))) continue;
      plan.fused.push_back({i, fusion.names.size(), &fusion});
      i += fusion.names.size() - 1;
      break;
    }
}

/// True if only some frames of readouts go into a branch. A sliding window needs the readouts that entered before.
bool parts_frames(ItemType type, const BranchPlan& branch) {
  const bool moves = type == ItemType::readouts || type == ItemType::plane_readouts || type == ItemType::samples ||
                     type == ItemType::plane_samples;
  return moves && !branch.takes_messages && !branch.spec.when.keys.empty();
}

std::string describe_branch(const BranchPlan& branch) {
  const auto& spec = branch.spec;
  std::string out = fmt::format("{}: {} -> ", config::kBranch, to_string(branch.chain->types.front()));
  if (!spec.role.empty())
    out += "role " + spec.role;
  else
    out += fmt::format("series + {}", branch.series_offset);
  if (!spec.when.text.empty()) out += ", when " + spec.when.text;
  if (!spec.pass_on) out += "; not passed on";
  return out + "\n" + indented(branch.chain->describe());
}

}  // namespace

std::shared_ptr<const ChainPlan> check_chain(const std::vector<config::GadgetSpec>& gadgets, ChainEntrance entrance,
                                             const Registry& registry, int& branches) {
  const auto plan = std::make_shared<ChainPlan>();
  plan->gadgets = gadgets;
  Checking checking(*plan, entrance, registry, branches);
  for (const config::GadgetSpec& gadget : plan->gadgets) checking.pass(gadget);
  config::Mistakes::attempt([&] { checking.end(); });
  if (config::Mistakes::found()) return plan;
  find_fusions(*plan, registry);
  return plan;
}

std::vector<GadgetDelivery> ChainPlan::reached() const {
  std::vector<GadgetDelivery> all;
  for (std::size_t i = 0; i < forms.size(); ++i)
    if (forms[i] != nullptr) all.push_back({forms[i]->takes, forms[i]->delivery(options[i])});
  for (const auto& [place, branch] : branches) {
    if (parts_frames(types[place], branch)) all.push_back({ItemType::readouts, Delivery::parts});
    const std::vector<GadgetDelivery> inner = branch.chain->reached();
    all.insert(all.end(), inner.begin(), inner.end());
  }
  return all;
}

bool ChainPlan::takes_messages() const {
  return std::any_of(branches.begin(), branches.end(), [](const auto& each) { return each.second.takes_messages; });
}

std::string ChainPlan::describe() const {
  std::string out;
  for (std::size_t i = 0; i < forms.size(); ++i)
    if (const auto branch = branches.find(i); branch != branches.end())
      out += describe_branch(branch->second);
    else
      out += fmt::format("{}: {} -> {}\n", gadgets[i].name, to_string(types[i]), to_string(types[i + 1]));
  for (const Fused& each : fused)
    out +=
        fmt::format("as one{}: {}\n", each.fusion->cpu_only ? " on the CPU" : "", fmt::join(each.fusion->names, ", "));
  return out;
}

std::string indented(const std::string& text) {
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin) + 1;
    out += "  " + text.substr(begin, end - begin);
    begin = end;
  }
  return out;
}

}  // namespace echotrain
