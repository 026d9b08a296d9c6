// Encoding turns Cartesian k-space into a least-squares problem.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/inverse/encoding/masked_fourier.h"
#include "gadgets/shared/cache/device_cache.h"

namespace echotrain {

/// A sampling operator with the weights of its samples, W = (points transformed) / (points encoded)^2 where acquired
/// and within the transform.
struct MaskedSampling {
  std::shared_ptr<const numerics::MaskedFourier> sampling;
  Array<float> weights;  ///< [row], or [row, x] where not all samples of a row are alike
  double weight = 0;     ///< their sum over all samples
  std::uint64_t bytes() const { return sampling->bytes() + static_cast<std::uint64_t>(weights.size()) * sizeof(float); }
};

struct MaskedSamplingRequest {
  using Made = MaskedSampling;
  numerics::Shape encoded, padded, image;  ///< with the same axes
  std::vector<float> mask;                 ///< 0 or 1 for each row, or for each point

  bool same(const MaskedSamplingRequest& other) const {
    return encoded == other.encoded && padded == other.padded && image == other.image && mask == other.mask;
  }
  std::uint64_t bytes() const { return mask.size() * sizeof(float); }
  std::shared_ptr<const Made> make(numerics::Context& context) const;
};

class MaskedSamplingCache : public DeviceCache<MaskedSamplingRequest> {
 public:
  using DeviceCache::DeviceCache;
  explicit MaskedSamplingCache(const numerics::Resources& resources)
      : DeviceCache(resources.options().operator_cache_bytes, resources.memory()) {}
};

/// Makes (F^H W F) x = F^H W d, with F the transform of the acquired points in any pattern: regular, random or
/// elliptic, partial Fourier and partial echoes. F^H W d is the image that `fft` gives of zero-filled k-space;
/// eigenvalues of F^H W F lie between 0 and 1. Frames and scans that acquire the same points share the operator. Throws
/// ClientError for k-space that does not say which lines came, or whose lines have no samples in common.
class Encoding final : public Gadget<KSpace, NormalEquations> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "encoding";
  static constexpr std::string_view kSummary =
      "Turns Cartesian k-space, acquired in whole or in part, into the normal equations that coil_maps and pcg take.";
  static Parameters<Options> parameters();

  explicit Encoding(Options /*options*/) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(KSpace&& kspace, const Emit<NormalEquations>& emit) override;

 private:
  Scan* scan_ = nullptr;
};

}  // namespace echotrain
