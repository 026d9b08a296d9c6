// The bytes of raw data as a scanner writes them (VD, VE), for tests: heads, channels, header texts, and files of
// several measurements.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "protocol/twix/scan_head.h"

namespace echotrain::protocol::twix::test {

inline constexpr std::size_t kDirectoryBytes = 8 + 64 * 152;

template <class T>
void put(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

inline std::uint64_t bit(int which) { return std::uint64_t{1} << which; }

/// A head: the fields of a ScanHead at the offsets of twixtools' mdh_def.Scan_header.
inline std::string scan_head(const ScanHead& h) {
  std::string out(kScanHeadBytes, '\0');
  const auto at = [&](std::size_t offset, const auto& value) {
    std::memcpy(out.data() + offset, &value, sizeof(value));
  };
  at(0, h.flags_and_length);
  at(4, h.measurement_uid);
  at(8, h.scan_counter);
  at(12, h.time_stamp);
  at(16, h.pmu_time_stamp);
  at(24, h.table_um);
  at(40, h.mask);
  at(48, h.samples);
  at(50, h.channels);
  const std::uint16_t counters[] = {h.line,  h.average,    h.slice, h.partition, h.echo,
                                    h.phase, h.repetition, h.set,   h.segment};
  at(52, counters);
  at(70, h.free_counters);
  at(80, h.cut_before);
  at(82, h.cut_after);
  at(84, h.center_sample);
  at(92, h.since_rf);
  at(96, h.center_line);
  at(98, h.center_partition);
  at(100, h.position_mm);
  at(112, h.quaternion);
  at(128, h.program);
  return out;
}

/// The value of a sample: every readout, channel and part has its own.
inline float sample(const ScanHead& head, std::size_t channel, std::size_t index, bool imaginary) {
  return static_cast<float>(head.scan_counter) + 0.25f * static_cast<float>(channel) +
         static_cast<float>(index) / 1024.0f + (imaginary ? 0.5f : 0.0f);
}

/// A head and its channels' samples. Each channel's head is 32 bytes that no sample equals.
inline std::string readout(const ScanHead& head) {
  std::string out = scan_head(head);
  for (std::size_t c = 0; c < head.channels; ++c) {
    out += std::string(kChannelHeadBytes, '\x7f');
    for (std::size_t i = 0; i < head.samples; ++i)
      for (const bool imaginary : {false, true}) put(out, sample(head, c, i, imaginary));
  }
  return out;
}

/// Data of other devices, or the end: `bytes` with the head.
inline std::string other(int which, std::uint32_t bytes, std::uint32_t counter = 0) {
  ScanHead head;
  head.mask = bit(which);
  head.flags_and_length = bytes;
  head.scan_counter = counter;
  return scan_head(head) + std::string(bytes > kScanHeadBytes ? bytes - kScanHeadBytes : 0, 'p');
}
inline std::string the_end() { return other(kEndOfAcquisition, 352); }

/// A protocol with the facts that every header needs, and more lines behind them, which hold before them.
inline std::string ascconv(const std::string& more = "") {
  return "<XProtocol>\n### ASCCONV BEGIN object=MrProtDataImpl ###\n" + more +
         "tProtocolName\t = \t\"gre\"\nlContrasts\t = \t1\nsKSpace.lBaseResolution\t = \t16\n"
         "sKSpace.lPhaseEncodingLines\t = \t12\nsKSpace.ucDimension\t = \t2\nsKSpace.ucTrajectory\t = \t1\n"
         "sSliceArray.asSlice[0].dReadoutFOV\t = \t200.0\nsSliceArray.asSlice[0].dPhaseFOV\t = \t150.0\n"
         "sSliceArray.asSlice[0].dThickness\t = \t5.0\nsRXSPEC.alDwellTime[0]\t = \t11600\n"
         "alTR[0]\t = \t10000\nalTE[0]\t = \t3000\nalTE[1]\t = \t7000\nalTI[0]\t = \t300000\n"
         "adFlipAngleDegree[0]\t = \t15.0\nsPrepPulses.ucInversion\t = \t4\n"
         "sTXSPEC.asNucleusInfo[0].tNucleus\t = \t\"1H\"\nsTXSPEC.asNucleusInfo[0].lFrequency\t = \t123263034\n"
         "sProtConsistencyInfo.flNominalB0\t = \t2.89362001419\n### ASCCONV END ###\n";
}

/// XProtocol in the manner of the scanner, with white space, defaults, nested maps and texts with braces.
inline std::string xprotocol(const std::string& yaps = "", const std::string& other_maps = "") {
  return "<XProtocol>\n{\n  <Name> \"Meas { <odd> }\"\n  <ParamMap.\"\">\n  {\n    <ParamMap.\"YAPS\">\n    {\n" +
         yaps +
         "      <ParamLong.\"iPEFTLength\">\n      {\n        12\n      }\n      <ParamLong.\"i3DFTLength\"> { 1 }\n"
         "      <ParamDouble.\"flReadoutOSFactor\">\n      {\n        <Precision> 6\n        2.000000\n      }\n"
         "      <ParamString.\"tPatientPosition\"> { \"FFS\" }\n      <ParamDouble.\"flUsedPatientWeight\"> { "
         "<Precision> "
         "6  81.5 }\n    }\n    <ParamMap.\"IRIS\"> { <ParamMap.\"RECOMPOSE\"> { <ParamString.\"PatientID\"> { "
         "\"id-7\" } "
         "<ParamString.\"PatientBirthDay\"> { \"19700131\" } <ParamLong.\"PatientSex\"> { 1 } "
         "<ParamString.\"StudyLOID\"> "
         "{ \"6.0.66\" } }\n      <ParamMap.\"DERIVED\"> { <ParamLong.\"ImageColumns\"> { 16 } "
         "<ParamLong.\"ImageLines\"> { 12 } } }\n    <ParamMap.\"DICOM\"> { <ParamString.\"DeviceSerialNumber\"> { "
         "\"45385\" } <ParamString.\"tPatientName\"> { \"Doe^J\xfc\" } }\n" +
         other_maps + "  }\n}\n";
}

/// The header of a measurement: two lengths, then named texts. Its length is a multiple of 32 bytes.
inline std::string header(const std::string& protocol = ascconv(), const std::string& programs = xprotocol()) {
  std::string texts;
  for (const auto& [name, text] : {std::pair{"Config", std::string("<XProtocol> { }")}, std::pair{"Meas", programs},
                                   std::pair{"MeasYaps", protocol}}) {
    texts += name;
    texts += '\0';
    put(texts, static_cast<std::uint32_t>(text.size()));
    texts += text;
  }
  texts.resize((8 + texts.size() + 31) / 32 * 32 - 8);
  std::string out;
  put(out, static_cast<std::uint32_t>(8 + texts.size()));
  put(out, std::uint32_t{3});
  return out + texts;
}

/// A file of measurements, one after another, each of them its header with what follows it.
inline std::string raid(const std::vector<std::string>& measurements, std::uint32_t first_uid = 11) {
  std::string out(10240, '\0'), bodies;
  const auto at = [&](std::size_t offset, const auto& value) {
    std::memcpy(out.data() + offset, &value, sizeof(value));
  };
  at(4, static_cast<std::uint32_t>(measurements.size()));
  for (std::size_t i = 0; i < measurements.size(); ++i) {
    const std::size_t entry = 8 + 152 * i;
    at(entry, static_cast<std::uint32_t>(first_uid + i));
    at(entry + 8, std::uint64_t{out.size() + bodies.size()});
    at(entry + 16, std::uint64_t{measurements[i].size()});
    std::memcpy(out.data() + entry + 24, "Doe^Jane", 8);
    std::memcpy(out.data() + entry + 88, "gre", 3);
    bodies += measurements[i];
    bodies.resize((bodies.size() + 511) / 512 * 512);
  }
  return out + bodies;
}

}  // namespace echotrain::protocol::twix::test
