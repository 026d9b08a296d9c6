#include "server/console/replay/replays.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "protocol/data/message_id.h"
#include "protocol/data/text.h"
#include "protocol/wire/codec.h"
#include "server/base/descriptor.h"
#include "server/base/log.h"
#include "server/base/priority.h"
#include "server/capture/capture_files.h"
#include "server/capture/capture_stream.h"

namespace echotrain::server {

using protocol::MessageId;

namespace {

constexpr unsigned kNotThere = 404, kConflict = 409, kBusy = 503;

bool is_data(std::uint16_t id) {
  const auto known = static_cast<MessageId>(id);
  return known == MessageId::acquisition || known == MessageId::image || known == MessageId::waveform;
}

/// Takes and drops what the session sends: its images are on the page. Returns false if it has ended the connection.
bool drain(int socket) {
  std::array<std::byte, 64 << 10> sink;
  for (;;) {
    const ssize_t n = ::recv(socket, sink.data(), sink.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }
}

/// Sends all bytes. False: the session takes no more.
bool send_all(int socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    pollfd both{socket, POLLIN | POLLOUT, 0};
    if (::poll(&both, 1, -1) < 0 && errno != EINTR) return false;
    if ((both.revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !drain(socket)) return false;
    const ssize_t n = ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

void wait_for_end(int socket) {
  do {
    pollfd one{socket, POLLIN, 0};
    if (::poll(&one, 1, -1) < 0 && errno != EINTR) return;
  } while (drain(socket));
}

}  // namespace

/// A capture that is open, locked against retention, and where its header and its data begin.
struct Replays::Source {
  std::string name;
  Descriptor file, socket;
  std::uint64_t bytes;
  CaptureStream::Message header;
  protocol::Buffer config;
};

Replays::Replays(std::string directory, const protocol::Limits& limits, AddSession add_session)
    : directory_(std::move(directory)), limits_(limits), add_session_(std::move(add_session)) {}

Replays::~Replays() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
    if (socket_ >= 0) ::shutdown(socket_, SHUT_RDWR);
  }
  if (thread_.joinable()) thread_.join();
}

std::string Replays::json() const {
  struct One {
    std::string name;
    std::uint64_t bytes;
  };
  std::vector<One> newest;                                                        // a heap with the oldest in front
  const auto later = [](const One& a, const One& b) { return a.name > b.name; };  // names begin with the time
  bool more = false;
  std::error_code error;
  if (!directory_.empty())
    for (std::filesystem::directory_iterator entry(directory_, error), end; !error && entry != end;
         entry.increment(error)) {
      std::string name = entry->path().filename().string();
      std::error_code unknown;
      if (!is_capture_name(name) || !entry->is_regular_file(unknown)) continue;
      newest.push_back({std::move(name), entry->file_size(unknown)});
      std::push_heap(newest.begin(), newest.end(), later);
      if (newest.size() <= kMostListed) continue;
      std::pop_heap(newest.begin(), newest.end(), later);
      newest.pop_back();
      more = true;
    }
  std::sort_heap(newest.begin(), newest.end(), later);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const One& one : newest) all.push_back({{"name", one.name}, {"bytes", one.bytes}});
  const std::scoped_lock lock(mutex_);
  return nlohmann::ordered_json{
      {"kept", !directory_.empty()}, {"captures", std::move(all)}, {"more", more}, {"running", running_}}
      .dump();
}

std::uint64_t Replays::fail(ReplayRefusal& refusal, unsigned status, std::string text) const {
  refusal = {status, std::move(text)};
  return 0;
}

std::uint64_t Replays::start(const std::string& capture, const std::string& pipeline, const std::string& peer,
                             ReplayRefusal& refusal) {
  if (directory_.empty() || !add_session_)
    return fail(refusal, kNotThere, "this server keeps no captures: its option capture.directory is not set");
  if (!is_capture_name(capture)) return fail(refusal, kNotThere, "there is no capture of this name");
  const std::scoped_lock lock(mutex_);
  if (ending_) return fail(refusal, kBusy, "the server is shutting down");
  if (!running_.empty())
    return fail(refusal, kBusy, fmt::format("{} is being replayed, and one capture runs at a time", running_));
  const auto path = std::filesystem::path(directory_) / capture;
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return fail(refusal, kNotThere, fmt::format("there is no capture {} (any more)", capture));
  // As long as it is locked, retention leaves it alone.
  if (::flock(file.get(), LOCK_SH | LOCK_NB) != 0)
    return fail(refusal, kConflict,
                fmt::format("{} is still being written; try again when its scan has ended", capture));
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  CaptureStream stream(file.get(), bytes, limits_);
  std::optional<CaptureStream::Message> header;
  for (auto message = stream.next(); message && !is_data(message->id) && !header; message = stream.next())
    if (static_cast<MessageId>(message->id) == MessageId::header) header = message;
  if (!header)
    return fail(refusal, kConflict,
                fmt::format("{} has no header, so there is no scan to replay{}{}", capture,
                            stream.problem().empty() ? "" : "; ", stream.problem()));
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
    return fail(refusal, kBusy, "the system gives no socket pair: " + system_text(errno));
  Source source{capture, std::move(file), Descriptor(pair[0]), bytes, *header, {}};
  protocol::encode(protocol::ConfigFile{pipeline}, source.config);
  const auto session = add_session_(pair[1], peer, capture);
  if (!session) return fail(refusal, kBusy, session.error().message);
  if (thread_.joinable()) thread_.join();  // it has ended
  const int socket = source.socket.get();
  auto shared = std::make_shared<Source>(std::move(source));
  thread_ = std::thread([this, shared] { run(std::move(*shared)); });  // its end waits for the lock
  running_ = capture;
  socket_ = socket;
  write_log(LogLevel::info,
            fmt::format("admin port: {} replays {} with {} as session {}", peer, capture, pipeline, *session));
  return *session;
}

void Replays::run(Source source) {
  lower_priority(1);
  try {
    send(source);
  } catch (const std::exception& error) {  // the machine has no more memory
    write_log(LogLevel::warning, fmt::format("the replay of {} ended early: {}", source.name, error.what()));
  }
  const std::scoped_lock lock(mutex_);
  running_.clear();
  socket_ = -1;
}

// Sends the messages as `echotrain replay` does.
void Replays::send(const Source& source) const {
  const int socket = source.socket.get();
  CaptureStream stream(source.file.get(), source.bytes, limits_);
  const auto pass = [&](const CaptureStream::Message& message) {
    for (std::uint64_t sent = 0; sent < message.size;) {
      const auto part = stream.bytes(message.offset + sent, std::min<std::uint64_t>(256 << 10, message.size - sent));
      if (part.empty() || !send_all(socket, part)) return false;
      sent += part.size();
    }
    return true;
  };
  bool goes_on = send_all(socket, source.config) && pass(source.header), data = false;
  for (auto message = stream.next(); goes_on && message; message = stream.next()) {
    const auto id = static_cast<MessageId>(message->id);
    data = data || is_data(message->id);
    // What precedes the data is configuration; what follows may be texts.
    const bool wanted = id == MessageId::close || (data && id != MessageId::query);
    if (wanted) goes_on = pass(*message);
    if (id == MessageId::close) break;
  }
  if (!stream.problem().empty())
    write_log(LogLevel::warning, fmt::format("{}: {}; everything before was replayed", source.name, stream.problem()));
  if (goes_on) ::shutdown(socket, SHUT_WR);
  if (goes_on) wait_for_end(socket);
}

}  // namespace echotrain::server
