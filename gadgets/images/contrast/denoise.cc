#include "gadgets/images/contrast/denoise.h"

#include <fmt/format.h>

#include <stdexcept>

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/mri/images/non_local_means.h"
#include "gadgets/numerics/mri/images/pixels.h"
#include "gadgets/shared/incoming/meta_notes.h"

namespace echotrain {
namespace {

constexpr std::uint16_t kGFactor = 1, kSnr = 2;  // FrameKey::series of images made of readouts

}  // namespace

Parameters<Denoise::Options> Denoise::parameters() {
  return Parameters<Options>()
      .number("noise_level", &Options::noise_level, 0, 1e12,
              "standard deviation of the noise's real part; 0: 1 in images in units of SNR, else estimated from a "
              "series' first image")
      .number("strength", &Options::strength, 0.05, 5,
              "how far surroundings may differ, as a multiple of the noise: more of it smooths more")
      .integer("patch", &Options::patch, 0, 4, "surroundings that are compared, to each side")
      .unit("voxels")
      .integer("search", &Options::search, 1, 15, "how far away voxels are looked for, to each side")
      .unit("voxels")
      .choice("dimensions", &Options::dimensions, {"auto", "2", "3"},
              "auto: 2 for planes, 3 for volumes. 2: each plane of a volume by itself. 3: volumes only")
      .flag("complex", &Options::complex, "denoise real and imaginary parts together, with the phase")
      .flag("rician", &Options::rician, "magnitudes: take the noise floor away, too");
}

Denoise::Denoise(Options options) : options_(std::move(options)) {
  if (options_.complex && options_.rician)
    throw std::invalid_argument("rician is for magnitudes; complex images have no noise floor");
}

void Denoise::start(const protocol::Header& /*header*/, Scan& scan) { scan_ = &scan; }

Denoise::Values Denoise::values_of(const Frame& frame) const {
  if (options_.complex) return Values::complex;
  if (!frame.source) return Values::magnitudes;
  const protocol::ImageHeader& head = frame.source->head;
  if (numerics::is_complex(static_cast<numerics::PixelType>(head.data_type)))
    return options_.rician ? Values::magnitudes : Values::complex;
  return head.image_type == ISMRMRD::ISMRMRD_IMTYPE_MAGNITUDE ? Values::magnitudes : Values::reals;
}

float Denoise::level_of(const CoilImages& images, Values values) {
  if (options_.noise_level > 0) return static_cast<float>(options_.noise_level);
  const Frame& frame = *images.frame;
  if (!frame.source && frame.key.series == kSnr) return 1;
  const std::pair series(frame.key.encoding, frame.key.series);
  if (const auto known = levels_.find(series); known != levels_.end()) return known->second;
  numerics::Context& compute = scan_->compute;
  const auto& n = images.data.shape();
  float level = 0;
  if (values == Values::complex) {
    level = numerics::noise_deviation(compute, images.data.cview().reshaped({n[0] * n[1], n[2], n[3]}));
  } else {
    Array<float> reals = compute.allocate<float>({n[0] * n[1], n[2], n[3]});
    const auto part = values == Values::reals ? numerics::Component::real : numerics::Component::magnitude;
    numerics::component(compute, images.data.cview(), part, 1, reals.view());
    level = numerics::noise_deviation(compute, reals.cview());
  }
  return levels_.emplace(series, level).first->second;
}

void Denoise::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  const Frame& from = *images.frame;
  if ((!from.source && from.key.series == kGFactor) || are_phases(from, *scan_, kName)) return emit(std::move(images));
  const auto& n = images.data.shape();  // [channel, z, y, x]
  if (options_.dimensions == "3" && n[1] == 1)
    throw ClientError(
        "denoise with dimensions: 3 takes volumes, but these images are single slices; put stack_slices before it, or "
        "let dimensions be auto");
  const Values values = values_of(from);
  const float level = level_of(images, values);
  if (!(level > 0)) {
    scan_->warn("denoise finds no noise in the first image of a series, and leaves it as it is; state noise_level");
    return emit(std::move(images));
  }
  numerics::NonLocalMeans how;
  how.patch = static_cast<int>(options_.patch);
  how.search = static_cast<int>(options_.search);
  how.deviation = level;
  how.strength = static_cast<float>(options_.strength);
  how.by_planes = options_.dimensions == "2";
  how.rician = options_.rician && values == Values::magnitudes;

  numerics::Context& compute = scan_->compute;
  CoilImages out;
  out.data = compute.allocate<cfloat>(n);
  Array<float> before, after;
  if (values != Values::complex) {
    before = compute.allocate<float>(n);
    after = compute.allocate<float>(n);
    const auto part = values == Values::reals ? numerics::Component::real : numerics::Component::magnitude;
    numerics::component(compute, images.data.cview(), part, 1, before.view());
  }
  for (std::int64_t c = 0; c < n[0]; ++c) {
    if (values == Values::complex)
      numerics::non_local_means(compute, images.data.cview().slice(c), how, out.data.view().slice(c));
    else
      numerics::non_local_means(compute, before.cview().slice(c), how, after.view().slice(c));
  }
  if (values == Values::reals) numerics::to_complex(compute, after.cview(), out.data.view());
  if (values == Values::magnitudes) numerics::with_phases(compute, after.cview(), images.data.cview(), out.data.view());
  const auto frame = std::make_shared<Frame>(from);
  frame->notes["denoise_level"] = fmt::format("{:.6g}", level);
  add_step(*frame, "DENOISE");
  out.frame = frame;
  emit(std::move(out));
}

}  // namespace echotrain
