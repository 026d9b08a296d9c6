#include "clients/cpp/connection/scan_source.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "protocol/data/acquisition_check.h"
#include "protocol/files/dataset.h"

namespace echotrain::client {
namespace {

constexpr std::size_t kAheadBytes = 64 << 20;

}  // namespace

CounterKey counter_key(const protocol::AcquisitionHeader& head) {
  return {head.idx.repetition, head.idx.slice, head.idx.contrast, head.idx.phase, head.idx.set};
}

CounterKey counter_key(const protocol::ImageHeader& head) {
  return {head.repetition, head.slice, head.contrast, head.phase, head.set};
}

ScanSource::Place ScanSource::go_to(std::uint64_t) { throw std::logic_error("this scan can be given once only"); }

DatasetSource::DatasetSource(const std::filesystem::path& file, const std::string& group)
    : DatasetSource(std::make_unique<protocol::DatasetReader>(file, group)) {}

DatasetSource::DatasetSource(std::unique_ptr<protocol::ScanReader> reader)
    : reader_(std::move(reader)),
      header_xml_(reader_->header_xml()),
      readouts_(reader_->acquisitions()),
      waveforms_(reader_->waveforms()) {
  if (readouts_ > 0)
    for (const auto& name : reader_->image_series()) images_left_out_ += reader_->images(name);
  start();
}

DatasetSource::~DatasetSource() { stop(); }

void DatasetSource::start() {
  thread_ = std::thread([this] {
    try {
      read_ahead();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    finished_ = true;
    changed_.notify_all();
  });
}

void DatasetSource::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

ScanSource::Place DatasetSource::go_to(std::uint64_t message) {
  stop();
  filling_ = {};
  ready_.clear();
  ready_bytes_ = 0;
  finished_ = stop_ = false;
  failure_ = nullptr;
  next_readout_ = next_waveform_ = next_image_ = 0;
  const Place place{0, skip(message) == message};
  const std::size_t readouts = next_readout_;
  start();
  return {readouts, place.in_scan};
}

// Passes over messages, in the order in which read_ahead() gives them; returns how many there were.
std::uint64_t DatasetSource::skip(std::uint64_t messages) {
  std::uint64_t skipped = 0;
  if (waveforms_ == 0) {
    next_readout_ = static_cast<std::size_t>(std::min<std::uint64_t>(messages, readouts_));
    skipped = next_readout_;
  }
  while (skipped < messages && next_readout_ < readouts_) {
    const std::uint32_t time_stamp = reader_->acquisition(next_readout_).head.acquisition_time_stamp;
    while (skipped < messages && next_waveform_ < waveforms_ &&
           reader_->waveform(next_waveform_).head.time_stamp <= time_stamp) {
      ++next_waveform_;
      ++skipped;
    }
    if (skipped == messages) return skipped;
    ++next_readout_;
    ++skipped;
  }
  const auto pass = [&](std::size_t& next, std::size_t end) {
    const std::uint64_t more = std::min<std::uint64_t>(messages - skipped, end - next);
    next += static_cast<std::size_t>(more);
    skipped += more;
  };
  pass(next_waveform_, waveforms_);
  std::size_t images = 0;
  if (readouts_ == 0)
    for (const auto& name : reader_->image_series()) images += reader_->images(name);
  pass(next_image_, images);
  return skipped;
}

std::optional<ScanChunk> DatasetSource::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ready_.empty() || finished_; });
  if (ready_.empty()) {
    if (failure_) std::rethrow_exception(failure_);
    return std::nullopt;
  }
  ScanChunk chunk = std::move(ready_.front());
  ready_.pop_front();
  ready_bytes_ -= chunk.bytes.size();
  changed_.notify_all();
  return chunk;
}

bool DatasetSource::stopped() {
  const std::lock_guard lock(mutex_);
  return stop_;
}

void DatasetSource::hand_over() {
  if (filling_.pieces.empty()) return;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ready_bytes_ < kAheadBytes || stop_; });
  ready_bytes_ += filling_.bytes.size();
  ready_.push_back(std::exchange(filling_, {}));
  changed_.notify_all();
}

template <class M>
void DatasetSource::append(const M& message, ScanChunk::Piece piece) {
  protocol::encode(message, filling_.bytes);
  piece.end = filling_.bytes.size();
  filling_.pieces.push_back(piece);
  if (filling_.bytes.size() >= ScanChunk::kBytes) hand_over();
}

void DatasetSource::append_waveforms_until(std::uint32_t time_stamp) {
  while (next_waveform_ < waveforms_) {
    const protocol::Waveform waveform = reader_->waveform(next_waveform_);
    if (waveform.head.time_stamp > time_stamp) return;
    append(waveform, {});
    ++next_waveform_;
  }
}

void DatasetSource::append_images() {
  std::size_t before = 0;  // images of the series before
  for (const auto& name : reader_->image_series()) {
    const std::size_t images = reader_->images(name);
    for (; next_image_ < before + images && !stopped(); ++next_image_)
      append(reader_->image(name, next_image_ - before), {});
    before += images;
  }
}

void DatasetSource::read_ahead() {
  for (; next_readout_ < readouts_ && !stopped(); ++next_readout_) {
    const protocol::Acquisition readout = reader_->acquisition(next_readout_);
    append_waveforms_until(readout.head.acquisition_time_stamp);
    ScanChunk::Piece piece;
    piece.readout = true;
    piece.makes_image = protocol::readout_kind(readout.head) != protocol::ReadoutKind::noise;
    piece.key = counter_key(readout.head);
    append(readout, piece);
  }
  append_waveforms_until(std::numeric_limits<std::uint32_t>::max());
  if (readouts_ == 0) append_images();
  hand_over();
}

}  // namespace echotrain::client
