#include "tests/support/hostile/scans.h"

#include <fmt/format.h>

#include <algorithm>
#include <complex>

namespace echotrain::hostile {
namespace {

constexpr std::uint64_t kFirstInSlice = 1 << 6, kLastInSlice = 1 << 7;

constexpr const char* kLeastSquares = R"(echotrain: 1
name: nufft_3d
description: 3D, least squares by NUFFT
backend: auto
frame: auto
trajectory_unit: cycles_per_pixel
pipeline:
  - density_compensation: {method: none}
  - fhd: {dimensions: 3, method: nufft}
  - pcg: {iterations: 5, tolerance: 1e-5, prior: tikhonov, lambda: 1e-3}
  - coil_combine: {method: rss}
  - image: {component: magnitude, type: float}
)";

std::string header_of(const std::string& kind, Matrix matrix, std::size_t bytes) {
  const auto space = [&](const char* name) {
    return fmt::format(
        "<{0}><matrixSize><x>{1}</x><y>{2}</y><z>{3}</z></matrixSize><fieldOfView_mm><x>{1}</x><y>{2}</y><z>{3}</z>"
        "</fieldOfView_mm></{0}>",
        name, matrix.x, matrix.y, matrix.z);
  };
  std::string xml =
      "<?xml version=\"1.0\"?><ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\"><experimentalConditions>"
      "<H1resonanceFrequency_Hz>128000000</H1resonanceFrequency_Hz></experimentalConditions><encoding>" +
      space("encodedSpace") + space("reconSpace") + "<encodingLimits></encodingLimits><trajectory>" + kind +
      "</trajectory></encoding>";
  const std::string end = "</ismrmrdHeader>";
  constexpr std::size_t kComment = 7;  // <!-- and -->
  if (const std::size_t size = xml.size() + end.size() + kComment; size < bytes)
    xml += "<!--" + std::string(bytes - size, 'x') + "-->";
  return xml + end;
}

std::vector<std::complex<float>> noise(Random& random, std::size_t count, float size) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<std::complex<float>> values(count);
  for (auto& value : values) value = {size * uniform(random), size * uniform(random)};
  return values;
}

}  // namespace

int number(Random& random, int least, int most) { return std::uniform_int_distribution(least, most)(random); }

Buffer opening(const std::string& pipeline, const std::string& kind, Matrix matrix, std::size_t header_bytes) {
  Buffer bytes;
  protocol::encode(protocol::ConfigFile{pipeline}, bytes);
  protocol::encode(protocol::HeaderText{header_of(kind, matrix, header_bytes)}, bytes);
  return bytes;
}

Buffer least_squares_opening(Matrix matrix) {
  Buffer bytes;
  protocol::encode(protocol::ConfigText{kLeastSquares}, bytes);
  protocol::encode(protocol::HeaderText{header_of("other", matrix, 0)}, bytes);
  return bytes;
}

void add(Buffer& to, Random& random, const Readout& readout) {
  protocol::Acquisition made;
  auto& head = made.head;
  head.version = 1;
  head.flags = readout.flags;
  head.number_of_samples = static_cast<std::uint16_t>(readout.samples);
  head.center_sample = static_cast<std::uint16_t>(readout.samples / 2);
  head.active_channels = head.available_channels = static_cast<std::uint16_t>(readout.coils);
  head.trajectory_dimensions = static_cast<std::uint16_t>(readout.dimensions);
  head.read_dir[0] = head.phase_dir[1] = head.slice_dir[2] = 1;
  head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(readout.step1);
  head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(readout.step2);
  head.idx.slice = static_cast<std::uint16_t>(readout.slice);
  head.idx.contrast = static_cast<std::uint16_t>(readout.contrast);
  head.idx.repetition = static_cast<std::uint16_t>(readout.repetition);
  if (readout.dimensions > 0) made.trajectory = protocol::Payload::take(readout.trajectory);
  const auto count = static_cast<std::size_t>(readout.samples) * static_cast<std::size_t>(readout.coils);
  made.data = protocol::Payload::take(noise(random, count, readout.size));
  protocol::encode(made, to);
}

Buffer cartesian(Random& random, const std::string& pipeline, Matrix matrix, int coils, int repetitions, float size) {
  Buffer bytes = opening(pipeline, "cartesian", matrix);
  for (int repetition = 0; repetition < repetitions; ++repetition)
    for (int y = 0; y < matrix.y; ++y)
      add(bytes, random,
          {.samples = matrix.x,
           .coils = coils,
           .flags = (y == 0 ? kFirstInSlice : 0) | (y == matrix.y - 1 ? kLastInSlice : 0),
           .step1 = y,
           .repetition = repetition,
           .size = size});
  protocol::encode(protocol::Close{}, bytes);
  return bytes;
}

void add_scattered(Buffer& to, Random& random, int readouts, int coils) {
  std::uniform_real_distribution<float> anywhere(-0.5F, 0.499F);
  for (int i = 0; i < readouts; ++i) {
    Readout one{.samples = 64,
                .coils = coils,
                .flags = (i == 0 ? kFirstInSlice : 0) | (i == readouts - 1 ? kLastInSlice : 0),
                .step1 = i,
                .dimensions = 3};
    one.trajectory.resize(64 * 3);
    std::generate(one.trajectory.begin(), one.trajectory.end(), [&] { return anywhere(random); });
    add(to, random, one);
  }
  protocol::encode(protocol::Close{}, to);
}

void add_image(Buffer& to, const std::string& role, int width, int height) {
  protocol::Image image;
  image.head.version = 1;
  image.head.data_type = ISMRMRD::ISMRMRD_FLOAT;
  image.head.channels = 1;
  image.head.matrix_size[0] = static_cast<std::uint16_t>(width);
  image.head.matrix_size[1] = static_cast<std::uint16_t>(height);
  image.head.matrix_size[2] = 1;
  image.attributes = "<ismrmrdMeta><meta><name>role</name><value>" + role + "</value></meta></ismrmrdMeta>";
  image.pixels = protocol::Payload::take(
      std::vector<float>(static_cast<std::size_t>(width) * static_cast<std::size_t>(height), 1));
  protocol::encode(image, to);
}

}  // namespace echotrain::hostile
