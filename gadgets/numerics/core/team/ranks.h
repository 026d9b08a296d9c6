// Processes, of one machine or several, that work on one scan together: each runs all of the program in step with the
// others, and their numerics share out the work. Derived classes connect them (MPI: ranks_mpi.h).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "gadgets/numerics/core/team/communicator.h"

namespace echotrain::numerics {

/// One process's end. All processes call the same functions, in the same order and with the same sizes, each from one
/// thread; a call returns when this process has the others' data that it needs. Throws ResourceError when another
/// process has failed; the text says which, and why.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual int rank() const = 0;        ///< 0 .. size() - 1
  virtual int size() const = 0;        ///< number of ranks on all machines
  virtual int local_rank() const = 0;  ///< number among those of this machine, from 0
  /// Gives the bytes of rank `from` to all.
  virtual void broadcast(std::span<std::byte> bytes, int from) = 0;
  /// values = the sum over all ranks, added up in their order from 0 on: the same bits everywhere.
  virtual void sum(std::span<float> values) = 0;
};

/// Broadcasts when only rank `from` knows the number of bytes.
void broadcast(Ranks& ranks, std::vector<std::byte>& bytes, int from);

/// Throws ResourceError when the bits of `own` differ from rank 0's. For numbers that each rank computes and all
/// continue from.
void compare_with_first(Ranks& ranks, std::span<const std::byte> own);

/// The end of a member that is a process of its own.
class RankCommunicator : public Communicator {
 public:
  using Communicator::sum;
  /// Gives the values of rank `from` to all, in stream order of `context`.
  virtual void broadcast(Context& context, DeviceView<float> values, int from) = 0;
  /// Broadcasts on the host; the number of bytes comes along.
  virtual void broadcast(std::vector<std::byte>& bytes, int from) = 0;
};

/// Connects the ranks; all of them call this, with contexts of one backend. CPU: by `ranks`, which must outlive the
/// result. CUDA: by NCCL, with one device per rank; throws ResourceError without NCCL, or when it cannot connect them.
std::unique_ptr<RankCommunicator> connect_ranks(Ranks& ranks, Context& context);

namespace cuda {
std::unique_ptr<RankCommunicator> connect_ranks(Ranks& ranks, Context& context);
}

}  // namespace echotrain::numerics
