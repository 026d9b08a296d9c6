// The field map of a scan, and the times of its samples, for gadgets that correct off-resonance.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gadgets/api/errors.h"
#include "gadgets/api/parameters.h"
#include "gadgets/api/scan.h"
#include "gadgets/numerics/transforms/off_resonance/off_resonance.h"

namespace echotrain {

inline constexpr const char* kFieldMapRole = "field_map";

struct FieldOptions {
  std::string file;
  double accuracy = 1e-3;
  std::string time_zero = "center_sample";
  double start_us = 0;
  std::int64_t shot_readouts = 1;
  double shot_interval_us = 0;
};
Parameters<FieldOptions> field_parameters();

/// Returns the field map of a slice in Hz on the image's lattice, [z, y, x] or [y, x] by `image`: real parts of the
/// image of role field_map, which covers the image's field of view and is interpolated linearly where it has another
/// matrix. Waits for the device. Throws ClientError where there is none or it has several channels.
HostArray<float> field_map_of(Scan& scan, std::uint16_t slice, const numerics::Shape& image);

/// Keeps the off-resonance correction made from field maps and times for the scan, for the most recent slices.
class ScanFieldMap {
 public:
  /// Throws std::invalid_argument when options exclude each other.
  explicit ScanFieldMap(FieldOptions options);
  /// Requests the field map. Call it in the gadget's start().
  void start(Scan& scan);
  /// The correction for a frame, or for some of its samples. image: [(z,) y, x]. A map that comes while a frame is open
  /// is for the next one; a sliding window keeps its first map. Throws ClientError where the map or the times of
  /// samples are missing, or where they differ too much for any number of segments.
  std::shared_ptr<const numerics::OffResonance> of_frame(const Samples& samples, const numerics::Shape& image);
  /// The number of the samples in a row of readouts, as OffResonance::split() takes it.
  static std::int64_t first_sample(const Samples& samples) {
    return samples.first_readout * samples.timing.per_readout;
  }

 private:
  struct Kept {
    std::uint16_t slice;
    SampleTiming timing;
    numerics::Shape image;
    std::shared_ptr<void> map;  // the side image that it was made from
    std::shared_ptr<const numerics::OffResonance> made;
  };
  struct Window {
    SampleTiming timing;  // timing of all its readouts
    std::shared_ptr<const numerics::OffResonance> made;
  };
  std::vector<double> times_of(const SampleTiming& timing) const;
  std::shared_ptr<const numerics::OffResonance> find(const Samples& samples, const numerics::Shape& image);

  FieldOptions options_;
  Scan* scan_ = nullptr;
  std::list<Kept> kept_;                                                           // most recent first
  std::map<std::uint64_t, std::shared_ptr<const numerics::OffResonance>> frames_;  // frames that are open
  std::map<std::uint64_t, Window> windows_;                                        // windows that slide
};

}  // namespace echotrain
