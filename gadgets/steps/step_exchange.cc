#include "gadgets/steps/step_exchange.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "gadgets/api/errors.h"

namespace echotrain {
namespace {

constexpr std::chrono::milliseconds kLongestWait{50};  // interval of looks at the other end

template <class T>
StepBytes bytes_of_one(const T& message) {
  StepBytes bytes;
  protocol::encode(message, bytes.head);
  return bytes;
}

}  // namespace

void StepExchange::start(Scan& scan, std::string who, double timeout_s, std::unique_ptr<Peer> peer) {
  scan_ = &scan;
  port_ = scan.compute.cache<ScanEnvironment>();
  who_ = std::move(who);
  timeout_ = std::chrono::duration<double>(timeout_s);
  peer_ = std::move(peer);
}

void StepExchange::give(StepBytes&& bytes, const OnResult& on_result) {
  wait_until([this] { return closed_ || peer_->has_room(); }, on_result);
  if (closed_) fail("has ended, and yet the scan goes on");
  peer_->send(std::move(bytes));
}

void StepExchange::collect(const OnResult& on_result) {
  while (!closed_) {
    scan_->compute.check_stop();
    if (auto message = peer_->receive())
      take(std::move(*message), on_result);
    else
      break;
  }
  if (closed_) return;
  if (const auto why = peer_->end()) fail(*why);
}

void StepExchange::finish(End how, const OnResult& on_result) {
  collect(on_result);
  if (how == End::complete) {
    if (!closed_) peer_->send(bytes_of_one(protocol::Close{}));
    wait_until([this] { return closed_; }, on_result);
  }
  peer_.reset();
}

template <class Reached>
void StepExchange::wait_until(const Reached& reached, const OnResult& on_result) {
  using Clock = std::chrono::steady_clock;
  std::uint64_t moved = peer_->moved();
  std::chrono::duration<double> idle{};
  for (;;) {
    scan_->compute.check_stop();
    collect(on_result);
    if (reached()) return;
    const auto begin = Clock::now();
    if (numerics::Yield* const yield = numerics::Yield::of_thread()) yield->rest();
    peer_->wait(kLongestWait, scan_->compute.stop_token());
    if (const std::uint64_t now = peer_->moved(); now != moved) {
      moved = now;
      idle = {};
    } else {
      idle += Clock::now() - begin;
    }
    if (idle > timeout_) {
      collect(on_result);
      fail(fmt::format("has neither taken nor given anything for {} s (timeout_s)", timeout_.count()));
    }
  }
}

void StepExchange::take(protocol::Message&& message, const OnResult& on_result) {
  if (std::holds_alternative<protocol::Close>(message)) {
    if (!last_error_.empty()) fail(fmt::format("has ended with an error: {}", last_error_));
    closed_ = true;
  } else if (const auto* text = std::get_if<protocol::Text>(&message)) {
    pass_on(text->text);
  } else if (std::holds_alternative<protocol::Acquisition>(message) ||
             std::holds_alternative<protocol::Image>(message) || std::holds_alternative<protocol::Waveform>(message)) {
    last_error_.clear();
    on_result(std::move(message));
    if (port_.wait_for_room) port_.wait_for_room();
    scan_->compute.check_stop();
  }
  // Other messages repeat the config or the header, as some servers do.
}

void StepExchange::pass_on(const std::string& text) {
  bool warns = false, errs = false;
  std::string_view rest = text;
  for (const std::string_view level : {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"})
    if (rest.starts_with(level) && (rest.size() == level.size() || rest[level.size()] == ' ')) {
      warns = level != "DEBUG" && level != "INFO";
      errs = level == "ERROR" || level == "CRITICAL";
      rest.remove_prefix(level.size());
      break;
    }
  last_error_.clear();
  constexpr std::size_t kLongest = 1024;  // the bound that a client's texts have, too
  while (!rest.empty()) {
    scan_->compute.check_stop();
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    line = line.substr(0, kLongest);
    while (!line.empty() && (line.front() == ' ' || line.front() == '\r')) line.remove_prefix(1);
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (errs) last_error_ = line;
    if (warns)
      scan_->warn(std::string(line));
    else
      scan_->info(std::string(line));
  }
}

void StepExchange::fail(const std::string& why) {
  const std::vector<std::string> lines = peer_->last_lines();
  for (const std::string& line : lines) scan_->warn(fmt::format("{}: {}", who_, line));
  peer_.reset();
  throw std::runtime_error(lines.empty() ? fmt::format("{} {}", who_, why)
                                         : fmt::format("{} {}; its last line: {}", who_, why, lines.back()));
}

}  // namespace echotrain
