// What a scan's gadgets and the program that runs it have for each other beside data: results that come on their own,
// between readouts, what the host has said, and whose scan it is.
#pragma once

#include <functional>
#include <string>

namespace echotrain {

/// Kept by the scan's context (Context::cache), where the program sets it before Pipeline::start(). Either function may
/// be empty: then results are given with the next readouts or at the end, and nothing bounds what is not yet sent.
struct ScanPort {
  /// Thread-safe: asks the program to push an empty batch soon, so that gadgets can give what they have (rest()).
  std::function<void()> wake;
  /// On the pipeline's thread: waits while the client has not taken what was given, or until the scan is to stop.
  std::function<void()> wait_for_room;
  /// {"parameters": {...}} as the host has sent it, for gadgets that hand it on. Empty: it has sent nothing.
  std::string host_json{};
  /// The client's identity: what scans leave in a ScanStore is found by the same client's only. Empty: the program has
  /// no clients.
  std::string owner{};
  /// In whose part of caches and stores it counts; several owners may be one. Empty: the owner's own.
  std::string client{};
};

}  // namespace echotrain
