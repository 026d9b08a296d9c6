// The client of tests of detached scans asks, and keeps answers apart from images and texts.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/server/capture/capture_support.h"
#include "tests/server/raw_client.h"
#include "tests/server/wire.h"

namespace echotrain::server {

inline config::ServerOptions detaching(const TemporaryFolder& folder) {
  config::ServerOptions options;
  options.detached.directory = folder.path() / "detached";
  options.detached.reserve_mib = 0;
  return options;
}

inline std::string head_of_scan(const std::string& pipeline = "cartesian_plain") {
  return wire::config(pipeline) + wire::header(wire::xml());
}

/// Messages of a scan of `frames` images after its header.
inline std::vector<std::string> messages_of_scan(int frames) {
  std::vector<std::string> all;
  for (int frame = 0; frame < frames; ++frame)
    for (int line = 0; line < wire::kMatrix; ++line) all.push_back(wire::acquisition(line, frame));
  all.push_back(wire::close());
  return all;
}

inline std::string joined(const std::vector<std::string>& messages, std::size_t from = 0, std::size_t to = SIZE_MAX) {
  std::string all;
  for (std::size_t i = from; i < std::min(to, messages.size()); ++i) all += messages[i];
  return all;
}

class DetachedClient : public RawClient {
 public:
  using RawClient::RawClient;

  void ask(const std::string& name, std::uint64_t correlation = 7) { send(wire::query(name, correlation)); }

  /// Takes what comes until an answer begins with `beginning`; returns what follows it, or "(none)".
  std::string answer(const std::string& beginning) {
    while (auto message = receive()) {
      if (message->id != 7) {
        others.messages.push_back(*std::move(message));
        continue;
      }
      const std::string text = message->body.substr(16);
      answers.push_back(text);
      if (text.starts_with("acknowledged ")) acknowledged = std::stoull(text.substr(13));
      if (text.starts_with(beginning)) return text.substr(beginning.size());
    }
    return "(none)";
  }
  /// Waits until so many messages are acknowledged.
  bool acknowledges(std::uint64_t messages) {
    while (acknowledged < messages)
      if (answer("acknowledged ") == "(none)") return false;
    return true;
  }
  /// Takes all that comes until the end of the stream.
  Conversation& to_the_end() {
    answer("there is no such answer");
    others.eof = eof();
    return others;
  }

  Conversation others;
  std::vector<std::string> answers;
  std::uint64_t acknowledged = 0;
};

/// The answer to one question on a connection of its own.
inline std::string asked(std::uint16_t port, const std::string& question) {
  DetachedClient client(port);
  client.ask(question);
  return client.answer("");
}

}  // namespace echotrain::server
