// The contrasts are Cartesian scans whose images are known; pipelines run through a registry of the test's own.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/gadgets/encoding/parallel_scene.h"

namespace echotrain::testing {

/// Random images of each coil, magnitudes from 0.8 to 1.2, a frame for each contrast; k-space by sums.
struct Contrasts {
  static constexpr int kN = 16;

  explicit Contrasts(int count, int coils = 1) {
    std::mt19937 random(5);
    std::uniform_real_distribution<double> unit(0, 1);
    for (int c = 0; c < count; ++c) {
      std::vector<cdouble> image(static_cast<std::size_t>(coils * kN * kN));
      for (cdouble& v : image) v = std::polar(0.8 + 0.4 * unit(random), 2 * std::numbers::pi * unit(random));
      images.push_back(image);
      // The transform of ParallelScene, turned round: conjugates before and after, and without its factor.
      for (cdouble& v : image) v = std::conj(v);
      image = ParallelScene::images(image, {kN, kN, 1});
      for (int y = 0; y < kN; ++y) {
        std::vector<cfloat> line;
        for (int coil = 0; coil < coils; ++coil)
          for (int x = 0; x < kN; ++x)
            line.emplace_back(std::conj(image[static_cast<std::size_t>((coil * kN + y) * kN + x)]) * double{kN * kN});
        scan.push_back(readout(coils, std::move(line)));
        scan.back().head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(y);
        scan.back().head.idx.contrast = static_cast<std::uint16_t>(c);
      }
      set_flag(scan.back(), kLastInSlice);
    }
    HeaderSpec spec{.encoded = {kN, kN, 1}};
    spec.limits = step_limit(kN) + limit("contrast", 0, count - 1, 0);
    measurement = header(spec);
  }

  std::vector<std::vector<cdouble>> images;  // [contrast][coil, y, x]
  std::vector<Acquisition> scan;
  protocol::Header measurement;
};

/// A pipeline with gadgets of the test's own.
inline Outcome run_with(const Registry& registry, const std::string& text, const protocol::Header& measurement,
                        const std::vector<Acquisition>& scan, Backend backend = Backend::cpu,
                        const std::vector<protocol::Waveform>& waveforms = {}) {
  Outcome out;
  numerics::Context compute(backend, test_resources());
  Pipeline pipeline(PipelinePlan::check(config::read_pipeline(text, "test.yaml"), registry), compute,
                    {[&](protocol::Image&& image, const ImageTimes&) { out.images.push_back(std::move(image)); },
                     [&](protocol::Level level, const std::string& line) { out.texts.emplace_back(level, line); }});
  pipeline.start(measurement);
  for (const auto& waveform : waveforms) pipeline.push(protocol::Waveform(waveform));
  pipeline.push(std::vector<Acquisition>(scan));
  pipeline.finish(End::complete);
  pipeline.wait();
  out.counts = pipeline.counts();
  return out;
}

/// The images of one series, in order.
inline std::vector<protocol::Image> of_series(const Outcome& out, int series) {
  std::vector<protocol::Image> found;
  for (const auto& image : out.images)
    if (image.head.image_series_index == series) found.push_back(image);
  return found;
}

/// True if the images have the same bits and there are any.
inline bool same_pixels(const std::vector<protocol::Image>& a, const std::vector<protocol::Image>& b) {
  bool same = a.size() == b.size() && !a.empty();
  for (std::size_t i = 0; same && i < a.size(); ++i)
    same = a[i].head.data_type == b[i].head.data_type && pixels<std::byte>(a[i]) == pixels<std::byte>(b[i]);
  return same;
}

}  // namespace echotrain::testing
