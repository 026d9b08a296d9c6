// OperatorCache keeps the operators F^H W F of trajectories, shared by frames and sessions, also on disk.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "gadgets/api/items.h"
#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/transforms/exact/direct_transform.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "gadgets/numerics/transforms/toeplitz/toeplitz.h"
#include "gadgets/shared/cache/device_cache.h"
#include "gadgets/shared/store/array_store.h"

namespace echotrain {

/// The method by which the point spread function Q is computed.
struct PointSpreadMethod {
  bool exact = true;
  numerics::VoxelBasis basis = numerics::VoxelBasis::delta;
  numerics::Precision precision = numerics::Precision::exact;  ///< of the exact transform
  double accuracy = 1e-4;                                      ///< of the NUFFT, when not exact
  bool any_trajectory = false;                                 ///< accuracy holds for the worst one, not on average
  bool operator==(const PointSpreadMethod&) const = default;
};

/// The gridding that works out Q of an image of this shape within method.accuracy. It depends on no sample, and takes
/// milliseconds to choose. std::invalid_argument: the accuracy cannot be reached.
numerics::NufftOptions gridding_of(const PointSpreadMethod& method, const numerics::Shape& image,
                                   numerics::Backend backend);

struct OperatorRequest {
  using Made = numerics::ToeplitzOperator;
  std::shared_ptr<const SamplePositions> positions;  ///< with their weights
  std::array<double, 3> voxel_ratio{1, 1, 1};
  numerics::Shape image;
  PointSpreadMethod method;
  std::optional<numerics::NufftOptions> gridding;  ///< gridding_of(), if it is known; make() chooses it otherwise
  const ArrayStore* store = nullptr;               ///< where large Q are kept; may be null

  bool same(const OperatorRequest& other) const;
  std::uint64_t bytes() const { return positions->bytes(); }
  std::shared_ptr<const Made> make(numerics::Context& context) const;
  /// Returns the key of Q in `store`: all that Q depends on; of the trajectory, every bit.
  std::string disk_key() const;
};

class OperatorCache : public DeviceCache<OperatorRequest> {
 public:
  using DeviceCache::DeviceCache;
  explicit OperatorCache(const numerics::Resources& resources)
      : DeviceCache(resources.options().operator_cache_bytes, resources.memory()) {}
};

/// Stores the Q of scans in the resources' cache folder.
class PointSpreadStore : public ArrayStore {
 public:
  explicit PointSpreadStore(const numerics::Resources& resources)
      : ArrayStore(resources.options().cache_folder, resources.options().disk_cache_bytes) {}
};

}  // namespace echotrain
