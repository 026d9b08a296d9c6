// Psir makes signed images of inversion recovery.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/mri/images/psir.h"

namespace echotrain {

/// Gives real, signed images of one channel: what is left of an image once the phase of a reference is taken away, and,
/// with `normalize`, its intensity, which leaves out the coils' (gadgets/numerics/mri/images/psir.h). The reference is
/// the image of the same slice whose counter `over` is `reference`; it goes no further. Takes images of several coils,
/// which it combines by the reference; coils that are combined already must have kept their phase (not rss).
///
/// An image waits for the reference of its own repetition, phase and so on. Once `wait` of a slice wait, and at the
/// scan's end, the oldest takes the slice's latest reference; without any it is left out, with a warning. `wait: 0`
/// takes the latest as soon as there is one; for a slice's first, 8 wait at least. `image: {component: real}` belongs
/// behind it. Images that a client sent must be complex. Meta attributes: psir_reference (the counter and its value),
/// and the step PSIR.
class Psir final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    std::string over = "set";
    std::int64_t reference = 1, wait = 8, smooth = 2;
    double threshold = 0.05;
    bool normalize = true;
  };
  static constexpr std::string_view kName = "psir";
  static constexpr std::string_view kSummary =
      "Signed images of inversion recovery, by phase and intensity of a reference that nothing has inverted (PSIR).";
  static Parameters<Options> parameters();

  explicit Psir(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& /*header*/, Scan& scan) override { scan_ = &scan; }
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;
  void finish(End how, const Emit<CoilImages>& emit) override;

 private:
  struct Slice {
    std::vector<std::pair<FrameKey, CoilImages>> waiting;  // by key without the counter
    FrameKey key;                                          // of the latest reference
    numerics::PsirReference reference;                     // empty: none has come
  };
  void give(const Slice& slice, CoilImages&& images, const Emit<CoilImages>& emit) const;

  const Options options_;
  Scan* scan_ = nullptr;
  std::map<std::pair<std::uint16_t, std::uint16_t>, Slice> slices_;  // by encoding and slice
};

}  // namespace echotrain
