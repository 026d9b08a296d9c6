#include "protocol/twix/header_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <pugixml.hpp>
#include <sstream>
#include <tuple>

#include "protocol/data/text.h"
#include "protocol/twix/spaces.h"

namespace echotrain::protocol::twix {
namespace {

constexpr double kProtonHzPerTesla = 42.577478518e6;  // CODATA 2018
// What Siemens' receivers pass of the noise, over what their bandwidth says (siemens_to_ismrmrd's parameter map).
constexpr double kNoiseBandwidth = 0.793;
constexpr std::size_t kNoiseDependency = 2;  // its place in ReconMeasDependencies, by the same map
constexpr long kInversionOff = 4;

/// Texts of the scanner are of 8 bits; what is no UTF-8 is read as Latin-1. Nothing that XML cannot hold is left.
std::string utf8(std::string_view text) {
  std::string out;
  if (is_utf8(text)) {
    out = text;
  } else {
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x80) {
        out += c;
      } else {
        out += static_cast<char>(0xc0 | byte >> 6);
        out += static_cast<char>(0x80 | (byte & 0x3f));
      }
    }
  }
  return printable(out);
}

pugi::xml_node add(pugi::xml_node parent, const char* name) { return parent.append_child(name); }

void add(pugi::xml_node parent, const char* name, const std::string& value) {
  parent.append_child(name).text().set(value.c_str());
}

void add(pugi::xml_node parent, const char* name, double value) { add(parent, name, fmt::format("{}", value)); }
void add(pugi::xml_node parent, const char* name, long value) { add(parent, name, fmt::format("{}", value)); }

void add_text(pugi::xml_node parent, const char* name, std::string_view value) {
  if (!value.empty()) add(parent, name, utf8(value));
}

class HeaderWriter {
 public:
  HeaderWriter(const Parameters& parameters, const Survey& survey, const HeaderContext& context)
      : p_(parameters),
        survey_(survey),
        context_(context),
        spaces_(context.scan == nullptr ? spaces(parameters, survey) : Spaces{}) {}

  std::string text() {
    pugi::xml_document document;
    pugi::xml_node root = document.append_child("ismrmrdHeader");
    root.append_attribute("xmlns").set_value("http://www.ismrm.org/ISMRMRD");
    if (context_.patient) subject(add(root, "subjectInformation"));
    measurement(add(root, "measurementInformation"));
    system(add(root, "acquisitionSystemInformation"));
    add(add(root, "experimentalConditions"), "H1resonanceFrequency_Hz", proton_hz());
    if (context_.scan != nullptr)
      HeaderWriter(*context_.scan, *context_.scan_survey, {}).encoding(add(root, "encoding"));
    else
      encoding(add(root, "encoding"));
    sequence(add(root, "sequenceParameters"));
    std::ostringstream out;
    document.save(out, "  ");
    return out.str();
  }

 private:
  void subject(pugi::xml_node node) {
    const auto name = p_.text("DICOM.tPatientName");
    add_text(node, "patientName", name.empty() ? p_.text("RECOMPOSE.tPatientName") : name);
    if (const auto weight = p_.number("YAPS.flUsedPatientWeight"); weight && *weight > 0)
      add(node, "patientWeight_kg", *weight);
    add_text(node, "patientID", p_.text("RECOMPOSE.PatientID"));
    const std::string_view day = p_.text("RECOMPOSE.PatientBirthDay");
    if (day.size() == 8 && day.find_first_not_of("0123456789") == std::string_view::npos)
      add(node, "patientBirthdate", fmt::format("{}-{}-{}", day.substr(0, 4), day.substr(4, 2), day.substr(6)));
    const long sex = p_.whole("RECOMPOSE.PatientSex").value_or(0);
    if (sex > 0) add(node, "patientGender", std::string(sex == 1 ? "F" : sex == 2 ? "M" : "O"));
  }

  /// The ID by which scans name one another: device, study, measurement; nothing of the patient.
  std::string measurement_id(std::uint32_t uid) const {
    return fmt::format("{}_{}_{}", utf8(p_.text("DICOM.DeviceSerialNumber")), utf8(p_.text("RECOMPOSE.StudyLOID")),
                       uid);
  }

  void measurement(pugi::xml_node node) {
    add(node, "measurementID", measurement_id(context_.uid));
    const std::string_view position = p_.text("YAPS.tPatientPosition");
    add(node, "patientPosition", position.empty() ? std::string("HFS") : utf8(position));
    add_text(node, "protocolName", p_.text("tProtocolName"));
    const auto named = p_.whole("YAPS.ReconMeasDependencies", 1, kNoiseDependency);
    const auto noise = named ? static_cast<std::uint32_t>(*named) : context_.noise_uid;
    if (noise != 0 && noise != context_.uid) {
      pugi::xml_node dependency = add(node, "measurementDependency");
      add(dependency, "dependencyType", std::string("Noise"));
      add(dependency, "measurementID", measurement_id(noise));
    }
    add_text(node, "frameOfReferenceUID", p_.text("YAPS.tFrameOfReference"));
  }

  void system(pugi::xml_node node) {
    add_text(node, "systemVendor", p_.text("DICOM.Manufacturer"));
    add_text(node, "systemModel", p_.text("DICOM.ManufacturersModelName"));
    if (const auto tesla = p_.number("sProtConsistencyInfo.flNominalB0")) add(node, "systemFieldStrength_T", *tesla);
    add(node, "relativeReceiverNoiseBandwidth", kNoiseBandwidth);
    if (survey_.most_channels > 0) add(node, "receiverChannels", static_cast<long>(survey_.most_channels));
    coil_labels(node);
    add_text(node, "institutionName", p_.text("DICOM.InstitutionName"));
    add_text(node, "deviceID", p_.text("DICOM.DeviceSerialNumber"));
  }

  /// Rows of the data are the elements in the order of their receivers. Labels that are not one for each row are left
  /// out: a wrong name is worse than none.
  void coil_labels(pugi::xml_node system) {
    constexpr std::string_view kList = "sCoilSelectMeas.aRxCoilSelectData[0].asList[",
                               kChannel = "].lADCChannelConnected";
    std::vector<std::pair<double, std::string>> coils;
    for (const std::string& name : p_.names(kList)) {
      if (!name.ends_with(kChannel)) continue;
      const std::string element = name.substr(0, name.size() - kChannel.size() + 1);
      if (p_.whole(element + ".lElementSelected").value_or(1) == 0) continue;
      const std::string id = element + ".sCoilElementID.";
      coils.emplace_back(p_.number(name).value_or(0), fmt::format("{}:{}:{}", p_.text(id + "tCoilID"),
                                                                  p_.text(id + "lCoilCopy"), p_.text(id + "tElement")));
    }
    if (coils.size() != survey_.most_channels) return;
    std::sort(coils.begin(), coils.end());
    for (std::size_t i = 0; i < coils.size(); ++i) {
      pugi::xml_node label = add(system, "coilLabel");
      add(label, "coilNumber", static_cast<long>(i));
      add(label, "coilName", utf8(coils[i].second));
    }
  }

  long proton_hz() const {
    const std::string nucleus = "sTXSPEC.asNucleusInfo[0].";
    const auto hz = p_.whole(nucleus + "lFrequency", 1);
    if (hz && p_.text(nucleus + "tNucleus") == "1H") return *hz;
    return std::lround(p_.number("sProtConsistencyInfo.flNominalB0").value_or(0) * kProtonHzPerTesla);
  }

  void encoding(pugi::xml_node node) {
    const auto space = [](pugi::xml_node to, const std::array<long, 3>& matrix, const std::array<double, 3>& mm) {
      pugi::xml_node size = add(to, "matrixSize"), fov = add(to, "fieldOfView_mm");
      constexpr const char* kAxes[] = {"x", "y", "z"};
      for (std::size_t i = 0; i < 3; ++i) add(size, kAxes[i], matrix[i]);
      for (std::size_t i = 0; i < 3; ++i) add(fov, kAxes[i], mm[i]);
    };
    space(add(node, "encodedSpace"), spaces_.encoded, spaces_.encoded_mm);
    space(add(node, "reconSpace"), spaces_.recon, spaces_.recon_mm);
    limits(add(node, "encodingLimits"));
    add(node, "trajectory", spaces_.trajectory);
    if (spaces_.trajectory == "epi") epi(add(node, "trajectoryDescription"));
    parallel(node);
  }

  void limits(pugi::xml_node node) {
    const auto limit = [&](const char* name, long highest, long center = 0) {
      pugi::xml_node to = add(node, name);
      add(to, "minimum", 0L);
      add(to, "maximum", std::max(highest, center));
      add(to, "center", center);
    };
    const Survey::Highest& h = survey_.highest;
    limit("kspace_encoding_step_1", h.line, spaces_.center[1]);
    limit("kspace_encoding_step_2", h.partition, spaces_.center[2]);
    limit("average", h.average);
    limit("slice", h.slice);
    limit("contrast", h.echo);
    limit("phase", h.phase);
    limit("repetition", h.repetition);
    limit("set", h.set);
    limit("segment", h.segment);
  }

  /// Times of the readout's gradient [us]; without ramps only the number of samples.
  void epi(pugi::xml_node node) {
    add(node, "identifier", std::string("ConventionalEPI"));
    const auto value = [&](const char* kind, const char* name, double number) {
      pugi::xml_node to = add(node, kind);
      add(to, "name", std::string(name));
      add(to, "value", number);
    };
    const auto whole = [&](const char* name, std::optional<double> number) {
      if (number) value("userParameterLong", name, *number);
    };
    whole("etl", p_.number("sFastImaging.lEPIFactor"));
    if (survey_.navigators > 0) whole("numberOfNavigators", static_cast<double>(survey_.navigators));
    const bool ramps = p_.number("YAPS.alRegridRampupTime").value_or(0) > 0;
    for (const auto& [name, parameter] :
         {std::pair{"rampUpTime", "YAPS.alRegridRampupTime"}, std::pair{"rampDownTime", "YAPS.alRegridRampdownTime"},
          std::pair{"flatTopTime", "YAPS.alRegridFlattopTime"},
          std::pair{"acqDelayTime", "YAPS.alRegridDelaySamplesTime"}})
      if (ramps) whole(name, p_.number(parameter));
    whole("echoSpacing", p_.number("YAPS.lEchoSpacing"));
    if (survey_.first) whole("numSamples", survey_.first->samples);
    if (survey_.first) value("userParameterDouble", "dwellTime", sample_time_us(p_, *survey_.first));
  }

  void parallel(pugi::xml_node encoding) {
    const long lines = p_.whole("sPat.lAccelFactPE", 1).value_or(1),
               partitions = p_.whole("sPat.lAccelFact3D", 1).value_or(1);
    if (lines == 1 && partitions == 1) return;
    pugi::xml_node node = add(encoding, "parallelImaging"), factor = add(node, "accelerationFactor");
    add(factor, "kspace_encoding_step_1", lines);
    add(factor, "kspace_encoding_step_2", partitions);
    struct Mode {
      long value;
      const char *mode, *dimension;
    };
    constexpr Mode kModes[] = {{2, "embedded", nullptr},          {4, "separate", nullptr},
                               {8, "separate", nullptr},          {16, "interleaved", "average"},
                               {32, "interleaved", "repetition"}, {64, "interleaved", "phase"}};
    const long mode = p_.whole("sPat.ucRefScanMode").value_or(0);
    const auto* const found =
        std::find_if(std::begin(kModes), std::end(kModes), [&](const Mode& m) { return m.value == mode; });
    add(node, "calibrationMode", std::string(found == std::end(kModes) ? "other" : found->mode));
    if (found != std::end(kModes) && found->dimension != nullptr)
      add(node, "interleavingDimension", std::string(found->dimension));
  }

  /// Arrays of the protocol keep values of earlier protocols behind those in use, so that only as many as there are
  /// contrasts are taken.
  void sequence(pugi::xml_node node) {
    const long contrasts = std::clamp(p_.whole("lContrasts", 1).value_or(1), 1L, 128L);
    const auto times = [&](const char* name, const char* parameter, long count, double scale) {
      for (long i = 0; i < count; ++i)
        if (const auto value = p_.number(fmt::format("{}[{}]", parameter, i)); value && *value > 0)
          add(node, name, *value * scale);
    };
    times("TR", "alTR", 1, 1e-3);
    times("TE", "alTE", contrasts, 1e-3);
    if (p_.whole("sPrepPulses.ucInversion").value_or(kInversionOff) != kInversionOff) times("TI", "alTI", 1, 1e-3);
    times("flipAngle_deg", "adFlipAngleDegree", 1, 1);
    if (const auto spacing = p_.number("YAPS.lEchoSpacing"); spacing && *spacing > 0)
      add(node, "echo_spacing", *spacing * 1e-3);
  }

  const Parameters& p_;
  const Survey& survey_;
  const HeaderContext context_;
  const Spaces spaces_;
};

}  // namespace

std::string header_text(const Parameters& parameters, const Survey& survey, const HeaderContext& context) {
  return HeaderWriter(parameters, survey, context).text();
}

std::vector<std::string> header_notes(const Parameters& p, const Survey& survey) {
  std::vector<std::string> out;
  const Spaces found = spaces(p, survey);
  if (!found.note.empty()) out.push_back(found.note);
  if (found.trajectory != "cartesian" && found.trajectory != "epi")
    out.push_back(fmt::format("trajectory '{}': the file does not say where samples lie, so a pipeline has to know",
                              found.trajectory));
  if (found.trajectory == "cartesian" && survey.reversed)
    out.emplace_back("lines are reversed without EPI; pipelines for Cartesian scans leave these out");
  if (const long bands = p.whole("sSliceAcceleration.lMultiBandFactor").value_or(1); bands > 1)
    out.push_back(fmt::format("{} slices were excited at once, which the header does not tell", bands));
  if (const std::string_view software = p.text("DICOM.SoftwareVersions"); software.find("XA") != std::string_view::npos)
    out.push_back(fmt::format("software '{}': only files of VE were tried, so compare with the scanner's images",
                              printable(software, 64)));
  return out;
}

float sample_time_us(const Parameters& p, const ScanHead& head) {
  if (head.has(kNoise)) {
    const std::string_view protocol = p.text("tProtocolName");
    if (protocol == "AdjCoilSens") return 5;
    if (protocol == "AdjQuietCoilSens") return 4;
    return static_cast<float>(std::floor(76800.0 / std::max<double>(head.samples, 1)) / 10);
  }
  const bool several = head.echo < p.whole("lContrasts", 1).value_or(1);
  const auto own = p.number(fmt::format("sRXSPEC.alDwellTime[{}]", several ? head.echo : 0));
  const double ns = own && *own > 0 ? *own : p.number("sRXSPEC.alDwellTime[0]").value_or(0);
  return static_cast<float>(std::clamp(ns, 0.0, 1e12) / 1000);
}

}  // namespace echotrain::protocol::twix
