#include "gadgets/cartesian/cartesian_fft.h"

#include "gadgets/cartesian/cartesian_lines.h"
#include "gadgets/shared/measurement.h"
#include "gadgets/shared/program/item_memory.h"

namespace echotrain {

void CartesianFft::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  warn_of_aliasing(header, scan);
}

void CartesianFft::process(KSpace&& kspace, const Emit<CoilImages>& emit) {
  const bool of_references = kspace.calibration && kspace.calibration->source != Calibration::Source::center;
  if (of_references && !kspace.frame->notes.contains("put_back_lines")) scan_->info(kUnusedCalibration);
  const auto& from = kspace.data.shape();  // [coil, z, y, x]
  const std::int64_t coils = from[0];
  CoilImages out;
  out.frame = kspace.frame;
  out.noise = kspace.image_noise;
  out.data = allocate_item<cfloat>(scan_->compute, {coils, kspace.image[0], kspace.image[1], kspace.image[2]});
  const float scale = 1.0f / static_cast<float>(from[1] * from[2] * from[3]);
  const bool flat = from[1] == 1 && kspace.padded[0] == 1;
  if (flat) {
    numerics::centered_fft(scan_->compute, kspace.data.view().reshaped({coils, from[2], from[3]}),
                           out.data.view().reshaped({coils, kspace.image[1], kspace.image[2]}),
                           {kspace.padded[1], kspace.padded[2]}, 2, fft_direction(options_), scale);
  } else {
    numerics::centered_fft(scan_->compute, kspace.data.view(), out.data.view(), kspace.padded, 3,
                           fft_direction(options_), scale);
  }
  emit(std::move(out));
}

}  // namespace echotrain
