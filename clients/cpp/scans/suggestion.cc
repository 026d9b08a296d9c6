#include "clients/cpp/scans/suggestion.h"

namespace echotrain::client {
namespace {

bool counts(const std::optional<protocol::CounterLimit>& limit) { return limit && limit->maximum > 0; }

std::string volume_pipeline(const protocol::Encoding& encoding) {
  return counts(encoding.kspace_encoding_step_2) ? "stack_of_stars" : "kooshball_3d";
}

}  // namespace

std::string suggested_pipeline(const protocol::Header& header, const ImagingFacts& imaging) {
  using protocol::Trajectory;
  if (imaging.readouts == 0 || header.encodings.empty()) return "";
  const protocol::Encoding& encoding = header.encodings.front();
  const bool volume = encoding.encoded.matrix[2] > 1;
  switch (encoding.trajectory) {
    case Trajectory::cartesian:
      return counts(encoding.phase) ? "cartesian_cine" : "cartesian_2d";
    case Trajectory::epi:
      return "epi_2d";
    case Trajectory::radial:
    case Trajectory::golden_angle:
      return volume ? volume_pipeline(encoding) : "radial_2d";
    case Trajectory::spiral:
      if (volume) return volume_pipeline(encoding);
      if (imaging.weighted) return "spiral_2d";
      return imaging.channels > 1 ? "cg_sense_2d" : "fhd_pcg_2d";
    case Trajectory::other:
      if (imaging.trajectory_dimensions == 0) return "";
      return volume ? "fhd_pcg_3d" : "fhd_pcg_2d";
  }
  return "";
}

}  // namespace echotrain::client
