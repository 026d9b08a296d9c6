// The wire messages are made by hand from the layouts in docs/protocol.md, without the codec under test.
#pragma once

#include <ismrmrd/ismrmrd.h>
#include <ismrmrd/waveform.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace echotrain::server::wire {

template <class T>
std::string raw(const T& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(T));
}
inline std::string id(std::uint16_t value) { return raw(value); }
inline std::string counted(std::uint16_t message, const std::string& text) {
  return id(message) + raw(static_cast<std::uint32_t>(text.size())) + text;
}

inline std::string config(const std::string& name) {
  std::string field = name;
  field.resize(1024, '\0');
  return id(1) + field;
}
inline std::string config_text(const std::string& yaml) { return counted(2, yaml); }
inline std::string header(const std::string& xml) { return counted(3, xml); }
inline std::string close() { return id(4); }
inline std::string text(const std::string& line) { return counted(5, line); }
inline std::string query(const std::string& name, std::uint64_t correlation, std::uint64_t reserved = 0) {
  return id(6) + raw(reserved) + raw(correlation) + raw(static_cast<std::uint64_t>(name.size())) + name;
}

inline constexpr int kMatrix = 8;

/// A Cartesian header: one encoding of kMatrix x kMatrix. Each argument replaces one element's text.
struct Xml {
  std::string encoded_x = std::to_string(kMatrix), fov = "200", trajectory = "cartesian";
  std::string step_1 = "<minimum>0</minimum><maximum>7</maximum><center>4</center>";
  std::string encoded_y = "8", encoded_z = "1", recon_x = "8", recon_y = "8";
  std::string recon_fov;  // as encoded unless said
  int acceleration = 1;
  std::string text() const {
    const auto space = [](const std::string& x) {
      return "<fieldOfView_mm><x>" + x + "</x><y>200</y><z>5</z></fieldOfView_mm>";
    };
    const std::string r = std::to_string(acceleration);
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
           "<ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\">"
           "<experimentalConditions><H1resonanceFrequency_Hz>63500000</H1resonanceFrequency_Hz></"
           "experimentalConditions>"
           "<encoding><encodedSpace><matrixSize><x>" +
           encoded_x + "</x><y>" + encoded_y + "</y><z>" + encoded_z + "</z></matrixSize>" + space(fov) +
           "</encodedSpace><reconSpace><matrixSize><x>" + recon_x + "</x><y>" + recon_y + "</y><z>1</z></matrixSize>" +
           space(recon_fov.empty() ? fov : recon_fov) + "</reconSpace><encodingLimits><kspace_encoding_step_1>" +
           step_1 +
           "</kspace_encoding_step_1><repetition><minimum>0</minimum><maximum>9</maximum><center>0</center></"
           "repetition>"
           "</encodingLimits><trajectory>" +
           trajectory + "</trajectory><parallelImaging><accelerationFactor><kspace_encoding_step_1>" + r +
           "</kspace_encoding_step_1><kspace_encoding_step_2>1</kspace_encoding_step_2></accelerationFactor>"
           "</parallelImaging></encoding></ismrmrdHeader>";
  }
};
inline std::string xml() { return Xml{}.text(); }

inline ISMRMRD::ISMRMRD_AcquisitionHeader readout_head(int line, int repetition = 0) {
  ISMRMRD::ISMRMRD_AcquisitionHeader head{};
  head.version = 1;
  head.number_of_samples = kMatrix;
  head.active_channels = head.available_channels = 2;
  head.center_sample = kMatrix / 2;
  head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(line);
  head.idx.repetition = static_cast<std::uint16_t>(repetition);
  head.read_dir[0] = head.phase_dir[1] = head.slice_dir[2] = 1;
  if (line == kMatrix - 1) head.flags = 1 << 7;  // LAST_IN_SLICE
  return head;
}

inline std::string acquisition(const ISMRMRD::ISMRMRD_AcquisitionHeader& head, float value = 1.0f,
                               float position = 0.0f) {
  const std::vector<float> trajectory(static_cast<std::size_t>(head.number_of_samples) * head.trajectory_dimensions,
                                      position);
  std::vector<float> data(2 * static_cast<std::size_t>(head.number_of_samples) * head.active_channels);
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = value * static_cast<float>((i * 7 + head.idx.kspace_encode_step_1) % 11);
  return id(1008) + raw(head) + std::string(reinterpret_cast<const char*>(trajectory.data()), trajectory.size() * 4) +
         std::string(reinterpret_cast<const char*>(data.data()), data.size() * 4);
}
/// Spoke `line` of kMatrix over half a turn, with its trajectory [cycles/pixel].
inline std::string spoke(int line, int repetition = 0) {
  auto head = readout_head(line, repetition);
  head.trajectory_dimensions = 2;
  std::vector<float> trajectory;
  const float angle = 3.14159265f * static_cast<float>(line) / kMatrix;
  for (int s = 0; s < kMatrix; ++s) {
    const float k = static_cast<float>(s - kMatrix / 2) / kMatrix;
    trajectory.insert(trajectory.end(), {k * std::cos(angle), k * std::sin(angle)});
  }
  std::string bytes = acquisition(head);
  std::memcpy(bytes.data() + 2 + sizeof(head), trajectory.data(), trajectory.size() * 4);
  return bytes;
}
inline std::string acquisition(int line, int repetition = 0) { return acquisition(readout_head(line, repetition)); }

/// All lines of one repetition: one image.
inline std::string frame(int repetition = 0) {
  std::string bytes;
  for (int line = 0; line < kMatrix; ++line) bytes += acquisition(line, repetition);
  return bytes;
}

inline ISMRMRD::ISMRMRD_ImageHeader image_head(int size, std::uint16_t index = 1) {
  ISMRMRD::ISMRMRD_ImageHeader head{};
  head.version = 1;
  head.data_type = 5;  // float
  head.matrix_size[0] = head.matrix_size[1] = static_cast<std::uint16_t>(size);
  head.matrix_size[2] = head.channels = 1;
  head.image_type = 1;
  head.image_index = index;
  return head;
}
inline std::string image(ISMRMRD::ISMRMRD_ImageHeader head, const std::string& attributes = "") {
  head.attribute_string_len = static_cast<std::uint32_t>(attributes.size());
  const std::size_t voxels = static_cast<std::size_t>(head.matrix_size[0]) * head.matrix_size[1];
  std::vector<float> pixels(voxels);
  for (std::size_t i = 0; i < voxels; ++i) pixels[i] = static_cast<float>(i + head.image_index);
  return id(1022) + raw(head) + raw(static_cast<std::uint64_t>(attributes.size())) + attributes +
         std::string(reinterpret_cast<const char*>(pixels.data()), voxels * 4);
}

inline ISMRMRD::ISMRMRD_WaveformHeader waveform_head(std::uint16_t channels = 1, std::uint16_t samples = 4) {
  ISMRMRD::ISMRMRD_WaveformHeader head{};
  head.version = 1;
  head.channels = channels;
  head.number_of_samples = samples;
  return head;
}
inline std::string waveform() { return id(1026) + raw(waveform_head()) + std::string(16, '\x01'); }

}  // namespace echotrain::server::wire
