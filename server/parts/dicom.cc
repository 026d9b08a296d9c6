// This part sends images to DICOM peers.
#include <memory>
#include <string>
#include <vector>

#include "server/dicom/dicom_output.h"
#include "server/parts/parts.h"

namespace echotrain::server {

namespace {

std::vector<std::string> names_of_peers(const config::DicomOptions& options) {
  std::vector<std::string> names;
  for (const DicomPeer& peer : read_peers(options)) names.push_back(peer.name);
  return names;
}

void make_dicom(Environment& environment) {
  const config::DicomOptions& options = environment.options.dicom;
  if (read_peers(options).empty()) return;
  const auto queue = std::make_shared<QueueMemory>(std::make_shared<numerics::MemoryAccount>(environment.memory));
  environment.dicom = std::make_shared<DicomOutput>(options, queue, dcmtk_links(options));
  environment.sinks = environment.dicom;
}

}  // namespace

void add_dicom(OptionalParts& to) {
  to.dicom_peers = names_of_peers;
  to.dicom = make_dicom;
}

}  // namespace echotrain::server
