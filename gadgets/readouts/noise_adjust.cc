#include "gadgets/readouts/noise_adjust.h"

#include <fmt/format.h>

#include <stdexcept>

namespace echotrain {

Parameters<NoiseAdjust::Options> NoiseAdjust::parameters() { return {}; }

void NoiseAdjust::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  bandwidth_ = header.relative_receiver_noise_bandwidth.value_or(1.0);
  if (!(bandwidth_ > 0)) bandwidth_ = 1;
}

void NoiseAdjust::process(Readouts&& readouts, const Emit<Readouts>& emit) {
  if (readouts.kind == protocol::ReadoutKind::noise) {
    learn(readouts);
    return;
  }
  const bool imaging = readouts.kind == protocol::ReadoutKind::imaging;
  // Calibration of another number of coils passes as it is; who uses it compares its coils with the images'.
  const bool calibration = readouts.kind == protocol::ReadoutKind::calibration && covariance_ &&
                           readouts.data.shape()[1] == covariance_->coils();
  if ((imaging || calibration) && covariance_ && !readouts.heads.empty()) whiten(readouts);
  emit(std::move(readouts));
}

void NoiseAdjust::whiten(Readouts& readouts) {
  const auto& shape = readouts.data.shape();
  if (shape[1] != covariance_->coils())
    throw ClientError(
        fmt::format("noise was measured with {} coils, but readouts have {}", covariance_->coils(), shape[1]));
  // Contrasts may differ in bandwidth: readouts of one dwell time are whitened together.
  const auto dwell = [&](std::int64_t i) -> double {
    return readouts.heads[static_cast<std::size_t>(i)].sample_time_us;
  };
  for (std::int64_t begin = 0; begin < shape[0];) {
    std::int64_t end = begin + 1;
    while (end < shape[0] && dwell(end) == dwell(begin)) ++end;
    if (!matrix_ || dwell(begin) != matrix_dwell_us_) make_matrix(dwell(begin));
    const auto run = readouts.data.view().part(begin * shape[1] * shape[2], {end - begin, shape[1], shape[2]});
    numerics::apply_coil_matrix(scan_->compute, matrix_.view(), run);
    begin = end;
  }
}

void NoiseAdjust::learn(const Readouts& noise) {
  const auto channels = static_cast<int>(noise.host_data.shape()[1]);
  if (!covariance_ || covariance_->coils() != channels) {
    covariance_.emplace(channels);
    noise_dwell_us_ = noise.heads.front().sample_time_us;
  }
  for (std::int64_t i = 0; i < noise.host_data.shape()[0]; ++i) covariance_->add(noise.host_data.view().slice(i));
  matrix_ = {};
}

void NoiseAdjust::make_matrix(double dwell_us) {
  // Noise power is proportional to the bandwidth, so to 1 / dwell time. Senders may leave either dwell time at zero.
  const double dwell_ratio = noise_dwell_us_ > 0 && dwell_us > 0 ? noise_dwell_us_ / dwell_us : 1;
  const int coils = covariance_->coils();
  try {
    const auto matrix = numerics::whitening_matrix(covariance_->covariance(), coils, dwell_ratio / bandwidth_);
    matrix_dwell_us_ = dwell_us;
    matrix_ = scan_->compute.upload<cfloat>({matrix.data(), {coils, coils}});
  } catch (const std::invalid_argument&) {
    throw ClientError(
        fmt::format("the noise scan ({} samples of {} coils) has no usable covariance: send at least a few times as "
                    "many noise samples as coils, "
                    "or leave 'noise_adjust' out of the pipeline",
                    covariance_->samples(), coils));
  }
}

}  // namespace echotrain
