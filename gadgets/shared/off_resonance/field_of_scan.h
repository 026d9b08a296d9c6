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
#include "gadgets/numerics/off_resonance/off_resonance.h"

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

/// The field map of a slice in Hz on the image's lattice, [z, y, x] or [y, x] by `image`: real parts of the image of
/// role field_map, which covers the image's field of view and is interpolated linearly where it has another matrix.
/// Waits for the device. ClientError where there is none or it has several channels.
HostArray<float> field_map_of(Scan& scan, std::uint16_t slice, const numerics::Shape& image);

/// What is made of field maps and times is kept for the scan, for the most recent slices.
class FieldOfScan {
 public:
  /// std::invalid_argument when options exclude each other.
  explicit FieldOfScan(FieldOptions options);
  /// Asks for the field map. To be called in the gadget's start().
  void start(Scan& scan);
  /// For a frame, or some of its samples. image: [(z,) y, x]. A map that comes while a frame is open is for the next
  /// one; a sliding window keeps the map that it began with. ClientError where the map or the times of samples are
  /// missing, or where they differ so much that no number of segments will do.
  std::shared_ptr<const numerics::OffResonance> of_frame(const Samples& samples, const numerics::Shape& image);
  /// The samples' number in a row of readouts that OffResonance::split() takes.
  static std::int64_t first_sample(const Samples& samples) {
    return samples.first_readout * samples.timing.per_readout;
  }

 private:
  struct Kept {
    std::uint16_t slice;
    SampleTiming timing;
    numerics::Shape image;
    std::shared_ptr<void> map;  // the side image that it was made of
    std::shared_ptr<const numerics::OffResonance> made;
  };
  struct Window {
    SampleTiming timing;  // of all its readouts
    std::shared_ptr<const numerics::OffResonance> made;
  };
  std::vector<double> times_of(const SampleTiming& timing) const;
  std::shared_ptr<const numerics::OffResonance> find(const Samples& samples, const numerics::Shape& image);

  FieldOptions options_;
  Scan* scan_ = nullptr;
  std::list<Kept> kept_;                                                           // most recent first
  std::map<std::uint64_t, std::shared_ptr<const numerics::OffResonance>> frames_;  // that are open
  std::map<std::uint64_t, Window> windows_;                                        // that slide
};

}  // namespace echotrain
