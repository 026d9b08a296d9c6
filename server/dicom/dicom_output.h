// The DICOM output sends the images of scans to DICOM peers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "config/server_options.h"
#include "protocol/data/messages.h"
#include "protocol/dicom/enhanced_file.h"
#include "protocol/dicom/study.h"
#include "server/base/clock.h"
#include "server/base/image_sink.h"
#include "server/base/log.h"
#include "server/base/queue_memory.h"
#include "server/base/scan_header.h"
#include "server/dicom/conversion_queue.h"
#include "server/dicom/link.h"
#include "server/dicom/sender.h"
#include "server/dicom/spool.h"

namespace echotrain::server {

class DicomOutput;

/// The InstanceNumbers that the series of a scan have given out.
class InstanceNumbers {
 public:
  static constexpr std::size_t kMostRanges = 4096;

  /// Gives `count` numbers in a row that no other instance of the series has, and returns the first: `wanted` if that
  /// is possible, else the lowest beyond all that it has given. After kMostRanges ranges, of all series together, none
  /// gives a number up to the highest of these any more.
  std::int64_t take(int series, std::int64_t wanted, std::int64_t count);
  std::size_t bytes() const { return given_.size() * kNode; }  ///< memory that they take

 private:
  static constexpr std::size_t kNode = 80;  // of a map, with what the allocator adds
  using Given = std::map<std::pair<int, std::int64_t>, std::int64_t>;
  Given given_;  // (series, first): beyond the last; neighbours are joined
  std::int64_t lowest_ = std::numeric_limits<std::int64_t>::min();
};

/// The images of one scan on their way to peers. Thread-safe. Peers that take multi-frame objects get them when its
/// last owner lets it go, when an object is full, or when all that is kept fills half of the queue and its client keeps
/// most of it.
class DicomScan final : public ImageSink, public std::enable_shared_from_this<DicomScan> {
 public:
  /// Takes an image, without waiting for anything; its pixels stay where they are until they are written. Where the
  /// queue is full, the image is not sent, which is logged and counted; one that is larger than the queue is taken
  /// where nothing else waits. Returns that, or that the spool has no room for what this scan has in the queue, or what
  /// became of an earlier image: the call does not wait for the disk to learn what becomes of this one.
  std::string add(const protocol::Image& image) override;

 private:
  friend class DicomOutput;
  DicomScan(DicomOutput& output, SessionLog log, std::shared_ptr<QueueMemory> memory)
      : output_(output), log_(std::move(log)), share_(std::move(memory)) {}
  std::size_t own_bytes() const;

  DicomOutput& output_;
  SessionLog log_;
  std::vector<std::string> peers_, enhanced_peers_;
  protocol::dicom::Study study_;
  std::string key_;     // of the reconstruction
  std::string client_;  // whose turn it is when this is converted
  std::string owner_;   // of its files in the spool
  std::vector<protocol::Encoding> encodings_;
  InstanceNumbers numbers_;                                    // the converter's
  std::unique_ptr<protocol::dicom::EnhancedImages> enhanced_;  // the converter's
  bool told_bad_ = false, told_spool_ = false;                 // the converter's
  // The output's mutex guards these.
  bool told_full_ = false;
  std::size_t in_line_ = 0;  // pieces of work
  std::size_t waiting_bytes_ = 0,
              framed_bytes_ = 0;  // about what its images will take in the spool; those in `enhanced_`
  std::string trouble_;           // of images before
  QueueMemory::Share share_;      // of its own bytes; the converter's
};

/// Returns the InstanceNumber of an image's first plane: its rank by set, contrast, average, repetition, phase and
/// slice within the limits of the header, so that it does not depend on the order in which images come; `image_index`
/// where a counter is beyond its limit, or the number would be beyond 2^31.
std::int64_t instance_number(const protocol::ImageHeader& head, const std::vector<protocol::Encoding>& encodings);

/// Turns images into DICOM files in the spool on one thread, by turns of clients, and sends them on one thread for each
/// peer.
class DicomOutput final : public ImageSinks {
 public:
  /// Throws as read_peers(), Spool and `links` do. What waits in memory is counted in `memory`.
  DicomOutput(const config::DicomOptions& options, std::shared_ptr<QueueMemory> memory, const MakeDicomLink& links);
  ~DicomOutput() override;  ///< finish()
  DicomOutput(const DicomOutput&) = delete;
  DicomOutput& operator=(const DicomOutput&) = delete;

  /// Returns the way out for a scan whose pipeline names `peers`, besides those that get every scan's images; null
  /// where no peer gets any. The text of the pipeline tells reconstructions apart; the occasion, and whose data they
  /// are, tell scans of equal headers apart (make_study()); without `owner.data`, they are the identity's. Each client
  /// has its part of the spool. This must outlive it.
  std::shared_ptr<DicomScan> scan(const SessionLog& log, const std::vector<std::string>& peers,
                                  const ScanHeader& header, const std::string& pipeline_text,
                                  const std::string& occasion, const ImageOwner& owner = {});
  std::shared_ptr<ImageSink> sink(const SessionLog& log, const std::vector<std::string>& peers,
                                  const ScanHeader& header, const std::string& pipeline_text,
                                  const std::string& occasion, const ImageOwner& owner) override {
    return scan(log, peers, header, pipeline_text, occasion, owner);
  }

  std::vector<DicomPeerStatus> status() const;
  std::uint64_t dropped() const;  ///< images that could not be spooled, for each peer
  std::size_t queued_bytes() const;

  /// Writes what waits in memory to the spool and ends the senders. What is not written until then, and a file or an
  /// object more, is counted as dropped. False when one hangs in a call that cannot be interrupted (a name or a
  /// connection that does not resolve): its thread is left behind, and the process should end without waiting for it.
  bool finish(Clock::time_point until = Clock::time_point::max()) override;

 private:
  friend class DicomScan;
  std::string add(std::shared_ptr<DicomScan> scan, const protocol::Image& image);
  std::string no_room(const DicomScan& scan, std::size_t bytes) const;
  void drop(DicomScan& scan, std::size_t images, bool& told, const std::string& what);
  void end(std::shared_ptr<DicomScan> scan);
  void put_in_line(Conversion&& work);
  void count();
  class Busy;
  void convert_all();
  void write_rest();
  void take_turn(std::unique_lock<std::mutex>& lock);
  void retire(const Conversion& work, std::unique_lock<std::mutex>& lock);
  bool convert_some(Conversion& work);
  bool make_file(Conversion& work);
  void keep_frames(Conversion& work);
  void close_largest();
  bool give_object(DicomScan& scan);
  void fail(DicomScan& scan, std::size_t images, const std::exception& error);
  void keep(std::size_t before, std::size_t after);
  void spool(DicomScan& scan, const std::vector<std::string>& peers, const std::string& bytes);

  const config::DicomOptions options_;
  const std::size_t most_bytes_;  // in memory
  const std::shared_ptr<QueueMemory> memory_;
  std::shared_ptr<Spool> spool_;
  std::vector<std::shared_ptr<DicomSender>> senders_;
  std::vector<std::thread> threads_;

  mutable std::mutex mutex_;
  std::condition_variable work_;
  ConversionQueue queue_;
  std::size_t kept_bytes_ = 0;                    // for multi-frame objects
  std::size_t busy_bytes_ = 0;                    // while something is made
  std::set<std::shared_ptr<DicomScan>> keeping_;  // frames of objects that are not closed; the converter's
  QueueMemory::Share share_;                      // of all three
  std::uint64_t dropped_ = 0;
  bool finishing_ = false, finished_ = false, all_ended_ = true;
  Clock::time_point until_ = Clock::time_point::max();  // of finish()
  std::thread converter_;
};

}  // namespace echotrain::server
