#include "clients/cpp/images/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <sstream>

#include "tests/clients/cpp/support.h"

namespace echotrain::client {
namespace {

using Values = std::vector<std::complex<double>>;
using namespace std::complex_literals;

TEST(Difference, WithoutAFitIsTheRelativeRootMeanSquare) {
  const Difference d = difference({3.0, 4.0}, {3.0, 3.0}, ScaleFit::none);
  EXPECT_DOUBLE_EQ(d.nrmse, 1 / std::sqrt(18.0));
  EXPECT_DOUBLE_EQ(d.psnr, 20 * std::log10(3 / std::sqrt(0.5)));
  EXPECT_EQ(d.scale, 1.0);
}

TEST(Difference, ComplexFitFindsScaleAndPhase) {
  const Values b = {1.0 + 2.0i, -3.0, 0.5i};
  Values a;
  for (const auto& v : b) a.push_back(v / (2.0 - 1.5i));
  const Difference d = difference(a, b, ScaleFit::complex);
  EXPECT_NEAR(std::abs(d.scale - (2.0 - 1.5i)), 0, 1e-12);
  EXPECT_NEAR(d.nrmse, 0, 1e-12);
}

TEST(Difference, RealFitLeavesThePhase) {
  // a = i b: no real scale helps, the best one is 0 and the error all of b.
  const Difference d = difference({1.0i, 2.0i}, {1.0, 2.0}, ScaleFit::real);
  EXPECT_NEAR(std::abs(d.scale), 0, 1e-15);
  EXPECT_NEAR(d.nrmse, 1, 1e-15);
}

class CompareFiles : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::vector<protocol::Image>& images) {
    protocol::DatasetWriter writer(folder_ / name);
    for (const auto& image : images) writer.append(image);
  }
  CommandResult run_compare(std::vector<std::string> more) {
    std::vector<std::string> arguments = {"compare", (folder_ / "a.h5").string(), (folder_ / "b.h5").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return command(arguments);
  }
  TemporaryFolder folder_;
};

TEST_F(CompareFiles, LimitDecidesTheExitCode) {
  write("a.h5", {make_image<float>(5, 2, 1, {1.0f, 2.0f})});
  write("b.h5", {make_image<float>(5, 2, 1, {1.0f, 2.2f})});
  // Without a fit: 0.2 / sqrt(1 + 4.84) = 0.0828.
  EXPECT_EQ(run_compare({"--scale", "none", "--max-nrmse", "0.083"}).code, 0);
  const auto above = run_compare({"--scale", "none", "--max-nrmse", "0.082"});
  EXPECT_EQ(above.code, 1);
  EXPECT_NE(above.out.find("8.276e-02"), std::string::npos) << above.out;
  EXPECT_EQ(run_compare({}).code, 0);
}

TEST_F(CompareFiles, NanFailsALimit) {
  write("a.h5", {make_image<float>(5, 2, 1, {1.0f, NAN})});
  write("b.h5", {make_image<float>(5, 2, 1, {1.0f, 2.0f})});
  EXPECT_EQ(run_compare({"--max-nrmse", "1e6"}).code, 1);
}

TEST_F(CompareFiles, DataTypesMayDifferButNotShapes) {
  write("a.h5", {make_image<std::uint16_t>(1, 2, 1, {10, 20})});
  write("b.h5", {make_image<std::complex<float>>(7, 2, 1, {1.0f, 2.0f})});
  EXPECT_EQ(run_compare({"--max-nrmse", "1e-6"}).code, 0);
  write("b.h5", {make_image<float>(5, 1, 2, {1.0f, 2.0f})});
  const auto shapes = run_compare({});
  EXPECT_EQ(shapes.code, 1);
  EXPECT_NE(shapes.err.find("shapes"), std::string::npos) << shapes.err;
}

TEST_F(CompareFiles, OneImageOfManyCanBeChosen) {
  write("a.h5", {make_image<float>(5, 1, 1, {5.0f}), make_image<float>(5, 1, 1, {7.0f})});
  write("b.h5", {make_image<float>(5, 1, 1, {7.0f})});
  EXPECT_EQ(run_compare({}).code, 1);
  EXPECT_EQ(run_compare({"--index-a", "-1", "--scale", "none", "--max-nrmse", "0"}).code, 0);
  EXPECT_EQ(run_compare({"--index-a", "0", "--scale", "none", "--max-nrmse", "0.1"}).code, 1);
  EXPECT_EQ(run_compare({"--index-a", "2"}).code, 1);
}

}  // namespace
}  // namespace echotrain::client
