#include "gadgets/field/gradient_coefficients.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <vector>

#include "gadgets/api/errors.h"

namespace echotrain {
namespace {

using numerics::GradientHarmonics;

constexpr std::string_view kGeneric = "echotrain_gradients";
constexpr double kMost = 1e6;  // of a coefficient: such a field has no places

/// The words of a line, without its comment; brackets, commas, semicolons and white space are between words.
std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBetween = " \t\r\f\v(),;";
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  for (std::size_t begin = line.find_first_not_of(kBetween); begin != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBetween, begin), line.size());
    words.push_back(line.substr(begin, end - begin));
    begin = line.find_first_not_of(kBetween, end);
  }
  return words;
}

template <class T>
std::optional<T> number(std::string_view word) {
  T value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

/// The factor of r^n P_n^m in harmonics of a normalization, over Schmidt's.
double factor_over_schmidt(std::string_view normalization, int n, int m) {
  if (m == 0 || normalization == "schmidt") return 1;
  if (normalization == "siemens") return std::sqrt(2.0 * n + 1) / 2;
  double ratio = 0.5;
  for (int i = n - m + 1; i <= n + m; ++i) ratio *= i;
  return std::sqrt(ratio);
}

class Reader {
 public:
  explicit Reader(double radius_mm) : radius_mm_(radius_mm) {}

  void read(std::string_view text) {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      ++line_;
      take(words_of(text.substr(begin, end - begin)));
      begin = end + 1;
    }
  }

  GradientHarmonics made() const {
    if (terms_.empty())
      throw ClientError(
          "gradient_unwarp: the file holds no coefficients. It is a Siemens .grad (lines such as \"101 A( 3, 1) 0.01 "
          "x\") or .coef (\"alpha_x 3 1 0.01;\"), or begins with \"echotrain_gradients 1\"");
    if (!(radius_mm_ > 0))
      throw ClientError(
          "gradient_unwarp: the file has no radius (\"0.25 m = R0\" of a .grad, \"radius_mm 250\"); give radius_mm in "
          "the pipeline");
    GradientHarmonics out;
    out.radius_mm = radius_mm_;
    for (const auto& [key, term] : terms_) out.degree = std::max(out.degree, std::get<1>(key));
    for (auto& terms : out.of_coil) terms.resize(GradientHarmonics::place(out.degree, out.degree) + 1);
    for (const auto& [key, term] : terms_) {
      const auto [coil, n, m] = key;
      const double factor = factor_over_schmidt(normalization_, n, m);
      out.of_coil[coil][GradientHarmonics::place(n, m)] = {factor * term[0].value_or(0), factor * term[1].value_or(0)};
    }
    return out;
  }

 private:
  using Words = std::vector<std::string_view>;
  using Key = std::tuple<std::size_t, int, int>;  // coil, n, m

  [[noreturn]] void refuse(const std::string& what) const {
    throw ClientError(fmt::format("gradient_unwarp: line {} of the coefficients: {}", line_, what));
  }

  void take(const Words& words) {
    if (words.empty()) return;
    if (!begun_ && words[0] == kGeneric) {
      if (words.size() != 2 || words[1] != "1") refuse("this version of the text is not known; write 1");
      generic_ = true;
    } else if (generic_) {
      take_generic(words);
    } else if (words[0].starts_with("alpha_") || words[0].starts_with("beta_")) {
      take_coef(words);
    } else {
      take_grad(words);
    }
    begun_ = true;
  }

  void take_generic(const Words& words) {
    constexpr const char* kHow =
        "write \"radius_mm 250\", \"normalization siemens\", or coil n m cosine sine: x 3 1 0.01 0";
    if (words[0] == "radius_mm" && words.size() == 2) return take_radius(words[1], 1);
    if (words[0] == "normalization" && words.size() == 2) {
      if (words[1] != "siemens" && words[1] != "schmidt" && words[1] != "legendre")
        refuse("normalization is siemens, schmidt or legendre");
      normalization_ = words[1];
      return;
    }
    if (words.size() != 5 || words[0].size() != 1) refuse(kHow);
    add(words[0], words[1], words[2], 0, words[3]);
    add(words[0], words[1], words[2], 1, words[4]);
  }

  void take_coef(const Words& words) {
    if (words.size() != 4) refuse("write alpha_x n m coefficient: alpha_x 3 1 0.01;");
    add(words[0].substr(words[0].find('_') + 1), words[1], words[2], words[0].starts_with("beta_") ? 1 : 0, words[3]);
  }

  void take_grad(const Words& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] == "R0" && i >= 3 && words[i - 1] == "=" && words[i - 2] == "m") take_radius(words[i - 3], 1000);
      if (words[i] == "lnorm" && i + 2 < words.size() && words[i + 1] == "=" && !words[i + 2].starts_with("4"))
        refuse("lnorm is another than 4, the only normalization of a .grad that is known here");
    }
    // A line of the table: NUMBER A( n, m) coefficient coil.
    if (words.size() < 2 || !number<std::int64_t>(words[0]) || (words[1] != "A" && words[1] != "B")) return;
    if (words.size() != 6) refuse("write NUMBER A( n, m) coefficient coil: 101 A( 3, 1) 0.01 x");
    add(words[5], words[2], words[3], words[1] == "B" ? 1 : 0, words[4]);
  }

  void take_radius(std::string_view word, double mm) {
    const auto value = number<double>(word);
    constexpr double kLeast = 1, kLargest = 10000;
    if (!value || !(*value * mm >= kLeast) || !(*value * mm <= kLargest))
      refuse("the radius is no number from 1 mm to 10 m");
    radius_mm_ = *value * mm;
  }

  void add(std::string_view coil, std::string_view degree, std::string_view order, std::size_t part,
           std::string_view coefficient) {
    const auto n = number<int>(degree), m = number<int>(order);
    if (coil != "x" && coil != "y" && coil != "z") refuse("the coil is x, y or z");
    if (!n || !m || *n < 0 || *m < 0 || *m > *n || *n > GradientHarmonics::kMostDegree)
      refuse(fmt::format("n and m are whole numbers with 0 <= m <= n <= {}", GradientHarmonics::kMostDegree));
    const auto value = number<double>(coefficient);
    if (!value || !(std::abs(*value) <= kMost))
      refuse(fmt::format("the coefficient is no number up to {:g}, such as -0.01", kMost));
    auto& into = terms_[{static_cast<std::size_t>(coil[0] - 'x'), *n, *m}][part];
    if (into)
      refuse(fmt::format("the coefficient of coil {}, n {}, m {} is given a second time; leave one", coil, *n, *m));
    into = *value;
  }

  double radius_mm_;
  std::string normalization_ = "siemens";
  std::map<Key, std::array<std::optional<double>, 2>> terms_;  // cosine, sine
  std::size_t line_ = 0;
  bool generic_ = false, begun_ = false;
};

}  // namespace

GradientHarmonics read_gradient_coefficients(std::string_view text, double radius_mm) {
  Reader reader(radius_mm);
  reader.read(text);
  return reader.made();
}

}  // namespace echotrain
