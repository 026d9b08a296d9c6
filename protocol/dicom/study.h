// The study is what all images of a measurement share in DICOM: identity, patient, equipment, sequence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace echotrain::protocol::dicom {

/// Texts are as DICOM writes them (values.h); what the header does not say is empty.
struct Study {
  std::string key;  ///< stands for the measurement: UIDs are derived from it
  std::string study_uid, frame_uid;
  std::string date, time, description;
  std::string id, accession_number, referring_physician;                       ///< with patient fields only
  std::string patient_name, patient_id, birth_date, sex, weight_kg, height_m;  ///< with patient fields only
  std::string series_date, series_time, series_description, protocol_name, patient_position;
  std::int64_t series_number = 0;  ///< the header's initialSeriesNumber
  std::string manufacturer, model, institution, station, device_serial_number;
  std::string field_strength_t, frequency_mhz, sequence_name;
  std::vector<double> tr_ms, te_ms, ti_ms, flip_deg;
  std::string ti_counter = "set";  ///< set, contrast, repetition or phase: the counter of images of several ti_ms
  std::int64_t ti_first = 0;       ///< its value in those of the first
  bool is_3d = false;              ///< the encoded space has several planes
};

/// The facts of a header of which studies are made. Their texts are short, however long the header is.
struct StudyFacts {
  Study study;                   ///< with patient's fields; without the key, and without UIDs that the header lacks
  std::string digest;            ///< of measurementID and the header's text; empty: there is no header
  std::string study_uid;         ///< a digest of the header's studyInstanceUID; empty: it has none
  std::string frame_uid;         ///< a digest of its frameOfReferenceUID, likewise
  bool has_measurement = false;  ///< it has a measurementID
  std::string trace;             ///< the trace ID of its user parameter `traceparent`; empty: it has none
};

/// Reads an ISMRMRD header; one that is empty or no XML (FIRE's "Dummy XML header") says nothing.
StudyFacts read_study_facts(std::string_view header_xml);

/// Makes the study of a scan. With `patient`, patient's fields, accession number, referring physician, study ID and the
/// header's own studyInstanceUID and frameOfReferenceUID are kept; without, nothing of these, and UIDs are digests. The
/// key is the header's digest, or `otherwise` where there is no header; and what tells scans of equal headers apart:
/// the `owner` where the header has a measurementID and a studyInstanceUID, otherwise the `occasion`.
Study make_study(const StudyFacts& facts, bool patient, std::string_view otherwise, std::string_view occasion = "",
                 std::string_view owner = "");

/// Reads a header and makes the study, for those who need one only.
inline Study read_study(std::string_view header_xml, bool patient, std::string_view otherwise) {
  return make_study(read_study_facts(header_xml), patient, otherwise);
}

}  // namespace echotrain::protocol::dicom
