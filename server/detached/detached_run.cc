#include "server/detached/detached_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "protocol/data/message_id.h"
#include "protocol/data/text.h"
#include "protocol/wire/codec.h"

namespace echotrain::server {

using protocol::MessageId;

namespace {

constexpr int kLook_ms = 100;  // should a wake be lost
constexpr std::size_t kPiece = 1 << 20;

/// Bytes of a session, of which whole messages are taken.
class Incoming {
 public:
  explicit Incoming(const protocol::Limits& limits) : limits_(limits) {}
  /// False at the end of the stream. `drained`: there is nothing more for the moment.
  bool receive(int socket, bool& drained) {
    if (bytes_.size() - filled_ < kPiece / 4) bytes_.resize(std::max(kPiece, 2 * bytes_.size()));
    const ssize_t n = ::recv(socket, bytes_.data() + filled_, bytes_.size() - filled_, MSG_DONTWAIT);
    if (n > 0) filled_ += static_cast<std::size_t>(n);
    drained = n < 0;
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
  }
  /// The next whole message; empty: more has to come.
  std::span<const std::byte> next(std::uint16_t& id) {
    const std::span<const std::byte> rest(bytes_.data() + begin_, filled_ - begin_);
    const auto extent = protocol::measure(rest, limits_);
    if (!rest.empty() && extent && extent->exact && extent->size <= rest.size()) {
      id = extent->id;
      begin_ += extent->size;
      return rest.first(extent->size);
    }
    std::copy(rest.begin(), rest.end(), bytes_.begin());
    filled_ = rest.size();
    begin_ = 0;
    return {};
  }

 private:
  const protocol::Limits& limits_;
  std::vector<std::byte> bytes_;
  std::size_t begin_ = 0, filled_ = 0;
};

bool is_error(std::string_view text) { return text.starts_with("ERROR"); }

/// The error's code in "ERROR    busy: no place".
std::string_view code_of(std::string_view text) {
  text.remove_prefix(std::min(text.size(), text.find_first_of(' ')));
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
  return text.substr(0, text.find(':'));
}

/// True for errors that say nothing about the scan.
bool may_pass(std::string_view code, bool& patient) {
  patient = code == "busy" || code == "shutdown";
  return patient || code == "budget" || code == "resources" || code == "capture";
}

std::string printable_text(std::span<const std::byte> message) {
  constexpr std::size_t kBefore = 6;  // id and length
  const auto* const begin = reinterpret_cast<const char*>(message.data());
  std::string_view text(begin + std::min(kBefore, message.size()), message.size() - std::min(kBefore, message.size()));
  text = text.substr(0, text.find_first_of(std::string_view("\n\0", 2)));
  return std::string(text);
}

class Run {
 public:
  explicit Run(DetachedScan& scan) : scan_(scan), incoming_(scan.limits()), old_images_(scan.first_images()) {}

  RunOutcome operator()() {
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
      return again("the system gives no socket pair", true);
    socket_ = Descriptor(pair[0]);
    ::fcntl(pair[0], F_SETFL, O_NONBLOCK);
    if (const auto session = scan_.add_session(pair[1]); !session) return again(session.error().message, true);
    while (!ended_) {
      scan_.sync_journal();
      const bool input_ended = scan_.input_ended();  // before the look, which then knows all that came
      const DetachedScan::View now = scan_.look();
      if (scan_.cancelled()) return {RunOutcome::Kind::cancelled, false, "", {}};
      if (scan_.cut_off()) return {RunOutcome::Kind::stopped, false, "", {}};
      // Nothing more comes of a scan whose client is not there, and its session would hold up the server's end.
      if (scan_.stopping() && !scan_.has_sender() && !input_ended) return {RunOutcome::Kind::stopped, false, "", {}};
      const bool more = sent_ < now.safe_bytes;
      if (!more && !said_all_ && input_ended) {
        said_all_ = true;
        whole_ = now.closed;
        ::shutdown(socket_.get(), SHUT_WR);
      }
      std::array<pollfd, 2> both{{{socket_.get(), static_cast<short>(more ? POLLIN | POLLOUT : POLLIN), 0},
                                  {scan_.wake_descriptor(), POLLIN, 0}}};
      if (::poll(both.data(), both.size(), kLook_ms) < 0 && errno != EINTR) return again("poll failed", false);
      if (both[1].revents != 0) drain_wakes();
      if ((both[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
        if (std::string problem = receive(); !problem.empty())
          return scan_.results_full() ? RunOutcome{RunOutcome::Kind::failed, false, std::move(problem), {}}
                                      : again(problem, true);
      if ((both[0].revents & POLLOUT) != 0 && !ended_) send(now.safe_bytes);
    }
    return outcome();
  }

 private:
  static RunOutcome again(const std::string& why, bool patient) { return {RunOutcome::Kind::again, patient, why, {}}; }

  void drain_wakes() const {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(scan_.wake_descriptor(), &count, sizeof(count));
  }

  // What was written lies in the page cache, and goes from there to the session's socket.
  void send(std::uint64_t until) {
    auto at = static_cast<off_t>(sent_);
    const ssize_t n =
        ::sendfile(socket_.get(), scan_.journal_descriptor(), &at, std::min<std::uint64_t>(until - sent_, kPiece));
    if (n > 0) sent_ += static_cast<std::uint64_t>(n);
    // The session takes no more: what it says of that is still to be read.
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) refused_ = true;
    if (refused_) sent_ = until;
  }

  // Returns why the results cannot be kept.
  std::string receive() {
    for (bool drained = false; !drained && !ended_;) {
      ended_ = !incoming_.receive(socket_.get(), drained);
      std::uint16_t id = 0;
      for (auto message = incoming_.next(id); !message.empty(); message = incoming_.next(id))
        if (std::string problem = take(id, message); !problem.empty()) return problem;
    }
    return {};
  }

  std::string take(std::uint16_t id, std::span<const std::byte> message) {
    switch (static_cast<MessageId>(id)) {
      case MessageId::image:
        return images_++ < old_images_ ? std::string() : scan_.add_result(message, true);
      case MessageId::text: {
        const std::string text = printable_text(message);
        if (is_error(text)) {
          error_ = text;
          error_message_.assign(message.begin(), message.end());
          return {};
        }
        // In a scan that runs again, texts up to the last image that is there have been told.
        return images_ < old_images_ ? std::string() : scan_.add_result(message, false);
      }
      case MessageId::close:
        closed_ = ended_ = true;
        return {};
      default:
        return {};
    }
  }

  RunOutcome outcome() {
    if (!error_.empty()) {
      RunOutcome out{RunOutcome::Kind::failed, false, error_, std::move(error_message_)};
      if (may_pass(code_of(error_), out.patient)) out.kind = RunOutcome::Kind::again;
      return out;
    }
    if (!closed_) return again("its session was cut off", scan_.stopping());
    if (!said_all_) return again("its session ended early", false);
    return {whole_ ? RunOutcome::Kind::complete : RunOutcome::Kind::incomplete, false, "", {}};
  }

  DetachedScan& scan_;
  Descriptor socket_;
  Incoming incoming_;
  const std::uint64_t old_images_;
  std::uint64_t images_ = 0, sent_ = 0;
  bool said_all_ = false, whole_ = false, refused_ = false, closed_ = false, ended_ = false;
  std::string error_;
  std::vector<std::byte> error_message_;
};

}  // namespace

RunOutcome run_detached(DetachedScan& scan) { return Run(scan)(); }

}  // namespace echotrain::server
