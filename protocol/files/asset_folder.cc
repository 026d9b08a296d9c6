#include "protocol/files/asset_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <fstream>

#include "protocol/data/pixels.h"

namespace echotrain::protocol {
namespace {

bool is_text(const std::filesystem::path& file) {
  return file.extension() == ".grad" || file.extension() == ".coef" || file.extension() == ".gradients";
}

/// Throws DatasetError.
Image text_image(const std::filesystem::path& file) {
  constexpr std::size_t kMost = UINT16_MAX;
  std::string text(kMost + 1, '\0');
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw DatasetError("it cannot be opened");
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  const auto size = static_cast<std::size_t>(stream.gcount());
  if (stream.bad()) throw DatasetError("it cannot be read");
  if (size == 0) throw DatasetError("it is empty");
  if (size > kMost) throw DatasetError(fmt::format("it has more than {} bytes, the most that a text may have", kMost));
  std::vector<std::uint16_t> pixels;
  std::transform(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size), std::back_inserter(pixels),
                 [](char c) { return static_cast<unsigned char>(c); });
  Image out;
  out.head.version = 1;
  out.head.data_type = ISMRMRD::ISMRMRD_USHORT;
  out.head.channels = 1;
  out.head.matrix_size[0] = static_cast<std::uint16_t>(size);
  out.head.matrix_size[1] = out.head.matrix_size[2] = 1;
  out.pixels = Payload::take(std::move(pixels));
  return out;
}

}  // namespace

std::vector<std::string> AssetFolder::names() const {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ignored))
    if (entry.is_regular_file(ignored)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<Image> AssetFolder::images(const std::string& name, const std::function<void()>& between) const {
  if (folder_.empty())
    throw DatasetError(
        fmt::format("the file '{}' is asked for, but no folder of files was given (option assets)", name));
  // Compares names, so that no text can lead out of the folder.
  const std::vector<std::string> known = names();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    const std::string there = known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "));
    const std::string error = fmt::format("there is no file '{}' among the assets", name);
    if (!missing_) throw DatasetError(fmt::format("{}; there are: {}", error, there));
    missing_(there);
    throw DatasetError(error + "; the server's log says which there are");
  }
  try {
    if (is_text(name)) return {text_image(folder_ / name)};
    const DatasetReader reader(folder_ / name);
    const std::vector<std::string> series = reader.image_series();
    if (series.empty()) throw DatasetError("it holds no images");
    std::vector<Image> images;
    for (std::size_t i = 0; i < reader.images(series.front()); ++i) {
      if (between) between();
      images.push_back(reader.image(series.front(), i));
    }
    return images;
  } catch (const DatasetError& error) {
    // The client must not learn where the folder is.
    std::string text = error.what();
    const std::string path = (folder_ / name).string();
    if (const auto at = text.find(path); at != std::string::npos) text.replace(at, path.size(), name);
    throw DatasetError(fmt::format("the asset '{}' cannot be used: {}", name, text));
  }
}

}  // namespace echotrain::protocol
