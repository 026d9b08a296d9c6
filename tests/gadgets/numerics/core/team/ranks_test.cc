// Processes that share the work give the results of one. Here they are threads that meet only as processes would.
#include "gadgets/numerics/core/team/ranks.h"

#include <gmock/gmock.h>

#include "tests/support/rank_checks.h"
#include "tests/support/resources.h"
#include "tests/support/thread_ranks.h"

namespace echotrain::numerics {
namespace {

using ::testing::Each;
using testing::errors_of_ranks;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ThreadRanks;

void check(const std::function<void(Ranks&)>& what) {
  for (const int size : {1, 2, 3})
    EXPECT_THAT(errors_of_ranks(size, [&](ThreadRanks& r) { what(r); }), Each(IsEmpty()));
}

TEST(RanksTest, ExchangesAreWhatTheyShouldBe) {
  check(testing::check_sums);
  check(testing::check_broadcasts);
}
TEST(RanksTest, ExactTransformsHaveTheBitsOfOneProcess) { check(testing::check_exact_transform); }
TEST(RanksTest, TheSolverWithCoilsSharedOut) { check(testing::check_solver); }

TEST(RanksTest, AFailureOfOneIsHeardByAll) {
  const auto errors = errors_of_ranks(3, [](ThreadRanks& ranks) {
    Context context(Backend::cpu, test_resources());
    Team team(context, ranks);
    team.run(Team::Sums::some, [&](Member& member) {
      if (member.rank() == 1) throw std::invalid_argument("this one");
      Array<cfloat> values = context.zeros<cfloat>({5});
      member.others.sum(context, values.view());
    });
  });
  EXPECT_THAT(errors, Each(HasSubstr("this one")));
}

// Ranks on machines that round differently would take different numbers of steps and wait for each other for ever.
TEST(RanksTest, RanksThatGoApartStop) {
  for (const bool apart : {false, true}) {
    const auto errors = errors_of_ranks(2, [&](ThreadRanks& ranks) {
      Context context(Backend::cpu, test_resources());
      Team team(context, ranks);
      const Shape image{9, 8};
      const auto toeplitz = testing::make_toeplitz(context, testing::make_sampling(2, 100, 3), image);
      const auto maps = testing::Random(5).normals(image.size());
      auto b = testing::Random(6).normals(image.size());
      if (apart && ranks.rank() == 1) b[7] *= 1.0000002f;
      const auto right = context.upload<cfloat>({b.data(), testing::with_batch(1, image)});
      team.run(Team::Sums::some, [&](Member& member) {
        const auto part = context.upload<cfloat>({maps.data(), testing::with_batch(1, image)});
        auto x = context.zeros<cfloat>(right.shape());
        pcg(context, SenseNormal(context, toeplitz, part, member.others), nullptr, right.cview(), x.view(), {});
      });
    });
    if (apart) {
      EXPECT_THAT(errors, Each(HasSubstr("other numbers than rank 0")));
    } else {
      EXPECT_THAT(errors, Each(IsEmpty()));
    }
  }
}

}  // namespace
}  // namespace echotrain::numerics
