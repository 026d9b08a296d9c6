#include "clients/cpp/base/overwriting.h"

#include <system_error>

#include "clients/cpp/base/usage_error.h"

namespace echotrain::client {

void refuse_overwriting(const std::filesystem::path& input, const std::filesystem::path& output) {
  std::error_code error;
  if (std::filesystem::equivalent(input, output, error)) {
    throw UsageError("-o " + output.string() + " is the input file, which would be lost: name another file");
  }
}

}  // namespace echotrain::client
