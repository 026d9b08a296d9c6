#include "clients/cpp/connection/scan_source.h"

#include <limits>
#include <utility>

#include "protocol/data/acquisition_check.h"

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

DatasetSource::DatasetSource(const std::filesystem::path& file, const std::string& group)
    : reader_(file, group),
      header_xml_(reader_.header_xml()),
      readouts_(reader_.acquisitions()),
      waveforms_(reader_.waveforms()) {
  if (readouts_ > 0)
    for (const auto& name : reader_.image_series()) images_left_out_ += reader_.images(name);
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

DatasetSource::~DatasetSource() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
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

void DatasetSource::append_waveforms_until(std::uint32_t time_stamp, std::size_t& next_waveform) {
  while (next_waveform < waveforms_) {
    const protocol::Waveform waveform = reader_.waveform(next_waveform);
    if (waveform.head.time_stamp > time_stamp) return;
    append(waveform, {});
    ++next_waveform;
  }
}

void DatasetSource::append_images() {
  for (const auto& name : reader_.image_series())
    for (std::size_t i = 0; i < reader_.images(name) && !stopped(); ++i) append(reader_.image(name, i), {});
}

void DatasetSource::read_ahead() {
  std::size_t next_waveform = 0;
  for (std::size_t i = 0; i < readouts_ && !stopped(); ++i) {
    const protocol::Acquisition readout = reader_.acquisition(i);
    append_waveforms_until(readout.head.acquisition_time_stamp, next_waveform);
    ScanChunk::Piece piece;
    piece.readout = true;
    piece.makes_image = protocol::readout_kind(readout.head) != protocol::ReadoutKind::noise;
    piece.key = counter_key(readout.head);
    append(readout, piece);
  }
  append_waveforms_until(std::numeric_limits<std::uint32_t>::max(), next_waveform);
  if (readouts_ == 0) append_images();
  hand_over();
}

}  // namespace echotrain::client
