// A DICOM peer (PACS, viewer, router) is where images may be sent, as the options name it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/server_options.h"

namespace echotrain::server {

struct DicomPeer {
  std::string name;      ///< by which pipelines and options call it
  std::string ae_title;  ///< of the peer
  std::string host;
  std::uint16_t port = 0;
  bool tls = false;
  bool enhanced = false;  ///< takes Enhanced MR Image Storage in place of MR Image Storage
};

/// Reads a peer written as "NAME=AE_TITLE@HOST:PORT", with "/tls" or "/enhanced" behind it, or both; an IPv6 address
/// stands in brackets. Throws std::invalid_argument, naming `dicom.peers`, for anything else.
DicomPeer read_peer(std::string_view text);

/// Reads the peers of the options. Throws std::invalid_argument where two have one name, where `dicom.send_to` names
/// one that is not there, where there are peers and no `dicom.spool`, or a spool and no peers, and for a wrong
/// `dicom.ae_title`.
std::vector<DicomPeer> read_peers(const config::DicomOptions& options);

}  // namespace echotrain::server
