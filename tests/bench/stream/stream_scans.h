// A scan for bench_stream is encoded as it goes over the wire, of random samples.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "protocol/wire/codec.h"

namespace echotrain::bench {

struct ScanShape {
  std::string pipeline;  ///< a name, or a text that begins with "echotrain:"
  bool radial = false;   ///< golden-angle spokes
  int matrix = 256;      ///< of the image; readouts of more samples are oversampled
  int samples = 512, channels = 16;
  int readouts = 256;  ///< of a frame
  int frames = 1;
  int acceleration = 1;  ///< of Cartesian lines: every so many of `readouts` come
  int calibration = 0;   ///< middle lines that come before, for calibration alone
  int repetitions = 0;   ///< that the header announces; 0: as many as frames
};

struct EncodedScan {
  ScanShape shape;
  protocol::Buffer bytes;         ///< config, header, readouts, CLOSE
  std::vector<std::size_t> ends;  ///< of each imaging readout in `bytes`
  std::size_t begin = 0;          ///< of the first one in `bytes`; calibration lines are before it
  std::size_t readouts() const { return ends.size(); }
};

/// `turn`: angle of the first spoke [golden angles]; scans of other turns have other trajectories.
EncodedScan encode_scan(const ScanShape& shape, int turn = 0);

/// Gives the spokes of a scan the angles that encode_scan() gives them with another `turn`.
void turn_spokes(EncodedScan& scan, int turn);

}  // namespace echotrain::bench
