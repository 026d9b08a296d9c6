#include "clients/cpp/simulate/subject/vials.h"

#include <cmath>

namespace echotrain::client {

std::vector<Tissue> tissues(int vials) {
  std::vector<Tissue> all;
  for (int i = 0; i < vials; ++i) {
    const double at = vials > 1 ? static_cast<double>(i) / (vials - 1) : 0.5;
    const auto between = [at](double low, double high) { return low * std::pow(high / low, at); };
    all.push_back(
        {between(100, 3000), between(10, 300), between(5, 100), 3e-4 + 2.7e-3 * at, -60 + 120 * at, 0.7 + 0.6 * at});
  }
  return all;
}

std::vector<Vial> places_of_vials(double matrix, int vials) {
  const int side = static_cast<int>(std::ceil(std::sqrt(static_cast<double>(vials))));
  const double apart = 0.9 * matrix / side;
  std::vector<Vial> all;
  for (int i = 0; i < vials; ++i)
    all.push_back({{(i % side - (side - 1) / 2.0) * apart, (i / side - (side - 1) / 2.0) * apart, 0}, 0.36 * apart});
  return all;
}

Phantom phantom_of_vials(double matrix, const std::vector<cdouble>& signals) {
  const std::vector<Vial> places = places_of_vials(matrix, static_cast<int>(signals.size()));
  Phantom phantom = Phantom::empty(2);
  for (std::size_t i = 0; i < signals.size(); ++i)
    phantom.add_disc(signals[i], places[i].center, places[i].radius, kVialBlur);
  return phantom;
}

std::vector<float> map_of_vials(int matrix, const std::vector<double>& values) {
  const std::vector<Vial> places = places_of_vials(matrix, static_cast<int>(values.size()));
  std::vector<float> map(static_cast<std::size_t>(matrix) * matrix);
  for (int y = 0; y < matrix; ++y)
    for (int x = 0; x < matrix; ++x)
      for (std::size_t i = 0; i < places.size(); ++i) {
        const double away = std::hypot(x - matrix / 2 - places[i].center[0], y - matrix / 2 - places[i].center[1]);
        if (away <= places[i].radius - 2 * kVialBlur)
          map[static_cast<std::size_t>(y) * matrix + x] = static_cast<float>(values[i]);
      }
  return map;
}

}  // namespace echotrain::client
