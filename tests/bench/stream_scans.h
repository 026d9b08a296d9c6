// Scans for bench_stream, encoded as they go over the wire, of random samples.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "protocol/wire/codec.h"

namespace echotrain::bench {

struct ScanShape {
  std::string pipeline;
  bool radial = false;  ///< golden-angle spokes
  int matrix = 256;     ///< of the image; readouts of more samples are oversampled
  int samples = 512, channels = 16;
  int readouts = 256;  ///< of a frame
  int frames = 1;
};

struct EncodedScan {
  ScanShape shape;
  protocol::Buffer bytes;         ///< config, header, readouts, CLOSE
  std::vector<std::size_t> ends;  ///< of each readout in `bytes`
  std::size_t begin = 0;          ///< of the first readout in `bytes`
  std::size_t readouts() const { return ends.size(); }
};

/// `turn`: angle of the first spoke [golden angles]; scans of other turns have other trajectories.
EncodedScan encode_scan(const ScanShape& shape, int turn = 0);

/// Gives the spokes of a scan the angles that encode_scan() gives them with another `turn`.
void turn_spokes(EncodedScan& scan, int turn);

}  // namespace echotrain::bench
