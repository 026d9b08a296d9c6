// Unfolded objects against themselves, and weights against dense least squares in float64.
#include "gadgets/numerics/mri/parallel/unfold.h"

#include "tests/gadgets/numerics/mri/parallel/plain_grappa.h"
#include "tests/support/direct_sum.h"

namespace echotrain::numerics {
namespace {

using namespace testing;

template <class B>
class UnfoldTest : public OnBackend<B> {};
TYPED_TEST_SUITE(UnfoldTest, Backends, BackendNames);

struct UnfoldCase {
  Lattice lattice;
  std::int64_t coils;
  Shape encoded, padded, image;
};

const std::vector<UnfoldCase>& unfold_cases() {
  static const std::vector<UnfoldCase> cases{
      {{2, 1, 0, 0, 0}, 3, {1, 12, 5}, {1, 12, 5}, {1, 12, 5}},
      {{3, 1, 0, 1, 0}, 4, {1, 11, 4}, {1, 12, 6}, {1, 12, 6}},  // k-space is zero-filled
      {{3, 1, 0, 2, 0}, 4, {1, 15, 3}, {1, 15, 3}, {1, 9, 3}},   // the image is cut to the object
      {{2, 2, 0, 1, 0}, 6, {6, 8, 3}, {6, 8, 3}, {6, 8, 3}},
      {{2, 2, 1, 0, 1}, 6, {8, 6, 2}, {8, 6, 2}, {8, 6, 2}},  // CAIPIRINHA
      {{3, 2, 2, 1, 0}, 8, {6, 9, 2}, {6, 9, 2}, {6, 9, 2}}};
  return cases;
}

std::vector<cfloat> random_maps(std::int64_t coils, std::int64_t voxels) {
  Random random(4);
  std::vector<cfloat> maps = random.normals(coils * voxels);
  for (std::int64_t v = 0; v < voxels; ++v) {
    float size = 0;
    for (std::int64_t c = 0; c < coils; ++c) size += std::norm(maps[static_cast<std::size_t>(c * voxels + v)]);
    for (std::int64_t c = 0; c < coils; ++c)
      maps[static_cast<std::size_t>(c * voxels + v)] *= v % 7 == 2 ? 0.0f : 1 / std::sqrt(size);
  }
  return maps;
}

cdouble phase_of(std::int64_t k, std::int64_t r, std::int64_t n) {
  return std::polar(1.0, 2 * std::numbers::pi * static_cast<double>(k * r) / static_cast<double>(n));
}

/// sum over lattice rows k of the grid of exp(2 pi i k (to - from)) / (y and z points of the grid): what a point at
/// `from` gives at `to` when only these rows are acquired.
cdouble folding(const UnfoldCase& c, RowStep from, RowStep to) {
  cdouble sum = 0;
  const std::int64_t ny = c.padded[1], nz = c.padded[0];
  for (std::int64_t kz = -(nz / 2); kz < (nz + 1) / 2; ++kz)
    for (std::int64_t ky = -(ny / 2); ky < (ny + 1) / 2; ++ky)
      if (c.lattice.contains(ky + c.encoded[1] / 2, kz + c.encoded[0] / 2))
        sum += phase_of(ky, to[0] - from[0], ny) * phase_of(kz, to[1] - from[1], nz);
  return sum / static_cast<double>(ny * nz);
}

TYPED_TEST(UnfoldTest, GivesBackTheObject) {
  for (const UnfoldCase& c : unfold_cases()) {
    SCOPED_TRACE(::testing::Message() << c.lattice.step_y << "x" << c.lattice.step_z << " " << c.image.text());
    const std::int64_t nz = c.image[0], ny = c.image[1], nx = c.image[2], voxels = c.image.size();
    const auto maps = random_maps(c.coils, voxels);
    const auto there = this->upload(maps, {c.coils, nz, ny, nx});
    const auto u = this->download(
        unfold(this->context(), there.cview(), c.lattice, {c.encoded, c.padded, c.image, Direction::inverse}, 0));
    Random random(9);
    std::vector<cdouble> object, image;
    for (std::int64_t v = 0; v < voxels; ++v) {
      const cdouble value(random.normal());
      object.push_back(maps[static_cast<std::size_t>(v)] == cfloat(0) ? 0.0 : value);
    }
    for (std::int64_t v = 0; v < voxels; ++v) {
      const std::int64_t x = v % nx, y = v / nx % ny, z = v / nx / ny;
      cdouble sum = 0;
      for (std::int64_t from_z = 0; from_z < nz; ++from_z)
        for (std::int64_t from_y = 0; from_y < ny; ++from_y) {
          const std::int64_t w = (from_z * ny + from_y) * nx + x;
          const cdouble fold = folding(c, {from_y, from_z}, {y, z});
          for (std::int64_t coil = 0; coil < c.coils; ++coil)
            sum += std::conj(cdouble(u[static_cast<std::size_t>(coil * voxels + v)])) *
                   cdouble(maps[static_cast<std::size_t>(coil * voxels + w)]) * fold *
                   object[static_cast<std::size_t>(w)];
        }
      image.push_back(sum);
    }
    EXPECT_LE(relative_error(image, object, object.size()), 1e-5);
  }
}

// Two images that add up, each behind maps of its own, which are 0 in other voxels.
TYPED_TEST(UnfoldTest, GivesBackTheObjectsOfTwoSets) {
  for (const UnfoldCase& c : unfold_cases()) {
    SCOPED_TRACE(::testing::Message() << c.lattice.step_y << "x" << c.lattice.step_z << " " << c.image.text());
    const std::int64_t nz = c.image[0], ny = c.image[1], nx = c.image[2], voxels = c.image.size(), coils = 3 * c.coils;
    auto maps = random_maps(2 * coils, voxels);
    for (std::int64_t v = 0; v < voxels; v += 3)
      for (std::int64_t i = coils; i < 2 * coils; ++i) maps[static_cast<std::size_t>(i * voxels + v)] = 0;
    const auto there = this->upload(maps, {2 * coils, nz, ny, nx});
    Random random(9);
    std::vector<cdouble> objects;
    for (std::int64_t i = 0; i < 2 * voxels; ++i) {
      const cdouble value(random.normal());
      const auto first = static_cast<std::size_t>(i / voxels * coils * voxels + i % voxels);
      objects.push_back(maps[first] == cfloat(0) ? 0.0 : value);
    }
    std::vector<cdouble> images;
    for (std::int64_t of = 0; of < 2; ++of) {
      const auto u = this->download(unfold(this->context(), there.cview(), c.lattice,
                                           {c.encoded, c.padded, c.image, Direction::inverse}, 0, 2, of));
      ASSERT_EQ(static_cast<std::int64_t>(u.size()), coils * voxels);
      for (std::int64_t v = 0; v < voxels; ++v) {
        cdouble sum = 0;
        for (std::int64_t w = v % nx; w < voxels; w += nx) {
          const cdouble fold = folding(c, {w / nx % ny, w / nx / ny}, {v / nx % ny, v / nx / ny});
          for (std::int64_t i = 0; i < 2 * coils; ++i)
            sum += std::conj(cdouble(u[static_cast<std::size_t>(i % coils * voxels + v)])) * fold *
                   cdouble(maps[static_cast<std::size_t>(i * voxels + w)]) *
                   objects[static_cast<std::size_t>(i / coils * voxels + w)];
        }
        images.push_back(sum);
      }
    }
    EXPECT_LE(relative_error(images, objects, objects.size()), 1e-5);
  }
}

TYPED_TEST(UnfoldTest, IsRegularizedLeastSquares) {
  for (const UnfoldCase& c : unfold_cases()) {
    const std::int64_t nz = c.image[0], ny = c.image[1], nx = c.image[2], voxels = c.image.size();
    auto maps = random_maps(c.coils, voxels);
    for (cfloat& v : maps) v *= 3.0f;
    const auto there = this->upload(maps, {c.coils, nz, ny, nx});
    for (const double lambda : {0.001, 0.5}) {
      const auto u = this->download(unfold(this->context(), there.cview(), c.lattice,
                                           {c.encoded, c.padded, c.image, Direction::inverse}, lambda));
      std::vector<cdouble> truth(u.size());
      for (std::int64_t v = 0; v < voxels; ++v) {
        const std::int64_t x = v % nx, y = v / nx % ny, z = v / nx / ny;
        // All voxels that fold here, by the point spread; this one first.
        std::vector<Eigen::VectorXcd> columns;
        for (int own = 1; own >= 0; --own)
          for (std::int64_t from_z = 0; from_z < nz; ++from_z)
            for (std::int64_t from_y = 0; from_y < ny; ++from_y) {
              const std::int64_t w = (from_z * ny + from_y) * nx + x;
              const cdouble fold = folding(c, {from_y, from_z}, {y, z});
              if ((w == v) != (own == 1) || std::abs(fold) < 1e-9) continue;
              Eigen::VectorXcd b(c.coils);
              for (std::int64_t coil = 0; coil < c.coils; ++coil)
                b[coil] = cdouble(maps[static_cast<std::size_t>(coil * voxels + w)]) * fold *
                          static_cast<double>(c.lattice.size());
              if (b.norm() > 0 || own == 1) columns.push_back(b);
            }
        if (columns.front().norm() == 0) continue;
        Eigen::MatrixXcd b(c.coils, static_cast<Eigen::Index>(columns.size()));
        for (std::size_t i = 0; i < columns.size(); ++i) b.col(static_cast<Eigen::Index>(i)) = columns[i];
        Eigen::MatrixXcd gram = b.adjoint() * b;
        gram.diagonal().array() += lambda * gram.diagonal().real().maxCoeff();
        const Eigen::MatrixXcd solution = static_cast<double>(c.lattice.size()) * gram.inverse() * b.adjoint();
        for (std::int64_t coil = 0; coil < c.coils; ++coil)
          truth[static_cast<std::size_t>(coil * voxels + v)] = std::conj(solution(0, coil));
      }
      EXPECT_LE(relative_error(u, truth, u.size()), 1e-5) << lambda;
    }
  }
}

TYPED_TEST(UnfoldTest, RefusesWhatCannotBeUnfolded) {
  const auto maps = this->context().template zeros<cfloat>({2, 1, 10, 4});
  const LineGeometry g{{1, 10, 4}, {1, 10, 4}, {1, 10, 4}, Direction::inverse};
  const auto call = [&](const Lattice& l, double lambda) { unfold(this->context(), maps.cview(), l, g, lambda); };
  EXPECT_THROW(call({3, 1, 0, 0, 0}, 0), std::invalid_argument);   // 10 is no multiple of 3
  EXPECT_THROW(call({2, 2, 0, 0, 0}, 0), std::invalid_argument);   // one plane
  EXPECT_THROW(call({20, 1, 0, 0, 0}, 0), std::invalid_argument);  // more than kMostAliases
  EXPECT_THROW(call({2, 1, 0, 0, 0}, -1), std::invalid_argument);
  for (const auto& [sets, of] : {std::pair{2, 2}, {3, 0}, {0, 0}, {2, -1}})
    EXPECT_THROW(unfold(this->context(), maps.cview(), {2, 1, 0, 0, 0}, g, 0, sets, of), std::invalid_argument);
  EXPECT_THROW(unfold(this->context(), maps.cview().reshaped({2, 1, 4, 10}), {2, 1, 0, 0, 0}, g, 0),
               std::invalid_argument);
  for (const cfloat& v : this->download(unfold(this->context(), maps.cview(), {2, 1, 0, 0, 0}, g, 0)))
    ASSERT_EQ(v, cfloat(0));  // no maps, no image
}

}  // namespace
}  // namespace echotrain::numerics
