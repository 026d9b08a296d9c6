#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "protocol/dicom/dicom_file.h"
#include "protocol/dicom/plane_geometry.h"
#include "server/console/download/chosen_images.h"

namespace echotrain::server {

namespace {

namespace dicom = protocol::dicom;

/// One file of MR Image Storage for each plane, channel and part.
class DicomDownload final : public ZipDownload {
 public:
  DicomDownload(std::uint64_t scan, ChosenImages images, std::shared_ptr<const ScanOrigin> origin)
      : scan_(scan), images_(std::move(images)), origin_(std::move(origin)) {}

  void plan() override {
    if (!dicom::available()) throw DownloadError(409, "this server was built without DICOM (DCMTK)");
    if (!origin_)
      throw DownloadError(404, "this scan is no longer among the last ones, so that DICOM's attributes are not known");
    name_ = fmt::format("scan_{}_dicom.zip", scan_);
    std::uint64_t files = 0, bytes = 0;
    for (const auto& [index, numbers] : images_.by_series()) {
      std::vector<SortKey> keys;
      for (const std::size_t i : numbers) keys.push_back(sort_key_of(i));
      std::sort(keys.begin(), keys.end());
      std::int64_t instance = 1;
      for (const SortKey& key : keys) {
        const protocol::ImageHeader& head = images_.head(key.number);
        order_.push_back({key.number, instance});
        instance += head.matrix_size[2];
        const std::uint64_t planes =
            std::uint64_t{head.channels} * head.matrix_size[2] * (protocol::is_complex(head) ? 2 : 1);
        files += planes;
        bytes += planes * (std::uint64_t{2} * head.matrix_size[0] * head.matrix_size[1] + 8192);
      }
    }
    require_room(files, bytes);
  }

 private:
  /// The key by which the images of a series are sorted.
  struct SortKey {
    std::tuple<int, int, int, int, int> counters;
    double along_normal = 0;
    std::size_t number = 0;
    bool operator<(const SortKey& other) const {
      return std::tie(counters, along_normal, number) < std::tie(other.counters, other.along_normal, other.number);
    }
  };
  struct Ordered {
    std::size_t number;
    std::int64_t instance;  // of its first plane
  };

  SortKey sort_key_of(std::size_t i) const {
    const protocol::ImageHeader& head = images_.head(i);
    try {
      const dicom::PlaneGeometry at = dicom::plane_geometry(head, 0);
      const auto& [r, c, p] = std::tie(at.row, at.column, at.position);
      const double along =
          (r[1] * c[2] - r[2] * c[1]) * p[0] + (r[2] * c[0] - r[0] * c[2]) * p[1] + (r[0] * c[1] - r[1] * c[0]) * p[2];
      return {{head.set, head.contrast, head.average, head.repetition, head.phase}, along, i};
    } catch (const dicom::DicomError& error) {
      throw DownloadError(409, fmt::format("series {}: {}", +head.image_series_index, error.what()));
    }
  }

  // One image.
  bool more(std::string& piece) override {
    if (at_ == order_.size()) return false;
    const Ordered& one = order_[at_++];
    const auto image = images_.get(one.number);
    const auto give = [&](dicom::Instance&& made) {
      piece += zip_.file(
          fmt::format("series_{}/{:05}{}.dcm", +image->image.head.image_series_index, one.instance, made.name),
          made.bytes);
    };
    try {
      dicom::to_dicom(image->image, {origin_->study, origin_->key}, one.instance, give);
    } catch (const dicom::DicomError& error) {
      throw DownloadError(409, fmt::format("an image cannot be told in DICOM: {}", error.what()));
    }
    return true;
  }

  const std::uint64_t scan_;
  const ChosenImages images_;
  const std::shared_ptr<const ScanOrigin> origin_;
  std::vector<Ordered> order_;
  std::size_t at_ = 0;
};

}  // namespace

std::unique_ptr<Download> make_dicom(std::uint64_t scan, ChosenImages images,
                                     std::shared_ptr<const ScanOrigin> origin) {
  return std::make_unique<DicomDownload>(scan, std::move(images), std::move(origin));
}

}  // namespace echotrain::server
