// The raw client uses plain POSIX sockets, with a server in this process to talk to.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "server/base/log.h"
#include "server/server.h"
#include "tests/server/loopback.h"
#include "tests/server/wire.h"
#include "tests/support/resources.h"
#include "tests/support/sources.h"

namespace echotrain::server {

/// One message from the server: its id and its bytes after the id.
struct Received {
  std::uint16_t id;
  std::string body;
  std::string text() const { return body.substr(4); }  ///< of TEXT, with newline and NUL
  std::string pixels() const {                         ///< of IMAGE
    std::uint64_t attributes;
    std::memcpy(&attributes, body.data() + 198, 8);
    return body.substr(206 + attributes);
  }
};

/// Everything that the server sent, and how it ended.
struct Conversation {
  std::vector<Received> messages;
  bool eof = false;    ///< an orderly end
  bool reset = false;  ///< RST
  std::string rest;    ///< bytes that are no whole message

  std::size_t count(std::uint16_t id) const {
    return static_cast<std::size_t>(
        std::count_if(messages.begin(), messages.end(), [&](const Received& m) { return m.id == id; }));
  }
  std::string texts() const {
    std::string all;
    for (const Received& message : messages)
      if (message.id == 5) all += message.text();
    return all;
  }
  std::vector<std::string> images() const {  ///< whole messages
    std::vector<std::string> all;
    for (const Received& message : messages)
      if (message.id == 1022) all.push_back(message.body);
    return all;
  }
  /// The parts of the images that are the same in every run: headers without the length of the attributes, and pixels.
  std::vector<std::string> reproducible_images() const {
    std::vector<std::string> all;
    for (const Received& message : messages)
      if (message.id == 1022) all.push_back(message.body.substr(0, 194) + message.pixels());
    return all;
  }
  /// CLOSE came once, last, and then an orderly end.
  testing::AssertionResult ended_well() const {
    if (reset) return testing::AssertionFailure() << "connection reset; texts: " << texts();
    if (!eof) return testing::AssertionFailure() << "no end of the stream; texts: " << texts();
    if (!rest.empty()) return testing::AssertionFailure() << rest.size() << " stray bytes at the end";
    if (count(4) != 1 || messages.back().id != 4)
      return testing::AssertionFailure() << count(4) << " CLOSE among " << messages.size()
                                         << " messages; texts: " << texts();
    return testing::AssertionSuccess();
  }
};

class RawClient : public Loopback {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer = 0) : Loopback(port, 1, receive_buffer) {}

  /// Sends as many bytes as possible within `patience`; returns their number.
  std::size_t send_for(const std::string& bytes, std::chrono::milliseconds patience) {
    ::fcntl(fd_, F_SETFL, O_NONBLOCK);
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      pollfd poll_fd{fd_, POLLOUT, 0};
      if (::poll(&poll_fd, 1, static_cast<int>(patience.count())) <= 0) break;
      const ssize_t n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) break;
      sent += static_cast<std::size_t>(n);
    }
    ::fcntl(fd_, F_SETFL, 0);
    return sent;
  }
  void half_close() { ::shutdown(fd_, SHUT_WR); }
  void reset() {
    const linger abort{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
    close();
  }

  /// The next message; nothing at the end of the stream or when none comes in time.
  std::optional<Received> receive(std::chrono::milliseconds patience = std::chrono::seconds(20)) {
    const auto until = std::chrono::steady_clock::now() + patience;
    for (;;) {
      if (auto message = take()) return message;
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      if (left.count() <= 0 || !receive_some(left)) return std::nullopt;
    }
  }
  Conversation receive_all(std::chrono::milliseconds patience = std::chrono::seconds(20)) {
    Conversation all;
    while (auto message = receive(patience)) all.messages.push_back(std::move(*message));
    all.eof = eof_;
    all.reset = reset_;
    all.rest = buffer_;
    return all;
  }

 private:
  template <class T>
  T at(std::size_t offset) const {
    T value;
    std::memcpy(&value, buffer_.data() + offset, sizeof(T));
    return value;
  }
  std::optional<Received> take() {
    if (buffer_.size() < 2) return std::nullopt;
    const auto id = at<std::uint16_t>(0);
    std::size_t size = 2;
    if (id == 5) {
      size = buffer_.size() < 6 ? SIZE_MAX : 6 + at<std::uint32_t>(2);
    } else if (id == 7) {
      size = buffer_.size() < 18 ? SIZE_MAX : 18 + at<std::uint64_t>(10);
    } else if (id == 1022) {
      if (buffer_.size() < 208) return std::nullopt;
      const auto head = at<ISMRMRD::ISMRMRD_ImageHeader>(2);
      const std::size_t pixel = head.data_type == 7 ? 8 : head.data_type == 2 || head.data_type == 1 ? 2 : 4;
      size = 208 + at<std::uint64_t>(200) +
             pixel * head.matrix_size[0] * head.matrix_size[1] * head.matrix_size[2] * head.channels;
    } else if (id != 4) {
      throw std::runtime_error("the server sent message " + std::to_string(id));
    }
    if (buffer_.size() < size) return std::nullopt;
    Received message{id, buffer_.substr(2, size - 2)};
    buffer_.erase(0, size);
    return message;
  }
};

/// A server on a free port, with the shipped pipelines, for as long as this lives.
class TestServer {
 public:
  explicit TestServer(const config::ServerOptions& options = {}, const Registry& registry = Registry::builtin(),
                      Disk disk = {})
      : server_(adapted(options), library(), registry, resources_for(options), std::move(disk)),
        thread_([this] { end_ = server_.run(); }) {}
  ~TestServer() { stop(); }

  std::uint16_t port() const { return server_.port(); }
  std::uint16_t admin_port() const { return server_.admin_port(); }
  std::uint16_t agent_port() const { return server_.agent_port(); }
  void use_canary(std::vector<std::string> program) { server_.use_canary(std::move(program)); }
  /// Asks the server to stop, as SIGTERM does.
  void ask_to_stop() { server_.stop(); }
  void stop() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }
  /// Waits until the server has ended, by itself or on request; returns how it ended.
  Server::End wait_for_end() {
    thread_.join();
    return end_;
  }
  /// Sends all, half-closes if wanted, returns all that comes back.
  Conversation exchange(const std::string& bytes, bool half_close = false) {
    RawClient client(port());
    client.send(bytes);
    if (half_close) client.half_close();
    return client.receive_all();
  }
  /// A whole small scan works: the sessions before this one left no harm.
  testing::AssertionResult works() {
    const Conversation all =
        exchange(wire::config("cartesian_plain") + wire::header(wire::xml()) + wire::frame() + wire::close());
    if (const auto ended = all.ended_well(); !ended) return ended;
    if (all.count(1022) != 1)
      return testing::AssertionFailure() << all.count(1022) << " images; texts: " << all.texts();
    return testing::AssertionSuccess();
  }

 private:
  static config::ServerOptions adapted(config::ServerOptions options) {
    // Once: another server may be writing its log.
    [[maybe_unused]] static const bool quiet =
        (set_up_log(std::getenv("ECHOTRAIN_TEST_LOG") != nullptr ? "debug" : "off"), true);
    options.port = 0;
    if (!options.admin.asked_for) options.admin.port = 0;
    options.backend = config::BackendChoice::cpu;
    return options;
  }
  static std::shared_ptr<numerics::Resources> resources_for(const config::ServerOptions& options) {
    numerics::ResourceOptions resources = test_resource_options();
    resources.memory_budget = static_cast<std::uint64_t>(options.memory_mib) << 20;
    return std::make_shared<numerics::Resources>(resources);
  }
  static config::PipelineLibrary library() { return config::PipelineLibrary({shipped_pipelines()}); }

  Server server_;
  Server::End end_ = Server::End::asked;
  std::thread thread_;
};

/// A client whose scan has the only place of a server with cpu_scans = 1.
class OnlyPlace {
 public:
  explicit OnlyPlace(const TestServer& server) : server_(server) { take(); }
  void take() {
    client_.emplace(server_.port());
    client_->send(wire::config("cartesian_plain") + wire::header(wire::xml()) + wire::frame());
    EXPECT_EQ(client_->receive()->id, 1022);  // its scan runs
  }
  void finish() {
    client_->send(wire::close());
    EXPECT_TRUE(client_->receive_all().ended_well());
  }

 private:
  const TestServer& server_;
  std::optional<RawClient> client_;
};

}  // namespace echotrain::server
