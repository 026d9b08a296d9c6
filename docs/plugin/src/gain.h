// An example of a gadget compiled outside of Echotrain's tree.
#pragma once

#include "gadgets/api/gadget.h"

namespace example {

/// Multiplies images by a factor, on the CPU as on a GPU.
/// In, out: CoilImages.
class Gain final : public echotrain::Gadget<echotrain::CoilImages, echotrain::CoilImages> {
 public:
  struct Options {
    double factor = 1;
  };
  static constexpr std::string_view kName = "gain";
  static constexpr std::string_view kSummary = "Multiplies images by a factor.";
  static echotrain::Parameters<Options> parameters();

  explicit Gain(Options options) : options_(options) {}
  void start(const echotrain::protocol::Header& header, echotrain::Scan& scan) override;
  void process(echotrain::CoilImages&& images, const echotrain::Emit<echotrain::CoilImages>& emit) override;

 private:
  Options options_;
  echotrain::Scan* scan_ = nullptr;
};

}  // namespace example
