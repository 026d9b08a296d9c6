// Ranks that MPI has started. To be run by mpirun:
//   mpirun -n 4 test_ranks          the tests, by all ranks in step
// mpirun -n 4 test_ranks --fail the last rank fails while the others wait for it; they print the message they got
#include "gadgets/numerics/core/team/ranks_mpi.h"

#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <string>
#include <thread>

#include "tests/support/rank_checks.h"

namespace echotrain::numerics {
namespace {

MpiRanks* mpi = nullptr;

TEST(MpiRanksTest, TheyKnowWhoTheyAre) {
  EXPECT_LT(mpi->rank(), mpi->size());
  EXPECT_EQ(mpi->local_rank(), mpi->rank());  // all on this machine
  EXPECT_EQ(mpi->name().rfind("rank " + std::to_string(mpi->rank()) + " of " + std::to_string(mpi->size()) + " on ", 0),
            0u);
  std::vector<float> ranks(static_cast<std::size_t>(mpi->size()), 0.0f);
  ranks.at(static_cast<std::size_t>(mpi->rank())) = 1;
  mpi->sum(ranks);
  EXPECT_EQ(ranks, std::vector<float>(ranks.size(), 1.0f));  // each is there once
}
TEST(MpiRanksTest, Sums) { testing::check_sums(*mpi); }
TEST(MpiRanksTest, Broadcasts) { testing::check_broadcasts(*mpi); }
TEST(MpiRanksTest, ExactTransformsHaveTheBitsOfOneProcess) { testing::check_exact_transform(*mpi); }
TEST(MpiRanksTest, TheSolverWithCoilsSharedOut) { testing::check_solver(*mpi); }

int fail_one() {
  try {
    if (mpi->rank() == mpi->size() - 1) throw std::runtime_error("on purpose");
    std::vector<float> values(100000);
    mpi->sum(values);
    return 2;
  } catch (const ResourceError& heard) {
    if (mpi->rank() == 0) std::cout << "rank 0 has heard: " << heard.what() << std::endl;
    std::this_thread::sleep_for(std::chrono::seconds(1));  // the others hear it, too
    mpi->end_all(3);
  } catch (const std::runtime_error& error) {
    mpi->fail(error.what());
    std::this_thread::sleep_for(std::chrono::seconds(60));  // end_all() of rank 0 ends this process
    return 2;
  }
}

}  // namespace
}  // namespace echotrain::numerics

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  echotrain::numerics::MpiRanks ranks(argc, argv);
  echotrain::numerics::mpi = &ranks;
  if (argc > 1 && std::string(argv[1]) == "--fail") return echotrain::numerics::fail_one();
  return RUN_ALL_TESTS();
}
