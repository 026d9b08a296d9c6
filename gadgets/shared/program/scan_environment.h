// A ScanEnvironment is the side channel between a scan's gadgets and the program that runs them: results between
// readouts, the host's parameters, and the scan's client.
#pragma once

#include <functional>
#include <string>

namespace echotrain {

/// Kept by the scan's context (Context::cache), where the program sets it before Pipeline::start(). Either function may
/// be empty: then results are given with the next readouts or at the end, and there is no back-pressure on results not
/// yet sent.
struct ScanEnvironment {
  /// Thread-safe: asks the program to push an empty batch soon, so that gadgets can emit results (rest()).
  std::function<void()> wake;
  /// Back-pressure, on the pipeline's thread: waits while the client has not taken earlier results, or until the scan
  /// is to stop.
  std::function<void()> wait_for_room;
  /// The host's JSON {"parameters": {...}}, for gadgets that hand it on. Empty: it has sent none.
  std::string host_json{};
  /// The client's identity: only the same client finds what its scans leave in a ScanStore. Empty: the program has no
  /// clients.
  std::string owner{};
  /// The client whose part (fair share) of caches and stores the scan counts in; several owners may be one client.
  /// Empty: the owner itself.
  std::string client{};
};

}  // namespace echotrain
