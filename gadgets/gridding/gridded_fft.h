// GriddedFft is the Fourier transform of a gridded frame.
#pragma once

#include <string_view>
#include <utility>

#include "gadgets/api/gadget.h"
#include "gadgets/shared/fft_options.h"

namespace echotrain {

/// Transforms a gridded frame in place, unscaled, in FFT order.
class GriddedFft final : public Gadget<Grid, OversampledImages> {
 public:
  using Options = FftOptions;
  static constexpr std::string_view kName = kFftName;
  static constexpr std::string_view kSummary = kFftSummary;
  static Parameters<Options> parameters() { return fft_parameters(); }

  explicit GriddedFft(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Grid&& grid, const Emit<OversampledImages>& emit) override;

 private:
  Options options_;
  Scan* scan_ = nullptr;
};

}  // namespace echotrain
