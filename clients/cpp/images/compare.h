// The command `echotrain compare` measures how far the images of one file are from those of another.
#pragma once

#include <complex>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "config/option.h"

namespace echotrain::client {

enum class ScaleFit { none, real, complex };

struct CompareOptions {
  std::filesystem::path a, b;
  std::string group_a = "dataset", group_b = "dataset";
  std::string series_a, series_b;        ///< empty: all series, paired by name (or the only one of each file)
  std::optional<long> index_a, index_b;  ///< one image of each; negative counts from the end
  bool magnitude = false;
  ScaleFit scale = ScaleFit::complex;  ///< of A, before comparing
  std::optional<double> max_nrmse;
  bool json = false;
};

config::OptionTable<CompareOptions> compare_options();

/// The difference between `a`, times the best scale s of the allowed kind, and the reference `b`.
struct Difference {
  double nrmse = 0;                ///< ||s a - b|| / ||b||
  double psnr = 0;                 ///< 20 log10(max |b| / rms(s a - b)) [dB]; infinite when equal
  std::complex<double> scale = 1;  ///< minimises ||s a - b||
};
Difference difference(const std::vector<std::complex<double>>& a, const std::vector<std::complex<double>>& b,
                      ScaleFit fit);

/// Prints a line per pair and one for the whole. Returns 0, or 1 when a pair or the whole is above max_nrmse. Throws
/// when the images cannot be paired or differ in shape.
int compare(const CompareOptions& options, std::ostream& out);

}  // namespace echotrain::client
