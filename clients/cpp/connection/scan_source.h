// A scan source gives a scan as bytes for the wire, piece by piece. DatasetSource reads one from a file, ahead of the
// sender.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "protocol/files/scan_reader.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {

/// Counters that tell which readouts made an image: repetition, slice, contrast, phase, set.
using CounterKey = std::array<std::uint16_t, 5>;
CounterKey counter_key(const protocol::AcquisitionHeader& head);
CounterKey counter_key(const protocol::ImageHeader& head);

/// The text that FIRE clients send as the header of a file that has none; such a file can only hold images.
inline constexpr const char* kNoHeader = "Dummy XML header";

/// Some encoded messages.
struct ScanChunk {
  static constexpr std::size_t kBytes = 256 << 10;  ///< approximate size of a chunk
  struct Piece {
    std::size_t end = 0;  ///< where this message ends in `bytes`
    bool readout = false;
    bool makes_image = false;  ///< not a noise readout
    CounterKey key{};
  };
  protocol::Buffer bytes;
  std::vector<Piece> pieces;
};

/// The data of a scan, without the messages that open and close it.
class ScanSource {
 public:
  virtual ~ScanSource() = default;
  virtual const std::string& header_xml() const = 0;
  virtual std::size_t readouts() const = 0;
  /// Returns the next messages; waits for them. Nothing at the end of the scan. Rethrows errors of reading.
  virtual std::optional<ScanChunk> next() = 0;
  /// True if the scan has come to its end, so that CLOSE follows.
  virtual bool complete() const { return true; }
  /// Returns how many images it has beside readouts; they are not sent.
  virtual std::size_t images_left_out() const { return 0; }

  /// A place in the scan: readouts before it, and whether messages are left from there on.
  struct Place {
    std::size_t readouts = 0;
    bool in_scan = true;  ///< false: behind CLOSE, which counts as a message
  };
  /// Makes next() go on with message number `message`, counted from 0, wherever it stands. Throws std::logic_error
  /// where a scan can be given once only.
  virtual Place go_to(std::uint64_t message);
};

/// Gives acquisitions in file order, waveforms between them by time stamp; or the images of a file without
/// acquisitions.
class DatasetSource final : public ScanSource {
 public:
  DatasetSource(const std::filesystem::path& file, const std::string& group);
  explicit DatasetSource(std::unique_ptr<protocol::ScanReader> reader);
  ~DatasetSource() override;

  const std::string& header_xml() const override { return header_xml_; }
  std::size_t readouts() const override { return readouts_; }
  std::optional<ScanChunk> next() override;
  std::size_t images_left_out() const override { return images_left_out_; }
  Place go_to(std::uint64_t message) override;

 private:
  void start();
  void stop();
  void read_ahead();
  std::uint64_t skip(std::uint64_t messages);
  void append_images();
  void append_waveforms_until(std::uint32_t time_stamp);
  template <class M>
  void append(const M& message, ScanChunk::Piece piece);
  void hand_over();
  bool stopped();

  std::unique_ptr<protocol::ScanReader> reader_;
  std::string header_xml_;
  std::size_t readouts_ = 0, waveforms_ = 0, images_left_out_ = 0;
  std::size_t next_readout_ = 0, next_waveform_ = 0, next_image_ = 0;  // these belong to the reading thread
  ScanChunk filling_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<ScanChunk> ready_;
  std::size_t ready_bytes_ = 0;
  bool finished_ = false, stop_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace echotrain::client
