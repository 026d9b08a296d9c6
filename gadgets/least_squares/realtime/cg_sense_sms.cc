#include "gadgets/least_squares/realtime/cg_sense_sms.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "gadgets/least_squares/coil_maps_gadget.h"
#include "gadgets/numerics/core/layout/running_mean.h"
#include "gadgets/numerics/inverse/operators/map_products.h"
#include "gadgets/numerics/mri/coils/coil.h"
#include "gadgets/numerics/mri/coils/coil_maps.h"

namespace echotrain {
namespace {

numerics::Shape doubled_plane(const numerics::Shape& image) { return {2 * image[0], 2 * image[1]}; }

}  // namespace

Parameters<CgSenseSms::Options> CgSenseSms::parameters() {
  return add_cg_sense_parameters(
      sms_parameters<Options>(),
      "the largest value of the spectrum of F^H F of all readouts of the frame on the doubled grid",
      /*lines=*/false);
}

CgSenseSms::Workshop::Workshop(numerics::Context& compute, const Space& space, std::int64_t coil_count)
    : coils(coil_count),
      data(compute, space.of.image, space.of_data, coil_count),
      lags(compute, doubled_plane(space.of.image), space.of_lags, 1),
      all(compute, space.of.image, 1) {
  const std::int64_t m = space.of.sms.slices;
  for (std::int64_t n = 0; n < m; ++n) of_number.emplace_back(compute, space.of.image, coils);
  const numerics::Shape shape{m, coils, space.of.image[0], space.of.image[1]};
  for (Array<cfloat>* each : {&right, &apart, &seen, &returned}) *each = compute.allocate<cfloat>(shape);
  no_lags = compute.zeros<cfloat>(all.grid());
  std::vector<cfloat> back;
  for (std::int64_t slice = 0; slice < m; ++slice) {
    std::vector<cfloat> diagonal(static_cast<std::size_t>(m * m));
    for (std::int64_t n = 0; n < m; ++n) {
      const cfloat factor = space.of.sms.factor(slice, n);
      back.push_back(std::conj(factor));
      diagonal[static_cast<std::size_t>(n * m + n)] = factor;
    }
    phases.push_back(compute.upload<cfloat>({diagonal.data(), {m, m}}));
  }
  demodulation = compute.upload<cfloat>({back.data(), {m, m}});
}

CgSenseSms::Series::Series(Scan& scan, const Space& space, std::int64_t coils, const numerics::FixedCgOptions& options)
    : solver(scan.compute, {space.of.sms.slices, space.of.image[0], space.of.image[1]}, options),
      like(scan, SpikeRejection::kMostUnlikeSamples) {
  numerics::Context& compute = scan.compute;
  const std::int64_t m = space.of.sms.slices;
  const numerics::Shape one{coils, 1, space.of.image[0], space.of.image[1]};
  for (std::int64_t slice = 0; slice < m; ++slice) {
    mean.push_back(compute.zeros<cfloat>(one));
    maps.push_back(compute.allocate<cfloat>(one));
  }
  turned = compute.allocate<cfloat>({m, m, coils, space.of.image[0], space.of.image[1]});
}

void CgSenseSms::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  slices_.start(header, scan);
  for (std::size_t e = 0; e < header.encodings.size(); ++e) {
    Space space{.of = slices_.space(e), .of_data = {}, .of_lags = {}};
    try {
      const numerics::NufftLoad load{scan.compute.backend()};
      space.of_data = numerics::options_for_accuracy(options_.accuracy, space.of.image, load);
      space.of_lags = numerics::options_for_accuracy(options_.accuracy, doubled_plane(space.of.image), load);
    } catch (const std::invalid_argument& error) {
      throw ClientError(fmt::format("cg_sense_sms: {}", error.what()));
    }
    spaces_.push_back(std::move(space));
  }
}

void CgSenseSms::process(Readouts&& readouts, const Emit<CoilImages>& emit) {
  slices_.process(std::move(readouts), [&](const SmsFrame& open, const std::shared_ptr<const Frame>& frame) {
    reconstruct(open, frame, emit);
  });
}

CgSenseSms::Workshop& CgSenseSms::workshop_for(std::uint16_t encoding, std::int64_t coils) {
  if (const auto found = workshops_.find(encoding); found != workshops_.end()) {
    if (found->second.coils != coils)
      throw ClientError(
          fmt::format("the number of channels changes within a scan, from {} to {}", found->second.coils, coils));
    return found->second;
  }
  require_coils_for_maps(kName, coils);
  return workshops_.try_emplace(encoding, scan_->compute, spaces_.at(encoding), coils).first->second;
}

CgSenseSms::Series& CgSenseSms::series_of(const FrameKey& key, std::int64_t coils) {
  if (const auto found = series_.find(key); found != series_.end()) return found->second;
  const Space& space = spaces_.at(key.encoding);
  // The solver's scale is that of the mean over numbers, L over the number of slices.
  const auto m = static_cast<double>(space.of.sms.slices);
  const numerics::FixedCgOptions solver{.iterations = static_cast<int>(options_.iterations),
                                        .previous = m * options_.lambda,
                                        .size = m * options_.tikhonov};
  return series_.try_emplace(key, *scan_, space, coils, solver).first->second;
}

/// Makes F_n^H W d and F_n^H W F_n for each number n.
void CgSenseSms::make_equations(const SmsFrame& open, const Space& space, Workshop& workshop) {
  numerics::Context& compute = scan_->compute;
  const std::vector<SmsSamples> samples = slices_.sorted(open, space.of).of_number;
  std::int64_t n = 0;
  for (const SmsSamples& each : samples) {
    numerics::FrameToeplitz& matrix = workshop.of_number[static_cast<std::size_t>(n)];
    const auto right = workshop.right.view().slice(n);
    if (each.count > 0) {
      workshop.data.adjoint(compute, each.coordinates.cview(), each.data.cview(), each.weights.cview(), right);
      workshop.lags.lags(compute, each.coordinates.cview(), each.weights.cview(), matrix.lags());
    } else {
      compute.copy<cfloat>(compute.zeros<cfloat>(right.shape()).cview(), right);
      compute.copy<cfloat>(workshop.no_lags.cview(), matrix.lags());
    }
    if (n == 0)
      compute.copy<cfloat>(matrix.lags(), workshop.all.lags());
    else
      numerics::add_to_mean(compute, matrix.lags(), 1 / static_cast<float>(n + 1), workshop.all.lags());
    matrix.take(compute);
    ++n;
  }
  workshop.all.take(compute);
  ++scan_->numbers.operators_made;
}

/// Adds the images of each slice, with the remains of the others, to their means, unless the frame is unlike earlier
/// ones.
void CgSenseSms::add_to_mean(const Space& space, Workshop& workshop, Series& series) {
  numerics::Context& compute = scan_->compute;
  const std::int64_t m = space.of.sms.slices;
  compute.copy<cfloat>(workshop.right.cview(), workshop.apart.view());
  numerics::apply_coil_matrix(compute, workshop.demodulation.cview(),
                              workshop.apart.view().reshaped({1, m, workshop.coils * space.of.image.size()}));
  series.like.take(workshop.right.cview(), 1 / static_cast<double>(std::min(++series.frames, options_.average)));
  for (std::int64_t slice = 0; slice < m; ++slice) {
    Array<cfloat>& mean = series.mean[static_cast<std::size_t>(slice)];
    series.like.add_to_mean(workshop.apart.cview().slice(slice).reshaped(mean.shape()), mean.view());
  }
}

void CgSenseSms::make_maps(const Space& space, const Workshop& workshop, Series& series) {
  numerics::Context& compute = scan_->compute;
  const std::int64_t m = space.of.sms.slices;
  for (std::int64_t slice = 0; slice < m; ++slice) {
    const auto at = static_cast<std::size_t>(slice);
    adaptive_maps_of_middle(compute, middle_of_kspace(compute, series.mean[at], options_.calibration),
                            static_cast<int>(options_.block), 0, series.maps[at]);
    const auto turned = series.turned.view().slice(slice);
    for (std::int64_t n = 0; n < m; ++n)
      compute.copy<cfloat>(series.maps[at].cview().reshaped(turned.slice(n).shape()), turned.slice(n));
    numerics::apply_coil_matrix(compute, workshop.phases[at].cview(),
                                turned.reshaped({1, m, workshop.coils * space.of.image.size()}));
  }
}

void CgSenseSms::reconstruct(const SmsFrame& open, const std::shared_ptr<const Frame>& frame,
                             const Emit<CoilImages>& emit) {
  numerics::Context& compute = scan_->compute;
  FrameKey key = frame->key;
  key.repetition = key.phase = 0;
  const Space& space = spaces_.at(key.encoding);
  Workshop& workshop = workshop_for(key.encoding, open.coils());
  Series& series = series_of(key, open.coils());
  make_equations(open, space, workshop);
  add_to_mean(space, workshop, series);
  series.like.forget(series.solver);
  if (series.frames <= 2) make_maps(space, workshop, series);  // the first frame may have had no signal

  const std::int64_t m = space.of.sms.slices, ny = space.of.image[0], nx = space.of.image[1];
  const numerics::Shape of_coils{m * workshop.coils, ny, nx};
  const auto maps = series.turned.cview().reshaped({m * m * workshop.coils, ny, nx});
  numerics::gather_from_coils(compute, maps, workshop.right.cview().reshaped(of_coils), series.solver.right(), m);
  series.solver.solve(
      compute,
      [&](numerics::DeviceView<const cfloat> x, numerics::DeviceView<cfloat> y) {
        numerics::spread_to_coils(compute, maps, x, workshop.seen.view().reshaped(of_coils), m);
        for (std::int64_t n = 0; n < m; ++n)
          workshop.of_number[static_cast<std::size_t>(n)].apply(compute, workshop.seen.cview().slice(n),
                                                                workshop.returned.view().slice(n));
        numerics::gather_from_coils(compute, maps, workshop.returned.cview().reshaped(of_coils), y, m);
      },
      workshop.all.largest(), workshop.all.can_be_recorded());
  give(space, series, *frame, emit);
  if (series.frames > 2 && maps_are_due(series.frames, options_.average, options_.refresh))
    make_maps(space, workshop, series);
  series.like.tell();
}

void CgSenseSms::finish(End /*how*/, const Emit<CoilImages>& /*emit*/) {
  for (auto& [key, series] : series_) series.like.tell_at_end();
}

/// Emits each slice's image, with its number and its place.
void CgSenseSms::give(const Space& space, Series& series, const Frame& frame, const Emit<CoilImages>& emit) {
  numerics::Context& compute = scan_->compute;
  const std::int64_t m = space.of.sms.slices;
  const numerics::Shape one{1, 1, space.of.image[0], space.of.image[1]};
  for (std::int64_t slice = 0; slice < m; ++slice) {
    Array<cfloat> out = compute.allocate<cfloat>(one);
    compute.copy<cfloat>(series.solver.image().slice(slice).reshaped(one), out.view());
    emit({slices_.frame_of(frame, slice), std::move(out)});
  }
}

}  // namespace echotrain
