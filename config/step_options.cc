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
      .choice("python_sandbox", &S::python_sandbox, {"auto", "require", "off"},
              "whether such a process is kept to its own files, without a network (Landlock, seccomp): as far as the "
              "machine can, or not at all without, or not")
      .flag("python_network", &S::python_network, "whether such a process may use the network")
      .folders("python_read", &S::python_read, "folder that such a process may read, beside Python's and its own")
      .folders("python_write", &S::python_write, "folder that such a process may read and write, beside its own")
      .integer("python_tasks", &S::python_tasks, 8, 1 << 20, "processes and threads that a step may have")
      .integer("python_file_mib", &S::python_file_mib, 1, 1 << 24, "longest file that such a process may write")
      .unit("MiB")
      .integer("python_threads", &S::python_threads, 1, 1024, "most that counts of a pipeline's `threads`")
      .number("python_timeout_s", &S::python_timeout_s, 0.1, 86400, "most that counts of a pipeline's `timeout_s`")
      .unit("s")
      .list("mrd_servers", &S::mrd_servers, "HOST:PORT",
            "MRD server that pipelines may send scans to (gadget mrd_server); without any, none");
}

}  // namespace echotrain::config
