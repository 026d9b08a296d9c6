#include "gadgets/least_squares/pcg_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

namespace echotrain {

void refuse_numbers() {
  throw ClientError("the data are not finite, or so large that sums of them are not; no image can be solved for");
}

void note(Scan& scan, NormalEquations& equations, const numerics::PcgResult& result) {
  // Among several images, the one with the worst outcome is noted.
  const auto worst = std::max_element(result.items.begin(), result.items.end(), [](const auto& a, const auto& b) {
    return a.residuals.back() < b.residuals.back();
  });
  if (worst == result.items.end()) return;
  for (const auto& item : result.items) {
    if (item.status != numerics::PcgStatus::broke_down) continue;
    if (item.iterations == 0) refuse_numbers();
    scan.warn("pcg: the iteration broke down and was stopped at its last good image");
  }
  std::vector<std::string> residuals;
  for (const double r : worst->residuals) residuals.push_back(fmt::format("{:.3g}", r));
  equations.frame = with_notes(*equations.frame, {{"pcg_iterations", std::to_string(worst->iterations)},
                                                  {"pcg_residuals", fmt::format("{}", fmt::join(residuals, " "))},
                                                  {"pcg_status", numerics::to_string(worst->status)}});
}

void note(Scan& scan, NormalEquations& equations, const Solved& solved) {
  if (const auto& discrepancy = solved.discrepancy) {
    using Status = numerics::DiscrepancyResult::Status;
    if (discrepancy->status == Status::below_range)
      scan.warn("pcg: no lambda meets the data to noise_level: they hold more than this image and noise");
    if (discrepancy->status == Status::above_range)
      scan.warn("pcg: at this noise_level the data hold nothing but noise");
    equations.frame = with_notes(*equations.frame, {{"pcg_lambda", fmt::format("{:.3g}", discrepancy->lambda)}});
  }
  note(scan, equations, solved.result);
}

}  // namespace echotrain
