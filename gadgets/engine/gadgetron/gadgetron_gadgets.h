// A Gadgetron gadget is a class of that program, with the gadgets here that do its work.
#pragma once

#include <span>
#include <string_view>

namespace echotrain {

/// Classes of Gadgetron's distribution that one and the same part of our pipelines stands for.
struct GadgetronGadgets {
  enum class Fate {
    mapped,    ///< `gadgets` do the same, or nearly
    unneeded,  ///< nothing has to do it here
    left_out,  ///< it is done elsewhere, or not at all; images are what they are without it
    missing,   ///< images are other ones without it
  };
  std::string_view classes;  ///< names between blanks, as in config/foreign_names.h
  Fate fate;
  std::string_view ours;             ///< for people, in Markdown
  std::string_view gadgets = "";     ///< a map of YAML: our gadgets with their parameters
  std::string_view properties = "";  ///< "theirs=gadget.parameter", between blanks: numbers and flags that go over
};

/// Returns all of them, in the order of docs/from-gadgetron.md, which has the same table.
std::span<const GadgetronGadgets> gadgetron_gadgets();

/// Finds the entry of a class; nullptr when it is not known.
const GadgetronGadgets* find_gadgetron(std::string_view class_name);

}  // namespace echotrain
