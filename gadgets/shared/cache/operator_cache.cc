#include "gadgets/shared/cache/operator_cache.h"

#include <fmt/format.h>

#include "gadgets/shared/cache/plan_cache.h"
#include "gadgets/shared/program/scan_environment.h"

namespace echotrain {
namespace {

/// From this many multiplications on, reading Q from a file is quicker than computing it.
constexpr double kWorthKeeping = 1e11;

numerics::Shape doubled(const numerics::Shape& image) {
  numerics::Shape out;
  for (const auto extent : image) out.push_back(2 * extent);
  return out;
}

}  // namespace

numerics::NufftOptions gridding_of(const PointSpreadMethod& method, const numerics::Shape& image,
                                   numerics::Backend backend) {
  const numerics::Shape lags = numerics::lag_image(image);
  const auto within = method.any_trajectory ? numerics::options_within(method.accuracy, lags, {backend}) : std::nullopt;
  return within ? *within : numerics::options_for_accuracy(method.accuracy, lags, {backend});
}

bool OperatorRequest::same(const OperatorRequest& other) const {
  return image == other.image && voxel_ratio == other.voxel_ratio && method == other.method &&
         (positions == other.positions ||
          (same_positions(*positions, *other.positions) && positions->weights == other.positions->weights));
}

std::string OperatorRequest::disk_key() const {
  const SamplePositions& p = *positions;
  std::string key = fmt::format(
      "Q v3 image={} ratio={},{},{} exact={} precision={} basis={} accuracy={} samples={}x{}\n", image.text(),
      voxel_ratio[0], voxel_ratio[1], voxel_ratio[2], method.exact, static_cast<int>(method.precision),
      static_cast<int>(method.basis), method.exact ? 0 : method.accuracy, p.count(), p.dims);
  key.reserve(key.size() + p.bytes());
  key.append(reinterpret_cast<const char*>(p.coordinates.data()), p.coordinates.size() * sizeof(double));
  key.append(reinterpret_cast<const char*>(p.weights.data()), p.weights.size() * sizeof(float));
  return key;
}

std::shared_ptr<const numerics::ToeplitzOperator> OperatorRequest::make(numerics::Context& context) const {
  const numerics::Shape lags = doubled(image);
  const double work = static_cast<double>(lags.size()) * static_cast<double>(positions->count());
  const bool keeps = store != nullptr && method.exact && work > kWorthKeeping;
  const std::string key = keeps ? disk_key() : "";
  if (keeps)
    if (const auto kept =
            store->find(key, lags.size(), context.stop_token(), context.cache<ScanEnvironment>().client)) {
      const Array<cfloat> q = context.upload<cfloat>({kept->data(), lags});
      return std::make_shared<const numerics::ToeplitzOperator>(context, q.view());
    }
  numerics::MemoryShare(context.account()).grow_to(work_bytes(*positions));  // makes room for it
  const std::vector<double> coordinates =
      image_coordinates(context.threads(), *positions, voxel_ratio, 0, positions->count());
  const numerics::HostView<const double> k(coordinates.data(), {positions->count(), positions->dims});
  const numerics::HostView<const float> weights(positions->weights.data(), {positions->count()});
  Array<cfloat> q = context.allocate<cfloat>(lags);
  if (method.exact)
    numerics::point_spread(context, k, weights, image, method.basis, q.view(), method.precision);
  else
    numerics::point_spread_nufft(context, k, weights, image, method.basis,
                                 gridding ? *gridding : gridding_of(method, image, context.backend()), q.view());
  if (keeps) {
    const HostArray<cfloat> host = context.download<cfloat>(q.view());
    store->add(key, host.view(), context.stop_token(), context.cache<ScanEnvironment>().client);
  }
  return std::make_shared<const numerics::ToeplitzOperator>(context, q.view());
}

}  // namespace echotrain
