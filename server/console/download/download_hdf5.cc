#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "protocol/files/dataset.h"
#include "server/console/download/chosen_images.h"
#include "server/console/download/memory_file.h"

namespace echotrain::server {

namespace {

// The bytes of HDF5's own structures, beside pixels and attributes: of a file with its group and types, and of an
// image.
constexpr std::uint64_t kOfFile = 1 << 20, kOfImage = 4 << 10;
constexpr std::size_t kFilePiece = 1 << 20;

/// ISMRMRD's HDF5 file: dataset/image_N for each series. It is made as a whole before the first byte comes.
class Hdf5Download final : public Download {
 public:
  Hdf5Download(std::uint64_t scan, ChosenImages images, std::shared_ptr<numerics::MemoryBudget> budget)
      : scan_(scan), images_(std::move(images)), budget_(std::move(budget)) {}

  void plan() override {
    name_ = fmt::format("scan_{}.h5", scan_);
    type_ = "application/x-hdf5";
    for (const auto& [index, numbers] : images_.by_series())
      for (const std::size_t i : numbers) {
        const protocol::ImageHeader &first = images_.head(numbers.front()), &head = images_.head(i);
        if (head.data_type != first.data_type || head.channels != first.channels ||
            !std::equal(std::begin(head.matrix_size), std::end(head.matrix_size), std::begin(first.matrix_size)))
          throw DownloadError(409, fmt::format("series {} has images of several sizes or data types; HDF5 holds them "
                                               "as one array: take the MRD stream",
                                               index));
      }
  }

  bool next(std::string& piece) override {
    if (at_ < images_.size()) {
      add(*images_.get(at_++));
      return true;
    }
    if (writer_) {
      writer_->flush();
      writer_.reset();
      file_->seal();
    }
    auto bytes = file_->read(offset_, kFilePiece);
    if (!bytes) throw DownloadError(503, "the file has gone meanwhile: a scan needed its memory");
    if (bytes->empty()) return false;
    offset_ += bytes->size();
    piece = *std::move(bytes);
    return true;
  }

 private:
  void add(const KeptImage& kept) {
    if (!file_) {
      file_ = std::make_unique<MemoryFile>(budget_);
      pay(kOfFile);
    }
    pay(file_->size() + kOfFile + kOfImage + kept.bytes);
    if (const std::uint64_t room = file_->room(); room < kOfImage + kept.bytes)
      throw DownloadError(503,
                          fmt::format("/dev/shm, in which this file is made, has {} MiB left; take the MRD stream, "
                                      "or give the server more of it (a container's --shm-size)",
                                      room >> 20));
    try {
      if (!writer_) {
        writer_ = std::make_unique<protocol::DatasetWriter>(file_->path());
        writer_->open();
        file_->hide();  // before any pixels: a process that is killed leaves none behind
      }
      writer_->append(kept.image);
    } catch (const protocol::DatasetError& error) {
      throw DownloadError(503, fmt::format("the file cannot be made: {}", error.what()));
    }
  }

  void pay(std::uint64_t bytes) {
    if (!file_->pay(bytes))
      throw DownloadError(503, "the server has no memory left for this file; take the MRD stream, or ask again");
  }

  const std::uint64_t scan_;
  const ChosenImages images_;
  const std::shared_ptr<numerics::MemoryBudget> budget_;
  std::unique_ptr<MemoryFile> file_;
  std::unique_ptr<protocol::DatasetWriter> writer_;  // ends before the file
  std::size_t at_ = 0;
  std::uint64_t offset_ = 0;
};

}  // namespace

std::unique_ptr<Download> make_hdf5(std::uint64_t scan, ChosenImages images,
                                    std::shared_ptr<numerics::MemoryBudget> budget) {
  return std::make_unique<Hdf5Download>(scan, std::move(images), std::move(budget));
}

}  // namespace echotrain::server
