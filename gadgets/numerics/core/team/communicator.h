// A Communicator combines the parts of a team's members (all-reduce).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gadgets/numerics/core/context.h"

namespace echotrain::numerics {

/// One member's end. All members call the same functions, in the same order, with the same number of values.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;  ///< 0 .. size() - 1
  virtual int size() const = 0;
  /// values = the sum of all members' values, with the same bits for all of them. In stream order of `context`, which
  /// is this member's. Throws ResourceError when another member has failed.
  virtual void sum(Context& context, DeviceView<float> values) = 0;
  void sum(Context& context, DeviceView<cfloat> values) {
    sum(context, DeviceView<float>(reinterpret_cast<float*>(values.data()), {2 * values.size()}));
  }
  /// Throws ResourceError unless all members have the same bits in `values`. Members of one process are not asked: they
  /// compute by the same code on devices of one kind.
  virtual void require_same(Context& /*context*/, DeviceView<const float> /*values*/) {}
  /// Declares that this member has failed: the others' calls throw, and so do all further ones. May be called from any
  /// thread.
  virtual void abort() noexcept = 0;
};

/// The member of a team of one.
Communicator& alone();

/// Connects members on threads of this process that compute on the CPU: sums are in order of rank.
std::vector<std::unique_ptr<Communicator>> connect_threads(int members);

/// True if CUDA devices can be connected; else `reason` says why not: built without NCCL, or its library is missing.
bool can_connect_devices(std::string* reason = nullptr);
/// Connects members on these CUDA devices by NCCL. Takes seconds the first time; `resources` keep connections for the
/// next team of the same devices. Throws ResourceError.
std::vector<std::unique_ptr<Communicator>> connect_devices(const std::vector<int>& devices, Resources& resources);

}  // namespace echotrain::numerics
