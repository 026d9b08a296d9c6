#include "gadgets/ultrasound/log_compression.h"

#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/mri/ultrasound/plane_wave.h"

namespace echotrain {

Parameters<LogCompression::Options> LogCompression::parameters() {
  return Parameters<Options>().number("range_db", &Options::range_db, 1, 200,
                                      "decibels between the largest echo and the floor, which becomes 0");
}

void LogCompression::start(const protocol::Header& /*header*/, Scan& scan) { scan_ = &scan; }

void LogCompression::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  const std::uint16_t series = images.frame->key.encoding;
  auto reference = references_.find(series);
  if (reference == references_.end()) {
    const float most = numerics::extremes(scan_->compute, images.data.cview()).most;
    if (most <= 0) {  // silence lies below any floor
      emit(std::move(images));
      return;
    }
    reference = references_.emplace(series, most).first;
  }
  CoilImages out{images.frame, scan_->compute.allocate<cfloat>(images.data.shape())};
  numerics::log_compress(scan_->compute, images.data.view(), reference->second, static_cast<float>(options_.range_db),
                         out.data.view());
  emit(std::move(out));
}

}  // namespace echotrain
