// A Team is several devices that work on one scan together, in one process or in one process each.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "gadgets/numerics/core/team/ranks.h"

namespace echotrain::numerics {

/// The begin of a member's share of n things; it ends where the next member's begins.
inline std::int64_t share_begin(std::int64_t n, int rank, int size) { return n * rank / size; }

/// The tools of one member.
struct Member {
  Context& context;
  Communicator& others;
  int rank() const { return others.rank(); }
  int size() const { return others.size(); }
  /// This member's share of n things: [first, last).
  std::int64_t first(std::int64_t n) const { return share_begin(n, rank(), size()); }
  std::int64_t last(std::int64_t n) const { return share_begin(n, rank() + 1, size()); }
};

/// A team. A member works in the context that the team was made for (in one process: member 0); others of this process
/// have threads and contexts of their own. Used by one thread at a time.
class Team {
 public:
  /// `others`: CUDA devices beside the one of `first`; on the CPU only their number counts, and they share its threads.
  /// `memory_budget`: the budget of each other member. The devices are first used by the first run().
  Team(Context& first, const std::vector<int>& others, std::uint64_t memory_budget);
  /// A team of processes, connected by `ranks`: each is the member of its rank and does its own part. Connects at once;
  /// `ranks` must outlive this.
  Team(Context& first, Ranks& ranks);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const;
  /// True if all members are in this process, and so can write their results to the common memory. Otherwise all
  /// processes call run() and share(), with work of the same kind, each on memory of its own.
  bool in_one_process() const;
  /// Tells whether members use `others`. On CUDA only one team of the process does so at a time, as NCCL demands.
  enum class Sums { none, some };
  /// Calls work(member) for all members of this process at once, for the first on this thread. Throws ResourceError
  /// when devices cannot be connected. Earlier work of the first context is done when it begins; all work of the
  /// members is done when it ends. Rethrows the exception of the first member to fail; after that, run() always throws
  /// ResourceError.
  void run(Sums sums, const std::function<void(Member&)>& work);
  /// Gives the values of the process of rank `from` to all; does nothing if there is only one. In stream order.
  void share(Context& context, DeviceView<cfloat> values, int from);
  /// Shares bytes on the host.
  void share(std::vector<std::byte>& bytes, int from);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain::numerics
