// Scans that are legal and odd: pipelines, headers, readouts and values that the documents allow and nobody sends. The
// input is read as choices (semantic/), so that every one of them is a whole session. It ends, never with an error that
// nobody foresaw; images have the size and the type that header and pipeline imply, and odd pixels are named;
// afterwards nothing of the memory is still taken.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/wire/codec.h"
#include "tests/fuzz/cost_bound.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/semantic/expected_images.h"
#include "tests/fuzz/semantic/headers.h"
#include "tests/fuzz/semantic/others.h"
#include "tests/fuzz/semantic/pipelines.h"
#include "tests/fuzz/semantic/readouts.h"
#include "tests/fuzz/session_scan.h"

namespace echotrain::fuzz {
namespace {

constexpr std::uint64_t kBudget = 256 << 20;  // of the process [bytes]
constexpr std::chrono::milliseconds kPatience{1500};
constexpr std::uint32_t kMostReadouts = 400;
// Two runs, which two threads compute in for kPatience and then stop in, at ten times the 0.3 s that a stop may take
// without sanitizers: 12 s. The heaviest input of the corpus takes 0.15 s. Memory: kBudget, and 64 MiB for the script
// (kMostBytes, encoded and decoded, twice), texts and plans.
constexpr Cost kMost{15, (kBudget >> 20) + 64};
// The most bytes of a scan's readouts: a stack that lacks partitions takes many times its readouts' bytes, within
// kBudget.
constexpr std::size_t kMostBytes = 3 << 20;

const std::shared_ptr<numerics::Resources>& small_resources() {
  static const auto resources = [] {
    numerics::ResourceOptions options = test_resource_options();
    options.threads = 1;
    options.memory_budget = kBudget;
    options.scan_store_bytes = 0;  // without files, noise that is kept for later scans stays in memory
    return std::make_shared<numerics::Resources>(options);
  }();
  return resources;
}

struct Outcome {
  std::uint64_t images = 0;
  bool whole = false;  // neither an error nor a stop
};

/// A scan as pieces of a stream; the readouts of a piece are one batch.
struct Script {
  std::vector<protocol::Buffer> pieces;

  template <class M>
  void add(const M& message) {
    protocol::encode(message, pieces.back());
  }
  void cut() {
    if (!pieces.back().empty()) pieces.emplace_back();
  }
};

/// Prints what the scan is and what comes of it, for people: ECHOTRAIN_FUZZ_SHOW=1 build-fuzz/bin/fuzz_semantic INPUT.
template <class... A>
void show(fmt::format_string<A...> format, A&&... values) {
  static const bool wanted = std::getenv("ECHOTRAIN_FUZZ_SHOW") != nullptr;
  if (wanted) fmt::print(stderr, format, std::forward<A>(values)...);
}

void look_at(const server::ScanRequest& scan, const protocol::Message& message, Outcome& outcome) {
  if (const auto* text = std::get_if<protocol::Text>(&message)) show("{}\n", text->text);
  const auto* image = std::get_if<protocol::Image>(&message);
  if (image == nullptr) return;
  const protocol::ImageHeader head = image->head;
  ++outcome.images;
  show("image {}: {} x {} x {}, {} channels, type {}, series {}\n{}\n", outcome.images, +head.matrix_size[0],
       +head.matrix_size[1], +head.matrix_size[2], +head.channels, +head.data_type, +head.image_series_index,
       image->attributes);
  require_expected(scan, *image);
}

Outcome run(const Script& script, const protocol::Limits& limits) {
  Outcome outcome;
  SessionScan session(
      {limits, small_resources(), small_resources()->memory(), static_cast<int>(kBudget >> 20), kPatience},
      [&](const auto& scan, const auto& message) { look_at(scan, message, outcome); });
  for (const protocol::Buffer& piece : script.pieces) session.take(piece);
  session.end();
  if (session.stopped()) show("stopped\n");
  if (const auto& error = session.error()) {
    show("{}: {}\n", error->code, error->message);
    // A header of 4096^2 may need more than a session has here.
    const bool over_bound = error->message.find(" left of this session's ") != std::string::npos;
    const bool own =
        over_bound || (error->code != "internal" && error->code != "resources" && error->code != "bad-header");
    require(own, "a legal scan ends with an error that is not its own");
  }
  outcome.whole = !session.error() && !session.stopped();
  return outcome;
}

void add_readouts(Source& source, const protocol::Header& header, const config::PipelineSpec& spec, Script& script) {
  ReadoutMaker maker(source, header, odd_style(source, style_of(spec)), spec.trajectory_unit);
  const std::uint32_t oddness = one_of(source, {0u, 8u, 32u, 96u});  // of 256
  const std::uint32_t frames = one_of(source, {1u, 2u, 3u, 6u});
  const std::uint32_t batch = one_of(source, {1000u, 1u, 7u, 64u});
  const std::uint32_t count = std::min(frames * maker.per_frame() - source.below(3) / 2, kMostReadouts);
  std::size_t bytes = 0;
  for (std::uint32_t i = 0; i < count && bytes < kMostBytes; ++i) {
    if (i % batch == batch - 1) script.cut();
    protocol::Acquisition readout = maker.next();
    while (source.number<std::uint8_t>() > 255 - oddness) maker.make_odd(readout);
    maker.fill(readout);
    bytes += readout.data.bytes.size();
    script.add(readout);
    if (oddness == 0 || source.number<std::uint8_t>() % 32 != 31) continue;
    switch (source.below(5)) {
      case 0:
        script.add(odd_image(source, header));
        break;
      case 1:
        script.add(odd_waveform(source, i));
        break;
      case 2:
        script.add(odd_text(source, shipped_files().names()));
        break;
      case 3:
        script.add(readout);
        break;
      default:
        script.add(protocol::Query{i, "echotrain::pipelines"});
    }
  }
}

void run_input(Source source) {
  protocol::Limits limits;
  limits.header_bytes = 1 << 20;
  limits.matrix_voxels = 1 << 25;
  const ChosenPipeline chosen = choose_pipeline(source);
  const auto plan =
      chosen.text.empty() ? shipped_pipelines().by_name(chosen.name) : shipped_pipelines().from_text(chosen.text);
  if (!plan) {  // parameters may exclude each other
    require(plan.error().code == "bad-config" && !plan.error().message.empty(),
            "a pipeline is refused without a reason");
    return;
  }
  const config::PipelineSpec& spec = (*plan)->spec();
  const std::string xml = odd_header(source, style_of(spec));
  const auto header = protocol::parse_header(xml, limits);
  if (!header) {
    show("{}\n{}\n", header.error().message, xml);
    require(header.error().message.find("voxels") != std::string::npos, "a legal header is refused");
    return;
  }
  Script script{{protocol::Buffer()}};
  if (chosen.text.empty())
    script.add(protocol::ConfigFile{chosen.name});
  else
    script.add(protocol::ConfigText{chosen.text});
  script.add(protocol::HeaderText{xml});
  const std::uint32_t before = source.number<std::uint8_t>() % 16;
  if (before == 1) script.add(odd_text(source, shipped_files().names()));
  for (std::uint32_t i = 1; i < before && i < 5; ++i) script.add(odd_image(source, *header));
  if (style_of(spec).heart && before != 2) script.add(heartbeats(source));
  for (std::uint32_t i = 12; i < before; ++i) script.add(odd_waveform(source, 40 * i));
  const bool truncated = source.one_in(8), twice = source.one_in(4);
  add_readouts(source, *header, spec, script);
  if (!truncated) script.add(protocol::Close{});

  show("{}{}\n{}\n", chosen.name, chosen.text, xml);
  const Outcome first = run(script, limits);
  if (twice) {
    const Outcome second = run(script, limits);
    require(!first.whole || !second.whole || first.images == second.images, "the same scan again gives fewer images");
  }
  small_resources()->memory()->evict_unused();
  if (const std::uint64_t used = small_resources()->memory()->used(); used > 0) {
    show("{} bytes\n", used);
    require(false, "memory is still taken after the session's end");
  }
}

}  // namespace
}  // namespace echotrain::fuzz

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  echotrain::fuzz::set_up_process();
  echotrain::fuzz::shipped_pipelines();
  echotrain::fuzz::Heap::watch();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace echotrain::fuzz;
  const CostBound bound(kMost);
  run_input(Source(as_bytes(data, size)));
  return 0;
}
