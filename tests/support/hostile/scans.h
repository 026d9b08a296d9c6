// A hostile scan is legal on the wire and unkind to whom it reaches.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "protocol/wire/codec.h"

namespace echotrain::hostile {

using protocol::Buffer;
using Random = std::mt19937_64;

/// A whole number from `least` to `most`.
int number(Random& random, int least, int most);

struct Matrix {
  int x = 16, y = 16, z = 1;
};

/// The config by its name, and a header; `kind`: of the trajectory. The header is padded to `header_bytes` if it is
/// shorter.
Buffer opening(const std::string& pipeline, const std::string& kind, Matrix matrix, std::size_t header_bytes = 0);
/// The same with the config's text: 3D least squares by NUFFT, which makes a plan and an operator for each trajectory.
Buffer least_squares_opening(Matrix matrix);

struct Readout {
  int samples = 16, coils = 1;
  std::uint64_t flags = 0;
  int step1 = 0, step2 = 0, slice = 0, contrast = 0, repetition = 0;
  float size = 1;  ///< the samples are uniform in [-size, size]
  int dimensions = 0;
  std::vector<float> trajectory{};  ///< [sample, dimension], cycles per pixel
};
void add(Buffer& to, Random& random, const Readout& readout);

/// All lines of a Cartesian scan, one repetition after another, and CLOSE.
Buffer cartesian(Random& random, const std::string& pipeline, Matrix matrix, int coils, int repetitions,
                 float size = 1);
/// `readouts` of 64 samples anywhere in the k-space of a cube, for any opening, and CLOSE.
void add_scattered(Buffer& to, Random& random, int readouts, int coils);

/// An image whose meta attributes name `role`, of [height, width] floats.
void add_image(Buffer& to, const std::string& role, int width, int height);

}  // namespace echotrain::hostile
