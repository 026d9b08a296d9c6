#include "gadgets/numerics/core/numerics_errors.h"

#include <gtest/gtest.h>

#include <array>

namespace echotrain::numerics {
namespace {

// All of which driver_types.h of CUDA 13.0 says "To continue using CUDA, the process must be terminated and
// relaunched".
constexpr std::array kRelaunch{226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 810, 911};

TEST(CudaFaults, AreLostWhereCudaSaysThatOnlyANewProcessCanGoOn) {
  for (const int status : kRelaunch) EXPECT_EQ(fault_of(status), CudaFault::lost) << status;
  // Uncorrectable errors of ECC and of NVLink: the hardware's, not the process's.
  for (const int status : {214, 220}) EXPECT_EQ(fault_of(status), CudaFault::lost) << status;
}

TEST(CudaFaults, OfMemoryAreNotTheDevices) { EXPECT_EQ(fault_of(2), CudaFault::memory); }

// An invalid value, a busy device (46), none (100), peers and hosts' memory (704, 711 to 713), a launch that does not
// fit (701, 720), what is not permitted or supported (800, 801), MPS without a place (805 to 809), a graph (900),
// timeouts (909), what nobody knows (999): of these CUDA says nothing about later calls.
TEST(CudaFaults, OfOtherKindsMayPass) {
  for (const int status : {1, 46, 100, 701, 704, 711, 712, 713, 720, 800, 801, 805, 806, 807, 808, 809, 900, 909, 999})
    EXPECT_EQ(fault_of(status), CudaFault::other) << status;
}

// Whoever adds a number to the list has to say so here.
TEST(CudaFaults, AreLostNowhereElse) {
  int lost = 0;
  for (int status = -1; status < 12000; ++status) lost += fault_of(status) == CudaFault::lost ? 1 : 0;
  EXPECT_EQ(lost, static_cast<int>(kRelaunch.size()) + 2);
}

}  // namespace
}  // namespace echotrain::numerics
