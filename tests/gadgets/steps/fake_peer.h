// A fake peer is a step's other end that is a function of the test: no process, no socket.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gadgets/steps/peer.h"
#include "protocol/wire/message_buffer.h"

namespace echotrain::testing {

/// The state of a fake that its test sets and reads.
struct FakeWorld {
  using Messages = std::vector<protocol::Message>;
  /// Called with each message that the step sends; what it returns comes back.
  std::function<Messages(protocol::Message&&)> answer;
  std::vector<std::string> lines;  ///< last lines of the fake
  std::optional<std::string> end;  ///< why nothing more comes
  int busy = 0;                    ///< how often wait() is called before there is room again
  int waits = 0, made = 0, alive = 0;
};

class FakePeer final : public Peer {
 public:
  explicit FakePeer(std::shared_ptr<FakeWorld> world) : world_(std::move(world)) {
    ++world_->made;
    ++world_->alive;
  }
  ~FakePeer() override { --world_->alive; }
  bool has_room() const override { return world_->busy == 0; }
  void send(StepBytes&& bytes) override {
    if (!has_room()) throw std::logic_error("sent without room");
    add(bytes.head);
    add(bytes.pixels.bytes);
    for (;;) {
      auto next = buffer_.next();
      if (!next) throw std::logic_error(next.error().message);
      if (!*next) return;
      if (world_->answer)
        for (protocol::Message& each : world_->answer(std::move(**next))) back_.push_back(std::move(each));
    }
  }
  std::optional<protocol::Message> receive() override {
    if (back_.empty()) return std::nullopt;
    ++moved_;
    protocol::Message first = std::move(back_.front());
    back_.pop_front();
    return first;
  }
  std::optional<std::string> end() override { return world_->end; }
  std::vector<std::string> last_lines() override { return world_->lines; }
  std::uint64_t moved() const override { return moved_; }
  void wait(std::chrono::milliseconds longest, const std::stop_token& stop) override {
    ++world_->waits;
    if (world_->busy > 0) --world_->busy;
    if (!stop.stop_requested()) std::this_thread::sleep_for(std::min(longest, std::chrono::milliseconds(1)));
  }

 private:
  void add(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const auto room = buffer_.prepare();
      const std::size_t n = std::min(room.size(), bytes.size());
      std::copy_n(bytes.begin(), n, room.begin());
      buffer_.commit(n);
      bytes = bytes.subspan(n);
      moved_ += n;
    }
  }

  std::shared_ptr<FakeWorld> world_;
  protocol::MessageBuffer buffer_{protocol::Limits{}};
  std::deque<protocol::Message> back_;
  std::uint64_t moved_ = 0;
};

}  // namespace echotrain::testing
