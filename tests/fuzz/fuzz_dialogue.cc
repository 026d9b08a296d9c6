// The state machine of a session under any sequence of messages.
#include "protocol/files/stream_file.h"
#include "server/net/tokens.h"
#include "server/session/protocol_state_machine.h"
#include "tests/fuzz/cost_bound.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/scan_session.h"
#include "tests/fuzz/stream_mutator.h"

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  echotrain::fuzz::set_up_process();
  echotrain::fuzz::shipped_pipelines();
  echotrain::fuzz::Heap::watch();
  return 0;
}

namespace {

constexpr std::string_view kToken = "0123456789abcdef";  // as in config.dict

echotrain::server::Tokens one_token() {
  echotrain::fuzz::ScratchFile file;
  file.fill(std::as_bytes(std::span(kToken)));
  return echotrain::server::Tokens(file.path());
}

bool has_token(const echotrain::protocol::Message& message) {
  const auto* config = std::get_if<echotrain::protocol::ConfigText>(&message);
  if (config == nullptr) return false;
  std::string token;
  try {
    (void)echotrain::config::read_client_config(config->text, "fuzz", &token);
  } catch (const echotrain::config::ConfigError&) {  // a host's JSON is no pipeline, and may have one
  }
  return token == kToken || config->text.find(kToken) != std::string::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echotrain;
  using State = server::ProtocolStateMachine::State;
  // Texts of 64 KiB are parsed, at 100 bytes for each of theirs at most. The heaviest seed takes 0.005 s and 1 MiB;
  // many pipelines may be read in 40,000 bytes of input.
  const fuzz::CostBound bound({2, 32});
  const protocol::Limits limits = fuzz::small_limits();
  protocol::MessageBuffer buffer(limits);
  server::ProtocolStateMachine state_machine(fuzz::shipped_pipelines(), limits, *fuzz::resources());
  static const server::Tokens tokens = one_token();
  const bool guarded = size % 2 == 1;
  if (guarded) state_machine.set_client({"10.1.2.3:4711", "", nullptr, &tokens, true});
  auto bytes = fuzz::as_bytes(data, size);
  bool started = false;
  bool knows_token = false;
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
      knows_token = knows_token || has_token(**message);
      const State before = state_machine.state();
      const server::SessionAction step = state_machine.handle(**message);
      const int outcomes = (step.fatal ? 1 : 0) + (step.start ? 1 : 0) + (step.closed ? 1 : 0);
      fuzz::require(outcomes <= 1, "a message has more than one outcome");
      fuzz::require(state_machine.state() >= before, "a session goes back");
      fuzz::require(before != State::flush || (outcomes == 0 && !step.data), "something happens after CLOSE");
      if (step.start) fuzz::require(step.start->plan != nullptr, "a scan without a pipeline");
      if (step.start) started = true;
      fuzz::require(!started || !guarded || knows_token, "a scan without the token");
      fuzz::require(!step.data || started, "data for no pipeline");
      fuzz::require(!state_machine.config_error() || state_machine.state() == State::header, "a config error too late");
      if (step.fatal) return 0;
    }
  }
  return 0;
}
