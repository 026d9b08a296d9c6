#include "gadgets/least_squares/realtime/cg_sense_sms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <utility>

#include "gadgets/least_squares/coil_maps.h"
#include "gadgets/numerics/coils/coil.h"
#include "gadgets/numerics/coils/coil_maps.h"
#include "gadgets/numerics/layout/running_mean.h"
#include "gadgets/numerics/operators/map_products.h"
#include "protocol/data/epi_description.h"

namespace echotrain {
namespace {

constexpr std::int64_t kMostSlices = 16;

numerics::Shape doubled_plane(const numerics::Shape& image) { return {2 * image[0], 2 * image[1]}; }

/// exp(i phi) of slice m in readouts of number n.
cfloat phase_factor(const SmsEncoding& sms, std::int64_t m, std::int64_t n) {
  const double turns = static_cast<double>(m * n % sms.slices) / static_cast<double>(sms.slices);
  return cfloat(std::polar(1.0, (sms.negative ? -2 : 2) * std::numbers::pi * turns));
}

}  // namespace

Parameters<CgSenseSms::Options> CgSenseSms::parameters() {
  return Parameters<Options>()
      .integer("slices", &Options::slices, 0, kMostSlices,
               "how many slices each excitation excites; 0: what the header's multiband says")
      .choice("number", &Options::number, {"kspace_encode_step_2", "kspace_encode_step_1"},
              "the counter that numbers the phases, modulo `slices`: slice m has the phase 2 pi m n / slices in "
              "readouts of number n. kspace_encode_step_2: the readouts of an angle are numbered. "
              "kspace_encode_step_1: the phases turn from spoke to spoke")
      .choice("direction", &Options::direction, {"positive", "negative"},
              "sign of these phases; of three slices and more, the other one gives the slices in another order")
      .choice("weights", &Options::weights, {"ramp", "from_data"},
              "density weights. ramp: analytic, of each readout by itself (radial, spiral). from_data: the "
              "trajectory's third component")
      .number("distance", &Options::distance, 0, 1000,
              "from the centre of a slice to that of the next which is excited with it; 0: the header's field of view "
              "along z over its planes")
      .unit("mm")
      .integer("iterations", &Options::iterations, 1, numerics::FixedCgOptions::kMostIterations,
               "steps of each frame, whatever the residual is")
      .number("lambda", &Options::lambda, 0, 100,
              "weight of the difference to the frame before, relative to the largest value of the spectrum of F^H F of "
              "all readouts of the frame on the doubled grid")
      .number("tikhonov", &Options::tikhonov, 0, 100, "weight of the images' own size, likewise")
      .number("accuracy", &Options::accuracy, 1e-6, 0.1, "relative RMS error of F^H d and F^H F")
      .integer("average", &Options::average, 1, 1000,
               "coil maps come from the mean of about so many frames; a frame's share then falls by 1 / average with "
               "each frame after it")
      .unit("frames")
      .integer("refresh", &Options::refresh, 0, 1000000,
               "the maps are made again after so many frames, and after the first 1, 2, 4, ... of `average`; 0: only "
               "after these")
      .unit("frames")
      .integer("calibration", &Options::calibration, 8, 256,
               "extent of the middle of k-space that coil maps are made from, per axis")
      .unit("samples")
      .integer("block", &Options::block, 1, numerics::kMostBlock, "extent of the neighbourhood of coil maps (Walsh)")
      .unit("voxels");
}

CgSenseSms::Workshop::Workshop(numerics::Context& compute, const Space& space, std::int64_t coil_count)
    : coils(coil_count),
      data(compute, space.image, space.of_data, coil_count),
      lags(compute, doubled_plane(space.image), space.of_lags, 1),
      all(compute, space.image, 1) {
  const std::int64_t m = space.sms.slices;
  for (std::int64_t n = 0; n < m; ++n) of_number.emplace_back(compute, space.image, coils);
  const numerics::Shape shape{m, coils, space.image[0], space.image[1]};
  for (Array<cfloat>* each : {&right, &apart, &seen, &returned}) *each = compute.allocate<cfloat>(shape);
  no_lags = compute.zeros<cfloat>(all.grid());
  std::vector<cfloat> back;
  for (std::int64_t slice = 0; slice < m; ++slice) {
    std::vector<cfloat> diagonal(static_cast<std::size_t>(m * m));
    for (std::int64_t n = 0; n < m; ++n) {
      const cfloat factor = phase_factor(space.sms, slice, n);
      back.push_back(std::conj(factor));
      diagonal[static_cast<std::size_t>(n * m + n)] = factor;
    }
    phases.push_back(compute.upload<cfloat>({diagonal.data(), {m, m}}));
  }
  demodulation = compute.upload<cfloat>({back.data(), {m, m}});
}

CgSenseSms::Place::Place(numerics::Context& compute, const Space& space, std::int64_t coils,
                         const numerics::FixedCgOptions& options)
    : solver(compute, {space.sms.slices, space.image[0], space.image[1]}, options) {
  const std::int64_t m = space.sms.slices;
  const numerics::Shape one{coils, 1, space.image[0], space.image[1]};
  for (std::int64_t slice = 0; slice < m; ++slice) {
    mean.push_back(compute.zeros<cfloat>(one));
    maps.push_back(compute.allocate<cfloat>(one));
  }
  turned = compute.allocate<cfloat>({m, m, coils, space.image[0], space.image[1]});
}

void CgSenseSms::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  for (std::size_t e = 0; e < header.encodings.size(); ++e) add_space(header, e);
}

void CgSenseSms::add_space(const protocol::Header& header, std::size_t e) {
  const protocol::Encoding& encoding = header.encodings[e];
  if (encoding.trajectory == protocol::Trajectory::cartesian || encoding.trajectory == protocol::Trajectory::epi)
    throw ClientError(
        "cg_sense_sms: it takes radial and other non-Cartesian readouts, but the header's trajectory is 'cartesian' or "
        "'epi'; for EPI there is slice_grappa");
  const ImageGeometry geometry = image_geometry(encoding);
  Space space;
  space.sms.slices = options_.slices;
  if (options_.slices == 0) {
    const auto multiband = protocol::multiband(header.xml, e);
    if (!multiband)
      throw ClientError(
          "cg_sense_sms: the header has no multiband, which says how many slices are excited at once; say it by "
          "`slices`");
    space.sms.slices = multiband->factor;
  }
  const std::int64_t m = space.sms.slices;
  if (m < 1 || m > kMostSlices)
    throw ClientError(fmt::format("cg_sense_sms: at most {} slices are told apart, not {}", kMostSlices, m));
  const std::int64_t planes = encoding.encoded.matrix[2];
  if (planes != 1 && planes != m)
    throw ClientError(fmt::format(
        "cg_sense_sms: the header's encoded matrix has {} planes, but {} slices are excited at once; it has to have "
        "one plane, or as many as slices",
        planes, m));
  space.sms.by_spoke = options_.number == "kspace_encode_step_1";
  space.sms.negative = options_.direction == "negative";
  space.samples.from_data = options_.weights == "from_data";
  const auto unit = to_cycles_per_pixel(encoding, scan_->trajectory_unit);
  for (std::size_t a = 0; a < 2; ++a) {
    space.samples.to_cycles_per_pixel[a] = unit[a];
    space.samples.voxel_ratio[a] = geometry.voxel_ratio[a];
  }
  space.image = {geometry.image[1], geometry.image[2]};
  constexpr std::int64_t kLongest = 2048;
  for (std::size_t a = 0; a < 2; ++a)
    if (space.image[a] > kLongest)
      throw ClientError(
          fmt::format("cg_sense_sms: an image has up to {} voxels an axis, not {}", kLongest, space.image[a]));
  try {
    space.of_data = numerics::options_for_accuracy(options_.accuracy, space.image);
    space.of_lags = numerics::options_for_accuracy(options_.accuracy, doubled_plane(space.image));
  } catch (const std::invalid_argument& error) {
    throw ClientError(fmt::format("cg_sense_sms: {}", error.what()));
  }
  const std::int64_t numbers = encoding.slice ? encoding.slice->maximum + 1 : 1;
  space.sets = numbers % m == 0 ? numbers / m : numbers;
  constexpr std::int64_t kMostNumbers = 65536;  // of 16 bits
  if (space.sets * m > kMostNumbers)
    throw ClientError(fmt::format(
        "cg_sense_sms: the header's limits announce slices 0 to {}, which is no multiple of the {} that are excited at "
        "once; {} sets of {} slices are more than can be numbered",
        numbers - 1, m, space.sets, m));
  space.distance_mm = options_.distance > 0
                          ? options_.distance
                          : static_cast<double>(encoding.encoded.fov_mm[2]) / static_cast<double>(planes);
  space.fov_mm = {static_cast<float>(encoding.recon.fov_mm[0]), static_cast<float>(encoding.recon.fov_mm[1]),
                  static_cast<float>(space.distance_mm)};
  most_ = std::max(most_, m);
  spaces_.push_back(std::move(space));
}

CgSenseSms::Workshop& CgSenseSms::workshop_for(std::uint16_t encoding, std::int64_t coils) {
  if (const auto found = workshops_.find(encoding); found != workshops_.end()) {
    if (found->second.coils != coils)
      throw ClientError(
          fmt::format("the number of channels changes within a scan, from {} to {}", found->second.coils, coils));
    return found->second;
  }
  constexpr std::int64_t kMostCoils = 128;  // Walsh's correlations grow with the square of the coils
  if (coils > kMostCoils)
    throw ClientError(fmt::format("cg_sense_sms: it is for up to {} channels, not {}; put coil_compression before it",
                                  kMostCoils, coils));
  return workshops_.try_emplace(encoding, scan_->compute, spaces_.at(encoding), coils).first->second;
}

CgSenseSms::Place& CgSenseSms::place_for(const FrameKey& key, std::int64_t coils) {
  if (const auto found = places_.find(key); found != places_.end()) return found->second;
  const Space& space = spaces_.at(key.encoding);
  // The scale that the solver gets is that of the mean over numbers, L over the number of slices.
  const auto m = static_cast<double>(space.sms.slices);
  const numerics::FixedCgOptions solver{.iterations = static_cast<int>(options_.iterations),
                                        .previous = m * options_.lambda,
                                        .size = m * options_.tikhonov};
  return places_.try_emplace(key, scan_->compute, space, coils, solver).first->second;
}

void CgSenseSms::process(Readouts&& readouts, const Emit<CoilImages>& emit) {
  note_unused_calibration(readouts, *scan_);
  if (readouts.kind != protocol::ReadoutKind::imaging) return;
  const std::shared_ptr<const Frame> frame = readouts.frame;
  if (readouts.first) open_.erase(frame->id);
  SmsFrame& open = open_.try_emplace(frame->id, scan_->compute).first->second;
  const bool last = readouts.last;
  const Space& space = spaces_.at(frame->key.encoding);
  if (frame->key.slice >= space.sets)  // its images would have the numbers of another set's
    throw ClientError(fmt::format(
        "cg_sense_sms: readouts have the slice number {}, but the header's limits announce {} set(s) of {} slices that "
        "are excited at once, numbered from 0; give the limits of all slices that are to be made",
        frame->key.slice, space.sets, space.sms.slices));
  open.add(std::move(readouts), space.sms, space.samples.from_data, scan_->compute);
  if (!last) return;
  if (!open.empty()) reconstruct(open, frame, emit);
  open_.erase(frame->id);
}

/// Refuses a frame that no image can be made of, and warns of what images suffer from.
void CgSenseSms::judge(const SmsFrame& open, const SmsTally& tally, const Space& space) {
  if (2 * tally.beyond > tally.samples)
    throw ClientError(fmt::format(
        "cg_sense_sms: {} of {} samples lie beyond 0.5 cycles/pixel; the trajectory's unit is likely another: set the "
        "pipeline's trajectory_unit",
        tally.beyond, tally.samples));
  if (tally.samples > 0 && !(std::abs(tally.weight) > 0))
    throw ClientError(
        "cg_sense_sms: the density weights sum to nothing: all samples lie at one point, or the weights sent with the "
        "data are zero");
  if (tally.beyond > 0 && !std::exchange(warned_of_beyond_, true))
    scan_->warn(fmt::format("cg_sense_sms: {} of {} samples of a frame lie beyond 0.5 cycles/pixel and take no part",
                            tally.beyond, tally.samples));
  const std::int64_t m = space.sms.slices;
  if (tally.numbers < m && !std::exchange(warned_of_missing_, true))
    scan_->warn(fmt::format(
        "cg_sense_sms: a frame has readouts of {} of the {} numbers of phases ({}, modulo {}); slices that lack a "
        "number are told apart by coils, and not well",
        tally.numbers, m, options_.number, m));
  if (!space.sms.by_spoke && open.largest_counter() >= m && !std::exchange(warned_of_counter_, true))
    scan_->warn(fmt::format(
        "cg_sense_sms: readouts have a kspace_encode_step_2 of up to {}, but {} slices have the numbers 0 to {}; it is "
        "taken modulo {}, and images are wrong if more slices were excited at once",
        open.largest_counter(), m, m - 1, m));
}

/// F_n^H W d and F_n^H W F_n of each number.
void CgSenseSms::make_equations(const SmsFrame& open, const Space& space, Workshop& workshop) {
  numerics::Context& compute = scan_->compute;
  SmsTally tally;
  const std::vector<SmsSamples> samples = open.sorted(space.samples, space.sms.slices, compute, tally);
  judge(open, tally, space);
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

/// The images of each slice, with what is left of the others, are added to their means.
void CgSenseSms::add_to_mean(const Space& space, Workshop& workshop, Place& place) {
  numerics::Context& compute = scan_->compute;
  const std::int64_t m = space.sms.slices;
  compute.copy<cfloat>(workshop.right.cview(), workshop.apart.view());
  numerics::apply_coil_matrix(compute, workshop.demodulation.cview(),
                              workshop.apart.view().reshaped({1, m, workshop.coils * space.image.size()}));
  const float share = 1 / static_cast<float>(std::min(++place.frames, options_.average));
  for (std::int64_t slice = 0; slice < m; ++slice) {
    Array<cfloat>& mean = place.mean[static_cast<std::size_t>(slice)];
    numerics::add_to_mean(compute, workshop.apart.cview().slice(slice).reshaped(mean.shape()), share, mean.view());
  }
}

void CgSenseSms::make_maps(const Space& space, const Workshop& workshop, Place& place) {
  numerics::Context& compute = scan_->compute;
  const std::int64_t m = space.sms.slices;
  for (std::int64_t slice = 0; slice < m; ++slice) {
    const auto at = static_cast<std::size_t>(slice);
    adaptive_maps_of_middle(compute, middle_of_kspace(compute, place.mean[at], options_.calibration),
                            static_cast<int>(options_.block), 0, place.maps[at]);
    const auto turned = place.turned.view().slice(slice);
    for (std::int64_t n = 0; n < m; ++n)
      compute.copy<cfloat>(place.maps[at].cview().reshaped(turned.slice(n).shape()), turned.slice(n));
    numerics::apply_coil_matrix(compute, workshop.phases[at].cview(),
                                turned.reshaped({1, m, workshop.coils * space.image.size()}));
  }
}

void CgSenseSms::reconstruct(const SmsFrame& open, const std::shared_ptr<const Frame>& frame,
                             const Emit<CoilImages>& emit) {
  numerics::Context& compute = scan_->compute;
  FrameKey key = frame->key;
  key.repetition = key.phase = 0;
  const Space& space = spaces_.at(key.encoding);
  Workshop& workshop = workshop_for(key.encoding, open.coils());
  Place& place = place_for(key, open.coils());
  make_equations(open, space, workshop);
  add_to_mean(space, workshop, place);
  if (place.frames <= 2) make_maps(space, workshop, place);  // the first frame may have held nothing

  const std::int64_t m = space.sms.slices, ny = space.image[0], nx = space.image[1];
  const numerics::Shape of_coils{m * workshop.coils, ny, nx};
  const auto maps = place.turned.cview().reshaped({m * m * workshop.coils, ny, nx});
  numerics::gather_from_coils(compute, maps, workshop.right.cview().reshaped(of_coils), place.solver.right(), m);
  place.solver.solve(
      compute,
      [&](numerics::DeviceView<const cfloat> x, numerics::DeviceView<cfloat> y) {
        numerics::spread_to_coils(compute, maps, x, workshop.seen.view().reshaped(of_coils), m);
        for (std::int64_t n = 0; n < m; ++n)
          workshop.of_number[static_cast<std::size_t>(n)].apply(compute, workshop.seen.cview().slice(n),
                                                                workshop.returned.view().slice(n));
        numerics::gather_from_coils(compute, maps, workshop.returned.cview().reshaped(of_coils), y, m);
      },
      workshop.all.largest(), workshop.all.can_be_recorded());
  give(space, place, *frame, emit);
  if (place.frames > 2 && maps_are_due(place.frames, options_.average, options_.refresh))
    make_maps(space, workshop, place);
}

/// Each slice's image, with its number and its place.
void CgSenseSms::give(const Space& space, Place& place, const Frame& frame, const Emit<CoilImages>& emit) {
  numerics::Context& compute = scan_->compute;
  const std::int64_t m = space.sms.slices;
  const numerics::Shape one{1, 1, space.image[0], space.image[1]};
  for (std::int64_t slice = 0; slice < m; ++slice) {
    Frame made = frame;
    made.id = frame.id * static_cast<std::uint64_t>(most_) + static_cast<std::uint64_t>(slice);
    made.key.slice = static_cast<std::uint16_t>(frame.key.slice + slice * space.sets);
    made.reference.idx.slice = made.key.slice;
    const double away = (static_cast<double>(slice) - static_cast<double>(m - 1) / 2) * space.distance_mm;
    for (int a = 0; a < 3; ++a)
      made.reference.position[a] += static_cast<float>(away * static_cast<double>(frame.reference.slice_dir[a]));
    made.fov_mm = space.fov_mm;
    made.notes["multiband"] = std::to_string(m);
    Array<cfloat> out = compute.allocate<cfloat>(one);
    compute.copy<cfloat>(place.solver.image().slice(slice).reshaped(one), out.view());
    emit({std::make_shared<const Frame>(std::move(made)), std::move(out)});
  }
}

}  // namespace echotrain
