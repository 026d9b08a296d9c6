#include "server/metrics/scan_summary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace echotrain::server {

std::string ScanSummary::text() const {
  constexpr double kMiB = 1 << 20;
  std::string out =
      fmt::format("summary: {} peer={} pipeline={} backend={} readouts={} in={:.1f}MiB images={} out={:.1f}MiB",
                  outcome, peer, pipeline, backend.empty() ? "-" : backend, scan.readouts,
                  static_cast<double>(bytes_in) / kMiB, images, static_cast<double>(bytes_out) / kMiB);
  if (!client.empty()) out += fmt::format(" client='{}'", client);
  if (scan.waveforms > 0) out += fmt::format(" waveforms={}", scan.waveforms);
  if (scan.images_in > 0) out += fmt::format(" images_in={}", scan.images_in);
  out += " skipped=";
  if (scan.skipped.empty()) out += "0";
  for (bool first = true; const auto& [kind, count] : scan.skipped) {
    out += fmt::format("{}{}:{}", first ? "" : ",", kind, count);
    first = false;
  }
  const auto add_odd = [&out](const char* kind, std::uint64_t count) {
    if (count > 0) out += fmt::format(" images_{}={}", kind, count);
  };
  add_odd("not_finite", scan.work.images_not_finite);
  add_odd("saturated", scan.work.images_saturated);
  add_odd("all_zero", scan.work.images_all_zero);
  out += latency_text(latencies);
  if (scan.work.plans_made + scan.work.plans_reused + scan.work.frames_in_parts > 0)
    out += fmt::format(" plans_made={} ({:.1f} ms) plans_reused={} gridded_on_arrival={}", scan.work.plans_made,
                       scan.work.plan_ms, scan.work.plans_reused, scan.work.frames_in_parts);
  if (scan.work.operators_made + scan.work.operators_reused > 0)
    out += fmt::format(" operators_made={} operators_reused={}", scan.work.operators_made, scan.work.operators_reused);
  if (scan.work.weights_made + scan.work.weights_reused > 0)
    out += fmt::format(" weights_made={} ({:.1f} ms) weights_reused={}", scan.work.weights_made, scan.work.weights_ms,
                       scan.work.weights_reused);
  if (scan.work.frames_refused > 0) out += fmt::format(" frames_refused={}", scan.work.frames_refused);
  if (scan.work.frames_dropped > 0) out += fmt::format(" frames_dropped={}", scan.work.frames_dropped);
  if (bytes_spilled > 0) out += fmt::format(" spilled={:.1f}MiB", static_cast<double>(bytes_spilled) / kMiB);
  if (!trace.empty()) out += fmt::format(" trace={}", trace);
  if (!capture.empty()) out += fmt::format(" capture={}", capture);
  return out + fmt::format(" duration={:.2f}s peak={:.1f}MiB", duration_s, static_cast<double>(scan.peak_bytes) / kMiB);
}

nlohmann::ordered_json ScanSummary::facts() const {
  nlohmann::ordered_json facts{{"outcome", outcome},
                               {"peer", peer},
                               {"client", client},
                               {"pipeline", pipeline},
                               {"backend", backend},
                               {"readouts", scan.readouts},
                               {"waveforms", scan.waveforms},
                               {"images_in", scan.images_in},
                               {"bytes_in", bytes_in},
                               {"images", images},
                               {"bytes_out", bytes_out},
                               {"images_not_finite", scan.work.images_not_finite},
                               {"images_saturated", scan.work.images_saturated},
                               {"images_all_zero", scan.work.images_all_zero},
                               {"skipped", scan.skipped},
                               {"plans_made", scan.work.plans_made},
                               {"plans_reused", scan.work.plans_reused},
                               {"plan_ms", scan.work.plan_ms},
                               {"operators_made", scan.work.operators_made},
                               {"operators_reused", scan.work.operators_reused},
                               {"gridded_on_arrival", scan.work.frames_in_parts},
                               {"weights_made", scan.work.weights_made},
                               {"weights_reused", scan.work.weights_reused},
                               {"weights_ms", scan.work.weights_ms},
                               {"frames_refused", scan.work.frames_refused},
                               {"frames_dropped", scan.work.frames_dropped},
                               {"duration_s", duration_s},
                               {"peak_bytes", scan.peak_bytes}};
  if (!trace.empty()) facts["trace"] = trace;
  if (!capture.empty()) facts["capture"] = capture;
  facts.update(latency_facts(latencies));
  return facts;
}

}  // namespace echotrain::server
