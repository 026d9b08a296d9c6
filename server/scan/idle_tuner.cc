#include "server/scan/idle_tuner.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "gadgets/shared/idle/idle_tuning.h"
#include "server/base/log.h"
#include "server/base/priority.h"

namespace echotrain::server {

namespace {
constexpr int kLast = 19;  // steps of nice(2)
}  // namespace

IdleTuner::IdleTuner(std::shared_ptr<numerics::Resources> resources, std::shared_ptr<ComputePool> compute,
                     Clock::duration quiet)
    : resources_(std::move(resources)), compute_(std::move(compute)), quiet_(quiet) {
  if (!resources_->options().autotune)
    progress_->end();
  else
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void IdleTuner::run(const std::stop_token& stop) {
  go_after(kLast);
  numerics::Progress::of_thread() = progress_;
  const auto wait_for_quiet = [&] {
    const numerics::Progress::Wait wait(*progress_);
    return compute_->wait_for_quiet(quiet_, stop);
  };
  while (auto free = wait_for_quiet()) {
    progress_->forget_device();
    const std::stop_callback ends(stop, [&] { free->request_stop(); });
    try {
      while (const auto done = tune_while_idle(resources_, free->get_token()))
        write_log(LogLevel::info, fmt::format("tuning while no scan runs: {}", *done));
    } catch (const std::exception& error) {
      write_log(LogLevel::warning, fmt::format("tuning while no scan runs: {}", error.what()));
    }
    const numerics::Progress::Wait wait(*progress_);
    compute_->wait_for_use(*free, stop);
  }
  progress_->end();
}

}  // namespace echotrain::server
