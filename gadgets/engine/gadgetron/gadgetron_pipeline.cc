#include "gadgets/engine/gadgetron/gadgetron_pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "config/foreign_names.h"
#include "config/yaml_reader.h"
#include "gadgets/engine/gadgetron/gadgetron_gadgets.h"
#include "gadgets/engine/gadgetron/gadgetron_settings.h"
#include "protocol/data/text.h"

namespace echotrain {
namespace {

using protocol::printable;
using Fate = GadgetronGadgets::Fate;
using Gadget = GadgetronConfig::Gadget;

/// The order of our gadgets in a pipeline. Of images alone are those from "denoise" on.
const std::vector<std::string> kOrder = config::expanded(
    "ramp_regrid epi_phase_correction external_calibration noise_adjust coil_compression cardiac_binning "
    "radial_trajectory trajectory_correction density_compensation cartesian_kspace gridding fft deapodization encoding "
    "fhd coil_maps pcg regularised off_resonance grappa partial_fourier filter coil_combine denoise invert_contrast "
    "scale image");
const std::vector<std::string> kSolvers = config::expanded("fft pcg regularised off_resonance grappa");

/// Properties that change no image: files for people, timing, devices, and grids whose accuracy is ours to choose.
const std::vector<std::string> kSilent = config::expanded(
    "verbose verboseMode perform_timing performTiming debug_folder debugFolder{,2} deviceno setno sliceno use_gpu "
    "output_convergence exclusive_access pass_on_undesired_data image_series skip_processing_meta_field "
    "{,buffer_convolution_}kernel_width {,buffer_convolution_}oversampling_factor reconstruction_os_factor_{x,y} "
    "spirit_print_iter cloudNodeFile");

template <class Names>
bool among(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

class Draft {
 public:
  void take(const Gadget& gadget) {
    if (gadget.class_name.empty()) return;
    const std::string name = printable(gadget.class_name, 100);
    const GadgetronGadgets* known = find_gadgetron(gadget.class_name);
    const bool branched = !gadget.branch.empty() && gadget.branch != "AcquisitionFanout";
    if (branched) {
      note(out.missing, name, "it stands in a branch");
    } else if (gadget.class_name.starts_with("external ")) {
      note(out.missing, name, "`python`, with a module written anew, or `mrd_server`");
    } else if (known == nullptr) {
      note(out.missing, name, "a class of nobody that we know; `python`, or a plugin");
    } else {
      if (known->fate == Fate::missing) note(out.missing, name, known->ours);
      if (known->fate == Fate::left_out) note(out.left_out, name, known->ours);
      if (added_.insert(known).second) add(known->gadgets);
      if (known->fate == Fate::mapped) take_properties(gadget, known->properties, name);
    }
  }

  /// Returns the pipeline's body, or nothing where no image would come out of it.
  std::optional<std::string> chain() {
    if (gadgets_.contains("encoding"))
      for (const char* not_cartesian : {"density_compensation", "fhd"}) gadgets_.erase(not_cartesian);
    if (gadgets_.contains("grappa") && (!of("grappa", "g_factor").empty() || !of("grappa", "snr_units").empty())) {
      set("grappa", "output", "combined", true);  // both are of that
      gadgets_.erase("coil_combine");
    }
    const auto there = [this](const std::string& name) { return gadgets_.contains(name); };
    const bool solved = std::any_of(kSolvers.begin(), kSolvers.end(), there);
    const auto of_images = std::find(kOrder.begin(), kOrder.end(), "denoise");
    const bool images = !solved && out.missing.empty() && std::any_of(of_images, kOrder.end(), there) &&
                        std::none_of(kOrder.begin(), of_images, there);
    if (!solved && !images) return std::nullopt;
    gadgets_["image"];
    if (solved) {
      const bool integers = !of("image", "type").empty();
      set("image", "component", integers ? "magnitude" : "complex", false);
      set("image", "type", "float", false);
      if (of("image", "type").starts_with("uint") && of("image", "component") != "magnitude") {
        comment(fmt::format("image: type {}, which holds magnitudes only", of("image", "type")));
        ++out.properties;
        set("image", "type", "float", true);
      }
      if (of("image", "type") != "float") gadgets_["scale"];  // values of ours are near 1
    }
    std::string text = images ? "input: images\n" : fmt::format("frame: {}\n", frame_);
    text += "pipeline:\n";
    for (const std::string_view name : kOrder)
      if (const auto at = gadgets_.find(name); at != gadgets_.end()) text += line(at->first, at->second);
    return text;
  }

  GadgetronPipeline out;
  std::vector<std::string> comments;

 private:
  using Parameters = std::vector<std::pair<std::string, std::string>>;

  void note(std::vector<std::string>& to, const std::string& name, std::string_view ours) {
    const std::string said = ours == "*none*" ? "nothing here is like it" : plain(ours);
    std::string text = fmt::format("{} ({})", name, said);
    if (among(to, text)) return;
    comment(fmt::format("{}: {}", name, said));
    to.push_back(std::move(text));
  }

  void comment(std::string text) {
    if (!among(comments, text)) comments.push_back(std::move(text));
  }

  /// Markdown without its links and marks.
  static std::string plain(std::string_view markdown) {
    std::string text;
    for (std::size_t i = 0; i < markdown.size(); ++i) {
      if (markdown[i] == ']' && markdown.substr(i).starts_with("]("))
        i = markdown.find(')', i);
      else if (markdown[i] != '[' && markdown[i] != '*' && markdown[i] != '`')
        text += markdown[i];
    }
    return text;
  }

  static std::string line(const std::string& name, const Parameters& parameters) {
    std::string inside;
    for (const auto& [key, value] : parameters)
      inside += fmt::format("{}{}: {}", inside.empty() ? "" : ", ", key, value);
    return inside.empty() ? fmt::format("  - {}\n", name) : fmt::format("  - {}: {{{}}}\n", name, inside);
  }

  void set(const std::string& gadget, const std::string& parameter, const std::string& value, bool over) {
    Parameters& all = gadgets_[gadget];
    const auto at = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.first == parameter; });
    if (at == all.end())
      all.emplace_back(parameter, value);
    else if (over)
      at->second = value;
  }
  std::string of(const std::string& gadget, std::string_view parameter) {
    for (const auto& [name, value] : gadgets_[gadget])
      if (name == parameter) return value;
    return "";
  }

  /// Adds gadgets as the table has them; values that are there stay.
  void add(std::string_view gadgets) {
    if (gadgets.empty()) return;
    const config::Node map = config::read_yaml(fmt::format("{{{}}}", gadgets), "gadgets");
    for (const config::Node::Entry& each : map.as_map()) {
      gadgets_[each.key];
      if (each.value.kind() != config::Node::Kind::map) continue;
      for (const config::Node::Entry& parameter : each.value.as_map())
        set(each.key, parameter.key, parameter.value.as_string(), false);
    }
  }

  void take_properties(const Gadget& gadget, std::string_view properties, const std::string& name) {
    const GadgetronSettings special = settings_of(gadget);
    for (const auto& each : special.settings) set(each.gadget, each.parameter, each.value, false);
    if (!special.frame.empty()) frame_ = special.frame;
    std::string rest;
    for (const auto& [theirs, value] : gadget.properties) {
      if (value.empty() || value == "0" || value == "false" || among(kSilent, theirs) || among(special.taken, theirs))
        continue;
      const std::size_t at = fmt::format(" {}", properties).find(fmt::format(" {}=", theirs));
      const bool known = at != std::string::npos && theirs.find_first_of(" =") == std::string::npos;
      if (known && (value == "true" || positive_number(value))) {
        std::string_view to = properties.substr(at + theirs.size() + 1);
        to = to.substr(0, to.find(' '));
        const std::size_t dot = to.find('.');
        set(std::string(to.substr(0, dot)), std::string(to.substr(dot + 1)), value, true);
      } else {
        rest += fmt::format("{}{}={}", rest.empty() ? "" : ", ", printable(theirs, 60), printable(value, 60));
        ++out.properties;
      }
    }
    if (!rest.empty()) comment(fmt::format("{}: {}", name, rest));
  }

  std::map<std::string, Parameters, std::less<>> gadgets_;
  std::set<const GadgetronGadgets*> added_;
  std::string frame_ = "auto";
};

/// A name of ours: small letters, digits and _.
std::string name_of(std::string_view file) {
  std::string name = lower(std::string(file.substr(0, file.find_last_of('.'))));
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  if (name.empty() || std::isalpha(static_cast<unsigned char>(name[0])) == 0) name.insert(0, "x_");
  return name.substr(0, 64);
}

bool is_alias(std::string_view file) {
  return file.ends_with(".xml") && file.size() <= 255 && std::all_of(file.begin(), file.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
         });
}

}  // namespace

std::string GadgetronPipeline::refusal() const {
  if (missing.empty()) return "";
  return printable(
      fmt::format("of the XML configuration, no gadget here does the work of {}", fmt::join(missing, ", ")));
}

std::string GadgetronPipeline::remark() const {
  std::string text;
  if (!left_out.empty()) text = fmt::format("without {}", fmt::join(left_out, ", "));
  if (properties > 0) text += fmt::format("{}without {} properties", text.empty() ? "" : " and ", properties);
  if (text.empty()) return "";
  return printable(
      fmt::format("the XML configuration was translated, {}; `echotrain convert-config` tells more", text));
}

protocol::Result<GadgetronPipeline> from_gadgetron(std::string_view xml, std::string_view file) {
  const protocol::Result<GadgetronConfig> config = read_gadgetron(xml);
  if (!config) return config.error();
  Draft draft;
  for (const Gadget& each : config->gadgets) draft.take(each);
  const std::optional<std::string> chain = draft.chain();
  if (!chain) {
    const std::string lacks = draft.out.refusal();
    return protocol::Error{"bad-config",
                           lacks.empty() ? "the XML configuration has no gadget that makes images" : lacks};
  }
  const std::string shown = printable(file, 255);
  std::string& yaml = draft.out.yaml;
  yaml = fmt::format("# Made of {} by echotrain convert-config.\n", shown);
  if (!draft.comments.empty()) yaml += "# Not taken over:\n";
  for (const std::string& comment : draft.comments) yaml += fmt::format("#   {}\n", comment);
  yaml += fmt::format("echotrain: 1\nname: {}\ndescription: 'as {}'\n", name_of(file),
                      is_alias(file) ? shown : "a Gadgetron configuration");
  if (is_alias(file)) yaml += fmt::format("aliases: [{}]\n", shown);
  yaml += *chain;
  return std::move(draft.out);
}

}  // namespace echotrain
