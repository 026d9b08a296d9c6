// Options of the gadget `regularised`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace echotrain {

/// The options; Regularised::parameters() explains them.
struct RegularisedOptions {
  struct Wavelet {
    double weight = 1;
    std::string shifts = "none";
    std::int64_t smallest = 16;
  };
  struct Variation {
    double weight = 1;
  };
  struct LowRank {
    double weight = 1;
    std::string shifts = "none";
    std::int64_t block = 8;
  };
  std::vector<std::string> prior;  ///< empty: wavelet
  double lambda = 0.005;
  std::string scale = "relative";
  double noise_level = 0;
  std::string method = "fista";
  std::int64_t iterations = 60;
  double tolerance = 1e-3;
  std::int64_t inner = 0;
  double penalty = 0.1;
  std::string series = "none";
  std::int64_t frames = 16;
  Wavelet wavelet;
  Variation total_variation, temporal_variation;
  LowRank low_rank;
};

}  // namespace echotrain
