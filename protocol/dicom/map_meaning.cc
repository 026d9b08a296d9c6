#include "protocol/dicom/dicom_built.h"

#if ECHOTRAIN_HAS_DCMTK

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "protocol/dicom/map_meaning.h"
#include "protocol/dicom/values.h"

namespace echotrain::protocol::dicom {
namespace {

struct Code {
  std::string_view value, scheme, meaning;
};

struct Quantity {
  std::string_view name, label;
  Code code;  // without a value: the standard has none
};

constexpr std::array<Quantity, 6> kQuantities{{
    {"T1", "T1", {"113063", "DCM", "T1"}},
    {"T2", "T2", {"113065", "DCM", "T2"}},
    {"T2star", "T2*", {"113064", "DCM", "T2*"}},
    {"ADC", "ADC", {"113041", "DCM", "Apparent Diffusion Coefficient"}},
    {"B0", "B0", {"110807", "DCM", "Field Map MR Signal Intensity"}},
    {"B1", "B1", {}},
}};
constexpr Code kQuantity{"246205007", "SCT", "Quantity"}, kDerivation{"121401", "DCM", "Derivation"},
    kDeviation{"386136009", "SCT", "Standard Deviation"};
constexpr std::array<Code, 4> kUnits{
    {{"ms", "UCUM", "millisecond"}, {"mm2/s", "UCUM", "mm2/s"}, {"Hz", "UCUM", "Hertz"}, {"1", "UCUM", "no units"}}};
constexpr std::size_t kShort = 16;  // characters of a short string (SH)

SequenceItem coded(const DcmTagKey& sequence, const Code& code) {
  return {sequence,
          {{DCM_CodeValue, EVR_SH, std::string(code.value)},
           {DCM_CodingSchemeDesignator, EVR_SH, std::string(code.scheme)},
           {DCM_CodeMeaning, EVR_LO, std::string(code.meaning)}}};
}

SequenceItem definition(const Code& concept_name, const Code& is) {
  return {DCM_QuantityDefinitionSequence,
          {{DCM_ValueType, EVR_CS, "CODE"}},
          {coded(DCM_ConceptNameCodeSequence, concept_name), coded(DCM_ConceptCodeSequence, is)}};
}

}  // namespace

SequenceItem real_world_value(const MapMeaning& of, const StoredScale& scale) {
  const auto known =
      std::find_if(kQuantities.begin(), kQuantities.end(), [&](const Quantity& q) { return q.name == of.quantity; });
  const std::string name = known != kQuantities.end() ? std::string(known->label)
                           : of.quantity.empty()      ? "map"
                                                      : of.quantity;
  const std::string unit = of.unit.empty() ? "1" : of.unit;
  const auto unit_code =
      std::find_if(kUnits.begin(), kUnits.end(), [&](const Code& code) { return code.value == unit; });
  const DcmEVR pixel = scale.is_signed ? EVR_SS : EVR_US;
  const std::string explanation = (of.deviation ? "standard deviation of " : "") + name;
  SequenceItem item{DCM_RealWorldValueMappingSequence,
                    {{DCM_LUTExplanation, EVR_LO, plain_text(explanation)},
                     {DCM_LUTLabel, EVR_SH, plain_text(of.deviation ? "SD of " + name : name, kShort)},
                     {DCM_RealWorldValueLastValueMapped, pixel, scale.is_signed ? "32767" : "65535"},
                     {DCM_RealWorldValueFirstValueMapped, pixel, scale.is_signed ? "-32768" : "0"},
                     {DCM_RealWorldValueIntercept, EVR_FD, decimal_text(scale.intercept)},
                     {DCM_RealWorldValueSlope, EVR_FD, decimal_text(scale.slope)}}};
  const std::string other = plain_text(unit, kShort);
  item.items.push_back(
      coded(DCM_MeasurementUnitsCodeSequence, unit_code != kUnits.end() ? *unit_code : Code{other, "UCUM", other}));
  if (known == kQuantities.end() || known->code.value.empty()) return item;
  item.items.push_back(definition(kQuantity, known->code));
  if (of.deviation) item.items.push_back(definition(kDerivation, kDeviation));
  return item;
}

}  // namespace echotrain::protocol::dicom

#endif
