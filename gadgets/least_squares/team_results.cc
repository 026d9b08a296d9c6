#include "gadgets/least_squares/team_results.h"

#include <cstddef>
#include <cstring>
#include <span>

namespace echotrain {
namespace {

/// Packs the solver's results for other processes.
std::vector<std::byte> packed(const numerics::PcgResult& result) {
  std::vector<double> numbers{result.lambda};
  for (const auto& item : result.items) {
    numbers.insert(numbers.end(), {static_cast<double>(item.status), static_cast<double>(item.iterations),
                                   static_cast<double>(item.residuals.size())});
    numbers.insert(numbers.end(), item.residuals.begin(), item.residuals.end());
  }
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}
numerics::PcgResult unpacked(const std::vector<std::byte>& bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(double));
  numerics::PcgResult result;
  result.lambda = numbers.at(0);
  for (std::size_t at = 1; at < numbers.size();) {
    const auto count = static_cast<std::ptrdiff_t>(numbers.at(at + 2));
    const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(at) + 3;
    result.items.push_back({static_cast<numerics::PcgStatus>(numbers[at]), static_cast<int>(numbers[at + 1]),
                            std::vector<double>(first, first + count)});
    at += 3 + static_cast<std::size_t>(count);
  }
  return result;
}

}  // namespace

double known_to_all(numerics::Team& team, double value) {
  std::vector<std::byte> bytes(sizeof(value));
  std::memcpy(bytes.data(), &value, sizeof(value));
  team.share(bytes, 0);
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

void share_results(numerics::Team& team, numerics::Context& compute, std::vector<numerics::PcgResult>& results,
                   std::int64_t voxels, Array<cfloat>& image) {
  const std::int64_t images = image.shape()[0];
  for (int rank = 0; rank < team.size(); ++rank) {
    auto& of_rank = results[static_cast<std::size_t>(rank)];
    std::vector<std::byte> bytes = packed(of_rank);
    team.share(bytes, rank);
    of_rank = unpacked(bytes);
    const std::int64_t first = numerics::share_begin(images, rank, team.size()),
                       last = numerics::share_begin(images, rank + 1, team.size());
    if (voxels > 0) team.share(compute, image.view().part(first * voxels, {(last - first) * voxels}), rank);
  }
}

}  // namespace echotrain
