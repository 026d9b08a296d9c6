#include "clients/cpp/recon/recon_parts.h"

#include <fmt/format.h>

#include <ostream>

namespace echotrain::client {

std::string_view level_name(protocol::Level level) {
  switch (level) {
    case protocol::Level::debug:
      return "debug";
    case protocol::Level::info:
      return "info";
    case protocol::Level::warning:
      return "warning";
    case protocol::Level::error:
      return "error";
    case protocol::Level::critical:
      return "critical";
  }
  return "info";
}

std::string place_name(const numerics::Context& context, const Followers* followers) {
  const std::string device = numerics::describe(context.backend(), context.resources());
  return followers == nullptr ? device : fmt::format("{} ranks, rank 0 on {}", followers->size(), device);
}

bool ReadoutFilter::keeps(const protocol::Acquisition& readout) {
  ++seen_;
  const auto reason = check_.check(readout);
  if (!reason) return true;
  ++skipped_;
  if (warned_.emplace(reason->kind).second) err_ << "warning: " << reason->message << '\n';
  return false;
}

void ReadoutFilter::report() const {
  if (skipped_ > 0) err_ << fmt::format("warning: {} of {} readouts were left out\n", skipped_, seen_);
}

}  // namespace echotrain::client
