#include "gadgets/epi/dual_polarity.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "gadgets/epi/epi_readouts.h"
#include "gadgets/numerics/core/layout/rearrange.h"
#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/transforms/fft/fft.h"

namespace echotrain {
namespace {

constexpr std::int64_t kFewest = 12;  // the fewest reference lines: those that kernels of R = 2 need in 8 coils

DualPolarity::Slice slice_of(const protocol::AcquisitionHeader& head) {
  return {head.encoding_space_ref, head.idx.slice};
}

}  // namespace

DualPolarity::DualPolarity(Scan& scan) : scan_(&scan) {}

void DualPolarity::learn(Readouts&& references, const std::vector<bool>& reversed, const Emit<Readouts>& emit) {
  for (std::size_t i = 0; i < references.heads.size(); ++i) {
    State& state = states_[slice_of(references.heads[i])];
    const std::uint16_t line = references.heads[i].idx.kspace_encode_step_1;
    if (!state.decided) copy(state, {line, reversed[i]}, references, i);
  }
  forward_.take(std::move(references), reversed, emit);
}

/// Copies a line. Of lines that come several times, the last one is kept.
void DualPolarity::copy(State& state, const std::pair<std::uint16_t, bool>& line, const Readouts& from, std::size_t i) {
  const std::int64_t coils = from.data.shape()[1], samples = from.data.shape()[2];
  const auto [at, is_new] = state.references.try_emplace(line);
  HostArray<cfloat>& to = at->second;
  if (is_new || !(to.shape() == numerics::Shape{coils, samples})) {
    if (!is_new) scan_->compute.synchronize();  // it may still be written to
    to = scan_->compute.allocate_host<cfloat>({coils, samples});
  }
  scan_->compute.copy<cfloat>(from.data.cview().part(static_cast<std::int64_t>(i) * coils * samples, {coils, samples}),
                              to.view());
}

bool DualPolarity::ready(const Slice& slice) {
  State& state = states_[slice];
  if (!state.decided) decide(state, slice);
  return state.usable;
}

void DualPolarity::decide(State& state, const Slice& slice) {
  scan_->compute.synchronize();  // references are copied
  state.decided = true;
  const std::string why_not = fill(state);
  state.usable = why_not.empty();
  if (!state.usable)
    scan_->warn(fmt::format(
        "epi_phase_correction: dual_polarity is not done for slice {}: {}; its lines are corrected by the navigators' "
        "phase alone. Send each reference line (flag 20) twice, once with flag 22 and once without, {} lines or more "
        "without a gap",
        slice.second, why_not, kFewest));
  state.references.clear();
}

/// Makes blocks from the longest run of lines that came in both polarities. Returns why there are none; empty if there
/// are.
std::string DualPolarity::fill(State& state) {
  if (state.references.empty()) return "no reference lines came before its first line";
  std::map<std::uint16_t, std::array<const HostArray<cfloat>*, 2>> lines;
  std::array<std::int64_t, 2> count{};
  const numerics::Shape shape = state.references.begin()->second.shape();
  for (const auto& [of, data] : state.references) {
    if (!(data.shape() == shape))
      return fmt::format("its reference lines have {} coils and {} samples, and {} and {}", shape[0], shape[1],
                         data.shape()[0], data.shape()[1]);
    const auto& [line, reversed] = of;
    lines[line][reversed ? 1 : 0] = &data;
    ++count[reversed ? 1 : 0];
  }
  if (count[0] == 0 || count[1] == 0)
    return fmt::format("all of its {} reference lines were read {}", count[0] + count[1],
                       count[1] == 0 ? "forward" : "backwards");
  std::int64_t both = 0, run = 0, best = 0;
  int last = -2, end = 0;
  for (const auto& [line, ways] : lines) {
    if (ways[0] == nullptr || ways[1] == nullptr) continue;
    ++both;
    run = line == last + 1 ? run + 1 : 1;
    last = line;
    if (run <= best) continue;
    best = run;
    end = line;
  }
  if (best < kFewest)
    return fmt::format("of its {} different reference lines {} came both ways, {} of them without a gap", lines.size(),
                       both, best);
  if (best < static_cast<std::int64_t>(lines.size()))
    scan_->warn(
        fmt::format("epi_phase_correction: dual_polarity takes {} of {} reference lines: the others did not "
                    "come both ways, or lie beyond a gap",
                    best, lines.size()));
  for (std::size_t way = 0; way < 2; ++way) {
    state.blocks[way] = scan_->compute.allocate_host<cfloat>({shape[0], best, shape[1]});
    for (std::int64_t y = 0; y < best; ++y) {
      const HostArray<cfloat>& from = *lines.at(static_cast<std::uint16_t>(end - best + 1 + y))[way];
      for (std::int64_t c = 0; c < shape[0]; ++c)
        std::copy_n(from.data() + c * shape[1], shape[1], state.blocks[way].data() + (c * best + y) * shape[1]);
    }
  }
  return {};
}

std::optional<double> DualPolarity::correct(const Slice& slice, std::vector<HeldLines>& frame) {
  State& state = states_.at(slice);
  std::vector<numerics::PolarityLine> lines;
  const Readouts* any = nullptr;
  for (const HeldLines& each : frame)
    for (std::size_t i = 0; i < each.readouts.heads.size(); ++i) {
      lines.push_back({each.readouts.heads[i].idx.kspace_encode_step_1, each.reversed[i]});
      any = &each.readouts;
    }
  if (any == nullptr) return std::nullopt;
  const auto count = static_cast<std::int64_t>(lines.size());
  const std::int64_t coils = any->data.shape()[1], samples = any->data.shape()[2];
  numerics::Context& compute = scan_->compute;
  try {
    if (coils != state.blocks[0].shape()[0])
      throw std::invalid_argument(
          fmt::format("its references have {} coils, and its lines {}", state.blocks[0].shape()[0], coils));
    if (lines != state.lines) {
      state.lines.clear();
      state.kernels =
          numerics::fit_dual_polarity(compute, state.blocks[0].cview(), state.blocks[1].cview(), lines, samples);
      state.lines = lines;
    }
  } catch (const std::invalid_argument& error) {
    scan_->warn(
        fmt::format("epi_phase_correction: dual_polarity is not done for slice {}: {}; its lines are corrected by the "
                    "navigators' phase alone",
                    slice.second, error.what()));
    state.usable = false;
    return std::nullopt;
  }
  if (state.kernels.patterns == 0) return 0;  // all lines were read forward
  Array<cfloat> kspace = compute.zeros<cfloat>({coils, count, samples});
  std::int32_t at = 0;
  for (const HeldLines& each : frame) {
    std::vector<std::int32_t> rows;
    for (std::size_t i = 0; i < each.readouts.heads.size(); ++i) rows.push_back(at++);
    if (!rows.empty())
      numerics::add_lines(compute, each.readouts.data.cview(), {rows.data(), {static_cast<std::int64_t>(rows.size())}},
                          {0, samples, 0}, kspace.view());
  }
  Array<cfloat> half = compute.allocate<cfloat>({coils, count, samples});
  numerics::centered_fft(compute, kspace.cview(), half.view(), {samples}, 1, numerics::Direction::inverse,
                         1.0f / static_cast<float>(samples));
  numerics::correct_lines(compute, state.kernels.hybrid, state.kernels.rows, half.cview(), kspace.view());
  numerics::rearrange(compute, kspace.cview().reshaped({1, coils, count, samples}), {{1, 0, 2}, {0, 0, 0}, {1, 1, 1}},
                      half.view().reshaped({1, count, coils, samples}));
  Array<cfloat> made = compute.allocate<cfloat>({count, coils, samples});
  numerics::centered_fft(compute, half.cview().reshaped({count, coils, samples}), made.view(), {samples}, 1,
                         numerics::Direction::forward, 1.0f);
  std::size_t begin = 0;
  for (HeldLines& each : frame) {
    const std::size_t end = begin + each.readouts.heads.size();
    if (end > begin) each.readouts.data = readouts_of(made, begin, end);
    begin = end;
  }
  return state.kernels.residual;
}

}  // namespace echotrain
