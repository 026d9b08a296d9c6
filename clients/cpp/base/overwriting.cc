#include "clients/cpp/base/overwriting.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <system_error>

#include "clients/cpp/base/usage_error.h"

namespace echotrain::client {

void refuse_overwriting(const std::filesystem::path& input, const std::filesystem::path& output) {
  std::error_code error;
  if (std::filesystem::equivalent(input, output, error)) {
    throw UsageError("-o " + output.string() + " is the input file, which would be lost: name another file");
  }
}

void refuse_other_format(const std::filesystem::path& output) {
  const std::map<std::string, std::string> exports = {{".png", "--png"},   {".jpg", "--png"},   {".jpeg", "--png"},
                                                      {".gif", "--gif"},   {".nii", "--nifti"}, {".gz", "--nifti"},
                                                      {".dcm", "--dicom"}, {".tif", "--png"}};
  const auto found = exports.find(output.extension().string());
  if (found == exports.end()) return;
  std::filesystem::path file = output.stem();
  const std::string images = file.replace_extension(".h5").string();
  throw UsageError(
      fmt::format("-o {} would be HDF5, whatever its name: say -o {}, then `echotrain export {} {} FOLDER`",
                  output.string(), images, images, found->second));
}

}  // namespace echotrain::client
