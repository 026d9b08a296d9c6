// The state machine of a session under any sequence of messages.
#include "protocol/stream_file.h"
#include "server/dialogue.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/scan_session.h"
#include "tests/fuzz/stream_mutator.h"

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  echotrain::fuzz::set_up_process();
  echotrain::fuzz::shipped_pipelines();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echotrain;
  using State = server::Dialogue::State;
  const protocol::Limits limits = fuzz::small_limits();
  protocol::MessageBuffer buffer(limits);
  server::Dialogue dialogue(fuzz::shipped_pipelines(), limits);
  auto bytes = fuzz::as_bytes(data, size);
  bool started = false;
  while (!bytes.empty()) {
    const auto room = buffer.prepare();
    const std::size_t n = std::min(room.size(), bytes.size());
    std::copy_n(bytes.begin(), n, room.begin());
    buffer.commit(n);
    bytes = bytes.subspan(n);
    while (true) {
      const auto message = buffer.next();
      if (!message) return 0;
      if (!*message) break;
      const State before = dialogue.state();
      const server::Step step = dialogue.handle(**message);
      const int outcomes = (step.fatal ? 1 : 0) + (step.start ? 1 : 0) + (step.closed ? 1 : 0);
      fuzz::require(outcomes <= 1, "a message has more than one outcome");
      fuzz::require(dialogue.state() >= before, "a session goes back");
      fuzz::require(before != State::flush || (outcomes == 0 && !step.data), "something happens after CLOSE");
      if (step.start) fuzz::require(step.start->plan != nullptr, "a scan without a pipeline");
      if (step.start) started = true;
      fuzz::require(!step.data || started, "data for no pipeline");
      fuzz::require(!dialogue.config_error() || dialogue.state() == State::header, "a config error too late");
      if (step.fatal) return 0;
    }
  }
  return 0;
}
