// Plugins are gadgets compiled outside this tree. A plugin is a shared object made with CMake's find_package(echotrain)
// and the target echotrain::gadget_sdk (docs/plugin is an example). It registers its gadgets once, outside of any
// namespace:
//
//   ECHOTRAIN_PLUGIN(registry) { registry.add<Sharpen>(); }
//
// When it starts, a server loads the plugins in the folders that its option `plugins` names, and no others.
#pragma once

#include "gadgets/api/gadget.h"
#include "gadgets/api/plugin_abi.h"
#include "gadgets/api/registry.h"

// NOLINTBEGIN(bugprone-macro-parentheses): the argument is a parameter's name
#define ECHOTRAIN_PLUGIN(registry)                                 \
  extern "C" {                                                     \
  extern const char echotrain_plugin_abi[];                        \
  const char echotrain_plugin_abi[] = ECHOTRAIN_PLUGIN_ABI;        \
  void echotrain_plugin_register(::echotrain::Registry& registry); \
  }                                                                \
  void echotrain_plugin_register(::echotrain::Registry& registry)
// NOLINTEND(bugprone-macro-parentheses)
