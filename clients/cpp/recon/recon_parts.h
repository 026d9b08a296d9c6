// The common parts of reconstructions of files and of streams.
#pragma once

#include <iosfwd>
#include <set>
#include <string>
#include <string_view>

#include "gadgets/engine/ranked_pipeline.h"
#include "protocol/data/acquisition_check.h"
#include "protocol/data/header.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {

std::string_view level_name(protocol::Level level);  ///< "warning"

/// Returns where the work runs, for people: "CPU, 2 threads (AVX-512)", and the number of ranks.
std::string place_name(const numerics::Context& context, const Followers* followers);

/// Leaves out readouts that do not fit the header, with a warning for each kind of them.
class ReadoutFilter {
 public:
  ReadoutFilter(const protocol::Header& header, std::ostream& err) : check_(header), err_(err) {}
  bool keeps(const protocol::Acquisition& readout);
  void report() const;  ///< warns how many were left out

 private:
  protocol::AcquisitionCheck check_;
  std::ostream& err_;
  std::set<std::string> warned_;
  std::size_t seen_ = 0, skipped_ = 0;
};

}  // namespace echotrain::client
