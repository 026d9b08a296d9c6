// An Exchange is one scan's conversation with the other end of a step.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gadgets/api/scan.h"
#include "gadgets/shared/program/scan_environment.h"
#include "gadgets/steps/peer.h"

namespace echotrain {

/// Sends the scan's messages, and takes results whenever it looks or has to wait. Texts of the other end go to the
/// client; one of level ERROR or CRITICAL just before its CLOSE is a failure. Every member but start() throws
/// std::runtime_error when the other end has failed, after its last lines were sent to the client; numerics::Stopped
/// when the scan is to stop. For the pipeline's thread.
class StepExchange {
 public:
  /// Takes readouts, images and waveforms from the other end.
  using OnResult = std::function<void(protocol::Message&&)>;

  /// `who` names the other end in messages: "python module 'blur'". `timeout_s`: the longest time without progress in
  /// either direction while the scan waits for it.
  void start(Scan& scan, std::string who, double timeout_s, std::unique_ptr<Peer> peer);
  /// Sends bytes as soon as there is room.
  void give(StepBytes&& bytes, const OnResult& on_result);
  /// Takes the messages that are here.
  void collect(const OnResult& on_result);
  /// Ends the scan. Complete: sends CLOSE and waits for the remaining messages, and for the other end's CLOSE.
  /// Truncated: takes the messages that are here. Ends the other end.
  void finish(End how, const OnResult& on_result);

 private:
  template <class Reached>
  void wait_until(const Reached& reached, const OnResult& on_result);
  void take(protocol::Message&& message, const OnResult& on_result);
  void pass_on(const std::string& text);
  [[noreturn]] void fail(const std::string& why);

  Scan* scan_ = nullptr;
  ScanEnvironment port_;
  std::string who_;
  std::chrono::duration<double> timeout_{};
  std::unique_ptr<Peer> peer_;
  bool closed_ = false;     // by the other end
  std::string last_error_;  // the last line of a text of level ERROR or CRITICAL, if nothing came after it
};

}  // namespace echotrain
