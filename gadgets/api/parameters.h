// The parameters of a gadget, declared once: YAML checking, --explain and docs/gadgets.md are all made from the
// declaration.
#pragma once

#include "config/option.h"

namespace echotrain {

/// One parameter as a user sees it.
using ParameterInfo = config::OptionInfo;

/// The parameters of options struct `O`. Usage:
///   static Parameters<Options> parameters() {
///     return Parameters<Options>()
///         .integer("kernel_width", &Options::kernel_width, 2, 8, "width of the kernel").unit("grid cells")
///         .choice("method", &Options::method, {"rss", "none"}, "how coils are combined");
///   }
/// Defaults are those of a default-constructed O.
template <class O>
using Parameters = config::OptionTable<O>;

/// A member that O inherits from one of its bases, as a row's place: inherited<Options>(&Shared::kernel_width).
template <class O, class T, class Base>
constexpr T O::*inherited(T Base::*member) {
  return member;
}

}  // namespace echotrain
