#include "gadgets/readouts/gating/centre_samples.h"

#include <fmt/format.h>

#include <algorithm>

#include "gadgets/numerics/core/layout/rearrange.h"

namespace echotrain {
namespace {

std::int64_t central_step(const std::optional<protocol::CounterLimit>& limit, std::uint32_t matrix) {
  return limit ? limit->center : matrix / 2;
}

}  // namespace

CentreSamples::CentreSamples(std::string who, const protocol::Header& header, Scan& scan)
    : who_(std::move(who)), scan_(scan) {
  for (const auto& encoding : header.encodings) {
    using protocol::Trajectory;
    const auto& matrix = encoding.encoded.matrix;
    const auto& limit_2 = encoding.kspace_encoding_step_2;
    Encoding out;
    out.cartesian = encoding.trajectory == Trajectory::cartesian || encoding.trajectory == Trajectory::epi;
    out.steps_2 = matrix[2] > 1 && (out.cartesian || (limit_2 && limit_2->maximum > limit_2->minimum));
    out.volume = matrix[2] > 1 && !out.steps_2;
    out.step_1 = central_step(encoding.kspace_encoding_step_1, matrix[1]);
    out.step_2 = central_step(limit_2, matrix[2]);
    encodings_.push_back(out);
  }
}

/// The sample in which readout i passes the centre of k-space, if it does.
std::optional<std::int64_t> CentreSamples::centre_of(const Readouts& readouts, std::size_t i) const {
  const protocol::AcquisitionHeader& head = readouts.heads[i];
  const Encoding& encoding = encodings_.at(head.encoding_space_ref);
  const std::int64_t samples = readouts.data.shape()[2];
  if (encoding.steps_2 && head.idx.kspace_encode_step_2 != encoding.step_2) return std::nullopt;
  if (encoding.cartesian) {
    const std::int64_t sample = head.center_sample;
    if (head.idx.kspace_encode_step_1 != encoding.step_1 || sample >= samples) return std::nullopt;
    return sample;
  }
  const std::int64_t values =
      readouts.trajectory.size() / std::max<std::int64_t>(1, readouts.data.shape()[0] * samples);
  const std::int64_t dims = std::min<std::int64_t>(values, encoding.volume ? 3 : 2);
  if (dims < 2 || samples < 2) return std::nullopt;
  const float* at = readouts.trajectory.data() + static_cast<std::int64_t>(i) * samples * values;
  const auto distance = [&](std::int64_t a, const float* from) {
    double square = 0;
    for (std::int64_t d = 0; d < dims; ++d) {
      const double x = at[a * values + d] - (from != nullptr ? static_cast<double>(from[d]) : 0.0);
      square += x * x;
    }
    return square;
  };
  std::int64_t nearest = 0;
  for (std::int64_t s = 1; s < samples; ++s)
    if (distance(s, nullptr) < distance(nearest, nullptr)) nearest = s;
  const std::int64_t beside = nearest > 0 ? nearest - 1 : 1;
  if (!(distance(nearest, nullptr) <= distance(beside, at + nearest * values))) return std::nullopt;
  return nearest;
}

void CentreSamples::add(const Readouts& readouts, std::span<const double> times_ms) {
  const std::size_t count = readouts.heads.size();
  if (count == 0) return;
  const bool navigators = readouts.kind == protocol::ReadoutKind::navigator;
  const std::int64_t coils = (navigators ? readouts.host_data.shape() : readouts.data.shape())[1];
  if (coils_ == 0) coils_ = coils;
  if (coils != coils_)
    throw ClientError(fmt::format(
        "{}: readouts have {} channels, but those before had {}; the centre of k-space needs the same ones throughout",
        who_, coils, coils_));
  if (navigators) return copy_navigators(readouts, times_ms);
  std::optional<std::int64_t> sample;  // in which the readouts from `begin` on pass the centre
  std::size_t begin = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto passes = centre_of(readouts, i);
    if (passes == sample) continue;
    if (sample) copy(readouts, times_ms.subspan(begin, i - begin), begin, *sample);
    sample = passes;
    begin = i;
  }
  if (sample) copy(readouts, times_ms.subspan(begin), begin, *sample);
}

/// Starts the copy of one sample of the readouts from `begin` on, as many as there are times, to the host.
void CentreSamples::copy(const Readouts& readouts, std::span<const double> times_ms, std::size_t begin,
                         std::int64_t sample) {
  numerics::Context& compute = scan_.compute;
  const auto count = static_cast<std::int64_t>(times_ms.size());
  const std::int64_t samples = readouts.data.shape()[2];
  Array<cfloat> centre = compute.allocate<cfloat>({count, 1, coils_, 1});
  numerics::rearrange(
      compute,
      readouts.data.cview().part(static_cast<std::int64_t>(begin) * coils_ * samples, {count, 1, coils_, samples}),
      {.first = {0, 0, sample}}, centre.view());
  copies_.push_back(
      {anatomy_of(readouts.frame->key), {times_ms.begin(), times_ms.end()}, compute.place_on_host(centre)});
}

/// Copies the samples of navigator readouts, which are on the host.
void CentreSamples::copy_navigators(const Readouts& readouts, std::span<const double> times_ms) {
  const std::int64_t samples = readouts.host_data.shape()[2];
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < readouts.heads.size(); ++i)
    if (readouts.heads[i].center_sample < samples) which.push_back(i);
  if (which.empty()) return;
  Copy out;
  out.samples = scan_.compute.allocate_host<cfloat>({static_cast<std::int64_t>(which.size()), coils_});
  for (std::size_t n = 0; n < which.size(); ++n) {
    out.times_ms.push_back(times_ms[which[n]]);
    const cfloat* from = readouts.host_data.data() + static_cast<std::int64_t>(which[n]) * coils_ * samples +
                         readouts.heads[which[n]].center_sample;
    for (std::int64_t c = 0; c < coils_; ++c)
      out.samples.data()[static_cast<std::int64_t>(n) * coils_ + c] = from[c * samples];
  }
  copies_.push_back(std::move(out));
}

}  // namespace echotrain
