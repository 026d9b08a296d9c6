// DICOM peers (PACS, viewers, routers) that images may be sent to, as the options name them.
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

/// A peer written as "NAME=AE_TITLE@HOST:PORT", with "/tls" or "/enhanced" behind it, or both; an IPv6 address stands
/// in brackets. std::invalid_argument, naming `dicom.peers`, for anything else.
DicomPeer read_peer(std::string_view text);

/// The peers of the options. std::invalid_argument where two have one name, where `dicom.send_to` names one that is not
/// there, where there are peers and no `dicom.spool`, or a spool and no peers, and for a wrong `dicom.ae_title`.
std::vector<DicomPeer> read_peers(const config::DicomOptions& options);

}  // namespace echotrain::server
