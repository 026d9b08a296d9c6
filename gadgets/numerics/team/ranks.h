// Processes, of one machine or several, that work on one scan together: each runs all of the program in step with the
// others, and their numerics share out the work. Derived classes connect them (MPI: ranks_mpi.h).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "gadgets/numerics/team/communicator.h"

namespace echotrain::numerics {

/// One process's end. All processes call the same functions, in the same order and with the same sizes, each from one
/// thread, and return when they have what they need of the others. ResourceError when another one has failed: which,
/// and why.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;        ///< 0 .. size() - 1
  virtual int size() const = 0;        ///< of all machines
  virtual int local_rank() const = 0;  ///< among those of this machine, from 0
  /// Gives what rank `from` has to all.
  virtual void broadcast(std::span<std::byte> bytes, int from) = 0;
  /// values = the sum over all ranks, added up in their order from 0 on: the same bits everywhere.
  virtual void sum(std::span<float> values) = 0;
};

/// The same when only rank `from` knows the number of bytes.
void broadcast(Ranks& ranks, std::vector<std::byte>& bytes, int from);

/// ResourceError when the bits of `own` differ from rank 0's. For numbers that each rank computes and all continue
/// from.
void compare_with_first(Ranks& ranks, std::span<const std::byte> own);

/// A member's end where each member is a process of its own.
class RankCommunicator : public Communicator {
 public:
  using Communicator::sum;
  /// Gives what rank `from` has to all. In stream order of `context`.
  virtual void broadcast(Context& context, DeviceView<float> values, int from) = 0;
  /// On the host; the number of bytes comes along.
  virtual void broadcast(std::vector<std::byte>& bytes, int from) = 0;
};

/// All ranks call this, with contexts of one backend. CPU: by `ranks`, which must outlive what is returned. CUDA: by
/// NCCL, each rank having a device of its own; ResourceError without NCCL, or when it cannot connect them.
std::unique_ptr<RankCommunicator> connect_ranks(Ranks& ranks, Context& context);

namespace cuda {
std::unique_ptr<RankCommunicator> connect_ranks(Ranks& ranks, Context& context);
}

}  // namespace echotrain::numerics
