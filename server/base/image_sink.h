// An image sink takes the images of a scan to a place besides the scan's client.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "protocol/data/messages.h"
#include "server/base/clock.h"
#include "server/base/log.h"
#include "server/base/scan_header.h"

namespace echotrain::server {

/// Takes the images of one scan. Thread-safe.
class ImageSink {
 public:
  virtual ~ImageSink() = default;
  /// Takes an image, without waiting for anything. Where this image, or an earlier one, is lost or may be lost, returns
  /// what the client is told; else nothing.
  virtual std::string add(const protocol::Image& image) = 0;
};

/// The owner of a scan's images.
struct ImageOwner {
  std::string identity{};  ///< of the client that sends the scan
  std::string client{};    ///< the client in whose part of bounded things the images count; empty: `identity`
  std::string data{};      ///< the owner that the capture's name tells; empty: `identity`
};

class ImageSinks {
 public:
  virtual ~ImageSinks() = default;
  /// Returns the sink for a scan whose pipeline, of this text, names `peers`; null where its images go to no sink. No
  /// other scan has this `occasion`. The object must outlive the sink.
  virtual std::shared_ptr<ImageSink> sink(const SessionLog& log, const std::vector<std::string>& peers,
                                          const ScanHeader& header, const std::string& pipeline_text,
                                          const std::string& occasion, const ImageOwner& owner) = 0;
  /// Saves the waiting images, as many as that can be until a time. Returns false when that leaves a thread behind: the
  /// process should end without waiting for it.
  virtual bool finish(Clock::time_point until) = 0;
};

}  // namespace echotrain::server
