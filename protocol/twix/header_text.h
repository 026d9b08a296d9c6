// The header text of a measurement is the ISMRMRD header made of its parameters and of what its readouts are. Facts:
// the parameter map of siemens_to_ismrmrd (IsmrmrdParameterMap_Siemens.xsl) for names and meaning; where readouts say
// more (matrix, limits, centres, oversampling), they are followed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/twix/parameters.h"
#include "protocol/twix/survey.h"

namespace echotrain::protocol::twix {

struct HeaderContext {
  std::uint32_t uid = 0;        ///< of the measurement
  std::uint32_t noise_uid = 0;  ///< of the noise that it may use where its parameters name none; 0: none
  bool patient = false;         ///< with what is known of the patient
  /// The scan that these readouts are a preparation of, whose encoding the header then has; null: their own.
  const Parameters* scan = nullptr;
  const Survey* scan_survey = nullptr;
};

/// Throws DatasetError where the parameters whose encoding it takes lack the field of view or the base resolution.
std::string header_text(const Parameters& parameters, const Survey& survey, const HeaderContext& context);

/// Returns what the header does not tell, or tells otherwise than the protocol does.
std::vector<std::string> header_notes(const Parameters& parameters, const Survey& survey);

/// Returns the time between samples. That of noise stands nowhere: 5 us in the measurement AdjCoilSens, 4 us in
/// AdjQuietCoilSens, elsewhere 7680 us over the samples (rules of siemens_to_ismrmrd).
float sample_time_us(const Parameters& parameters, const ScanHead& head);

}  // namespace echotrain::protocol::twix
