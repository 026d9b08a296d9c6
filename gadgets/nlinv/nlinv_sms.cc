#include "gadgets/nlinv/nlinv_sms.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>
#include <vector>

namespace echotrain {

void NlinvSms::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  slices_.start(header, scan);
  frames_.start(scan);
  for (std::size_t e = 0; e < header.encodings.size(); ++e) {
    const numerics::Shape& image = slices_.space(e).image;
    check_nlinv_extents(kName, image, nlinv_extents(image, options_.field), options_.field, "cg_sense_sms");
  }
}

numerics::PhasedFrame& NlinvSms::equations_for(std::uint16_t encoding, std::int64_t coils) {
  std::unique_ptr<numerics::PhasedFrame>& equations = equations_[encoding];
  if (!equations) {
    const SmsSpace& space = slices_.space(encoding);
    const std::int64_t m = space.sms.slices;
    std::vector<cfloat> phases;  // [number, slice]
    for (std::int64_t n = 0; n < m; ++n)
      for (std::int64_t slice = 0; slice < m; ++slice) phases.push_back(space.sms.factor(slice, n));
    try {
      equations = std::make_unique<numerics::PhasedFrame>(
          scan_->compute, numerics::HostView<const cfloat>(phases.data(), {m, m}), coils,
          nlinv_extents(space.image, options_.field), options_.accuracy);
    } catch (const std::invalid_argument& error) {
      throw ClientError(fmt::format("nlinv_sms: {}", error.what()));
    }
  }
  if (equations->coils() != coils)
    throw ClientError(
        fmt::format("the number of channels changes within a scan, from {} to {}", equations->coils(), coils));
  return *equations;
}

void NlinvSms::process(Readouts&& readouts, const Emit<CoilImages>& emit) {
  slices_.process(std::move(readouts), [&](const SmsFrame& open, const std::shared_ptr<const Frame>& frame) {
    reconstruct(open, *frame, emit);
  });
}

void NlinvSms::reconstruct(const SmsFrame& open, const Frame& frame, const Emit<CoilImages>& emit) {
  numerics::Context& compute = scan_->compute;
  const SmsSpace& space = slices_.space(frame.key.encoding);
  numerics::PhasedFrame& equations = equations_for(frame.key.encoding, open.coils());
  const SmsSorted sorted = slices_.sorted(open, space);
  equations.clear();
  std::int64_t number = 0;
  for (const SmsSamples& each : sorted.of_number) {
    if (each.count > 0) equations.set(number, each.coordinates.cview(), each.data.cview(), each.weights.cview());
    ++number;
  }
  ++scan_->numbers.operators_made;
  const std::int64_t m = space.sms.slices;
  const NlinvImages made = frames_.solve(frame.key, equations.finish(sorted.tally.weight), m, space.image);
  const numerics::Shape one{1, 1, space.image[0], space.image[1]};
  for (std::int64_t slice = 0; slice < m; ++slice) {
    Array<cfloat> out = compute.allocate<cfloat>(one);
    compute.copy<cfloat>(made.images.cview().slice(slice).reshaped(one), out.view());
    emit({with_notes(*slices_.frame_of(frame, slice), made.notes), std::move(out)});
  }
}

}  // namespace echotrain
