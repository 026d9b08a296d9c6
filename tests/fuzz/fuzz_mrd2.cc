// MRD 2 streams: whatever the bytes, an error names the byte, nothing comes after an error, memory follows what has
// arrived, and every message that was read can be written again. Every other input follows the schema that we write, so
// that fuzzing begins with the data.
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <variant>

#include "protocol/mrd2/model.h"
#include "protocol/mrd2/mrd2_stream.h"
#include "tests/fuzz/fuzz.h"

namespace echotrain::fuzz {
namespace {

std::string beginning() {
  const std::string& schema = protocol::mrd2::model_text();
  std::string out = "yardl";
  out += std::string("\x01\0\0\0", 4);
  std::size_t length = schema.size();
  for (; length >= 0x80; length >>= 7) out += static_cast<char>((length & 0x7f) | 0x80);
  out += static_cast<char>(length);
  return out + schema;
}

std::FILE* file_of(std::span<const std::byte> bytes) {
  const int descriptor = ::memfd_create("mrd2", MFD_CLOEXEC);
  require(descriptor >= 0 && ::write(descriptor, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) &&
              ::lseek(descriptor, 0, SEEK_SET) == 0,
          "no file in memory could be made");
  return ::fdopen(descriptor, "r+b");
}

}  // namespace
}  // namespace echotrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echotrain::fuzz;
  using namespace echotrain::protocol;
  static const std::string begin = beginning();
  const bool begun = size > 0 && data[0] != 'y';
  std::FILE* const in = file_of(as_bytes(data, size));
  std::FILE* const out = std::fopen("/dev/null", "wb");
  {
    mrd2::Mrd2Reader reader(in, {}, begun ? std::as_bytes(std::span(begin)) : std::span<const std::byte>());
    mrd2::Mrd2Writer writer(out);
    while (true) {
      const auto message = reader.next();
      if (!message) {
        require(message.error().message.find("byte ") != std::string::npos, "an error that names no byte");
        require(!reader.next(), "a refused stream goes on");
        break;
      }
      if (!*message) break;
      if (!std::holds_alternative<HeaderText>(**message))
        require(static_cast<bool>(writer.write(**message)), "a message that was read cannot be written");
    }
    writer.finish();
  }
  std::fclose(in);
  std::fclose(out);
  return 0;
}
