#include "gadgets/steps/step_box.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "gadgets/api/errors.h"
#include "gadgets/shared/program/step_sandbox.h"

namespace echotrain {

StepBox::StepBox(const StepSettings& settings) {
  nlohmann::json box{{"tasks", settings.tasks}, {"file_mib", settings.file_mib}};
  if (settings.sandbox != "off") {
    const StepSandbox kernel = StepSandbox::of_kernel();
    if (settings.sandbox == "require" && !kernel.whole())
      throw ResourceError(fmt::format(
          "python: this machine has no {}, and python_sandbox: require starts no step without", missing_of(kernel)));
    std::error_code error;
    std::string name = (std::filesystem::temp_directory_path(error) / "echotrain-step-XXXXXX").string();
    if (error || ::mkdtemp(name.data()) == nullptr)
      throw ResourceError(fmt::format("python: no temporary folder can be made for a step ({}): {}", name,
                                      error ? error.message() : std::strerror(errno)));
    folder_ = name;
    // The process leaves this one's working folder.
    const auto absolute = [](const std::vector<std::string>& folders) {
      std::vector<std::string> out;
      for (const std::string& each : folders) out.push_back(std::filesystem::absolute(each).string());
      return out;
    };
    std::vector<std::string> read = absolute(settings.read);
    read.push_back(std::filesystem::absolute(settings.modules).string());
    const auto replace = nlohmann::json::error_handler_t::replace;
    box.update({{"folder", name},
                {"landlock", kernel.landlock},
                {"seccomp", kernel.seccomp},
                {"network", settings.network},
                {"read", read},
                {"write", absolute(settings.write)}});
    json_ = box.dump(-1, ' ', true, replace);
    return;
  }
  json_ = box.dump();
}

StepBox::StepBox(StepBox&& other) noexcept
    : folder_(std::exchange(other.folder_, {})), json_(std::exchange(other.json_, {})) {}

StepBox::~StepBox() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace echotrain
