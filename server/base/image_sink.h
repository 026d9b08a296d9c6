// Where images of scans go besides their client.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "protocol/data/header.h"
#include "protocol/data/messages.h"
#include "server/base/log.h"

namespace echotrain::server {

/// One scan's way out. Thread-safe.
class ImageSink {
 public:
  virtual ~ImageSink() = default;
  /// Takes an image, without waiting for anything. Returns what is to be said to the client where it, or one before it,
  /// goes nowhere, or may go nowhere.
  virtual std::string add(const protocol::Image& image) = 0;
};

/// Whose images they are.
struct ImageOwner {
  std::string identity{};  ///< of the client that sends the scan
  std::string client{};    ///< in whose part of what is bounded it counts; empty: its own
  std::string data{};      ///< whose data they are, where a capture tells it
};

class ImageSinks {
 public:
  virtual ~ImageSinks() = default;
  /// For a scan whose pipeline, of this text, names `peers`; null where its images go nowhere. `occasion` is the scan's
  /// alone. This must outlive it.
  virtual std::shared_ptr<ImageSink> sink(const SessionLog& log, const std::vector<std::string>& peers,
                                          const protocol::Header& header, const std::string& pipeline_text,
                                          const std::string& occasion, const ImageOwner& owner) = 0;
  /// Brings what waits to safety. False when that leaves a thread behind: the process should end without waiting for
  /// it.
  virtual bool finish() = 0;
};

}  // namespace echotrain::server
