#include "protocol/mrd2/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

namespace echotrain::protocol::mrd2 {
namespace {

// One type in each line, in the order of the text: a record (NAME: FIELD TYPE, ...), another name (NAME = TYPE), an
// enumeration or flags (values count on from the one before, flags double it). TYPE* is a vector, TYPE? may be absent,
// TYPE[a,b] is an array, A->B a map, A | B a union. Facts of https://ismrmrd.github.io/mrd (model/*.yml, version 2.1).
constexpr std::string_view kModel =
    R"(AccelerationFactorType: kspaceEncodingStep1 uint32, kspaceEncodingStep2 uint32
Acquisition: head AcquisitionHeader, data AcquisitionData, trajectory TrajectoryData
Acquisition: head AcquisitionHeader, data AcquisitionData, trajectory TrajectoryData
AcquisitionBucket: data Acquisition*, ref Acquisition*, datastats EncodingLimitsType*, refstats EncodingLimitsType*, waveforms WaveformUint32*
AcquisitionData = complexfloat32[coils,samples]
AcquisitionFlags flags firstInEncodeStep1=1 lastInEncodeStep1 firstInEncodeStep2 lastInEncodeStep2 firstInAverage lastInAverage firstInSlice lastInSlice firstInContrast lastInContrast firstInPhase lastInPhase firstInRepetition lastInRepetition firstInSet lastInSet firstInSegment lastInSegment isNoiseMeasurement isParallelCalibration isParallelCalibrationAndImaging isReverse isNavigationData isPhasecorrData lastInMeasurement isHpfeedbackData isDummyscanData isRtfeedbackData isSurfacecoilcorrectionscanData isPhaseStabilizationReference isPhaseStabilization
AcquisitionHeader: flags AcquisitionFlags, idx EncodingCounters, measurementUid uint32, scanCounter uint32?, acquisitionTimeStamp uint32?, physiologyTimeStamp uint32*, channelOrder uint32*, discardPre uint32?, discardPost uint32?, centerSample uint32?, encodingSpaceRef uint32?, sampleTimeUs float32?, position float32[3], readDir float32[3], phaseDir float32[3], sliceDir float32[3], patientTablePosition float32[3], userInt int32*, userFloat float32*
AcquisitionSystemInformationType: systemVendor string?, systemModel string?, systemFieldStrengthT float32?, relativeReceiverNoiseBandwidth float32?, receiverChannels uint32?, coilLabel CoilLabelType*, institutionName string?, stationName string?, deviceID string?, deviceSerialNumber string?
Array<T> = T[]
ArrayComplexFloat = Array<complexfloat32>
Calibration enum separable2D=0 full3D other
CalibrationMode enum noacceleration=0 embedded interleaved separate external other
CoilLabelType: coilNumber uint32, coilName string
DiffusionDimension enum average=0 contrast phase repetition set segment user0 user1 user2 user3 user4 user5 user6 user7
DiffusionType: gradientDirection GradientDirectionType, bvalue float32
EncodingCounters: kspaceEncodeStep1 uint32?, kspaceEncodeStep2 uint32?, average uint32?, slice uint32?, contrast uint32?, phase uint32?, repetition uint32?, set uint32?, segment uint32?, user uint32*
EncodingLimitsType: kspaceEncodingStep0 LimitType?, kspaceEncodingStep1 LimitType?, kspaceEncodingStep2 LimitType?, average LimitType?, slice LimitType?, contrast LimitType?, phase LimitType?, repetition LimitType?, set LimitType?, segment LimitType?, user0 LimitType?, user1 LimitType?, user2 LimitType?, user3 LimitType?, user4 LimitType?, user5 LimitType?, user6 LimitType?, user7 LimitType?
EncodingSpaceType: matrixSize MatrixSizeType, fieldOfViewMm FieldOfViewMm
EncodingType: encodedSpace EncodingSpaceType, reconSpace EncodingSpaceType, encodingLimits EncodingLimitsType, trajectory Trajectory, trajectoryDescription TrajectoryDescriptionType?, parallelImaging ParallelImagingType?, echoTrainLength int64?
ExperimentalConditionsType: h1resonanceFrequencyHz int64
FieldOfViewMm: x float32, y float32, z float32
GradientDirectionType: rl float32, ap float32, fh float32
Header: version int64?, subjectInformation SubjectInformationType?, studyInformation StudyInformationType?, measurementInformation MeasurementInformationType?, acquisitionSystemInformation AcquisitionSystemInformationType?, experimentalConditions ExperimentalConditionsType, encoding EncodingType*, sequenceParameters SequenceParametersType?, userParameters UserParametersType?, waveformInformation WaveformInformationType*
Image<T>: head ImageHeader, data ImageData<T>, meta ImageMeta
ImageArray: data complexfloat32[loc,s,n,channel,z,y,x], headers ImageHeader[loc,s,n], meta ImageMeta[loc,s,n], waveforms WaveformUint32*
ImageComplexDouble = Image<complexfloat64>
ImageComplexFloat = Image<complexfloat32>
ImageData<Y> = Y[channel,z,y,x]
ImageDouble = Image<float64>
ImageFlags flags isNavigationData=1 firstInAverage=16 lastInAverage firstInSlice lastInSlice firstInContrast lastInContrast firstInPhase lastInPhase firstInRepetition lastInRepetition firstInSet lastInSet
ImageFloat = Image<float32>
ImageHeader: flags ImageFlags, measurementUid uint32, fieldOfView float32[3], position float32[3], colDir float32[3], lineDir float32[3], sliceDir float32[3], patientTablePosition float32[3], average uint32?, slice uint32?, contrast uint32?, phase uint32?, repetition uint32?, set uint32?, acquisitionTimeStamp uint32?, physiologyTimeStamp uint32*, imageType ImageType, imageIndex uint32?, imageSeriesIndex uint32?, userInt int32*, userFloat float32*
ImageInt16 = Image<int16>
ImageInt32 = Image<int32>
ImageMeta = string->ImageMetaValue*
ImageMetaValue = string | int64 | float64
ImageType enum magnitude=1 phase real imag complex
ImageUint16 = Image<uint16>
ImageUint32 = Image<uint32>
InterleavingDimension enum phase=0 repetition contrast average other
LimitType: minimum uint32, maximum uint32, center uint32
MatrixSizeType: x uint32, y uint32, z uint32
MeasurementDependencyType: dependencyType string, measurementID string
MeasurementInformationType: measurementID string?, seriesDate date?, seriesTime time?, patientPosition PatientPosition, relativeTablePosition ThreeDimensionalFloat?, initialSeriesNumber int64?, protocolName string?, sequenceName string?, seriesDescription string?, measurementDependency MeasurementDependencyType*, seriesInstanceUIDRoot string?, frameOfReferenceUID string?, referencedImageSequence ReferencedImageSequenceType?
MultibandSpacingType: dZ float32*
MultibandType: spacing MultibandSpacingType*, deltaKz float32, multibandFactor uint32, calibration Calibration, calibrationEncoding uint64
ParallelImagingType: accelerationFactor AccelerationFactorType, calibrationMode CalibrationMode?, interleavingDimension InterleavingDimension?, multiband MultibandType?
PatientGender enum m=0 f o
PatientPosition enum hFP=0 hFS hFDR hFDL fFP fFS fFDR fFDL
ReconAssembly: data ReconBuffer, ref ReconBuffer?
ReconBuffer: data complexfloat32[loc,s,n,chan,e2,e1,e0], trajectory float32[loc,s,n,e2,e1,basis,samples], density float32[loc,s,n,e2,e1,e0]?, headers AcquisitionHeader[loc,s,n,e2,e1], sampling SamplingDescription
ReconData: buffers ReconAssembly*
ReferencedImageSequenceType: referencedSOPInstanceUID string*
SamplingDescription: encodedFOV FieldOfViewMm, reconFOV FieldOfViewMm, encodedMatrix MatrixSizeType, reconMatrix MatrixSizeType, samplingLimits SamplingLimits
SamplingLimits: kspaceEncodingStep0 LimitType, kspaceEncodingStep1 LimitType, kspaceEncodingStep2 LimitType
SequenceParametersType: tR float32*, tE float32*, tI float32*, flipAngleDeg float32*, sequenceType string?, echoSpacing float32*, diffusionDimension DiffusionDimension?, diffusion DiffusionType*, diffusionScheme string?
StreamItem = Acquisition | WaveformUint32 | ImageUint16 | ImageInt16 | ImageUint32 | ImageInt32 | ImageFloat | ImageDouble | ImageComplexFloat | ImageComplexDouble | AcquisitionBucket | ReconData | ArrayComplexFloat | ImageArray
StudyInformationType: studyDate date?, studyTime time?, studyID string?, accessionNumber int64?, referringPhysicianName string?, studyDescription string?, studyInstanceUID string?, bodyPartExamined string?
SubjectInformationType: patientName string?, patientWeightKg float32?, patientHeightM float32?, patientID string?, patientBirthdate date?, patientGender PatientGender?
ThreeDimensionalFloat: x float32, y float32, z float32
Trajectory enum cartesian=0 epi radial goldenangle spiral other
TrajectoryData = float32[basis,samples]
TrajectoryDescriptionType: identifier string, userParameterLong UserParameterLongType*, userParameterDouble UserParameterDoubleType*, userParameterString UserParameterStringType*, comment string?
UserParameterBase64Type: name string, value string
UserParameterDoubleType: name string, value float64
UserParameterLongType: name string, value int64
UserParameterStringType: name string, value string
UserParametersType: userParameterLong UserParameterLongType*, userParameterDouble UserParameterDoubleType*, userParameterString UserParameterStringType*, userParameterBase64 UserParameterBase64Type*
Waveform<T>: flags uint64, measurementUid uint32, scanCounter uint32, timeStamp uint32, sampleTimeUs float32, waveformId uint32, data WaveformSamples<T>
WaveformInformationType: waveformName string, waveformType WaveformType, userParameters UserParametersType
WaveformSamples<T> = T[channels,samples]
WaveformType enum ecg=0 pulse respiratory trigger gradientwaveform other
WaveformUint32 = Waveform<uint32>
WaveformUint32 = Waveform<uint32>)";

std::vector<std::string_view> split(std::string_view text, std::string_view at) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + at.size());
  }
}

template <class Each>
std::string joined(const std::vector<std::string_view>& parts, const Each& each) {
  std::string all;
  for (const std::string_view part : parts) {
    if (!all.empty()) all += ',';
    all += each(part);
  }
  return all;
}

std::string json_text(std::string_view text) { return fmt::format("\"{}\"", text); }

/// A type's JSON. Names with a capital are MRD's, but for the one-letter parameters.
std::string type_json(std::string_view type) {
  if (const auto cases = split(type, " | "); cases.size() > 1)
    return fmt::format("[{}]", joined(cases, [](std::string_view each) {
                         return fmt::format(R"({{"tag":"{}","type":{}}})", each, type_json(each));
                       }));
  if (const auto ends = split(type, "->"); ends.size() == 2)
    return fmt::format(R"({{"map":{{"keys":{},"values":{}}}}})", type_json(ends[0]), type_json(ends[1]));
  const std::string_view inner = type.substr(0, type.size() - 1);
  if (type.back() == '?') return fmt::format("[null,{}]", type_json(inner));
  if (type.back() == '*') return fmt::format(R"({{"vector":{{"items":{}}}}})", type_json(inner));
  if (type.back() == ']') {
    const auto open = type.find('[');
    const std::string dimensions = joined(split(inner.substr(open + 1), ","), [](std::string_view each) {
      const bool fixed = !each.empty() && each[0] >= '0' && each[0] <= '9';
      return each.empty() ? std::string()
                          : fmt::format(R"({{"{}":{}}})", fixed ? "length" : "name",
                                        fixed ? std::string(each) : json_text(each));
    });
    return fmt::format(R"({{"array":{{"items":{}{}}}}})", type_json(type.substr(0, open)),
                       dimensions.empty() ? "" : fmt::format(R"(,"dimensions":[{}])", dimensions));
  }
  if (type.back() == '>') {
    const auto open = type.find('<');
    return fmt::format(R"({{"name":"Mrd.{}","typeArguments":[{}]}})", type.substr(0, open),
                       type_json(inner.substr(open + 1)));
  }
  const bool ours = type.size() > 1 && type[0] >= 'A' && type[0] <= 'Z';
  return json_text(ours ? fmt::format("Mrd.{}", type) : std::string(type));
}

std::string values_json(std::string_view values, bool flags) {
  std::int64_t next = 0;
  return joined(split(values, " "), [&](std::string_view each) {
    const auto set = each.find('=');
    if (set != std::string_view::npos) next = std::stoll(std::string(each.substr(set + 1)));
    const std::int64_t value = next;
    next = flags ? 2 * value : value + 1;
    return fmt::format(R"({{"symbol":"{}","value":{}}})", each.substr(0, set), value);
  });
}

std::string definition_json(std::string_view line) {
  const auto name = line.substr(0, line.find_first_of("<:= "));
  const std::string begin = fmt::format(R"({{"name":"{}",)", name);
  const std::string parameters =
      line[name.size()] == '<' ? fmt::format(R"("typeParameters":["{}"],)", line[name.size() + 1]) : "";
  std::string_view rest = line.substr(name.size() + (parameters.empty() ? 0 : 3));
  const auto takes = [&rest](std::string_view word) {
    const bool found = rest.substr(0, word.size()) == word;
    if (found) rest.remove_prefix(word.size());
    return found;
  };
  if (takes(" flags ")) return begin + fmt::format(R"("base":"uint64","values":[{}]}})", values_json(rest, true));
  if (takes(" enum ")) return begin + fmt::format(R"("values":[{}]}})", values_json(rest, false));
  if (takes(" = ")) return begin + parameters + fmt::format(R"("type":{}}})", type_json(rest));
  takes(": ");
  const std::string fields = joined(split(rest, ", "), [](std::string_view field) {
    const auto space = field.find(' ');
    return fmt::format(R"({{"name":"{}","type":{}}})", field.substr(0, space), type_json(field.substr(space + 1)));
  });
  return begin + parameters + fmt::format(R"("fields":[{}]}})", fields);
}

const Type* find_in(const Type& type, const std::string& name, std::set<const Type*>& seen) {
  if (!seen.insert(&type).second) return nullptr;
  if (type.name == name) return &type;
  if (type.items)
    if (const Type* found = find_in(*type.items, name, seen)) return found;
  for (const auto& member : type.members)
    if (member.type)
      if (const Type* found = find_in(*member.type, name, seen)) return found;
  return nullptr;
}

}  // namespace

const std::string& model_text() {
  static const std::string text = fmt::format(
      R"({{"protocol":{{"name":"Mrd","sequence":[{{"name":"header","type":{}}},{{"name":"data","type":{{"stream":{{"items":{}}}}}}}]}},"types":[{}]}})",
      type_json("Header?"), type_json("StreamItem"), joined(split(kModel, "\n"), definition_json));
  return text;
}

const Schema& model() {
  static const Schema schema = read_schema(model_text(), 0);
  return schema;
}

const Type* find_type(const Schema& schema, const std::string& name) {
  std::set<const Type*> seen;
  for (const Step& step : schema.steps)
    if (const Type* found = find_in(*step.type, name, seen)) return found;
  return nullptr;
}

}  // namespace echotrain::protocol::mrd2
