#include "server/metrics/scan_summary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace echotrain::server {

std::string ScanSummary::text() const {
  constexpr double kMiB = 1 << 20;
  std::string out =
      fmt::format("summary: {} peer={} pipeline={} backend={} readouts={} in={:.1f}MiB images={} out={:.1f}MiB",
                  outcome, peer, pipeline, backend.empty() ? "-" : backend, readouts,
                  static_cast<double>(bytes_in) / kMiB, images, static_cast<double>(bytes_out) / kMiB);
  if (waveforms > 0) out += fmt::format(" waveforms={}", waveforms);
  if (images_in > 0) out += fmt::format(" images_in={}", images_in);
  out += " skipped=";
  if (skipped.empty()) out += "0";
  for (bool first = true; const auto& [kind, count] : skipped) {
    out += fmt::format("{}{}:{}", first ? "" : ",", kind, count);
    first = false;
  }
  out += latency_text(latencies);
  if (plans_made + plans_reused + frames_in_parts > 0)
    out += fmt::format(" plans_made={} ({:.1f} ms) plans_reused={} gridded_on_arrival={}", plans_made, plan_ms,
                       plans_reused, frames_in_parts);
  if (operators_made + operators_reused > 0)
    out += fmt::format(" operators_made={} operators_reused={}", operators_made, operators_reused);
  if (bytes_spilled > 0) out += fmt::format(" spilled={:.1f}MiB", static_cast<double>(bytes_spilled) / kMiB);
  if (!capture.empty()) out += fmt::format(" capture={}", capture);
  return out + fmt::format(" duration={:.2f}s peak={:.1f}MiB", duration_s, static_cast<double>(peak_bytes) / kMiB);
}

nlohmann::ordered_json ScanSummary::facts() const {
  nlohmann::ordered_json facts{{"outcome", outcome},
                               {"peer", peer},
                               {"pipeline", pipeline},
                               {"backend", backend},
                               {"readouts", readouts},
                               {"waveforms", waveforms},
                               {"images_in", images_in},
                               {"bytes_in", bytes_in},
                               {"images", images},
                               {"bytes_out", bytes_out},
                               {"skipped", skipped},
                               {"plans_made", plans_made},
                               {"plans_reused", plans_reused},
                               {"plan_ms", plan_ms},
                               {"operators_made", operators_made},
                               {"operators_reused", operators_reused},
                               {"gridded_on_arrival", frames_in_parts},
                               {"duration_s", duration_s},
                               {"peak_bytes", peak_bytes}};
  if (!capture.empty()) facts["capture"] = capture;
  facts.update(latency_facts(latencies));
  return facts;
}

}  // namespace echotrain::server
