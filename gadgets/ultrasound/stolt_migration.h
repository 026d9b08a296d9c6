// StoltMigration turns the spectra of echoes into images (f-k migration).
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/transforms/nufft/nufft.h"
#include "gadgets/shared/measurement.h"

namespace echotrain {

/// Remaps frequencies (Stolt, f-k migration) and does the inverse 2D transform. With k = f / c, u the spatial frequency
/// along the array and a the wave's angle, an echo's spectrum at (u, f) is the image's at
///   f_x = u + k sin a,   f_z = k cos a + sqrt(k^2 - u^2)
/// (Liu, US patent 6685641; GPU Gems 2, chapter 48, equations 13 and 14, where a = 0: f = c (f_x^2 + f_z^2) / (2 f_z)).
/// The image is the sum over these places, weighted by the area d(f_x, f_z) / d(u, k) and by sqrt(k^2 - u^2) / k, which
/// undoes the weakening of an echo with its angle. It is evaluated at the voxels by the NUFFT's adjoint, whose
/// Kaiser-Bessel interpolation has an error known in advance (3e-4 by default), without a further interpolation of
/// frequencies. Voxels are those of the header's recon space, x along the array, y in depth; its centre is the
/// readout's position. Each wave becomes one image channel.
class StoltMigration final : public Gadget<EchoSpectra, CoilImages> {
 public:
  struct Options {
    std::int64_t kernel_width = 5;
    double oversampling = 1.5;
    double most_angle = 90;
  };
  static constexpr std::string_view kName = "stolt_migration";
  static constexpr std::string_view kSummary =
      "Remaps the frequencies of ultrasound spectra (f-k, Stolt) and transforms them to images, one per plane wave.";
  static Parameters<Options> parameters();

  explicit StoltMigration(Options options) : options_(options) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(EchoSpectra&& spectra, const Emit<CoilImages>& emit) override;

 private:
  /// Voxels along one axis: number i is at center + (i - floor(count / 2)) * size [mm].
  struct Axis {
    std::int64_t count = 1;
    double size = 1, center = 0;
    bool operator==(const Axis&) const = default;
  };
  /// The inputs of plans except the wave.
  struct Setting {
    Axis x, z;
    EchoGeometry geometry;  // without waves
    double first_hz = 0, step_hz = 0;
    std::int64_t frequencies = 0, columns = 0;
    bool operator==(const Setting&) const = default;
  };
  struct Remap {
    std::shared_ptr<const numerics::NufftPlan> plan;
    Array<cfloat> factors;  // [frequency, column]
  };

  Setting setting_of(const EchoSpectra& spectra) const;
  Remap make(const EchoGeometry::Wave& wave) const;

  Options options_;
  Scan* scan_ = nullptr;
  std::vector<protocol::EncodingSpace> recon_;  // per encoding
  Setting setting_;                             // setting of the remaps
  std::map<EchoGeometry::Wave, Remap> remaps_;
};

}  // namespace echotrain
