// The list of all families.
#include "gadgets/builtin/families.h"
#include "gadgets/builtin/families_built.h"

namespace echotrain {

const Registry& Registry::builtin() {
  static const Registry registry = [] {
    Registry r;
#define ECHOTRAIN_ADD(family) add_##family(r);
    ECHOTRAIN_FAMILIES_BUILT(ECHOTRAIN_ADD)
#undef ECHOTRAIN_ADD
#define ECHOTRAIN_LEAVE_OUT(family) r.leave_out(#family);
    ECHOTRAIN_FAMILIES_LEFT_OUT(ECHOTRAIN_LEAVE_OUT)
#undef ECHOTRAIN_LEAVE_OUT
    return r;
  }();
  return registry;
}

}  // namespace echotrain
