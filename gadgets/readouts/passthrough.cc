#include "gadgets/readouts/passthrough.h"

#include <fmt/format.h>

#include "protocol/data/pluralized.h"

namespace echotrain {

void Passthrough::start(const protocol::Header& /*header*/, Scan& scan) { scan_ = &scan; }

void Passthrough::process(RawBatch&& batch, const Emit<Image>& /*emit*/) {
  readouts_ += batch.acquisitions.size();
  for (const auto& acquisition : batch.acquisitions) readout_bytes_ += acquisition.data.bytes.size();
}

bool Passthrough::take_aside(Item& item, const Emit<Image>& emit) {
  if (std::holds_alternative<Waveform>(item)) {
    ++waveforms_;
    return true;
  }
  if (auto* image = std::get_if<Image>(&item)) {
    ++images_;
    emit(std::move(*image));
    return true;
  }
  return false;
}

void Passthrough::finish(End /*how*/, const Emit<Image>& /*emit*/) {
  scan_->info(fmt::format("received {} ({} bytes of samples), {}, {}", protocol::pluralized(readouts_, "readout"),
                          readout_bytes_, protocol::pluralized(waveforms_, "waveform"),
                          protocol::pluralized(images_, "image")));
}

}  // namespace echotrain
