// Conversions of a pipeline's items to bytes for a step's other end, and of its messages to items.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/steps/peer.h"
#include "protocol/data/acquisition_check.h"

namespace echotrain {

using EachBytes = std::function<void(StepBytes&&)>;

/// Encodes messages as they came, in parts of at most 256 KiB, or one message.
void to_bytes(numerics::Context& compute, const RawBatch& batch, const EachBytes& each);
/// Encodes one ACQUISITION for each readout, with its present channels and samples. Waits for the device.
void to_bytes(numerics::Context& compute, const Readouts& readouts, const EachBytes& each);
/// Encodes an image. Waits for the device.
void to_bytes(numerics::Context& compute, const Image& image, const EachBytes& each);
StepBytes to_bytes(const protocol::Waveform& waveform);

/// The images that a step gives. They belong to no frame, because the readouts that they were made from are not known.
class ImageResults {
 public:
  void start(const protocol::Header& /*header*/, Scan& scan) { scan_ = &scan; }
  void expect(RawBatch&& /*batch*/, const Emit<Image>& /*emit*/) {}
  void expect(Readouts&& /*readouts*/, const Emit<Image>& /*emit*/) {}
  void expect(Image&& /*image*/, const Emit<Image>& /*emit*/) {}
  /// Takes a message. Throws std::runtime_error for a readout. Waveforms are left out, with a warning.
  void take(protocol::Message&& message, const Emit<Image>& emit);
  void finish() {}

 private:
  Scan* scan_ = nullptr;
};

/// The readouts that a step gives: one for each that it took, in the same order, so that each finds its frame. All of
/// one batch have one number of channels, of samples and of trajectory dimensions.
class ReadoutResults {
 public:
  void start(const protocol::Header& header, Scan& scan);
  void expect(Readouts&& readouts, const Emit<Readouts>& emit);
  /// Takes a message. Throws std::runtime_error for an image, for more readouts than were given, and for one that the
  /// header does not allow.
  void take(protocol::Message&& message, const Emit<Readouts>& emit);
  /// Throws std::runtime_error when readouts are missing.
  void finish() const;

 private:
  struct Awaited {
    Readouts readouts;  // without their data
    bool on_host = false;
    std::size_t count = 0;
    std::vector<protocol::Acquisition> came;
  };
  void give_whole(const Emit<Readouts>& emit);
  Readouts assemble(Awaited&& batch) const;

  Scan* scan_ = nullptr;
  std::optional<protocol::AcquisitionCheck> check_;
  std::deque<Awaited> awaited_;
  std::uint64_t given_ = 0, came_ = 0;
};

template <class Out>
struct ResultsOf;
template <>
struct ResultsOf<Image> {
  using Type = ImageResults;
};
template <>
struct ResultsOf<Readouts> {
  using Type = ReadoutResults;
};

}  // namespace echotrain
