#include "gadgets/shared/idle/idle_tuning.h"

#include <fmt/format.h>

#include "gadgets/numerics/nufft/tuning.h"
#include "gadgets/shared/plan_cache.h"

namespace echotrain {

std::optional<std::string> tune_while_idle(const std::shared_ptr<numerics::Resources>& resources,
                                           const std::stop_token& stop) {
  if (!resources->options().autotune || stop.stop_requested()) return std::nullopt;
  auto& tuner = resources->get<numerics::NufftTuner>();
  if (auto found = tuner.try_next(resources, stop)) return found;
  const auto outdated = [&](numerics::Backend backend, const NufftPlanRequest& request,
                            const numerics::NufftPlan& plan) {
    const auto known =
        tuner.known(*resources, {backend, plan.samples(), request.image, request.options, request.coils});
    return known && *known != plan.tuning();
  };
  int renewed = 0;
  try {
    while (resources->get<PlanCache>().renew(resources, stop, outdated)) ++renewed;
  } catch (const numerics::Stopped&) {
  }
  if (renewed == 0) return std::nullopt;
  return fmt::format("kept plans that were made anew: {}", renewed);
}

}  // namespace echotrain
