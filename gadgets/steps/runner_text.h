// The programs that run a user's module, which the build puts into ours: the source of runner.py, and a library for
// NumPy's memory, of arrays/numpy_memory.c.
#pragma once

namespace echotrain {

extern const char* const kRunnerText;
extern "C" const char echotrain_numpy_library_begin[], echotrain_numpy_library_end[];

}  // namespace echotrain
