// The sender is the thread that sends a spool's files to one peer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "config/server_options.h"
#include "server/base/clock.h"
#include "server/dicom/link.h"
#include "server/dicom/peers.h"
#include "server/dicom/spool.h"

namespace echotrain::server {

/// The state of a peer, as far as it is known.
struct DicomPeerStatus {
  DicomPeer peer;
  std::optional<bool> reachable;  ///< whether it took the last connection; nothing before the first one
  std::string error;              ///< why an exchange failed, while it does or an image fails
  std::uint64_t sent = 0, refused = 0, failures = 0;  ///< since the server started: images, images, exchanges
  std::uint64_t given_up = 0;  ///< images that the peer neither took nor refused in so many tries, put aside
  std::uint64_t removed = 0;   ///< images that had been put aside
  std::uint64_t failing = 0;   ///< images that wait and have failed
  Spool::Waiting waiting;
  std::optional<std::chrono::system_clock::time_point> last_contact;  ///< when it last answered
};

/// Sends the oldest file first, until the peer has it or refuses it for good. A peer that cannot be reached, or has no
/// room, is tried again after a second, then after twice the pause before, up to retry_s. A file that a peer does not
/// take though it takes the connection lets all others go first. After so many tries (DicomOptions::tries) it is put
/// aside; tries count while the peer works otherwise, that is since it took another file or, unless it has no room,
/// answered a C-ECHO. A peer for which nothing waits is asked by C-ECHO every echo_s, and first of all when the server
/// starts. The link is closed when nothing waits.
class DicomSender {
 public:
  DicomSender(DicomPeer peer, std::unique_ptr<DicomLink> link, std::shared_ptr<Spool> spool,
              const config::DicomOptions& options);

  const std::string& name() const { return peer_.name; }
  bool enhanced() const { return peer_.enhanced; }
  /// Works until stop(). It is for a thread of its own.
  void run();
  /// Says that a file has been put into the spool.
  void wake();
  /// Makes run() return: at once, or when the library's call that cannot be interrupted ends (opening a connection).
  /// What waits stays in the spool.
  void stop();
  bool stopped() const;  ///< run() has returned
  DicomPeerStatus status() const;

 private:
  void step(std::unique_lock<std::mutex>& lock);
  /// A file that the peer did not take.
  struct Failing {
    std::uint64_t sent, answers;  ///< of the peer when it first failed
    std::int64_t tries = 0;
    Clock::duration pause{};
    Clock::time_point not_before{};
  };

  std::optional<std::filesystem::path> next() const;
  void send(const std::filesystem::path& file, std::unique_lock<std::mutex>& lock);
  void echo(std::unique_lock<std::mutex>& lock);
  void put_aside(const std::filesystem::path& file, const std::string& what, const std::string& why,
                 std::unique_lock<std::mutex>& lock);
  void tidy(std::unique_lock<std::mutex>& lock);
  void note(const DicomReply& reply);
  void note_failing(const std::filesystem::path& file, const DicomReply& reply, std::unique_lock<std::mutex>& lock);
  void lengthen(Clock::duration& pause) const;
  void note_failure(const std::string& why);

  const DicomPeer peer_;
  const std::unique_ptr<DicomLink> link_;
  const std::shared_ptr<Spool> spool_;
  const Clock::duration retry_, echo_;
  const std::int64_t tries_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false, stopped_ = false, woken_ = false;
  Clock::duration pause_{};  // before the next attempt; zero: the last exchange went well
  bool proven_ = false;      // the last exchange went well
  std::uint64_t answers_ = 0;
  std::map<std::filesystem::path, Failing> failing_;
  Clock::time_point next_echo_, next_tidy_;
  DicomPeerStatus status_;
};

}  // namespace echotrain::server
