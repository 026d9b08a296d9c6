// The Fourier transform between k-space and images.
#pragma once

#include <string>

#include "gadgets/gadget.h"
#include "gadgets/numerics/fft.h"

namespace echotrain {

struct FftOptions {
  std::string direction = "inverse";
};
inline constexpr std::string_view kFftName = "fft";
inline constexpr std::string_view kFftSummary =
    "Fourier transform: Cartesian k-space to coil images, or a gridded frame to oversampled images.";
Parameters<FftOptions> fft_parameters();
numerics::Direction fft_direction(const FftOptions& options);

/// image[r] = (1/N) sum_k d[k] exp(+2 pi i k.r), N = points of the encoded k-space; zero-filled and cut to the recon
/// space.
class CartesianFft final : public Gadget<KSpace, CoilImages> {
 public:
  using Options = FftOptions;
  static constexpr std::string_view kName = kFftName;
  static constexpr std::string_view kSummary = kFftSummary;
  static Parameters<Options> parameters() { return fft_parameters(); }

  explicit CartesianFft(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Session& session) override;
  void process(KSpace&& kspace, const Emit<CoilImages>& emit) override;

 private:
  Options options_;
  Session* session_ = nullptr;
};

/// The transform of a gridded frame, unscaled, in FFT order, in place.
class GriddedFft final : public Gadget<Grid, OversampledImages> {
 public:
  using Options = FftOptions;
  static constexpr std::string_view kName = kFftName;
  static constexpr std::string_view kSummary = kFftSummary;
  static Parameters<Options> parameters() { return fft_parameters(); }

  explicit GriddedFft(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Session& session) override;
  void process(Grid&& grid, const Emit<OversampledImages>& emit) override;

 private:
  Options options_;
  Session* session_ = nullptr;
};

}  // namespace echotrain
