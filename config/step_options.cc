#include "config/step_options.h"

namespace echotrain::config {

OptionTable<StepOptions> step_option_table() {
  using S = StepOptions;
  return OptionTable<S>()
      .text("python", &S::python,
            "interpreter that runs the modules of pipelines; it needs the packages numpy and ismrmrd")
      .not_empty()
      .path("python_modules", &S::python_modules, "DIR",
            "folder of the Python modules that pipelines may name (gadget python); empty: none")
      .integer("python_memory_mib", &S::python_memory_mib, 64, 1 << 24,
               "memory of the process that runs a module, all of which counts in the memory budget while it runs")
      .integer("python_files", &S::python_files, 16, 1 << 20, "files that such a process may have open")
      .integer("python_cpu_s", &S::python_cpu_s, 1, 1000000, "CPU time that such a process may use")
      .unit("s")
      .list("mrd_servers", &S::mrd_servers, "HOST:PORT",
            "MRD server that pipelines may send scans to (gadget mrd_server); without any, none");
}

}  // namespace echotrain::config
