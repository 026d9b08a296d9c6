// A StreamPeer exchanges messages over a connected socket, in both directions at once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gadgets/steps/peer.h"

namespace echotrain {

/// A file descriptor that its holder closes.
class OwnDescriptor {
 public:
  OwnDescriptor() = default;
  explicit OwnDescriptor(int number) : number_(number) {}
  OwnDescriptor(OwnDescriptor&& other) noexcept : number_(other.release()) {}
  OwnDescriptor& operator=(OwnDescriptor&& other) noexcept;
  ~OwnDescriptor();
  int get() const { return number_; }
  int release();

 private:
  int number_ = -1;
};

/// Reads, writes and decodes on its own thread. Thread-safe.
class StreamPeer final : public Peer {
 public:
  /// `socket`: a connected stream socket. `output`: a pipe with lines of text, or none. Throws ResourceError when no
  /// thread can be started.
  StreamPeer(OwnDescriptor socket, OwnDescriptor output, PeerScan scan);
  ~StreamPeer() override;
  StreamPeer(const StreamPeer&) = delete;
  StreamPeer& operator=(const StreamPeer&) = delete;

  bool has_room() const override;
  void send(StepBytes&& bytes) override;
  std::optional<protocol::Message> receive() override;
  std::optional<std::string> end() override;
  std::vector<std::string> last_lines() override;
  std::uint64_t moved() const override;
  void wait(std::chrono::milliseconds longest, const std::stop_token& stop) override;

  /// True if end() reports bytes that are no message.
  bool broken() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain
