// The header that an input chooses is legal ISMRMRD, more or less for a pipeline.
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>

#include "config/pipeline_spec.h"
#include "tests/fuzz/semantic/choices.h"

namespace echotrain::fuzz {

/// The scans that a pipeline is for.
struct Style {
  std::string trajectory = "cartesian";
  bool volume = false;     ///< the encoded matrix has several planes
  std::uint32_t axes = 0;  ///< of the readouts' trajectory, with its weight; 0: none
  bool echoes = false;     ///< ultrasound
  bool heart = false;      ///< gated by an ECG
};

inline Style style_of(const config::PipelineSpec& spec) {
  Style style;
  const auto text_of = [](const config::Node& parameters, const char* name) {
    const config::Node value = parameters.get(name);
    return value.kind() == config::Node::Kind::scalar ? value.as_string() : std::string();
  };
  bool template_spokes = false, weights = false, stack = false;
  for (const config::GadgetSpec& gadget : spec.gadgets) {
    if (gadget.name == "echo_traces") return {"other", false, 0, true, false};
    style.heart |= gadget.name == "cardiac_binning";
    stack |= gadget.name == "partition_fft";
    template_spokes |= gadget.name == "radial_trajectory";
    weights |= text_of(gadget.parameters, "method") == "from_data";
    style.volume |=
        (gadget.name == "gridding" || gadget.name == "fhd") && text_of(gadget.parameters, "dimensions") == "3";
    if (gadget.name == "density_compensation") style.axes = 2;
  }
  if (style.axes == 0) return style;
  style.trajectory = weights ? "spiral" : "radial";
  if (style.volume) style.axes = 3;
  style.volume |= stack;
  style.axes = template_spokes ? 0 : std::min(style.axes + (weights ? 1u : 0u), 3u);
  return style;
}

/// Another style now and then, so that pipelines meet scans that they are not for.
inline Style odd_style(Source& source, Style style) {
  if (source.below(12) != 1) return style;
  style.trajectory = word_of(source, {"cartesian", "epi", "radial", "goldenangle", "spiral", "other"});
  style.axes = source.below(4);
  style.volume = source.one_in(2);
  return style;
}

namespace header_parts {

inline std::string limit(const char* name, std::uint32_t low, std::uint32_t high, std::uint32_t center) {
  return fmt::format("<{0}><minimum>{1}</minimum><maximum>{2}</maximum><center>{3}</center></{0}>", name, low, high,
                     center);
}

/// The limits of an encoding step of `n` lines: all of them, a part, none, the centre left at 0, or others.
inline std::string step_limit(Source& source, const char* name, std::uint32_t n) {
  switch (source.number<std::uint8_t>() % 16) {
    case 1:
      return "";
    case 2: {  // partial Fourier
      const std::uint32_t low = source.below(n / 2 + 1);
      return limit(name, low, n - 1, std::max(low, n / 2));
    }
    case 3:
      return limit(name, 0, n - 1, 0);
    case 4:
      return fmt::format("<{0}><maximum>{1}</maximum></{0}>", name, n - 1);
    case 5: {
      const std::uint32_t low = source.number<std::uint16_t>(), center = low + source.below(65536 - low);
      return limit(name, low, center + source.below(65536 - center), center);
    }
    default:
      return limit(name, 0, n - 1, n / 2);
  }
}

inline std::string counter_limit(Source& source, const char* name) {
  switch (source.number<std::uint8_t>() % 8) {
    case 1:
      return limit(name, 0, 0, 0);
    case 2:
      return limit(name, 0, 1 + source.below(4), 0);
    case 3: {
      const std::uint32_t low = source.number<std::uint16_t>();
      return limit(name, low, low + source.below(65536 - low), low);
    }
    default:
      return "";
  }
}

inline std::string space(const char* name, const std::array<std::uint32_t, 3>& n, const std::array<double, 3>& fov) {
  return fmt::format(
      "<{0}><matrixSize><x>{1}</x><y>{2}</y><z>{3}</z></matrixSize><fieldOfView_mm><x>{4}</x><y>{5}</y><z>{6}</z>"
      "</fieldOfView_mm></{0}>",
      name, n[0], n[1], n[2], fov[0], fov[1], fov[2]);
}

inline std::string encoding(Source& source, const Style& style) {
  const std::uint32_t most = source.number<std::uint8_t>() == 255 ? 4096 : style.volume ? 24 : 256;
  std::array<std::uint32_t, 3> encoded{odd_size(source, most), odd_size(source, most), 1}, recon{};
  if (style.volume) encoded[2] = 1 + odd_size(source, 24) % 24;
  std::array<double, 3> encoded_fov{}, recon_fov{};
  for (std::size_t a = 0; a < 3; ++a) {
    const double voxel = one_of(source, {1.0, 1.0, 1.0, 0.37, 1e-6, 1e9, 3.0});
    encoded_fov[a] = encoded[a] * voxel;
    recon[a] = encoded[a];
    recon_fov[a] = encoded_fov[a];
    switch (source.number<std::uint8_t>() % 12) {
      case 1:  // oversampled: the middle is kept
        recon[a] = (encoded[a] + 1) / 2;
        recon_fov[a] = encoded_fov[a] * recon[a] / encoded[a];
        break;
      case 2:  // interpolated
        recon[a] = std::min(encoded[a] * (a == 2 && encoded[a] == 1 ? 1 : 2), 4096u);
        break;
      case 3:  // coarser voxels
        recon[a] = (encoded[a] + 1) / 2;
        break;
      case 4:
        recon[a] = odd_size(source, 256);
        recon_fov[a] = encoded_fov[a] * one_of(source, {1.0, 0.5, 1e-3, 1.005});
        break;
      default:
        break;
    }
    if (style.echoes && a == 2) recon[a] = encoded[a] = 1;
  }
  std::string limits = step_limit(source, "kspace_encoding_step_1", style.echoes ? 1 + source.below(3) : encoded[1]) +
                       step_limit(source, "kspace_encoding_step_2", encoded[2]);
  for (const char* name : {"average", "slice", "contrast", "phase", "repetition", "set", "segment"})
    limits += counter_limit(source, name);
  std::string out = "<encoding>" + space("encodedSpace", encoded, encoded_fov) + space("reconSpace", recon, recon_fov) +
                    "<encodingLimits>" + limits + "</encodingLimits><trajectory>" + style.trajectory + "</trajectory>";
  if (source.below(4) == 1)
    out += fmt::format(
        "<parallelImaging><accelerationFactor><kspace_encoding_step_1>{}</kspace_encoding_step_1>"
        "<kspace_encoding_step_2>{}</kspace_encoding_step_2></accelerationFactor><calibrationMode>{}</calibrationMode>"
        "</parallelImaging>",
        source.below(5), source.below(3),
        word_of(source, {"embedded", "interleaved", "separate", "external", "other"}));
  return out + "</encoding>";
}

}  // namespace header_parts

inline std::string odd_header(Source& source, const Style& style) {
  std::string xml = "<ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\">";
  if (source.below(8) == 1)
    xml +=
        "<measurementInformation><measurementID>7</measurementID><patientPosition>HFS</patientPosition>"
        "<measurementDependency><dependencyType>Noise</dependencyType><measurementID>6</measurementID>"
        "</measurementDependency></measurementInformation>";
  if (source.below(3) == 1)
    xml += fmt::format(
        "<acquisitionSystemInformation><relativeReceiverNoiseBandwidth>{}</relativeReceiverNoiseBandwidth>"
        "<receiverChannels>{}</receiverChannels></acquisitionSystemInformation>",
        one_of(source, {0.79, 1.0, 1e-30, 1e30}), one_of(source, {0, 1, 2, 8, 64, 1024}));
  xml += "<experimentalConditions><H1resonanceFrequency_Hz>63870000</H1resonanceFrequency_Hz></experimentalConditions>";
  const std::uint32_t encodings = one_of(source, {1u, 1u, 1u, 1u, 2u, 3u});
  for (std::uint32_t i = 0; i < encodings; ++i) xml += header_parts::encoding(source, odd_style(source, style));
  if (source.below(8) == 1)
    xml += fmt::format(
        "<waveformInformation><waveformName>ECG</waveformName><waveformId>0</waveformId><waveformType>ecg</"
        "waveformType>"
        "<waveformTriggerChannel>{}</waveformTriggerChannel></waveformInformation>",
        source.below(4));
  return xml + "</ismrmrdHeader>";
}

}  // namespace echotrain::fuzz
