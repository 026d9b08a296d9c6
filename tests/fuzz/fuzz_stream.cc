// A stream file that somebody else wrote: read to its end or to the reason why it cannot be.
#include "protocol/files/stream_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/stream_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echotrain;
  static fuzz::ScratchFile file;
  static fuzz::ScratchFile copy;
  file.fill(fuzz::as_bytes(data, size));
  std::size_t count = 0;
  bool whole = false;
  {
    protocol::StreamReader reader(file.path());
    protocol::StreamWriter writer(copy.path());
    while (true) {
      const auto message = reader.next();
      if (!message) {
        fuzz::require(!message.error().code.empty() && !message.error().message.empty(), "an error without a reason");
        break;
      }
      whole = !*message;
      if (whole) break;
      ++count;
      writer.write(**message);
    }
    writer.flush();
  }
  // What was read is written as a stream of as many messages.
  if (whole) {
    protocol::Limits limits;
    limits.text_bytes += 1;  // a text is written with a NUL
    protocol::StreamReader again(copy.path(), limits);
    while (true) {
      const auto message = again.next();
      fuzz::require(static_cast<bool>(message), "a stream that was written is refused");
      if (!*message) break;
      --count;
    }
    fuzz::require(count == 0, "a stream that was written has another number of messages");
  }
  return 0;
}
