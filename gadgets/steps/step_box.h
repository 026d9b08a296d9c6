// A StepBox is what a step's process may do, as its own program (confine.py) reads it, and the folder that it may write
// to.
#pragma once

#include <filesystem>
#include <string>

#include "gadgets/shared/program/step_settings.h"

namespace echotrain {

/// Makes the folder; the destructor removes it with all that is in it.
class StepBox {
 public:
  /// Throws ResourceError where the settings require a sandbox that this machine lacks, or no folder can be made.
  explicit StepBox(const StepSettings& settings);
  ~StepBox();
  StepBox(StepBox&& other) noexcept;
  StepBox(const StepBox&) = delete;
  StepBox& operator=(const StepBox&) = delete;
  StepBox& operator=(StepBox&&) = delete;

  const std::string& json() const { return json_; }
  const std::filesystem::path& folder() const { return folder_; }  ///< empty without a sandbox

 private:
  std::filesystem::path folder_;
  std::string json_;
};

}  // namespace echotrain
