#include "gadgets/readouts/partition_fft.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/transforms/fft/fft.h"

namespace echotrain {
namespace {
constexpr double kToleranceCyclesPerFov = 0.01;
}

Parameters<PartitionFft::Options> PartitionFft::parameters() {
  return Parameters<Options>()
      .choice("third_component", &Options::third_component, {"z", "weight"},
              "what the third of three trajectory components is: z, which the encoding steps say already, or the "
              "density weight")
      .choice("direction", &Options::direction, {"inverse", "forward"},
              "sign of the exponent: the same as in the pipeline's fft");
}

void PartitionFft::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  for (const auto& encoding : header.encodings) {
    if (encoding.trajectory == protocol::Trajectory::cartesian)
      throw ClientError(
          "this pipeline takes stacks of stars or spirals, but the header's trajectory is 'cartesian'; use "
          "cartesian_2d, which takes 3D scans too");
    const auto& matrix = encoding.encoded.matrix;
    if (matrix[2] < 2)
      throw ClientError(
          fmt::format("this pipeline takes stacks of stars or spirals, but the header's encoded matrix is {} x {} x "
                      "{}: no partitions along z; use radial_2d or spiral_2d",
                      matrix[0], matrix[1], matrix[2]));
    const ImageGeometry geometry = image_geometry(encoding);
    const auto& limit = encoding.kspace_encoding_step_2;
    Space space;
    space.partitions = matrix[2];
    space.padded = geometry.padded[0];
    space.planes = geometry.image[0];
    space.offset = row_offset(limit, space.partitions, "kspace_encoding_step_2", scan);
    space.first = limit ? limit->minimum + space.offset : 0;
    space.last = limit ? limit->maximum + space.offset : space.partitions - 1;
    if (encoding.average) space.averages = encoding.average->maximum - encoding.average->minimum + 1;
    const auto unit = to_cycles_per_pixel(encoding, scan.trajectory_unit);
    for (std::size_t a = 0; a < 2; ++a) space.tolerance[a] = kToleranceCyclesPerFov / matrix[a] / unit[a];
    spaces_.push_back(space);
  }
}

void PartitionFft::process(Readouts&& readouts, const Emit<PlaneReadouts>& emit) {
  if (readouts.kind != protocol::ReadoutKind::imaging) {
    emit({std::move(readouts), 1});
    return;
  }
  const Space& space = spaces_.at(readouts.frame->key.encoding);
  Open& open = open_[readouts.frame->id];
  std::vector<Spoke> whole;
  if (!readouts.heads.empty()) add(open, space, readouts, whole);
  if (readouts.last) take_rest(open, space, whole);
  if (whole.empty() && !readouts.last) return;

  PlaneReadouts out;
  if (!whole.empty()) out = give(whole, space);
  out.planes = space.planes;
  const auto frame = std::make_shared<Frame>(*readouts.frame);
  adapt(*frame, space);
  if (readouts.last) frame->notes["missing_partitions"] = std::to_string(open.missing);
  out.frame = frame;
  out.first = !std::exchange(open.started, true);
  out.last = readouts.last;
  if (out.last) open_.erase(frame->id);
  emit(std::move(out));
}

/// Turns the frame's counts of readouts into counts of spokes. A spoke is whole only when its last partition has come,
/// so no window moves by spokes: the gadgets after this one get such frames whole.
void PartitionFft::adapt(Frame& frame, const Space& space) {
  const bool even = frame.expected_readouts % space.announced() == 0;
  frame.expected_readouts = even ? frame.expected_readouts / space.announced() : 0;
  frame.window = 0;
  frame.window_begin = 0;
}

/// The number of a trajectory's components that are kept: x, y and the weight if there is one.
std::int64_t PartitionFft::components(std::int64_t of_data) const {
  if (of_data == 0 || of_data == 2) return of_data;
  if (of_data == 3) return options_.third_component == "weight" ? 3 : 2;
  throw ClientError(
      fmt::format("readouts come with {} trajectory components, but a stack has two or three: x y, x y z "
                  "or x y weight",
                  of_data));
}

void PartitionFft::add(Open& open, const Space& space, const Readouts& readouts, std::vector<Spoke>& whole) {
  const auto& shape = readouts.data.shape();
  const std::size_t count = readouts.heads.size();
  const auto step_1 = [&](std::size_t i) -> std::uint16_t { return readouts.heads[i].idx.kspace_encode_step_1; };
  std::vector<std::int32_t> rows;
  for (std::size_t i = 0; i < count;) {
    // Consecutive readouts of one spoke are placed together.
    const std::size_t begin = i;
    const std::uint16_t step = step_1(begin);
    Spoke* spoke = nullptr;
    rows.clear();
    do {
      const std::int64_t row = readouts.heads[i].idx.kspace_encode_step_2 + space.offset;
      const bool inside = row >= 0 && row < space.partitions;
      if (!inside) scan_->warn("some partitions are outside the encoded matrix; their readouts are left out");
      rows.push_back(inside ? static_cast<std::int32_t>(row) : -1);
      if (inside) {
        auto [it, fresh] = open.waiting.try_emplace(step);
        spoke = &it->second;
        if (fresh)
          *spoke = make_spoke(open.spokes++, space, readouts, i);
        else
          check_trajectory(*spoke, space, readouts, i);
        const bool announced = row >= space.first && row <= space.last;
        if (++spoke->hits[static_cast<std::size_t>(row)] <= space.averages && announced) ++spoke->arrived;
      }
      ++i;
    } while (i < count && step_1(i) == step && (spoke == nullptr || spoke->arrived < space.announced()));
    if (spoke == nullptr) continue;

    const auto n = static_cast<std::int64_t>(i - begin);
    const auto first = static_cast<std::int64_t>(begin) * shape[1] * shape[2];
    const auto data = readouts.data.view().part(first, {n, shape[1], shape[2]});
    numerics::add_lines(scan_->compute, data, {rows.data(), {n}}, {0, shape[2], 0}, spoke->data.view());
    if (spoke->arrived == space.announced()) {
      whole.push_back(std::move(*spoke));
      open.waiting.erase(step);
      open.given.set(step);
    }
  }
}

PartitionFft::Spoke PartitionFft::make_spoke(std::int64_t number, const Space& space, const Readouts& readouts,
                                             std::size_t index) {
  const auto& shape = readouts.data.shape();
  const std::int64_t samples = shape[2];
  Spoke spoke;
  spoke.number = number;
  spoke.head = readouts.heads[index];
  spoke.head.idx.kspace_encode_step_2 = 0;
  spoke.data = scan_->compute.zeros<cfloat>({shape[1], space.partitions, samples});
  spoke.hits.assign(static_cast<std::size_t>(space.partitions), 0);
  const std::int64_t stride = readouts.trajectory ? readouts.trajectory.shape()[2] : 0;
  const std::int64_t kept = components(stride);
  if (kept == 0) return spoke;
  spoke.trajectory = scan_->compute.allocate_host<float>({samples, kept});
  const float* from = readouts.trajectory.data() + static_cast<std::int64_t>(index) * samples * stride;
  float* to = spoke.trajectory.data();
  for (std::int64_t s = 0; s < samples; ++s, from += stride, to += kept) {
    to[0] = from[0];
    to[1] = from[1];
    if (kept == 3) to[2] = from[2];
  }
  return spoke;
}

void PartitionFft::check_trajectory(const Spoke& spoke, const Space& space, const Readouts& readouts,
                                    std::size_t index) const {
  if (!spoke.trajectory) return;
  const std::int64_t samples = spoke.trajectory.shape()[0], kept = spoke.trajectory.shape()[1];
  const std::int64_t stride = readouts.trajectory.shape()[2];
  const float* mine = spoke.trajectory.data();
  const float* other = readouts.trajectory.data() + static_cast<std::int64_t>(index) * samples * stride;
  for (std::int64_t s = 0; s < samples; ++s, mine += kept, other += stride)
    for (std::size_t a = 0; a < 2; ++a)
      if (!(std::abs(static_cast<double>(mine[a]) - other[a]) <= space.tolerance[a]))
        throw ClientError(fmt::format(
            "the partitions of spoke {} differ in the plane: sample {} is at {} = {:.6g} in one and at {:.6g} in "
            "another. partition_fft takes stacks whose partitions share their trajectory; a rotated stack needs 3D "
            "gridding (as in kooshball_3d) of trajectories x y z, with weights that suit it (from_data)",
            +spoke.head.idx.kspace_encode_step_1, s, "xy"[a], mine[a], other[a]));
}

/// Takes, at the end of a frame, the incomplete spokes, in the order in which they began.
void PartitionFft::take_rest(Open& open, const Space& space, std::vector<Spoke>& whole) {
  const auto begin = static_cast<std::ptrdiff_t>(whole.size());
  for (auto& [step, spoke] : open.waiting) {
    if (open.given.test(step)) {
      scan_->warn(
          "some partitions of a spoke came again after it was whole, without an average limit in the header; they are "
          "left out");
      continue;
    }
    for (std::int64_t row = space.first; row <= space.last; ++row)
      if (spoke.hits[static_cast<std::size_t>(row)] == 0) ++open.missing;
    whole.push_back(std::move(spoke));
  }
  open.waiting.clear();
  std::sort(whole.begin() + begin, whole.end(), [](const Spoke& a, const Spoke& b) { return a.number < b.number; });
}

/// Transforms one spoke's partitions to planes, [coil * planes, sample]. Each spoke is transformed separately, so its
/// bits do not depend on the batches.
void PartitionFft::transform(Spoke& spoke, const Space& space, numerics::DeviceView<cfloat> to) {
  numerics::Context& compute = scan_->compute;
  const std::int64_t coils = spoke.data.shape()[0], samples = spoke.data.shape()[2];
  if (std::any_of(spoke.hits.begin(), spoke.hits.end(), [](std::int32_t n) { return n > 1; })) {
    std::vector<float> factors;
    for (const std::int32_t n : spoke.hits) factors.push_back(1.0f / static_cast<float>(std::max(n, 1)));
    numerics::scale_lines(compute, {factors.data(), {space.partitions}}, spoke.data.view());
  }
  // to_sample_major exchanges the last two axes: z becomes contiguous for the transform, and the sample after it.
  Array<cfloat> lines = compute.allocate<cfloat>({coils * samples, space.partitions});
  numerics::to_sample_major(compute, spoke.data.view(), lines.view(), 0);
  Array<cfloat> planes = compute.allocate<cfloat>({coils * samples, space.planes});
  const auto direction = options_.direction == "forward" ? numerics::Direction::forward : numerics::Direction::inverse;
  numerics::centered_fft(compute, lines.view(), planes.view(), {space.padded}, 1, direction,
                         1.0f / static_cast<float>(space.partitions));
  numerics::to_sample_major(compute, planes.view().reshaped({coils, samples, space.planes}), to, 0);
}

PlaneReadouts PartitionFft::give(std::vector<Spoke>& spokes, const Space& space) {
  const auto count = static_cast<std::int64_t>(spokes.size());
  const std::int64_t coils = spokes[0].data.shape()[0], samples = spokes[0].data.shape()[2];
  PlaneReadouts out;
  out.data = scan_->compute.allocate<cfloat>({count, coils * space.planes, samples});
  const std::int64_t kept = spokes[0].trajectory ? spokes[0].trajectory.shape()[1] : 0;
  if (kept > 0) out.trajectory = scan_->compute.allocate_host<float>({count, samples, kept});
  for (std::int64_t i = 0; i < count; ++i) {
    Spoke spoke = std::move(spokes[static_cast<std::size_t>(i)]);
    out.heads.push_back(spoke.head);
    transform(spoke, space, out.data.view().slice(i));
    if (kept > 0) std::copy_n(spoke.trajectory.data(), samples * kept, out.trajectory.data() + i * samples * kept);
  }
  return out;
}

}  // namespace echotrain
