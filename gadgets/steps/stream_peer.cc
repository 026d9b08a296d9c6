#define BOOST_ASIO_NO_DEPRECATED  // as in server/
#include "gadgets/steps/stream_peer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/completion_condition.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "gadgets/api/errors.h"
#include "gadgets/numerics/core/heap_account.h"
#include "gadgets/steps/last_lines.h"
#include "protocol/wire/message_buffer.h"

namespace echotrain {

namespace asio = boost::asio;

OwnDescriptor& OwnDescriptor::operator=(OwnDescriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}

OwnDescriptor::~OwnDescriptor() {
  if (number_ >= 0) ::close(number_);
}

int OwnDescriptor::release() { return std::exchange(number_, -1); }

namespace {

/// The approximate memory that a message keeps alive [bytes].
std::size_t held_by(const protocol::Message& message) {
  constexpr std::size_t kHead = 512;
  if (const auto* readout = std::get_if<protocol::Acquisition>(&message))
    return kHead + readout->data.bytes.size() + readout->trajectory.bytes.size();
  if (const auto* image = std::get_if<protocol::Image>(&message))
    return kHead + image->pixels.bytes.size() + image->attributes.size();
  if (const auto* waveform = std::get_if<protocol::Waveform>(&message)) return kHead + waveform->data.bytes.size();
  if (const auto* text = std::get_if<protocol::Text>(&message)) return kHead + text->text.size();
  return kHead;
}

constexpr std::chrono::milliseconds kForLines{300};  // time that lines may take that were written before the end

}  // namespace

// Members that both threads use are guarded by `mutex`; those of asio and `messages` belong to its thread.
struct StreamPeer::Impl {
  explicit Impl(PeerScan its_scan) : scan(std::move(its_scan)), memory(scan.account) {}

  void write() {
    {
      const std::scoped_lock lock(mutex);
      for (; !outgoing.empty() && sending.size() < kMostAtOnce; outgoing.pop_front())
        sending.push_back(std::move(outgoing.front()));
      if (sending.empty()) {
        writing = false;
        return;
      }
    }
    std::vector<asio::const_buffer> buffers;
    for (const StepBytes& bytes : sending) {
      buffers.emplace_back(bytes.head.data(), bytes.head.size());
      if (!bytes.pixels.bytes.empty()) buffers.emplace_back(bytes.pixels.bytes.data(), bytes.pixels.bytes.size());
    }
    noted = 0;
    const auto note = [this](const boost::system::error_code& error, std::size_t sent) -> std::size_t {
      note_sent(sent);
      return error ? 0 : kWriteBytes;
    };
    asio::async_write(socket, buffers, note, [this](const boost::system::error_code& error, std::size_t all) {
      note_sent(all);
      std::size_t bytes = 0;
      for (const StepBytes& sent : sending) bytes += sent.size();
      sending.clear();
      {
        const std::scoped_lock lock(mutex);
        outgoing_bytes -= bytes;
        count();
        if (error) {  // nobody reads; the reader reports the error
          deaf = true;
          outgoing.clear();
          outgoing_bytes = 0;
          count();
          writing = false;
        }
        ++news;
      }
      changed.notify_all();
      if (!error) write();
    });
  }

  void read() {
    // A full slab goes into one of up to twice its message's bytes, and both are there for a moment.
    if (!look(full ? 2 * messages.pending_bytes() : 0)) return;
    const auto room = [this] {
      const numerics::HeapScope paid(nullptr);  // by `memory`, as long as anybody holds it
      return messages.prepare();
    }();
    if (!look(0)) return;
    socket.async_read_some(asio::buffer(room.data(), room.size()),
                           [this, size = room.size()](const boost::system::error_code& error, std::size_t n) {
                             if (error) return finish(end_of_bytes(error));
                             messages.commit(n);
                             full = n == size;
                             note_moved(n);
                             if (decode()) read();
                           });
  }

  /// Counts the memory of received messages, and looks again while it is more than usual, because nobody reports when
  /// messages release it. Returns true if so many more bytes may be read.
  bool look(std::size_t more) {
    const std::size_t slabs = messages.held_bytes(), pending = messages.pending_bytes();
    bool beyond = false;
    {
      const std::scoped_lock lock(mutex);
      inbound = std::max(slabs, pending + incoming_bytes) + more;
      count();
      beyond = memory.bytes() > 0;
    }
    if (!beyond || !scan.account) return true;
    if (!std::exchange(looks, true)) {
      later.expires_after(kLook);
      later.async_wait([this](const boost::system::error_code& error) {
        looks = false;
        if (!error && !finished()) look(0);
      });
    }
    try {
      scan.account->check();
      return true;
    } catch (const numerics::OverBudget& error) {
      finish(fmt::format("has sent or been sent more than there is memory for: {}", error.what()));
      return false;
    }
  }

  /// Counts the memory. Requires the lock. The two queues are the step's own.
  void count() {
    const std::size_t held = inbound + outgoing_bytes;
    memory.set(held - std::min(held, 2 * kQueueBytes));
  }

  bool finished() const {
    const std::scoped_lock lock(mutex);
    return ended.has_value();
  }

  std::string end_of_bytes(const boost::system::error_code& error) const {
    if (messages.pending_bytes() > 0) return "has ended inside a message";
    return error == asio::error::eof ? "has ended the connection without CLOSE"
                                     : fmt::format("has lost the connection ({})", error.message());
  }

  /// Decodes messages. Returns true if more may be read now.
  bool decode() {
    for (;;) {
      auto next = messages.next();
      if (!next) {
        {
          const std::scoped_lock lock(mutex);
          broken = true;
        }
        finish(fmt::format("has sent bytes that are no MRD message: {}", next.error().message));
        return false;
      }
      if (!*next) break;
      // Skips the config and the header, which some servers repeat, and which may be large.
      if (std::holds_alternative<protocol::HeaderText>(**next) ||
          std::holds_alternative<protocol::ConfigText>(**next) ||
          std::holds_alternative<protocol::ConfigFile>(**next) || std::holds_alternative<protocol::Query>(**next))
        continue;
      const bool last = std::holds_alternative<protocol::Close>(**next);
      bool first = false;
      {
        const std::scoped_lock lock(mutex);
        first = incoming.empty();
        incoming_bytes += held_by(**next);
        incoming.push_back(std::move(**next));
        ++news;
      }
      tell(first);
      if (last) return false;
    }
    const std::scoped_lock lock(mutex);
    waits_for_room = incoming_bytes >= kQueueBytes;
    return !waits_for_room;
  }

  void read_lines() {
    output->async_read_some(asio::buffer(piece), [this](const boost::system::error_code& error, std::size_t n) {
      {
        const std::scoped_lock lock(mutex);
        lines.add({piece.data(), n});
        if (error) {
          lines.finish_line();
          lines_ended = true;
        }
      }
      if (error)
        changed.notify_all();
      else
        read_lines();
    });
  }

  void finish(const std::string& why) {
    {
      const std::scoped_lock lock(mutex);
      if (!ended) ended = why;
      ++news;
    }
    tell(true);
  }

  /// Notes progress. `sent`: bytes of this write so far.
  void note_sent(std::size_t sent) { note_moved(sent - std::exchange(noted, sent)); }
  void note_moved(std::size_t bytes) {
    const std::scoped_lock lock(mutex);
    moved += bytes;
  }

  void tell(bool of_something_new) {
    changed.notify_all();
    if (of_something_new && scan.wake) scan.wake();
  }

  static constexpr std::size_t kMostAtOnce = 32;  // messages in one write
  static constexpr std::size_t kWriteBytes = std::size_t{4} << 20;

  static constexpr std::chrono::milliseconds kLook{50};  // interval of looks at memory

  const PeerScan scan;
  mutable std::mutex mutex;
  std::condition_variable_any changed;
  std::deque<StepBytes> outgoing;
  std::size_t outgoing_bytes = 0;  // bytes of these and of `sending`
  bool writing = false, deaf = false;
  std::deque<protocol::Message> incoming;
  std::size_t incoming_bytes = 0;
  std::size_t inbound = 0;       // memory of received messages, including those that other parts of the scan still hold
  numerics::MemoryShare memory;  // memory held beyond both queues
  bool waits_for_room = false;
  std::optional<std::string> ended;
  LastLines lines;
  bool lines_ended = false, broken = false;
  std::uint64_t moved = 0, news = 0, seen = 0;

  std::vector<StepBytes> sending;
  std::size_t noted = 0;  // bytes of this write that `moved` already includes
  protocol::MessageBuffer messages{protocol::Limits{}, scan.slabs};
  std::array<char, 4096> piece{};
  bool full = false;   // the slab that is read into
  bool looks = false;  // a later look is scheduled
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
  asio::generic::stream_protocol::socket socket{io};
  std::optional<asio::posix::stream_descriptor> output;
  asio::steady_timer later{io};
  std::thread thread;
};

StreamPeer::StreamPeer(OwnDescriptor socket, OwnDescriptor output, PeerScan scan)
    : impl_(std::make_unique<Impl>(std::move(scan))) {
  // The family is only needed to make sockets, and this one is made.
  impl_->socket.assign(asio::generic::stream_protocol(AF_UNIX, 0), socket.get());
  socket.release();
  impl_->read();
  if (output.get() >= 0) {
    impl_->output.emplace(impl_->io, output.release());
    impl_->read_lines();
  } else {
    impl_->lines_ended = true;
  }
  try {
    impl_->thread = std::thread([impl = impl_.get(), heap = numerics::HeapAccount::of_thread()] {
      try {
        const numerics::HeapScope allocates(heap);
        impl->io.run();
      } catch (const std::exception& error) {  // no memory for a message
        impl->finish(fmt::format("cannot be read any more: {}", error.what()));
      }
    });
  } catch (const std::system_error&) {
    throw ResourceError("there is no thread left for a step's connection");
  }
}

StreamPeer::~StreamPeer() {
  impl_->io.stop();
  impl_->thread.join();
}

bool StreamPeer::has_room() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->outgoing_bytes < kQueueBytes;
}

void StreamPeer::send(StepBytes&& bytes) {
  bool begin = false;
  {
    const std::scoped_lock lock(impl_->mutex);
    if (impl_->deaf) return;
    impl_->outgoing_bytes += bytes.size();
    impl_->count();
    impl_->outgoing.push_back(std::move(bytes));
    begin = !std::exchange(impl_->writing, true);
  }
  if (begin) asio::post(impl_->io, [impl = impl_.get()] { impl->write(); });
}

std::optional<protocol::Message> StreamPeer::receive() {
  std::optional<protocol::Message> message;
  bool read_on = false;
  {
    const std::scoped_lock lock(impl_->mutex);
    if (impl_->incoming.empty()) return message;
    message = std::move(impl_->incoming.front());
    impl_->incoming.pop_front();
    impl_->incoming_bytes -= held_by(*message);
    if (impl_->incoming_bytes <= kQueueBytes / 2) read_on = std::exchange(impl_->waits_for_room, false);
  }
  if (read_on) asio::post(impl_->io, [impl = impl_.get()] { impl->read(); });
  return message;
}

std::optional<std::string> StreamPeer::end() {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->incoming.empty() ? impl_->ended : std::nullopt;
}

std::vector<std::string> StreamPeer::last_lines() {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait_for(lock, kForLines, [this] { return impl_->lines_ended; });
  impl_->lines.finish_line();
  return impl_->lines.get();
}

std::uint64_t StreamPeer::moved() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->moved;
}

void StreamPeer::wait(std::chrono::milliseconds longest, const std::stop_token& stop) {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait_for(lock, stop, longest, [this] { return impl_->news != impl_->seen; });
  impl_->seen = impl_->news;
}

bool StreamPeer::broken() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->broken;
}

}  // namespace echotrain
