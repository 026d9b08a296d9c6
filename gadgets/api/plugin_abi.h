// The ABI that a plugin and its server must agree on: the code of the gadget API and the standard library.
#pragma once

#include <string>  // identifies the standard library

#include "gadgets/api/sdk_digest.h"  // made by .ci/sdk_digest.py when the server is built, and installed

#ifdef _GLIBCXX_USE_CXX11_ABI
#define ECHOTRAIN_STANDARD_LIBRARY "libstdc++"
#else
#define ECHOTRAIN_STANDARD_LIBRARY "another standard library"
#endif

#define ECHOTRAIN_PLUGIN_ABI "gadget API " ECHOTRAIN_SDK_DIGEST ", " ECHOTRAIN_STANDARD_LIBRARY
