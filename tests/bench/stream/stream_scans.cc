#include "tests/bench/stream/stream_scans.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <random>
#include <span>

namespace echotrain::bench {
namespace {

using namespace protocol;

constexpr std::uint64_t kFirstInSlice = 1 << 6, kLastInSlice = 1 << 7, kCalibration = 1 << 19;
constexpr double kGoldenAngle = std::numbers::pi * 0.61803398874989485;

std::string header_of(const ScanShape& shape) {
  const int encoded = shape.radial ? shape.matrix : shape.samples;
  const auto space = [&](const char* name, int x, double fov) {
    return fmt::format(
        "<{0}><matrixSize><x>{1}</x><y>{2}</y><z>1</z></matrixSize><fieldOfView_mm><x>{3}</x><y>300</y><z>5</z>"
        "</fieldOfView_mm></{0}>",
        name, x, shape.matrix, fov);
  };
  const auto limit = [](const char* name, int count) {
    return fmt::format("<{0}><minimum>0</minimum><maximum>{1}</maximum><center>{2}</center></{0}>", name, count - 1,
                       count / 2);
  };
  return "<?xml version=\"1.0\"?><ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\"><experimentalConditions>"
         "<H1resonanceFrequency_Hz>128000000</H1resonanceFrequency_Hz></experimentalConditions><encoding>" +
         space("encodedSpace", encoded, 300.0 * encoded / shape.matrix) + space("reconSpace", shape.matrix, 300) +
         "<encodingLimits>" + limit("kspace_encoding_step_1", shape.readouts) +
         limit("repetition", shape.repetitions > 0 ? shape.repetitions : shape.frames) +
         "</encodingLimits><trajectory>" + (shape.radial ? "goldenangle" : "cartesian") + "</trajectory>" +
         (shape.acceleration == 1
              ? ""
              : fmt::format("<parallelImaging><accelerationFactor><kspace_encoding_step_1>{}</kspace_encoding_step_1>"
                            "<kspace_encoding_step_2>1</kspace_encoding_step_2></accelerationFactor><calibrationMode>"
                            "separate</calibrationMode></parallelImaging>",
                            shape.acceleration)) +
         "</encoding></ismrmrdHeader>";
}

std::vector<float> spoke(const ScanShape& shape, int number) {
  const double angle = std::fmod(number * kGoldenAngle, 2 * std::numbers::pi);
  std::vector<float> positions;
  for (int s = 0; s < shape.samples; ++s) {
    const double k = (s - shape.samples / 2) / static_cast<double>(shape.samples);
    positions.push_back(static_cast<float>(k * std::cos(angle)));
    positions.push_back(static_cast<float>(k * std::sin(angle)));
  }
  return positions;
}

}  // namespace

EncodedScan encode_scan(const ScanShape& shape, int turn) {
  EncodedScan scan{shape};
  if (shape.pipeline.starts_with("echotrain:"))
    encode(ConfigText{shape.pipeline}, scan.bytes);
  else
    encode(ConfigFile{shape.pipeline}, scan.bytes);
  encode(HeaderText{header_of(shape)}, scan.bytes);
  scan.begin = scan.bytes.size();

  // Each readout has different samples: a window into an array longer than one readout.
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  const std::size_t values = static_cast<std::size_t>(shape.samples) * static_cast<std::size_t>(shape.channels);
  std::vector<std::complex<float>> samples(values + 4096);
  for (auto& s : samples) s = {normal(random), normal(random)};

  Acquisition readout;
  readout.head.version = 1;
  readout.head.number_of_samples = static_cast<std::uint16_t>(shape.samples);
  readout.head.active_channels = readout.head.available_channels = static_cast<std::uint16_t>(shape.channels);
  readout.head.center_sample = static_cast<std::uint16_t>(shape.samples / 2);
  readout.head.read_dir[0] = readout.head.phase_dir[1] = readout.head.slice_dir[2] = 1;
  if (shape.radial) readout.head.trajectory_dimensions = 2;
  const int lines = (shape.readouts + shape.acceleration - 1) / shape.acceleration, all = lines * shape.frames;
  scan.bytes.reserve(scan.begin +
                     static_cast<std::size_t>(all + shape.calibration) *
                         (values * 8 + 342 + (shape.radial ? 8 : 0) * static_cast<std::size_t>(shape.samples)) +
                     2);
  const auto send = [&](int line, int repetition, std::uint64_t flags) {
    readout.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(line);
    readout.head.idx.repetition = static_cast<std::uint16_t>(repetition);
    readout.head.flags = flags;
    readout.data = {nullptr, std::as_bytes(std::span(samples).subspan(random() % 4096, values))};
    encode(readout, scan.bytes);
    ++readout.head.scan_counter;
  };
  for (int i = 0; i < shape.calibration; ++i) send((shape.readouts - shape.calibration) / 2 + i, 0, kCalibration);
  scan.begin = scan.bytes.size();
  for (int i = 0; i < all; ++i) {
    const int line = i % lines;
    if (shape.radial) readout.trajectory = Payload::take(spoke(shape, turn + i));
    send(line * shape.acceleration, i / lines,
         (line == 0 ? kFirstInSlice : 0) | (line == lines - 1 ? kLastInSlice : 0));
    scan.ends.push_back(scan.bytes.size());
  }
  encode(Close{}, scan.bytes);
  return scan;
}

void turn_spokes(EncodedScan& scan, int turn) {
  constexpr std::size_t kBeforeTrajectory = 2 + sizeof(AcquisitionHeader);
  std::size_t begin = scan.begin;
  for (int i = 0; const std::size_t end : scan.ends) {
    const std::vector<float> positions = spoke(scan.shape, turn + i++);
    std::memcpy(scan.bytes.data() + begin + kBeforeTrajectory, positions.data(), positions.size() * sizeof(float));
    begin = end;
  }
}

}  // namespace echotrain::bench
