// Siemens raw data: whatever the bytes, the reader gives readouts of the size that their heads announce, or a
// DatasetError; it gives the same readouts again, and a header that it gives can be parsed or is refused by name. An
// input is the measurements of a file, cut where its first byte says, or, with 0 there, the directory as well.
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "protocol/data/header.h"
#include "protocol/data/xml_check.h"
#include "protocol/twix/raid.h"
#include "protocol/twix/twix_reader.h"
#include "tests/fuzz/fuzz.h"
#include "tests/protocol/twix/twix_bytes.h"

namespace echotrain::fuzz {
namespace {

using namespace protocol;

constexpr std::uint64_t kMostSamples = 1 << 22;  // of all readouts that an input is asked for, so that it stays cheap

std::string file_of(std::span<const std::byte> input) {
  if (input.empty()) return {};
  const auto cuts = static_cast<std::size_t>(input[0]) % 4;
  const std::string bytes(reinterpret_cast<const char*>(input.data()) + 1, input.size() - 1);
  if (cuts == 0) {  // the directory's first three entries are the input's
    std::string out = bytes.substr(0, 8 + 3 * 152);
    out.resize(twix::test::kDirectoryBytes);
    return out + bytes.substr(std::min(bytes.size(), std::size_t{8 + 3 * 152}));
  }
  std::vector<std::string> measurements;
  for (std::size_t i = 0; i < cuts; ++i)
    measurements.push_back(
        bytes.substr(bytes.size() * i / cuts, bytes.size() * (i + 1) / cuts - bytes.size() * i / cuts));
  return twix::test::raid(measurements);
}

void read(const std::filesystem::path& path, const twix::TwixOptions& options) {
  const twix::TwixReader reader(path, options);
  static_cast<void>(reader.notes());
  const std::string xml = reader.header_xml();
  require(!xml_problem(xml, Limits{}), "a header that is not safe to parse");
  if (const auto header = parse_header(xml, {}); !header)
    require(!header.error().code.empty() && !header.error().message.empty(), "a refusal without a name or a reason");
  std::uint64_t samples = 0;
  for (std::size_t i = 0; i < reader.acquisitions() && samples < kMostSamples; ++i) {
    const Acquisition readout = reader.acquisition(i);
    const std::uint64_t bytes = std::uint64_t{8} * readout.head.number_of_samples * readout.head.active_channels;
    require(bytes > 0 && readout.data.bytes.size() == bytes, "a readout of another size than its head's");
    samples += bytes / 8;
    const Acquisition again = reader.acquisition(i);
    require(std::memcmp(&readout.head, &again.head, sizeof(readout.head)) == 0 &&
                std::memcmp(readout.data.bytes.data(), again.data.bytes.data(), bytes) == 0,
            "a readout that is another one when it is read again");
  }
}

}  // namespace
}  // namespace echotrain::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echotrain::fuzz;
  using namespace echotrain::protocol;
  const std::string bytes = file_of(as_bytes(data, size));
  ScratchFile file;
  file.fill(std::as_bytes(std::span(bytes)));
  for (const twix::TwixOptions& options :
       {twix::TwixOptions{}, twix::TwixOptions{.measurement = 1, .patient = true, .preparation_for = 0}}) {
    try {
      read(file.path(), options);
      std::vector<std::string> refused;
      static_cast<void>(twix::TwixFile(file.path()).preparations(options.measurement, refused));
    } catch (const DatasetError& error) {
      require(std::strlen(error.what()) > 0, "a refusal without a reason");
    }
  }
  return 0;
}
