// Messages over a connected socket, both ways at once.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gadgets/steps/peer.h"

namespace echotrain {

/// A descriptor that its holder closes.
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

/// Has a thread of its own, which reads, writes and decodes. Thread-safe.
class StreamPeer final : public Peer {
 public:
  /// `socket`: a connected stream socket. `output`: a pipe with lines for people, or none. ResourceError when there is
  /// no thread to be had.
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

  /// Whether end() tells of bytes that are no message.
  bool broken() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain
