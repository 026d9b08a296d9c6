#include "protocol/dicom/study.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <pugixml.hpp>

#include "protocol/data/trace.h"
#include "protocol/dicom/values.h"

namespace echotrain::protocol::dicom {
namespace {

/// An element's name without its namespace's prefix.
std::string_view local_name(const pugi::xml_node& node) {
  const std::string_view name = node.name();
  const std::size_t colon = name.find(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

pugi::xml_node child(const pugi::xml_node& node, std::string_view name) {
  return node.find_child([&](const pugi::xml_node& each) { return local_name(each) == name; });
}

std::string_view value(const pugi::xml_node& node, std::string_view name) { return child(node, name).child_value(); }

std::string text(const pugi::xml_node& node, std::string_view name, std::size_t most = 64) {
  return plain_text(value(node, name), most);
}

std::optional<double> number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n' || text.front() == '\t')) text.remove_prefix(1);
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || !std::isfinite(out)) return std::nullopt;
  return out;
}

/// A number as a decimal string, times `factor`; empty where there is none.
std::string decimal(const pugi::xml_node& node, std::string_view name, double factor = 1) {
  const auto found = number(value(node, name));
  return found ? decimal_text(*found * factor) : std::string();
}

std::vector<double> numbers(const pugi::xml_node& node, std::string_view name) {
  std::vector<double> all;
  for (const pugi::xml_node& each : node.children()) {
    if (local_name(each) != name) continue;
    if (const auto found = number(each.child_value())) all.push_back(*found);
  }
  return all;
}

std::string sex_of(std::string_view text) {
  for (const std::string_view known : {"M", "F", "O"})
    if (text == known) return std::string(known);
  return "";
}

/// One of the positions of PS3.3 C.7.3.1.1.2 for MR, or empty.
std::string position_of(std::string_view text) {
  constexpr std::array<std::string_view, 8> kKnown = {"HFP", "HFS", "HFDR", "HFDL", "FFDR", "FFDL", "FFP", "FFS"};
  return std::find(kKnown.begin(), kKnown.end(), text) != kKnown.end() ? std::string(text) : std::string();
}

void read_patient(const pugi::xml_node& root, Study& study) {
  const pugi::xml_node subject = child(root, "subjectInformation");
  study.patient_name = text(subject, "patientName");
  study.patient_id = text(subject, "patientID");
  study.birth_date = date_text(value(subject, "patientBirthdate"));
  study.sex = sex_of(value(subject, "patientGender"));
  study.weight_kg = decimal(subject, "patientWeight_kg");
  study.height_m = decimal(subject, "patientHeight_m");
  const pugi::xml_node from = child(root, "studyInformation");
  study.id = text(from, "studyID", 16);
  study.accession_number = text(from, "accessionNumber", 16);
  study.referring_physician = text(from, "referringPhysicianName");
  if (const std::string_view uid = value(from, "studyInstanceUID"); is_uid(uid)) study.study_uid = uid;
  if (const std::string_view uid = value(child(root, "measurementInformation"), "frameOfReferenceUID"); is_uid(uid))
    study.frame_uid = uid;
}

void read_measurement(const pugi::xml_node& root, Study& study) {
  const pugi::xml_node from = child(root, "studyInformation");
  study.date = date_text(value(from, "studyDate"));
  study.time = time_text(value(from, "studyTime"));
  study.description = text(from, "studyDescription");
  const pugi::xml_node measurement = child(root, "measurementInformation");
  study.series_date = date_text(value(measurement, "seriesDate"));
  study.series_time = time_text(value(measurement, "seriesTime"));
  study.protocol_name = text(measurement, "protocolName");
  study.series_description = text(measurement, "seriesDescription");
  study.patient_position = position_of(value(measurement, "patientPosition"));
  if (const auto first = number(value(measurement, "initialSeriesNumber")); first && *first >= 0 && *first <= 1e6)
    study.series_number = std::llround(*first);
  study.sequence_name = text(measurement, "sequenceName", 16);
}

void read_equipment(const pugi::xml_node& root, Study& study) {
  const pugi::xml_node system = child(root, "acquisitionSystemInformation");
  study.manufacturer = text(system, "systemVendor");
  study.model = text(system, "systemModel");
  study.institution = text(system, "institutionName");
  study.station = text(system, "stationName", 16);
  study.device_serial_number = text(system, "deviceSerialNumber");
  study.field_strength_t = decimal(system, "systemFieldStrength_T");
  study.frequency_mhz = decimal(child(root, "experimentalConditions"), "H1resonanceFrequency_Hz", 1e-6);
  const pugi::xml_node sequence = child(root, "sequenceParameters");
  study.tr_ms = numbers(sequence, "TR");
  study.te_ms = numbers(sequence, "TE");
  study.ti_ms = numbers(sequence, "TI");
  study.flip_deg = numbers(sequence, "flipAngle_deg");
  const pugi::xml_node limits = child(child(root, "encoding"), "encodingLimits");
  for (const char* name : {"phase", "repetition", "contrast", "set"}) {
    const auto first = number(value(child(limits, name), "minimum")),
               last = number(value(child(limits, name), "maximum"));
    if (!first || !last || *last - *first + 1 != static_cast<double>(study.ti_ms.size())) continue;
    study.ti_counter = name;
    study.ti_first = std::llround(std::clamp(*first, 0.0, 65535.0));
  }
  const pugi::xml_node encoded = child(child(root, "encoding"), "encodedSpace");
  study.is_3d = number(value(child(encoded, "matrixSize"), "z")).value_or(1) > 1;
}

}  // namespace

StudyFacts read_study_facts(std::string_view header_xml) {
  StudyFacts facts;
  pugi::xml_document document;
  const bool parsed = static_cast<bool>(document.load_buffer(header_xml.data(), header_xml.size()));
  const pugi::xml_node root = parsed ? child(document, "ismrmrdHeader") : pugi::xml_node();
  if (!root) return facts;
  read_measurement(root, facts.study);
  read_equipment(root, facts.study);
  read_patient(root, facts.study);
  const pugi::xml_node measurement = child(root, "measurementInformation");
  const std::string_view id = value(measurement, "measurementID");
  const std::string_view study = value(child(root, "studyInformation"), "studyInstanceUID");
  const std::string_view frame = value(measurement, "frameOfReferenceUID");
  facts.has_measurement = !id.empty();
  for (const pugi::xml_node& each : child(root, "userParameters").children())
    if (facts.trace.empty() && local_name(each) == "userParameterString" && value(each, "name") == "traceparent")
      facts.trace = trace_id_of(value(each, "value"));
  facts.digest = uid_of(std::string(id) + '\n' + std::string(header_xml));
  if (!study.empty()) facts.study_uid = uid_of("study\n" + std::string(study));
  if (!frame.empty()) facts.frame_uid = uid_of("frame\n" + std::string(frame));
  return facts;
}

Study make_study(const StudyFacts& facts, bool patient, std::string_view otherwise, std::string_view occasion,
                 std::string_view owner) {
  Study study = facts.study;
  if (!patient) {
    for (std::string* const text :
         {&study.study_uid, &study.frame_uid, &study.id, &study.accession_number, &study.referring_physician,
          &study.patient_name, &study.patient_id, &study.birth_date, &study.sex, &study.weight_kg, &study.height_m})
      text->clear();
  }
  study.key = facts.digest.empty() ? otherwise : facts.digest;
  // Measurements of one examination share the study, where the header names it.
  const std::string_view apart = facts.study_uid.empty() || !facts.has_measurement ? occasion : owner;
  if (!apart.empty()) study.key += '\n' + std::string(apart);
  if (study.study_uid.empty())
    study.study_uid = facts.study_uid.empty() ? uid_of("study\n" + study.key) : facts.study_uid;
  if (study.frame_uid.empty())
    study.frame_uid = facts.frame_uid.empty() ? uid_of("frame\n" + study.study_uid) : facts.frame_uid;
  return study;
}

}  // namespace echotrain::protocol::dicom
