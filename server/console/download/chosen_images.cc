#include "server/console/download/chosen_images.h"

#include <fmt/format.h>

namespace echotrain::server {

ChosenImages::ChosenImages(const std::vector<std::shared_ptr<const KeptImage>>& images)
    : images_(images.begin(), images.end()) {
  heads_.reserve(images.size());
  for (const auto& one : images) heads_.push_back(one->image.head);
}

std::shared_ptr<const KeptImage> ChosenImages::get(std::size_t i) const {
  if (auto image = images_[i].lock()) return image;
  throw DownloadError(503, "an image has gone meanwhile: a scan or newer images needed its memory");
}

std::map<std::uint16_t, std::vector<std::size_t>> ChosenImages::by_series() const {
  std::map<std::uint16_t, std::vector<std::size_t>> all;
  for (std::size_t i = 0; i < heads_.size(); ++i) all[heads_[i].image_series_index].push_back(i);
  return all;
}

std::string channel_suffix(const protocol::ImageHeader& head, std::size_t channel) {
  return head.channels > 1 ? fmt::format("_c{:02}", channel) : std::string();
}

bool ZipDownload::next(std::string& piece) {
  if (ended_) return false;
  if (more(piece)) return true;
  piece = zip_.finish();
  ended_ = true;
  return true;
}

void ZipDownload::require_room(std::uint64_t files, std::uint64_t bytes) {
  if (files <= ZipWriter::kMostFiles && bytes <= ZipWriter::kMostBytes) return;
  throw DownloadError(409,
                      fmt::format("these are {} files and about {} MiB, and a ZIP file holds {} and 4096 MiB; take "
                                  "one series (&series=N), or the MRD stream",
                                  files, bytes >> 20, ZipWriter::kMostFiles));
}

}  // namespace echotrain::server
