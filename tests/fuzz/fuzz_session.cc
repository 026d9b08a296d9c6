// A whole session without its sockets: messages, state machine, pipeline and what it sends. Whatever a client sends,
// the scan ends, and it never ends with an error that nobody foresaw, nor costs more than a bound.
#include "tests/fuzz/cost_bound.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/session_scan.h"
#include "tests/fuzz/stream_mutator.h"

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  echotrain::fuzz::set_up_process();
  echotrain::fuzz::shipped_pipelines();
  echotrain::fuzz::Heap::watch();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echotrain;
  constexpr std::uint64_t kBudget = 256 << 20;  // [bytes]
  // The heaviest seed takes 0.05 s and 2 MiB with sanitizers on a busy machine. Pipelines of a client's own may ask for
  // some hundred times the iterations, less than -timeout's 60 s. Memory: session_mib, and half as much for texts and
  // plans.
  const fuzz::CostBound bound({20, 64 + 32});
  fuzz::SessionScan scan({fuzz::small_limits(), fuzz::resources(), std::make_shared<numerics::MemoryBudget>(kBudget)});
  scan.take(fuzz::as_bytes(data, size));
  scan.end();
  return 0;
}
