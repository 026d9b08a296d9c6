// The family gadgets/nlinv.
#include "gadgets/builtin/families.h"
#include "gadgets/nlinv/nlinv_realtime.h"
#include "gadgets/nlinv/nlinv_sms.h"

namespace echotrain {

void add_nlinv(Registry& to) {
  to.add<NlinvRealtime>();
  to.add<NlinvOfEquations>();
  to.add<NlinvSms>();
}

}  // namespace echotrain
