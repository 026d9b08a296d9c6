#include "clients/cpp/scans/message_input.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <span>
#include <system_error>

#include "clients/cpp/base/scan_file.h"

namespace echotrain::client {
namespace {

using namespace protocol;

constexpr std::string_view kHdf5 = "\x89HDF\r\n\x1a\n";

/// Reads as many of the first bytes as tell the formats apart; fewer where one of them is none of theirs, so that a
/// pipe is not waited for in vain.
std::size_t read_begin(std::FILE* file, std::span<char> to, const std::string& name) {
  std::size_t have = 0;
  while (have < to.size()) {
    const ssize_t n = ::read(::fileno(file), to.data() + have, to.size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw std::system_error(errno, std::generic_category(), "cannot read " + name);
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
    const std::string_view begun(to.data(), have);
    if (!kHdf5.starts_with(begun) && !mrd2::kMagic.starts_with(begun)) break;
  }
  return have;
}

}  // namespace

std::string_view format_name(Format format) {
  constexpr std::string_view kNames[] = {"an HDF5 file", "a stream", "an MRD 2 stream", "a scanner's raw data"};
  return kNames[static_cast<std::size_t>(format)];
}

std::string in_words(const mrd2::LeftOut& left_out) {
  std::string all;
  for (const auto& [what, times] : left_out)
    all += fmt::format("{}{}{}", all.empty() ? "" : "; ", what, times == 1 ? "" : fmt::format(" ({} times)", times));
  return all;
}

MessageInput::MessageInput(const std::filesystem::path& path)
    : file_(path == "-" ? stdin : std::fopen(path.c_str(), "rb"), FileCloser{path != "-"}) {
  if (!file_) throw std::system_error(errno, std::generic_category(), "cannot open " + path.string());
  if (path != "-" && is_scanner_file(path)) {
    format_ = Format::scanner;
    return;
  }
  std::array<char, kHdf5.size()> begin{};
  const std::size_t have = read_begin(file_.get(), begin, path.string());
  const std::string_view begun(begin.data(), have);
  const auto bytes = std::as_bytes(std::span(begin).first(have));
  Limits limits;
  limits.response_bytes = limits.text_bytes;  // the stream may be a server's
  if (begun == kHdf5 && path != "-") {
    format_ = Format::hdf5;
  } else if (begun.starts_with(mrd2::kMagic)) {
    format_ = Format::mrd2;
    mrd2_ = std::make_unique<mrd2::Mrd2Reader>(file_.get(), limits, bytes);
  } else {
    stream_ = std::make_unique<StreamReader>(file_.get(), limits, bytes);
  }
}

Result<std::optional<Message>> MessageInput::next() {
  if (mrd2_) return mrd2_->next();
  return stream_->next();
}

std::string MessageInput::left_out() const { return mrd2_ ? in_words(mrd2_->left_out()) : ""; }

}  // namespace echotrain::client
