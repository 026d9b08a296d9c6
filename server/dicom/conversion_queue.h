// The conversion queue holds what scans of many clients want written as DICOM, by turns of clients.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "protocol/data/messages.h"
#include "protocol/dicom/dicom_file.h"

namespace echotrain::server {

class DicomScan;

/// A piece of work of a client's scan: an image, or, without one, the objects that the scan has kept so far.
struct Conversion {
  /// Copies pixels that are less than a slab, in which they may be the only ones. Larger ones may have come in memory
  /// of their own, with their attributes, which is at most a quarter larger (MessageBuffer).
  explicit Conversion(std::shared_ptr<DicomScan> of, std::optional<protocol::Image> what = std::nullopt);

  std::shared_ptr<DicomScan> scan;
  std::optional<protocol::Image> image;
  /// Memory that it takes until it is done: its place in line, its attributes and pixels; who adds it adds the rest.
  std::size_t bytes;
  bool framed = false;                                // its frames are in the scan's multi-frame objects
  std::optional<protocol::dicom::Instances> files{};  // that are being made of it; empty: it has not begun
};

/// First come, first served within a client. Clients take turns, so that nobody waits for more than a turn of each
/// other one, however much these have in line. Not thread-safe.
class ConversionQueue {
 public:
  explicit ConversionQueue(std::size_t most_bytes) : most_(most_bytes) {}

  bool empty() const { return turns_.empty(); }
  std::size_t bytes() const { return bytes_; }  ///< of all that is in line
  /// Returns whether a client may put so much in line, beside `kept` bytes that are elsewhere: it leaves at least as
  /// much to others as it has there already.
  bool fits(const std::string& client, std::size_t bytes, std::size_t kept) const;

  void push(const std::string& client, Conversion&& work);
  /// Puts it before all else of the client.
  void push_front(const std::string& client, Conversion&& work);
  /// Returns the first piece of work of the client whose turn it is; it stays where it is until it is popped.
  /// Precondition: not empty; as for all that follow.
  Conversion& front() { return turns_.front()->second.work.front(); }
  /// Counts a piece of work of that client as taking so much from now on.
  void count_as(Conversion& work, std::size_t bytes);
  /// Takes that client's work out. Its turn ends where that was its last.
  Conversion pop(const Conversion& work);
  /// Shows all that is in line.
  void each(const std::function<void(const Conversion&)>& look) const;
  /// Points to that client, as long as it has something in line. Null: nobody has.
  const std::string* whose() const { return turns_.empty() ? nullptr : &turns_.front()->first; }
  /// Ends that client's turn.
  void pass() { turns_.splice(turns_.end(), turns_, turns_.begin()); }

 private:
  struct Line {
    std::list<Conversion> work;
    std::size_t bytes = 0;
  };
  using Lines = std::map<std::string, Line>;
  Line& count(const std::string& client, const Conversion& work);

  const std::size_t most_;
  std::size_t bytes_ = 0;
  Lines lines_;                       // of clients that have something in line
  std::list<Lines::iterator> turns_;  // all of them; the next one first
};

}  // namespace echotrain::server
