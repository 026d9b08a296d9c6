#include "gadgets/epi/echo_train.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gadgets/epi/epi_readouts.h"

namespace echotrain {
namespace {

using numerics::cdouble;

constexpr std::size_t kMostOfShot = 4;  // more lines are a separate scan, taken at another time than the images
constexpr std::size_t kMostOwn = 512;   // of a train whose lines have phases of their own

std::vector<cdouble> sum_over_coils(const std::vector<cdouble>& products, std::int64_t coils) {
  const std::size_t n = products.size() / static_cast<std::size_t>(coils);
  std::vector<cdouble> out(n);
  for (std::size_t i = 0; i < products.size(); ++i) out[i % n] += products[i];
  return out;
}

/// The products of a coil; where it has little signal, the phase is that of all coils.
std::vector<cdouble> with_others(const std::vector<cdouble>& products, std::int64_t coil,
                                 const std::vector<cdouble>& all) {
  constexpr double kShare = 0.02;
  const std::size_t n = all.size();
  const auto first = products.begin() + coil * static_cast<std::ptrdiff_t>(n);
  double own = 0, total = 0;
  for (std::size_t x = 0; x < n; ++x) {
    own += std::abs(first[static_cast<std::ptrdiff_t>(x)]);
    total += std::abs(all[x]);
  }
  std::vector<cdouble> out(first, first + static_cast<std::ptrdiff_t>(n));
  for (std::size_t x = 0; x < n && total > 0; ++x) out[x] += kShare * own / total * all[x];
  return out;
}

std::vector<double> phases_of(const std::vector<cdouble>& products, const numerics::LinearPhase& line, bool pointwise) {
  if (pointwise) return numerics::pointwise_phase(products, line);
  std::vector<double> out;
  for (std::size_t x = 0; x < products.size(); ++x)
    out.push_back(line.constant + line.slope * (static_cast<double>(x) - static_cast<double>(products.size() / 2)));
  return out;
}

bool alternates(const std::vector<bool>& reversed) {
  return std::adjacent_find(reversed.begin(), reversed.end()) == reversed.end();
}

/// The product whose phase is the turn of a line's spins beyond the mean of its neighbours in another set, with their
/// precession taken out.
cdouble line_by_neighbours(const numerics::Navigators& others, const numerics::Navigators& set, std::size_t line) {
  const cdouble later = std::polar(1.0, numerics::precession(others));
  const auto &before = others.profiles[line - 1], &after = others.profiles[line + 1];
  cdouble sum = 0;
  for (std::size_t i = 0; i < before.size(); ++i)
    sum += std::conj(0.5 * (before[i] * later + after[i] * std::conj(later))) * set.profiles[line][i];
  return sum;
}

}  // namespace

void EchoTrain::add(const protocol::AcquisitionHeader& head, std::vector<cdouble> profile, std::int64_t points) {
  const ISMRMRD::ISMRMRD_EncodingCounters idx = head.idx;
  // The segment and the average are left out: Siemens counts directions and the third line with them.
  std::vector<std::uint16_t> counters = {idx.contrast, idx.phase, idx.repetition, idx.set};
  const std::int64_t coils = static_cast<std::int64_t>(profile.size()) / points;
  if (used_ || coils != set_.coils || points != set_.n || (lines() > 0 && counters != counters_)) {
    set_ = {};
    set_.coils = coils;
    set_.n = points;
    counters_ = std::move(counters);
  }
  set_.profiles.push_back(std::move(profile));
  set_.reversed.push_back(is_reversed(head));
  changed_ = true;
  used_ = false;
}

std::optional<OddEvenPhase> EchoTrain::odd_even(const PhaseOptions& options, std::size_t excited) {
  changed_ = false;
  used_ = true;
  next_line_ = 0;
  compare_with(first_[excited]);
  const std::vector<cdouble> products = numerics::odd_even_products(set_);
  if (products.empty()) return std::nullopt;
  const std::vector<cdouble> all = sum_over_coils(products, set_.coils);
  const bool pointwise = options.method == "pointwise";
  OddEvenPhase out;
  out.linear = numerics::linear_phase(all);
  out.phases = phases_of(all, out.linear, pointwise);
  out.ghost_before = numerics::ghost_level(all, std::vector<double>(all.size()));
  out.ghost_after = numerics::ghost_level(all, out.phases);
  if (options.lines == "each" && lines() > kMostOfShot && lines() <= kMostOwn)
    out.of_lines = phases_of_lines(out.linear);
  if (options.coils != "each" || set_.coils == 1) return out;
  out.phases.clear();
  for (std::int64_t c = 0; c < set_.coils; ++c) {
    const std::vector<cdouble> own = with_others(products, c, all);
    const std::vector<double> phases = phases_of(own, numerics::linear_phase(own), pointwise);
    out.phases.insert(out.phases.end(), phases.begin(), phases.end());
  }
  return out;
}

/// The last line, which has one neighbour, has the phase of the reversed line before.
std::vector<numerics::LinearPhase> EchoTrain::phases_of_lines(const numerics::LinearPhase& all) const {
  std::vector<numerics::LinearPhase> out(lines());
  numerics::LinearPhase latest;
  for (std::size_t l = 0; l < lines(); ++l) {
    if (!set_.reversed[l]) continue;
    const std::vector<cdouble> products = numerics::odd_even_products(set_, l);
    if (!products.empty()) {
      std::vector<cdouble> rest = sum_over_coils(products, set_.coils);
      for (std::size_t x = 0; x < rest.size(); ++x)
        rest[x] *= std::polar(
            1.0, -all.constant - all.slope * (static_cast<double>(x) - static_cast<double>(rest.size() / 2)));
      latest = numerics::linear_phase(rest);
    }
    out[l] = latest;
  }
  return out;
}

/// Compares later sets with the first set of as many lines, line by line; where all run the other way, each with the
/// mean of its neighbours in the other set, which run as it does.
void EchoTrain::compare_with(numerics::Navigators& first) {
  offset_ = drift_ = 0;
  if (lines() > kMostOfShot) return;
  const bool alike = first.coils == set_.coils && first.n == set_.n && first.profiles.size() == lines();
  cdouble sum = 0;
  if (alike && first.reversed == set_.reversed) {
    for (std::size_t l = 0; l < lines(); ++l)
      for (std::size_t i = 0; i < set_.profiles[l].size(); ++i)
        sum += std::conj(first.profiles[l][i]) * set_.profiles[l][i];
  } else if (alike && lines() > 2 && alternates(set_.reversed) && alternates(first.reversed)) {
    for (std::size_t l = 1; l + 1 < lines(); ++l) sum += line_by_neighbours(first, set_, l);
    for (std::size_t l = 1; l + 1 < lines(); ++l) sum += std::conj(line_by_neighbours(set_, first, l));
  } else {
    first = set_;
    return;
  }
  offset_ = std::arg(sum);
  drift_ = std::remainder(numerics::precession(set_) - numerics::precession(first), std::acos(-1.0));
}

double EchoTrain::drift_at_next_line() {
  const double echoes = static_cast<double>(next_line_++) + (static_cast<double>(lines()) + 1) / 2;
  return offset_ + drift_ * echoes;
}

}  // namespace echotrain
