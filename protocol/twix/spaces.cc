#include "protocol/twix/spaces.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "protocol/files/scan_reader.h"
#include "protocol/twix/header_text.h"

namespace echotrain::protocol::twix {
namespace {

constexpr long kCartesian = 1, kRadial = 2, kSpiral = 4, kThreeDimensions = 4, kInterpolated = 1;

constexpr double kLeastMm = 0.01, kMost = 65536, kMostOversampling = 64;

double required(const Parameters& parameters, const std::string& name, double least) {
  const auto value = parameters.number(name);
  if (!value || *value < least || *value > kMost)
    throw DatasetError(
        fmt::format("the protocol's {} is '{}'; it must be {} to {}", name, parameters.text(name), least, kMost));
  return *value;
}

std::string trajectory_of(const Parameters& parameters) {
  const long kind = parameters.whole("sKSpace.ucTrajectory").value_or(kCartesian);
  const bool epi = parameters.whole("sFastImaging.lEPIFactor").value_or(1) > 1 ||
                   parameters.number("YAPS.alRegridRampupTime").value_or(0) > 0;
  if (kind == kCartesian) return epi ? "epi" : "cartesian";
  return kind == kRadial ? "radial" : kind == kSpiral ? "spiral" : "other";
}

/// The smallest matrix whose voxel floor(n/2) is the centre and which has all lines up to `highest`.
long matrix_for(long highest, long center) { return std::max({2 * center, 2 * (highest - center) + 1, 1L}); }

/// An axis along which lines are encoded: the protocol's matrix, or a larger one that the lines need.
void set_axis(std::size_t axis, long told, long highest, long center, Spaces& to) {
  const bool has_center = center > 0 || highest == 0;
  const long needed = has_center ? matrix_for(highest, center) : highest + 1;
  to.encoded[axis] = std::max(told, needed);
  to.center[axis] = has_center ? center : std::min(to.encoded[axis] / 2, highest);
  if (needed <= told) return;
  to.recon[axis] = std::max(to.recon[axis], needed);
  if (to.note.empty() && told > 0)
    to.note = fmt::format("the data have {} {}, the protocol tells {}: the matrix is the data's", highest + 1,
                          axis == 1 ? "lines" : "partitions", told);
}

/// By how much samples at the gradient's full height lie further apart than their mean, where they begin and end on its
/// ramps: that much less of the field of view they encode. 1 where they do not.
double widest_step(const Parameters& p, const Survey& survey) {
  const double up = p.number("YAPS.alRegridRampupTime").value_or(0),
               flat = p.number("YAPS.alRegridFlattopTime").value_or(0);
  const double down = p.number("YAPS.alRegridRampdownTime").value_or(0);
  const double delay = p.number("YAPS.alRegridDelaySamplesTime").value_or(0);
  const double duration = survey.first ? survey.first->samples * double{sample_time_us(p, *survey.first)} : 0;
  if (up <= 0 || flat < 0 || down <= 0 || delay < 0 || duration <= 0) return 1;
  const auto missed = [](double ramp, double before) {
    return before < ramp ? before * before / (2 * ramp) : before - ramp / 2;
  };
  const double after = std::max(0.0, up + flat + down - delay - duration);
  const double area = flat + (up + down) / 2 - missed(up, delay) - missed(down, after);
  return area > 0 ? std::clamp(duration / area, 1.0, 2.0) : 1;
}

}  // namespace

Spaces spaces(const Parameters& p, const Survey& survey) {
  Spaces out;
  const double read_mm = required(p, "sSliceArray.asSlice[0].dReadoutFOV", kLeastMm);
  const double phase_mm = required(p, "sSliceArray.asSlice[0].dPhaseFOV", kLeastMm);
  const double thickness_mm = required(p, "sSliceArray.asSlice[0].dThickness", kLeastMm);
  const double base = std::round(required(p, "sKSpace.lBaseResolution", 1));
  const auto oversampling = [&](const char* name) {
    return 1 + std::clamp(p.number(name).value_or(0), 0.0, kMostOversampling);
  };
  out.trajectory = trajectory_of(p);
  out.recon_mm = {read_mm, phase_mm, thickness_mm};
  out.encoded_mm = {read_mm, phase_mm * oversampling("sKSpace.dPhaseOversamplingForDialog"),
                    thickness_mm * oversampling("sKSpace.dSliceOversamplingForDialog")};

  const long columns = p.whole("DERIVED.ImageColumns", 1).value_or(std::lround(base));
  const long lines = p.whole("sKSpace.lPhaseEncodingLines", 1).value_or(std::lround(base));
  out.recon = {columns, p.whole("DERIVED.ImageLines", 1).value_or(lines), 1};
  const ScanHead head = survey.first.value_or(ScanHead{});
  const bool volume = p.whole("sKSpace.ucDimension").value_or(0) == kThreeDimensions && survey.highest.partition > 0;
  const long depth = volume ? p.whole("YAPS.i3DFTLength", 1).value_or(1) : 1;
  if (depth > 1) out.recon[2] = p.whole("sKSpace.lImagesPerSlab", 1).value_or(depth);
  set_axis(2, depth, survey.highest.partition, survey.highest.partition > 0 ? head.center_partition : 0, out);

  const bool lines_placed = out.trajectory == "cartesian" || out.trajectory == "epi";
  if (!lines_placed) {  // samples have places of their own
    out.encoded[0] = out.encoded[1] = std::lround(base);
    out.recon[0] = out.recon[1] = columns;
    out.encoded_mm[1] = out.recon_mm[1];
    return out;
  }

  const long told =
      std::lround(base * std::clamp(p.number("YAPS.flReadoutOSFactor").value_or(1), 1.0, kMostOversampling));
  const long needed = 2 * std::max(survey.most_before, survey.most_after);
  out.encoded[0] = std::max(told, needed);
  out.encoded_mm[0] = read_mm * static_cast<double>(told) / base;
  if (needed > told && needed % told == 0) {  // oversampled further than the protocol knows
    out.encoded_mm[0] *= static_cast<double>(needed / told);
  } else if (needed > told) {
    out.recon[0] = std::max(columns, needed);
    out.note = fmt::format("readouts have {} samples, the protocol tells {}: the matrix is the data's", needed, told);
  }

  if (const double step = widest_step(p, survey); out.trajectory == "epi" && step > 1) {
    const auto all = static_cast<double>(out.encoded[0]);
    out.encoded[0] = std::max(1L, 2 * std::lround(std::floor(all / step / 2)));
    out.encoded_mm[0] *= static_cast<double>(out.encoded[0]) / all;
  }

  const long transform = p.whole("YAPS.iPEFTLength", 1).value_or(lines);
  const bool interpolated = p.whole("sKSpace.uc2DInterpolation").value_or(0) == kInterpolated;
  set_axis(1, interpolated && transform > lines ? transform / 2 : transform, survey.highest.line, head.center_line,
           out);

  return out;
}

}  // namespace echotrain::protocol::twix
