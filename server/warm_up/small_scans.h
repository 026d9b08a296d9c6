// A small scan has a few points and is made up for the pipelines of a server.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/pipeline_spec.h"
#include "protocol/data/header.h"
#include "protocol/data/messages.h"

namespace echotrain::server {

/// A measurement as a client would send it: a header, and readouts in order of arrival.
struct SmallScan {
  std::string name;  ///< "Cartesian, R=3"
  protocol::Header header;
  std::vector<protocol::Acquisition> readouts;
};

enum class SmallScanKind { cartesian, accelerated, epi, accelerated_epi, radial };

struct SmallScanSize {
  int matrix = 64;  ///< of the image, per axis; even, at least 32
  int coils = 4;
};

/// Returns the kinds of 2D scans that go through this pipeline, by the gadgets that it has: of one with a chain
/// `accelerated`, those that leave lines out, too. Empty for pipelines of images, of volumes and of ultrasound, and for
/// those that run programs of their own.
std::vector<SmallScanKind> small_scans_of(const config::PipelineSpec& spec);

/// Returns a scan of two frames (or of as many readouts as the frame rule of `spec` wants): points in a field of view
/// of 256 mm, with a weight for each coil and point that no other has. The trajectory is in the unit of `spec`. It
/// names no measurement, so that nothing of it is kept for other scans.
SmallScan small_scan(const config::PipelineSpec& spec, SmallScanKind kind, SmallScanSize size);

}  // namespace echotrain::server
