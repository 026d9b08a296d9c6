// CartesianFft is the Fourier transform from Cartesian k-space to images.
#pragma once

#include <string_view>
#include <utility>

#include "gadgets/api/gadget.h"
#include "gadgets/shared/fft_options.h"

namespace echotrain {

/// image[r] = (1/N) sum_k d[k] exp(+2 pi i k.r), N = points of the encoded k-space; zero-filled and cut to the recon
/// space.
class CartesianFft final : public Gadget<KSpace, CoilImages> {
 public:
  using Options = FftOptions;
  static constexpr std::string_view kName = kFftName;
  static constexpr std::string_view kSummary = kFftSummary;
  static Parameters<Options> parameters() { return fft_parameters(); }

  explicit CartesianFft(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(KSpace&& kspace, const Emit<CoilImages>& emit) override;

 private:
  Options options_;
  Scan* scan_ = nullptr;
};

}  // namespace echotrain
