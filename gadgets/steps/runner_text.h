// The source of the Python program that runs a module: runner.py of this folder, which the build puts into the
// programs.
#pragma once

namespace echotrain {

extern const char* const kRunnerText;

}  // namespace echotrain
