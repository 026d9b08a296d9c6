// The support of the client's tests is temporary folders and hand-made images.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "clients/cpp/cli/cli.h"
#include "protocol/files/dataset.h"
#include "tests/support/resources.h"

namespace echotrain::client {

/// A folder that goes away with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "echotrain-client-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

template <class T>
protocol::Image make_image(std::uint16_t type, std::uint16_t width, std::uint16_t height, std::vector<T> pixels,
                           std::uint16_t series = 1) {
  protocol::Image image;
  image.head.version = 1;
  image.head.data_type = type;
  image.head.matrix_size[0] = width;
  image.head.matrix_size[1] = height;
  image.head.matrix_size[2] = 1;
  image.head.channels = 1;
  image.head.image_series_index = series;
  image.pixels = protocol::Payload::take(std::move(pixels));
  return image;
}

/// Runs the command line in this process.
struct CommandResult {
  int code = 0;
  std::string out, err;
};
inline CommandResult command(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv = {"echotrain"};
  for (const auto& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out, err;
  CommandResult result;
  result.code = run(static_cast<int>(argv.size()), argv.data(), "0", test_resource_options(), out, err);
  result.out = out.str();
  result.err = err.str();
  return result;
}

}  // namespace echotrain::client
