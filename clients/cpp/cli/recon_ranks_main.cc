// echotrain-ranks runs `echotrain recon` by the processes that MPI has started.
#include <chrono>
#include <iostream>
#include <memory>
#include <new>
#include <thread>

#include "clients/cpp/cli/recon_ranks.h"
#include "gadgets/engine/ranked_pipeline.h"
#include "gadgets/numerics/core/team/ranks_mpi.h"
#include "gadgets/shared/program/resources_from_options.h"

namespace {

using echotrain::Followers;
using echotrain::numerics::MpiRanks;
using echotrain::numerics::ResourceOptions;
using echotrain::numerics::Resources;

/// Lets rank 0 report why a scan failed. Where rank 0 cannot, as it waits for data that never come, this rank reports
/// it.
[[noreturn]] void give_up(MpiRanks& ranks, const char* why) {
  constexpr std::chrono::seconds kUntilRankZeroHasEnded(5);
  ranks.fail(why);
  std::this_thread::sleep_for(kUntilRankZeroHasEnded);
  std::cerr << "echotrain-ranks: " << ranks.name() << " has failed: " << why << std::endl;
  ranks.end_all(1);
}

int lead(MpiRanks& ranks, const ResourceOptions& resources, int argc, char** argv) {
  Followers followers(ranks);
  const int status =
      echotrain::client::run_ranks(argc, argv, ECHOTRAIN_VERSION, resources, &followers, std::cout, std::cerr);
  std::cout.flush();
  std::cerr.flush();
  if (!followers.dismiss()) ranks.end_all(status == 0 ? 1 : status);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    MpiRanks ranks(argc, argv);
    ResourceOptions resources = echotrain::resource_options_from_environment();
    if (ranks.size() == 1)
      return echotrain::client::run_ranks(argc, argv, ECHOTRAIN_VERSION, resources, nullptr, std::cout, std::cerr);
    try {
      if (ranks.rank() == 0) return lead(ranks, resources, argc, argv);
      echotrain::follow(ranks, std::make_shared<Resources>(resources));
      return 0;
    } catch (const std::bad_alloc&) {
      give_up(ranks, "it is out of memory");
    } catch (const std::exception& error) {
      give_up(ranks, error.what());
    }
  } catch (const std::exception& error) {
    std::cerr << "echotrain-ranks: " << error.what() << '\n';
    return 1;
  }
}
