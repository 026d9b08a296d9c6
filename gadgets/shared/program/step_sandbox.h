// The step sandbox is what the kernel offers to keep a Python step's process from what is not its own.
#pragma once

#include <string>

#include "gadgets/shared/program/step_settings.h"

namespace echotrain {

/// The parts of a sandbox that this kernel, or the container around this program, offers.
struct StepSandbox {
  int landlock = 0;      ///< version of Landlock(7); 0: there is none
  bool seccomp = false;  ///< seccomp(2) with filters, on x86-64
  bool whole() const { return landlock > 0 && seccomp; }
  static StepSandbox of_kernel();
};

/// A line for a program's log.
struct SandboxLine {
  std::string text;  ///< empty: there are no steps
  bool is_warning = false;
};
SandboxLine sandbox_line(const StepSettings& settings, const StepSandbox& kernel = StepSandbox::of_kernel());

/// Returns the missing parts in words: "Landlock", "Landlock and seccomp"; empty if there are none.
std::string missing_of(const StepSandbox& kernel);

/// Keeps the secrets of this program from core files and from other programs of its user, by PR_SET_DUMPABLE, unless a
/// sanitizer needs to trace it.
void hide_this_process();

}  // namespace echotrain
