#include "gadgets/shared/program/step_sandbox.h"

#include <fmt/format.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace echotrain {

// The numbers are those of all architectures; headers of an older kernel lack them.
StepSandbox StepSandbox::of_kernel() {
  constexpr long kCreateRuleset = 444, kVersion = 1;
  StepSandbox found;
  found.landlock = static_cast<int>(std::max(0L, ::syscall(kCreateRuleset, nullptr, 0, kVersion)));
#ifdef __x86_64__
  unsigned action = SECCOMP_RET_ERRNO;
  found.seccomp = ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
#endif
  return found;
}

std::string missing_of(const StepSandbox& kernel) {
  if (kernel.whole()) return "";
  return kernel.seccomp ? "Landlock" : kernel.landlock > 0 ? "seccomp" : "Landlock and seccomp";
}

SandboxLine sandbox_line(const StepSettings& settings, const StepSandbox& kernel) {
  if (settings.modules.empty()) return {};
  if (settings.sandbox == "off")
    return {"python steps run without a sandbox (python_sandbox: off): a module may do what this server's user may",
            true};
  if (kernel.whole()) return {fmt::format("python steps run in a sandbox: Landlock {}, seccomp", kernel.landlock)};
  const std::string missing = missing_of(kernel);
  return {settings.sandbox == "require"
              ? fmt::format("this machine has no {}: python steps are refused (python_sandbox: require)", missing)
              : fmt::format("this machine has no {}: a python step may do more than its own work (python_sandbox: "
                            "require refuses steps then)",
                            missing),
          true};
}

void hide_this_process() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
}

}  // namespace echotrain
