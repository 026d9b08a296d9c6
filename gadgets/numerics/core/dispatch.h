// The dispatch of an operation to its backend. Every operation has a cpu:: and, when built, a cuda:: function of the
// same signature. A scan that is to stop begins no further operation: Stopped is thrown.
#pragma once

#include "gadgets/numerics/core/backends_built.h"
#include "gadgets/numerics/core/context.h"

#if ECHOTRAIN_HAS_CUDA
#define ECHOTRAIN_DISPATCH(context, call) ((context).check_stop(), (context).cuda() ? cuda::call : cpu::call)
#else
#define ECHOTRAIN_DISPATCH(context, call) ((context).check_stop(), cpu::call)
#endif
