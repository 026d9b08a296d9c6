// Several devices that work on one scan together, in one process.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "gadgets/numerics/communicator.h"

namespace echotrain::numerics {

/// What one member works with.
struct Member {
  Context& context;
  Communicator& others;
  int rank() const { return others.rank(); }
  int size() const { return others.size(); }
  /// This member's share of n things: [first, last).
  std::int64_t first(std::int64_t n) const { return n * rank() / size(); }
  std::int64_t last(std::int64_t n) const { return n * (rank() + 1) / size(); }
};

/// Member 0 works in the context that it was made for; the others have threads and contexts of their own. Used by one
/// thread at a time.
class Team {
 public:
  /// `others`: CUDA devices beside the one of `first`; on the CPU their number counts, and they share its threads.
  /// `memory_budget`: of each other member. Nothing is asked of the devices before the first run().
  Team(Context& first, const std::vector<int>& others, std::uint64_t memory_budget);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int size() const;
  /// Does work(member) for all members at once; member 0 here. ResourceError when devices cannot be connected. Work
  /// that was enqueued on the first context before is done when it begins; all that the other members enqueued is done
  /// when it ends. On CUDA one team of the process works at a time, as NCCL demands. Throws what the first member to
  /// fail threw; after that, run() always throws ResourceError.
  void run(const std::function<void(Member&)>& work);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain::numerics
