#include "gadgets/images/stack_slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace echotrain {
namespace {

constexpr double kParallel = 0.9999;  // cosine of the largest angle between slices: 0.8 degrees
constexpr double kEvenly = 0.01;      // largest deviation of a distance from the mean distance, as a share of the mean
constexpr double kSamePlaceMm = 1e-4;

Vector normal_of(const CoilImages& slice) { return slice_direction(slice.frame->reference); }

double along(const Vector& direction, const CoilImages& slice) {
  return dot(direction, position_of(slice.frame->reference));
}

long number_in(const std::map<std::string, std::string>& notes, const std::string& name) {
  long value = 0;
  if (const auto it = notes.find(name); it != notes.end())
    std::from_chars(it->second.data(), it->second.data() + it->second.size(), value);
  return value;
}

}  // namespace

Parameters<StackSlices::Options> StackSlices::parameters() {
  return Parameters<Options>().integer("slices", &Options::slices, 0, 4096,
                                       "slices of a volume; 0: as many as the header announces");
}

void StackSlices::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  fields_of_view_ = FieldsOfView(header);
  for (const auto& encoding : header.encodings)
    announced_.push_back(
        encoding.slice ? static_cast<std::size_t>(encoding.slice->maximum - encoding.slice->minimum) + 1 : 0);
}

/// The number of slices of a volume; 0: not known.
std::size_t StackSlices::slices_of(const Frame& frame) const {
  if (options_.slices > 0) return static_cast<std::size_t>(options_.slices);
  const std::size_t count = frame.key.encoding < announced_.size() ? announced_[frame.key.encoding] : 0;
  return frame.source && count == 1 ? 0 : count;
}

void StackSlices::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  FrameKey key = images.frame->key;
  const std::size_t announced = slices_of(*images.frame);
  if (announced == 1 || images.data.shape()[1] > 1) {
    emit(std::move(images));
    return;
  }
  const std::uint16_t slice = std::exchange(key.slice, 0);
  if (const auto it = open_.find(key); it != open_.end() && it->second.contains(slice)) {
    give(it->second, emit);  // the sender does not count repetitions and has begun the next one
    open_.erase(it);
  }
  Slices& slices = open_[key];
  slices.emplace(slice, std::move(images));
  if (slices.size() != announced) return;
  give(slices, emit);
  open_.erase(key);
}

void StackSlices::finish(End how, const Emit<CoilImages>& emit) {
  if (how == End::complete)
    for (const auto& [key, slices] : open_) give(slices, emit);
  open_.clear();
}

void StackSlices::give(const Slices& slices, const Emit<CoilImages>& emit) {
  std::vector<const CoilImages*> sorted;
  for (const auto& [number, slice] : slices) sorted.push_back(&slice);
  const Vector normal = normal_of(*sorted.front());
  const bool directed = std::abs(dot(normal, normal) - 1) < 1e-3;
  const auto fits = [&](const CoilImages* slice) {
    return slice->data.shape() == sorted.front()->data.shape() &&
           (!directed || dot(normal, normal_of(*slice)) >= kParallel);
  };
  if (!std::all_of(sorted.begin(), sorted.end(), fits)) {
    scan_->warn("the scan's slices are not parallel, or differ in size; they stay single images");
    for (const CoilImages* slice : sorted) emit(CoilImages(*slice));
    return;
  }
  double spacing = fields_of_view_.of(*sorted.front()->frame)[2];
  if (directed && sorted.size() > 1) {
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](const auto* a, const auto* b) { return along(normal, *a) < along(normal, *b); });
    const double extent = along(normal, *sorted.back()) - along(normal, *sorted.front());
    const double mean = extent / static_cast<double>(sorted.size() - 1);
    if (extent > kSamePlaceMm) {
      spacing = mean;
      for (std::size_t i = 1; i < sorted.size(); ++i)
        if (std::abs(along(normal, *sorted[i]) - along(normal, *sorted[i - 1]) - mean) > kEvenly * mean)
          scan_->warn("the scan's slices are not evenly spaced; their volume's voxels have the mean distance");
    }
  }
  emit(stack(sorted, spacing));
}

CoilImages StackSlices::stack(const std::vector<const CoilImages*>& slices, double spacing_mm) {
  const auto by_time = [](const CoilImages* a, const CoilImages* b) { return a->frame->id < b->frame->id; };
  const CoilImages& first = **std::min_element(slices.begin(), slices.end(), by_time);
  CoilImages out;
  const auto frame = std::make_shared<Frame>(*first.frame);
  const auto n = static_cast<std::int64_t>(slices.size());
  const protocol::AcquisitionHeader& middle = slices[slices.size() / 2]->frame->reference;
  for (std::size_t a = 0; a < 3; ++a) frame->reference.position[a] = middle.position[a];
  frame->key.slice = 0;
  frame->reference.idx.slice = 0;
  frame->fov_mm = fields_of_view_.of(*first.frame);
  (*frame->fov_mm)[2] = static_cast<float>(spacing_mm * static_cast<double>(n));
  frame->readouts = 0;
  long missing_lines = 0;
  for (const CoilImages* slice : slices) {
    frame->readouts += slice->frame->readouts;
    missing_lines += number_in(slice->frame->notes, "missing_lines");
  }
  if (frame->notes.contains("missing_lines")) frame->notes["missing_lines"] = std::to_string(missing_lines);
  frame->notes["slices"] = std::to_string(n);
  if (const std::size_t announced = slices_of(*first.frame); slices.size() < announced) {
    scan_->warn(fmt::format("a volume has {} of the {} slices that {}", n, announced,
                            options_.slices > 0 ? "stack_slices is to have" : "the header announces"));
    frame->notes["missing_slices"] = std::to_string(announced - slices.size());
  }
  out.frame = frame;

  const auto& shape = first.data.shape();  // [coil, 1, y, x]
  const std::int64_t plane = shape[2] * shape[3];
  out.data = scan_->compute.allocate<cfloat>({shape[0], n, shape[2], shape[3]});
  for (std::int64_t c = 0; c < shape[0]; ++c)
    for (std::int64_t z = 0; z < n; ++z)
      scan_->compute.copy<cfloat>(slices[static_cast<std::size_t>(z)]->data.view().part(c * plane, {plane}),
                                  out.data.view().part((c * n + z) * plane, {plane}));
  return out;
}

}  // namespace echotrain
