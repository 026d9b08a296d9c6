#include "server/base/server_plugin_abi.h"

#include "gadgets/api/plugin_abi.h"

namespace echotrain::server {

std::string_view plugin_abi() { return ECHOTRAIN_PLUGIN_ABI; }

}  // namespace echotrain::server
