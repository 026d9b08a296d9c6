// LogCompression turns envelopes into decibels, as B-mode images show them.
#pragma once

#include <cstdint>
#include <map>

#include "gadgets/api/gadget.h"

namespace echotrain {

/// Converts voxels to decibels above a floor that lies `range_db` below the largest magnitude of the series' first
/// image that is not all zero: 0 at the floor and below it, range_db at that magnitude, which later images may exceed.
/// On CUDA, waits for the first image, not for later ones.
class LogCompression final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    double range_db = 60;
  };
  static constexpr std::string_view kName = "log_compression";
  static constexpr std::string_view kSummary = "Envelope in decibels above a floor (B-mode).";
  static Parameters<Options> parameters();

  explicit LogCompression(Options options) : options_(options) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;

 private:
  Options options_;
  Scan* scan_ = nullptr;
  std::map<std::uint16_t, float> references_;  // per encoding, which is a series
};

}  // namespace echotrain
