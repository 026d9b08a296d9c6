// EchoSpectrum transforms traces over time into spectra over frequency and place.
#pragma once

#include <cstdint>

#include "gadgets/api/gadget.h"

namespace echotrain {

/// Does the 2D Fourier transform over time and elements. For RF, keeps the Nyquist zone that holds the centre
/// frequency, which makes the signal analytic and unfolds signals sampled below twice their frequency (band-pass
/// sampling); for IQ, keeps the band about the demodulation frequency.
class EchoSpectrum final : public Gadget<Echoes, EchoSpectra> {
 public:
  struct Options {
    double bandwidth_percent = 150;
    double padding = 2;
  };
  static constexpr std::string_view kName = "echo_spectrum";
  static constexpr std::string_view kSummary =
      "2D Fourier transform of ultrasound traces over time and elements; unfolds band-pass sampled RF and IQ.";
  static Parameters<Options> parameters();

  explicit EchoSpectrum(Options options) : options_(options) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Echoes&& echoes, const Emit<EchoSpectra>& emit) override;

 private:
  Options options_;
  Scan* scan_ = nullptr;
};

}  // namespace echotrain
