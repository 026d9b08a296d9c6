// The image quality in the seed's table is the error and PSNR of the reconstruction from each version's F^H d.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gadgets/numerics/inverse/solver/linear_operator.h"
#include "protocol/data/messages.h"
#include "tests/seeds/seed_stone.h"

namespace echotrain::seed {

/// Percent error: RMS error over the truth's RMS; PSNR: the truth's peak over the RMS error, in dB. Over the volume.
struct Fidelity {
  double percent = 0, psnr = 0;
};

/// The seed's scan at any size: the second echo of Koay's ellipsoids on a cube, a koosh-ball of `readouts` readouts,
/// without noise and with it.
class PhantomScan {
 public:
  PhantomScan(numerics::Backend backend, int matrix, int readouts, int samples);

  std::int64_t matrix() const { return matrix_; }
  const Samples<float>& samples(bool noisy) const { return noisy ? noisy_ : clean_; }
  /// Quality of the image that 60 iterations with Tikhonov's prior and the exact Q make of F^H d, [z, y, x].
  Fidelity solved(const std::vector<numerics::cfloat>& fhd) const;
  /// Quality of the gridded image, weighted by k^2 and then scaled to fit the truth, as in the seed.
  Fidelity gridded(bool noisy) const;

  /// The product's pipeline, from readouts in memory to images; Q is in its cache after the first.
  class Product;

 private:
  Fidelity judge(const std::vector<float>& magnitude) const;

  std::int64_t matrix_;
  int readouts_, samples_of_readout_;
  Samples<float> clean_, noisy_;
  std::vector<float> truth_;
  std::unique_ptr<numerics::Context> context_;
  std::unique_ptr<numerics::PlainNormal> matrix_of_lags_;
  double largest_eigenvalue_ = 0;
};

class PhantomScan::Product {
 public:
  /// method: parameters of the gadget fhd.
  Product(const PhantomScan& scan, numerics::Backend backend, const char* method);
  ~Product();
  /// One scan's readouts in, its image out.
  void run(bool noisy);
  Fidelity fidelity() const;  ///< of the last image

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace echotrain::seed
