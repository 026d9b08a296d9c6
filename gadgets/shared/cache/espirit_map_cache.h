// EspiritMapCache keeps ESPIRiT's coil maps of reference lines for later scans of the same lines.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "gadgets/api/items.h"
#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/mri/espirit/espirit.h"
#include "gadgets/shared/cache/device_cache.h"

namespace echotrain {

struct EspiritMapRequest {
  struct Made {
    Array<cfloat> maps;
    std::uint64_t bytes() const { return static_cast<std::uint64_t>(maps.size()) * sizeof(cfloat); }
  };
  using Digest = std::array<unsigned char, 32>;

  /// SHA-256 of every bit of the k-space, and of all other inputs of the maps: a client gets only maps of lines that it
  /// has itself.
  Digest digest{};
  numerics::EspiritOptions options;
  numerics::Shape image;                          ///< [z, y, x]
  std::weak_ptr<const HostArray<cfloat>> kspace;  ///< exists while maps are made

  bool same(const EspiritMapRequest& other) const { return digest == other.digest; }
  std::uint64_t bytes() const { return sizeof(EspiritMapRequest); }
  std::shared_ptr<const Made> make(numerics::Context& context) const;
};

/// Takes at most kMostBytes, and no more than the cache of operators; keeps nothing where that one keeps nothing.
class EspiritMapCache : public DeviceCache<EspiritMapRequest> {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{512} << 20;
  using DeviceCache::DeviceCache;
  explicit EspiritMapCache(const numerics::Resources& resources)
      : DeviceCache(std::min(kMostBytes, resources.options().operator_cache_bytes), resources.memory()) {}
};

/// Returns numerics::espirit_maps() of `kspace`, [coil, z, y, x], for an image [z, y, x]: kept ones of the same k-space
/// and options, with the same bits, or new ones, which are kept. Waits for the device. Throws as espirit_maps() does.
Array<cfloat> cached_espirit_maps(numerics::Context& context, const Array<cfloat>& kspace,
                                  const numerics::EspiritOptions& options, const numerics::Shape& image);

}  // namespace echotrain
