// Ranks that MPI has started (mpirun, srun). Part of programs that are built with MPI only.
#pragma once

#include <memory>
#include <string>

#include "gadgets/numerics/core/team/ranks.h"

namespace echotrain::numerics {

class MpiRanks final : public Ranks {
 public:
  /// Begins MPI, once in this process's life. A program that was not started by MPI is the only rank. Throws
  /// ResourceError.
  MpiRanks(int& argc, char**& argv);
  /// Ends MPI. All ranks must reach it, or none (see end_all).
  ~MpiRanks() override;
  MpiRanks(const MpiRanks&) = delete;
  MpiRanks& operator=(const MpiRanks&) = delete;

  int rank() const override;
  int size() const override;
  int local_rank() const override;
  void broadcast(std::span<std::byte> bytes, int from) override;
  void sum(std::span<float> values) override;

  /// "rank 2 of 4 on node7"
  std::string name() const;
  /// Declares that this rank cannot go on: all ranks that wait for it, now or later, get a ResourceError with `why`.
  void fail(const std::string& why) noexcept;
  /// Ends all ranks, at once and wherever they are, and does not return. mpirun's exit status becomes `status`.
  [[noreturn]] void end_all(int status) noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain::numerics
