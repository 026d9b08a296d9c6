// Several devices give the results of one.
#include "gadgets/numerics/core/team/team.h"

#include <gmock/gmock.h>

#include <atomic>

#include "gadgets/numerics/inverse/solver/pcg.h"
#include "gadgets/numerics/transforms/exact/split_adjoint.h"
#include "tests/support/backends.h"
#include "tests/support/on_team.h"
#include "tests/support/resources.h"
#include "tests/support/solver_problem.h"
#include "tests/support/split_problem.h"

namespace echotrain::numerics {
namespace {

using testing::Backends;
using testing::Random;
using testing::same_bits;
using testing::with_batch;

constexpr std::uint64_t kMemberBudget = 4ull << 30;

template <class B>
class TeamTest : public testing::OnBackend<B> {
 protected:
  void SetUp() override {
    const std::string reason = testing::no_team(B::kBackend);
    if (!reason.empty()) GTEST_SKIP() << reason;
    testing::OnBackend<B>::SetUp();
  }
  /// Teams of two, and of three where members need no device of their own.
  std::vector<std::unique_ptr<Team>> teams() {
    std::vector<std::unique_ptr<Team>> all;
    all.push_back(std::make_unique<Team>(this->context(), std::vector<int>{1}, kMemberBudget));
    if (!this->context().cuda())
      all.push_back(std::make_unique<Team>(this->context(), std::vector<int>{1, 2}, kMemberBudget));
    return all;
  }
};
TYPED_TEST_SUITE(TeamTest, Backends, testing::BackendNames);

TYPED_TEST(TeamTest, SumsAreTheSameForAll) {
  for (const auto& team : this->teams()) {
    const auto members = static_cast<std::size_t>(team->size());
    for (const std::int64_t n : {1, 3, 100003}) {
      std::vector<std::vector<cfloat>> parts, sums(members);
      for (std::size_t i = 0; i < members; ++i) parts.push_back(Random(static_cast<unsigned>(i)).normals(n));
      for (int time = 0; time < 3; ++time)
        team->run(Team::Sums::some, [&](Member& member) {
          const auto rank = static_cast<std::size_t>(member.rank());
          Array<cfloat> values = member.context.upload<cfloat>({parts[rank].data(), {n}});
          member.others.sum(member.context, values.view());
          const HostArray<cfloat> host = member.context.download<cfloat>(values.cview());
          sums[rank].assign(host.data(), host.data() + n);
        });
      for (std::size_t i = 0; i < members; ++i) EXPECT_TRUE(same_bits(sums[i], sums[0])) << i;
      for (std::int64_t v = 0; v < n; ++v) {
        cdouble truth = 0;
        for (const auto& part : parts) truth += cdouble(part[static_cast<std::size_t>(v)]);
        ASSERT_LT(std::abs(cdouble(sums[0][static_cast<std::size_t>(v)]) - truth), 1e-6) << v;
      }
    }
  }
}

TYPED_TEST(TeamTest, SharesCoverEverything) {
  for (const auto& team : this->teams()) {
    std::atomic<std::int64_t> all = 0, ranks = 0;
    team->run(Team::Sums::some, [&](Member& member) {
      all += member.last(17) - member.first(17);
      ranks += member.rank();
      EXPECT_EQ(member.size(), team->size());
    });
    EXPECT_EQ(all, 17);
    EXPECT_EQ(ranks, team->size() * (team->size() - 1) / 2);
  }
}

// A member that fails does not leave the others waiting, and its error is the one that is reported.
TYPED_TEST(TeamTest, AFailureEndsTheWork) {
  for (const int failing : {0, 1})
    for (const auto& team : this->teams()) {
      try {
        team->run(Team::Sums::some, [&](Member& member) {
          if (member.rank() == failing) throw std::invalid_argument("this one");
          Array<cfloat> values = member.context.template zeros<cfloat>({5});
          member.others.sum(member.context, values.view());
        });
        FAIL();
      } catch (const std::invalid_argument& error) {
        EXPECT_STREQ(error.what(), "this one");
      }
      EXPECT_THROW(team->run(Team::Sums::some, [](Member&) {}), ResourceError);
    }
}

TYPED_TEST(TeamTest, ExactTransformsHaveTheBitsOfOneDevice) {
  Context& context = this->context();
  for (const Shape& image : {Shape{61, 45}, Shape{64, 48}, Shape{33, 20, 17}, Shape{32, 24, 40}}) {
    const testing::SplitProblem problem(image, 3, 1000);
    const auto transform = [&](Team* team) {
      return testing::split_adjoint(context, team, problem, VoxelBasis::box, 313);
    };
    const auto alone = transform(nullptr);
    for (const auto& team : this->teams())
      EXPECT_TRUE(same_bits(transform(team.get()), alone)) << image.text() << " by " << team->size();
  }
}

TYPED_TEST(TeamTest, APartIsAllThatIsWritten) {
  Context& context = this->context();
  const Shape image{33, 20, 17};
  Random random(37);
  std::vector<double> k;
  for (int i = 0; i < 300; ++i) k.push_back(random.uniform(-0.5, 0.5));
  const auto samples = this->upload(random.normals(100), {100, 1});
  for (int index = 0; index < 3; ++index) {
    DirectAdjoint part(context, image, 1, VoxelBasis::delta, Precision::exact, {index, 3});
    part.add(context, {k.data(), {100, 3}}, samples.view());
    auto out = this->upload(std::vector<cfloat>(33 * 20 * 17, cfloat(7, 7)), {1, 33, 20, 17});
    part.get(context, out.view());
    const auto got = this->download(out);
    for (std::int64_t v = 0; v < image.size(); ++v) {
      const bool inside = v >= part.first_voxel() && v < part.first_voxel() + part.voxels();
      ASSERT_EQ(got[static_cast<std::size_t>(v)] == cfloat(7, 7), !inside) << v;
    }
  }
  EXPECT_THROW(DirectAdjoint(context, {8, 9}, 1, VoxelBasis::delta, Precision::exact, {0, 2}), std::invalid_argument);
}

// Each member has some of the coils and solves for all of the image.
TYPED_TEST(TeamTest, TheSolverWithCoilsSharedOut) {
  Context& context = this->context();
  for (const Shape& image : {Shape{24, 23}, Shape{9, 8, 7}}) {
    const std::int64_t coils = 5;
    const auto toeplitz = testing::make_toeplitz(context, testing::make_sampling(image.rank(), 700, 3), image);
    const auto maps = Random(5).normals(coils * image.size()), b = Random(6).normals(2 * image.size());
    std::vector<float> edges;
    Random random(7);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(image.rank()) * image.size(); ++i)
      edges.push_back(static_cast<float>(random.uniform(0.1, 1)));
    const auto prior =
        edge_stencil(context, this->upload(edges, with_batch(static_cast<std::int64_t>(image.rank()), image)));
    const auto all_maps = this->upload(maps, with_batch(coils, image));
    const auto right = this->upload(b, with_batch(2, image));
    for (const auto preconditioner : {Preconditioner::none, Preconditioner::jacobi, Preconditioner::circulant}) {
      PcgOptions options;
      options.lambda = 1e-2;
      options.iterations = 500;  // until convergence: on the way there, rounding makes them differ more
      options.tolerance = 1e-6;
      options.preconditioner = preconditioner;
      auto x = context.template zeros<cfloat>(with_batch(2, image));
      const auto truth =
          pcg(context, SenseNormal(context, toeplitz, all_maps), prior.get(), right.cview(), x.view(), options);
      const auto alone = this->download(x);
      for (const auto& team : this->teams()) {
        std::vector<std::vector<cfloat>> images(static_cast<std::size_t>(team->size()));
        std::vector<PcgResult> results(images.size());
        team->run(Team::Sums::some, [&](Member& member) {
          Context& own = member.context;
          const auto rank = static_cast<std::size_t>(member.rank());
          const std::int64_t first = member.first(coils), last = member.last(coils);
          const auto part = own.upload<cfloat>({maps.data() + first * image.size(), with_batch(last - first, image)});
          const auto matrix = toeplitz->copy(own);
          const auto own_b = own.upload<cfloat>({b.data(), with_batch(2, image)});
          auto own_x = own.zeros<cfloat>(own_b.shape());
          const SenseNormal sense(own, matrix, part, member.others);
          results[rank] = pcg(own, sense, prior->copy(own).get(), own_b.cview(), own_x.view(), options);
          const auto host = own.download<cfloat>(own_x.cview());
          images[rank].assign(host.data(), host.data() + host.size());
        });
        for (std::size_t i = 0; i < images.size(); ++i) {
          EXPECT_TRUE(same_bits(images[i], images[0])) << i;
          EXPECT_LT((testing::vector(images[i]) - testing::vector(alone)).norm() / testing::vector(alone).norm(), 1e-4);
          EXPECT_NEAR(results[i].lambda, truth.lambda, 1e-5 * truth.lambda);
          ASSERT_EQ(results[i].items.size(), 2u);
        }
      }
    }
  }
}

TYPED_TEST(TeamTest, CopiesOfPriors) {
  Context& context = this->context();
  const Shape image{6, 5};
  const auto x = Random(8).normals(30);
  std::vector<float> edges;
  Random random(9);
  for (int i = 0; i < 60; ++i) edges.push_back(static_cast<float>(random.uniform(0.1, 1)));
  const auto weights = this->upload(edges, {2, 6, 5});
  const auto apply = [&](Context& own, const Regularizer& prior) {
    const auto from = own.upload<cfloat>({x.data(), {1, 6, 5}});
    auto to = own.zeros<cfloat>({1, 6, 5});
    prior.add(own, 0.5f, from.cview(), to.view());
    const auto host = own.download<cfloat>(to.cview());
    return std::vector<cfloat>(host.data(), host.data() + 30);
  };
  for (const auto& prior : {tikhonov(image), smoothness(image, {1, 2}), edge_stencil(context, weights)}) {
    const auto truth = apply(context, *prior);
    this->teams().front()->run(Team::Sums::none, [&](Member& member) {
      EXPECT_TRUE(same_bits(apply(member.context, *prior->copy(member.context)), truth));
    });
  }
}

TEST(Team, DevicesThatCannotWorkTogetherAreNamed) {
  std::string reason;
  if (can_connect_devices(&reason)) GTEST_SKIP() << "they can here";
  EXPECT_FALSE(reason.empty());
  try {
    connect_devices({0, 1}, *test_resources());
    FAIL();
  } catch (const ResourceError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(reason));
  }
}

}  // namespace
}  // namespace echotrain::numerics
