#include "clients/cpp/base/pending_dataset.h"

#include <fmt/format.h>
#include <unistd.h>

#include <system_error>

namespace echotrain::client {
namespace fs = std::filesystem;

PendingDataset::PendingDataset(const fs::path& output) : output_(output) {
  std::error_code error;
  const bool exists = fs::exists(output, error);
  if (exists) output_ = fs::canonical(output, error);  // a link stays one
  const bool writable = ::access(output_.c_str(), W_OK) == 0;
  if (!exists || (writable && fs::is_regular_file(output_, error))) {
    temporary_ = fmt::format("{}.{}.part", output_.string(), ::getpid());
    try {
      writer_.emplace(temporary_);
      return;
    } catch (const protocol::DatasetError&) {  // said of the file that was asked for
      fs::remove(temporary_, error);
      temporary_.clear();
    }
  }
  writer_.emplace(output);
}

PendingDataset::~PendingDataset() {
  if (temporary_.empty()) return;
  std::error_code error;
  writer_.reset();
  fs::remove(temporary_, error);
}

void PendingDataset::keep() {
  if (temporary_.empty()) return;
  writer_->rename(output_);
  temporary_.clear();
}

}  // namespace echotrain::client
