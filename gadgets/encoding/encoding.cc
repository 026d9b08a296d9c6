#include "gadgets/encoding/encoding.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "gadgets/numerics/core/extents.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/reduce/reductions.h"

namespace echotrain {
namespace {

/// The extents [z, y, x] as the solver sees them: without z for planes.
numerics::Shape without_flat_axis(const numerics::Shape& shape, bool flat) {
  return flat ? numerics::Shape{shape[1], shape[2]} : shape;
}

numerics::Shape of_coils(std::int64_t coils, const numerics::Shape& item) {
  numerics::Shape shape{coils};
  for (const auto extent : item) shape.push_back(extent);
  return shape;
}

/// The request for the k-space's acquired points; in whole rows where these came whole.
MaskedSamplingRequest request_of(const numerics::Context& context, const KSpace& kspace) {
  const SampledLines& lines = *kspace.lines;
  const numerics::Shape encoded{kspace.data.shape()[1], kspace.data.shape()[2], kspace.data.shape()[3]};
  const bool flat = encoded[0] == 1 && kspace.padded[0] == 1;
  MaskedSamplingRequest request;
  request.encoded = without_flat_axis(encoded, flat);
  request.padded = without_flat_axis(kspace.padded, flat);
  request.image = without_flat_axis(kspace.image, flat);
  const bool whole = lines.first_x <= 0 && lines.last_x >= encoded[2];
  request.mask.reserve(static_cast<std::size_t>(whole ? encoded[0] * encoded[1] : encoded.size()));
  for (std::int64_t z = 0; z < encoded[0]; ++z) {
    context.check_stop();
    for (std::int64_t y = 0; y < encoded[1]; ++y) {
      const bool came = lines.came[static_cast<std::size_t>(z * encoded[1] + y)] != 0;
      if (whole) {
        request.mask.push_back(came ? 1.0f : 0.0f);
      } else {
        for (std::int64_t x = 0; x < encoded[2]; ++x)
          request.mask.push_back(came && x >= lines.first_x && x < lines.last_x ? 1.0f : 0.0f);
      }
    }
  }
  return request;
}

}  // namespace

std::shared_ptr<const MaskedSampling> MaskedSamplingRequest::make(numerics::Context& context) const {
  numerics::Shape rows;
  for (std::size_t a = 0; a + 1 < encoded.rank(); ++a) rows.push_back(encoded[a]);
  const bool whole_rows = static_cast<std::int64_t>(mask.size()) == rows.size();
  auto made = std::make_shared<MaskedSampling>();
  made->sampling =
      numerics::MaskedFourier::make(context, {mask.data(), whole_rows ? rows : encoded}, encoded, padded, image);
  const double weight =
      static_cast<double>(padded.size()) / (static_cast<double>(encoded.size()) * static_cast<double>(encoded.size()));
  const numerics::Extents n = numerics::last_axes(encoded, static_cast<int>(encoded.rank())),
                          p = numerics::last_axes(padded, static_cast<int>(padded.rank()));
  // One weight for a row suffices if none of its samples lie outside the transform.
  const bool of_rows = whole_rows && p[2] >= n[2];
  const std::int64_t columns = of_rows ? 1 : n[2];
  numerics::MemoryShare(context.account())
      .grow_to(static_cast<std::uint64_t>(n[0] * n[1] * columns) * sizeof(float));  // makes room for it
  std::vector<float> weights(static_cast<std::size_t>(n[0] * n[1] * columns));
  const auto fits = [&](std::int64_t i, std::size_t a) { return numerics::MaskedFourier::fits(i, n[a], p[a]); };
  for (std::int64_t z = 0; z < n[0]; ++z) {
    context.check_stop();
    for (std::int64_t y = 0; y < n[1]; ++y) {
      if (!fits(z, 0) || !fits(y, 1)) continue;
      const std::int64_t row = z * n[1] + y;
      for (std::int64_t x = 0; x < columns; ++x) {
        if (!of_rows && !fits(x, 2)) continue;
        const float m = mask[static_cast<std::size_t>(whole_rows ? row : row * n[2] + x)];
        weights[static_cast<std::size_t>(row * columns + x)] = m * static_cast<float>(weight);
        made->weight += static_cast<double>(m) * weight * (of_rows ? static_cast<double>(n[2]) : 1.0);
      }
    }
  }
  made->weights = context.upload<float>({weights.data(), {static_cast<std::int64_t>(weights.size())}});
  return made;
}

Parameters<Encoding::Options> Encoding::parameters() { return {}; }

void Encoding::start(const protocol::Header& /*header*/, Scan& scan) { scan_ = &scan; }

void Encoding::process(KSpace&& kspace, const Emit<NormalEquations>& emit) {
  numerics::Context& compute = scan_->compute;
  const auto& n = kspace.data.shape();  // [coil, z, y, x]
  if (!kspace.lines)
    throw ClientError("encoding: the gadget before it does not say which lines of k-space were acquired");
  if (kspace.lines->count() > 0 && kspace.lines->first_x >= kspace.lines->last_x)
    throw ClientError("encoding: the lines of a frame have no samples in common");
  if (static_cast<std::int64_t>(kspace.lines->came.size()) != n[1] * n[2])
    throw ClientError("encoding: the list of acquired lines is for another matrix");
  const MaskedSamplingRequest request = request_of(compute, kspace);
  const auto found = [&] {
    try {
      return compute.resources().get<MaskedSamplingCache>().get(compute, request);
    } catch (const std::invalid_argument& error) {  // no transform can have these extents
      throw ClientError(std::string("encoding: ") + error.what());
    }
  }();
  scan_->numbers.plan_ms += found.made_ms;
  ++(found.reused ? scan_->numbers.operators_reused : scan_->numbers.operators_made);
  const MaskedSampling& made = *found.object;
  NormalEquations out;
  out.frame = kspace.frame;
  out.coils = n[0];
  out.right = compute.allocate<cfloat>({n[0], kspace.image[0], kspace.image[1], kspace.image[2]});
  made.sampling->adjoint(compute, kspace.data.view().reshaped(made.sampling->samples(n[0])),
                         out.right.view().reshaped(of_coils(n[0], request.image)));
  // Keeps the whole entry: the device still reads its mask and weights, and the cache sees that it is in use.
  out.matrix = std::shared_ptr<const numerics::NormalOperator>(found.object, made.sampling->normal().get());
  out.power = compute.zeros<double>({1});
  const std::int64_t weights = made.weights.size();
  for (std::int64_t coil = 0; coil < n[0]; ++coil)
    numerics::add_weighted_power(compute,
                                 kspace.data.view().slice(coil).reshaped({weights, n[1] * n[2] * n[3] / weights}),
                                 made.weights.view(), out.power.view());
  out.weight = made.weight;
  out.calibration = kspace.calibration;
  out.padded = kspace.padded;
  emit(std::move(out));
}

}  // namespace echotrain
