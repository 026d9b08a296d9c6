#include <fmt/format.h>

#include <optional>
#include <utility>

#include "protocol/nifti/nifti_series.h"
#include "server/console/download/chosen_images.h"

namespace echotrain::server {

namespace {

/// A .nii, or a ZIP file of them where there are several series, channels, or parts of complex images.
class NiftiDownload final : public ZipDownload {
 public:
  NiftiDownload(std::uint64_t scan, ChosenImages images) : scan_(scan), images_(std::move(images)) {}

  void plan() override {
    std::uint64_t bytes = 0;
    for (const auto& [index, numbers] : images_.by_series()) {
      const Series& series = series_.emplace_back(arrange(index, numbers));
      const protocol::ImageHeader& head = images_.head(numbers.front());
      for (std::size_t channel = 0; channel < head.channels; ++channel) {
        const std::string name = fmt::format("scan_{}_series_{}{}", scan_, index, channel_suffix(head, channel));
        for (const ViewPart part : {ViewPart::magnitude, ViewPart::phase}) {
          if (part == ViewPart::phase && !protocol::is_complex(head)) continue;
          const char* which = part == ViewPart::phase ? "_phase" : "_magnitude";
          files_.push_back(
              {series_.size() - 1, channel, part, name + (protocol::is_complex(head) ? which : "") + ".nii"});
          const auto& size = series.arrangement.shape.size;
          bytes += std::uint64_t{sizeof(float)} * size[0] * size[1] * size[2] * size[3];
        }
      }
    }
    alone_ = files_.size() == 1;
    if (!alone_) require_room(files_.size(), bytes);
    name_ = alone_ ? files_.front().name : fmt::format("scan_{}_nifti.zip", scan_);
    if (alone_) type_ = "application/octet-stream";
  }

  bool next(std::string& piece) override {
    if (!alone_) return ZipDownload::next(piece);
    return more(piece);
  }

 private:
  struct Series {
    std::vector<std::size_t> numbers;  // of its images
    protocol::nifti::Arrangement arrangement;
  };
  struct File {
    std::size_t series, channel;
    ViewPart part;
    std::string name;
  };

  Series arrange(std::uint16_t index, const std::vector<std::size_t>& numbers) const {
    std::vector<protocol::ImageHeader> heads;
    for (const std::size_t i : numbers) {
      heads.push_back(images_.head(i));
      if (heads.back().data_type != heads.front().data_type)
        throw DownloadError(409, fmt::format("series {} has images of several data types; one NIfTI file cannot hold "
                                             "them",
                                             index));
    }
    try {
      return {numbers, protocol::nifti::arrange(heads)};
    } catch (const std::runtime_error& error) {
      throw DownloadError(409, fmt::format("series {} {}", index, error.what()));
    }
  }

  // One plane.
  bool more(std::string& piece) override {
    if (file_ == files_.size()) return false;
    const File& file = files_[file_];
    const Series& series = series_[file.series];
    const auto& size = series.arrangement.shape.size;
    if (plane_ == 0) {
      const std::vector<char> header = protocol::nifti::header_bytes(series.arrangement.shape);
      if (!alone_) piece = zip_.begin(file.name);
      give(piece, {header.data(), header.size()});
    }
    // [volume][slice][z], of which one slice has several z, or several slices one.
    const std::size_t slices = series.arrangement.volumes.front().size(), planes = size[2] / slices;
    const std::size_t volume = plane_ / size[2], within = plane_ % size[2];
    const std::size_t image = series.numbers[series.arrangement.volumes[volume][within / planes]];
    const std::vector<float> values = plane_values(images_.get(image)->image, file.channel, within % planes, file.part);
    give(piece, {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
    if (++plane_ == size[2] * size[3]) {
      if (!alone_) piece += zip_.end();
      plane_ = 0;
      ++file_;
    }
    return true;
  }

  void give(std::string& piece, std::string_view bytes) {
    if (!alone_) zip_.add(bytes);
    piece += bytes;
  }

  const std::uint64_t scan_;
  const ChosenImages images_;
  std::vector<Series> series_;
  std::vector<File> files_;
  bool alone_ = false;
  std::size_t file_ = 0, plane_ = 0;
};

}  // namespace

std::unique_ptr<Download> make_nifti(std::uint64_t scan, ChosenImages images) {
  return std::make_unique<NiftiDownload>(scan, std::move(images));
}

}  // namespace echotrain::server
