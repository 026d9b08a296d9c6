#include "server/console/download/download.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/console/download/chosen_images.h"

namespace echotrain::server {

namespace {

constexpr std::size_t kMostImages = 20'000;

/// The admission of a download: counts it among kMost and holds its memory, until destroyed.
struct Admission {
  Admission(std::shared_ptr<std::atomic<int>> its_count, std::shared_ptr<numerics::MemoryBudget> its_budget)
      : count(std::move(its_count)), budget(std::move(its_budget)), there(++*count <= Downloads::kMost) {}
  ~Admission() {
    budget->give(bytes);
    --*count;
  }
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;
  bool pay(std::uint64_t wanted) {
    if (!budget->take_if_it_fits(wanted)) return false;
    bytes = wanted;
    return true;
  }
  const std::shared_ptr<std::atomic<int>> count;
  const std::shared_ptr<numerics::MemoryBudget> budget;
  const bool there;
  std::uint64_t bytes = 0;
};

/// Returns the memory that is needed at most, beside the images: lists of images and of files, and what the largest
/// image becomes.
std::uint64_t needs(const std::vector<std::shared_ptr<const KeptImage>>& images, std::string_view format) {
  constexpr std::uint64_t kOfImage = 1024, kOfFile = 160, kOfInstance = 8192, kAlways = 1 << 20;
  std::uint64_t lists = kAlways + kOfImage * images.size(), largest = 0;
  for (const auto& one : images) {
    const protocol::ImageHeader& head = one->image.head;
    const std::uint64_t plane = std::uint64_t{head.matrix_size[0]} * head.matrix_size[1];
    const std::uint64_t planes =
        std::uint64_t{head.matrix_size[2]} * head.channels * (protocol::is_complex(head) ? 2 : 1);
    lists += kOfFile * planes;
    if (format == "nifti") largest = std::max(largest, plane * 2 * sizeof(float));            // values, bytes
    if (format == "png") largest = std::max(largest, plane * 8);                              // values, grey, PNG
    if (format == "hdf5") largest = std::max(largest, 2 * one->bytes);                        // the writer's copy
    if (format == "dicom") largest = std::max(largest, planes * (plane * 12 + kOfInstance));  // stored, DCMTK, files
  }
  return lists + largest;
}

/// A download that keeps its admission.
class AdmittedDownload final : public Download {
 public:
  AdmittedDownload(std::unique_ptr<Download> made, std::unique_ptr<Admission> admission)
      : admission_(std::move(admission)), made_(std::move(made)) {}
  void plan() override {
    made_->plan();
    name_ = made_->name();
    type_ = made_->type();
  }
  bool next(std::string& piece) override { return made_->next(piece); }

 private:
  const std::unique_ptr<Admission> admission_;
  const std::unique_ptr<Download> made_;  // ends first
};

}  // namespace

std::shared_ptr<Download> Downloads::begin(const DownloadRequest& order, const RecentImages& images,
                                           std::shared_ptr<const ScanOrigin> origin) const {
  constexpr std::string_view kFormats[] = {"hdf5", "nifti", "png", "dicom"};
  if (std::find(std::begin(kFormats), std::end(kFormats), order.format) == std::end(kFormats))
    throw DownloadError(404, "images come as format=mrd, hdf5, nifti, png or dicom");
  auto admission = std::make_unique<Admission>(count_, budget_);
  if (!admission->there)
    throw DownloadError(503, fmt::format("{} files are being made already; ask again when one has come", kMost));
  auto wanted = images.of(order.scan, 0, kMostImages + 1);
  if (wanted.size() > kMostImages)
    throw DownloadError(409,
                        fmt::format("files are made of scans of at most {} images; take the MRD stream", kMostImages));
  if (order.series)
    std::erase_if(wanted, [&](const auto& one) { return one->image.head.image_series_index != *order.series; });
  if (wanted.empty())
    throw DownloadError(
        404, order.series ? "no image of this series is kept (any more)" : "no image of this scan is kept (any more)");
  if (!admission->pay(needs(wanted, order.format)))
    throw DownloadError(503, "the server has no memory left for this file; take the MRD stream, or ask again");
  ChosenImages chosen(wanted);
  std::unique_ptr<Download> made;
  if (order.format == "nifti")
    made = make_nifti(order.scan, std::move(chosen));
  else if (order.format == "png")
    made = make_png(order.scan, std::move(chosen));
  else if (order.format == "dicom")
    made = make_dicom(order.scan, std::move(chosen), std::move(origin));
  else
    made = make_hdf5(order.scan, std::move(chosen), budget_);
  return std::make_shared<AdmittedDownload>(std::move(made), std::move(admission));
}

}  // namespace echotrain::server
