// Pulseq sequences: whatever the text, it is refused with a reason, or its samples have places and counters within
// their bounds, and the header that it makes can be parsed or is refused by name.
#include <array>
#include <cstring>
#include <span>
#include <string>

#include "protocol/data/header.h"
#include "protocol/data/xml_check.h"
#include "protocol/files/scan_reader.h"
#include "protocol/pulseq/layout.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echotrain::fuzz;
  using namespace echotrain::protocol;
  constexpr std::uint64_t kMostLooks = 1 << 16;  // so that an input stays cheap
  ScratchFile file;
  file.fill(as_bytes(data, size));
  try {
    const pulseq::KSpace kspace(pulseq::read_sequence(file.path()));
    std::uint64_t looks = 0;
    for (std::size_t i = 0; i < kspace.readouts(); ++i) {
      looks += kspace.adc(i).samples;
      for (const std::int32_t counter : kspace.labels(i).counters)
        require(counter >= 0 && counter <= 0xFFFF, "a counter out of its bounds");
    }
    if (looks > kMostLooks) return 0;
    const pulseq::Layout layout = pulseq::layout_of(kspace, std::array<double, 3>{100, 100, 100});
    const std::string xml = pulseq::header_with("", kspace, layout);
    require(!xml_problem(xml, Limits{}), "a header that is not safe to parse");
    for (std::size_t i = 0; i < kspace.readouts(); ++i)
      require(layout.centers.at(i) <= kspace.adc(i).samples, "a centre beside the readout");
  } catch (const DatasetError& error) {
    require(std::strlen(error.what()) > 0, "a refusal without a reason");
  }
  return 0;
}
