// The family gadgets/maps.
#include "gadgets/builtin/families.h"
#include "gadgets/maps/adc_map.h"
#include "gadgets/maps/b1_map.h"
#include "gadgets/maps/t1_map.h"
#include "gadgets/maps/t2_map.h"
#include "gadgets/maps/t2star_map.h"

namespace echotrain {

void add_maps(Registry& to) {
  to.add<T1Map>();
  to.add<T2Map>();
  to.add<T2StarMap>();
  to.add<AdcMap>();
  to.add<B1Map>();
}

}  // namespace echotrain
