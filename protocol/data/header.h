// The measurement header is ISMRMRD XML, which becomes a checked Header. Ranges are checked on the raw text, because
// libismrmrd 1.8 wraps sizes silently (matrixSize y=99999999999 is read as 59391, x=-1 as 65535).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/data/epi_description.h"
#include "protocol/data/limits.h"
#include "protocol/data/messages.h"
#include "protocol/data/result.h"

namespace echotrain::protocol {

struct EncodingSpace {
  std::array<std::uint32_t, 3> matrix{1, 1, 1};  ///< voxels: x (readout), y (step 1), z (step 2)
  std::array<double, 3> fov_mm{1, 1, 1};
};

struct CounterLimit {
  std::uint16_t minimum = 0;
  std::uint16_t maximum = 0;
  std::uint16_t center = 0;
};

enum class Trajectory { cartesian, epi, radial, golden_angle, spiral, other };
std::string_view to_string(Trajectory trajectory);  ///< the name used in the XML

struct Encoding {
  EncodingSpace encoded;
  EncodingSpace recon;
  Trajectory trajectory = Trajectory::cartesian;
  // Absent limits stay empty: the matrix then bounds the counter.
  std::optional<CounterLimit> kspace_encoding_step_1, kspace_encoding_step_2, average, slice, contrast, phase,
      repetition, set, segment;
  std::array<std::uint16_t, 2> acceleration{1, 1};  ///< steps 1 and 2
  std::string calibration_mode;                     ///< "embedded", "interleaved", ... or empty
  std::string interleaving;  ///< the counter along which "interleaved" lines move: "repetition", "phase", ... or empty
  std::shared_ptr<const TrajectoryDescription> description;  ///< of the readouts of EPI; null: there is none
  std::shared_ptr<const Multiband> multiband;                ///< null: slices are not excited at once
};

/// A measurement that this one names, such as its noise scan.
struct Dependency {
  std::string type;  ///< "Noise", "SenMap", ... as it was sent
  std::string measurement_id;
};

/// A header that has passed every check of docs/protocol.md: 1 to limits.encodings encodings, sizes in
/// 1..limits.matrix_size, FOV finite and positive, minimum <= center <= maximum.
struct Header {
  std::vector<Encoding> encodings;
  std::optional<std::uint32_t> receiver_channels;
  std::optional<double> relative_receiver_noise_bandwidth;
  std::string measurement_id;
  std::vector<Dependency> dependencies;  ///< in the order of the header
  std::string noise_dependency;          ///< measurement id of the last one whose type is noise, or empty
  /// Names of the receive channels, in rising order of their coilNumber, as channels come: senders count from 0 or 1
  /// and leave numbers out. Printable, at most 64 bytes each, at most as many as a readout may have channels.
  std::vector<std::string> coil_labels;
  bool images_only = false;  ///< the FIRE text "Dummy XML header": only image-to-image pipelines can run
  std::string xml;           ///< as received
};

/// Parses and checks an ISMRMRD header. Errors have code "bad-header" and name the element and the value found.
Result<Header> parse_header(std::string_view xml, const Limits& limits);

}  // namespace echotrain::protocol
