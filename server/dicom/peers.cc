#include "server/dicom/peers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace echotrain::server {
namespace {

constexpr std::size_t kLongestTitle = 16, kLongestName = 64;

/// An AE title (PS3.5, AE): printable ASCII but for the backslash, and not blanks alone.
bool is_title(std::string_view text) {
  return !text.empty() && text.size() <= kLongestTitle && text.front() != ' ' && text.back() != ' ' &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~' && c != '\\' && c != '@'; });
}

bool is_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= kLongestName && std::all_of(text.begin(), text.end(), fits);
}

}  // namespace

DicomPeer read_peer(std::string_view text) {
  const auto refuse = [&](const std::string& why) {
    return std::invalid_argument(fmt::format(
        "dicom.peers: '{}': {}; write NAME=AE_TITLE@HOST:PORT, as pacs=ORTHANC@10.0.0.5:4242, and behind it /tls for "
        "TLS, /enhanced for one multi-frame object per series",
        text, why));
  };
  DicomPeer peer;
  std::string_view rest = text;
  const auto takes = [&rest](std::string_view ending) {
    const bool found = rest.ends_with(ending);
    if (found) rest.remove_suffix(ending.size());
    return found;
  };
  for (bool more = true; more;) {
    const bool tls = takes("/tls"), enhanced = takes("/enhanced");
    peer.tls = peer.tls || tls;
    peer.enhanced = peer.enhanced || enhanced;
    more = tls || enhanced;
  }
  const std::size_t equals = rest.find('='), at = rest.find('@'), colon = rest.rfind(':');
  if (equals == std::string_view::npos || at == std::string_view::npos || at < equals) throw refuse("has no AE title");
  if (colon == std::string_view::npos || colon < at) throw refuse("has no port");
  peer.name = rest.substr(0, equals);
  if (!is_name(peer.name)) throw refuse("a name has letters, digits, _ and -, at most 64");
  if (peer.name == "salt" || peer.name == "lock" || peer.name == "refused")
    throw refuse("salt, lock and refused are names of the spool's own files and folders: call the peer otherwise");
  peer.ae_title = rest.substr(equals + 1, at - equals - 1);
  if (!is_title(peer.ae_title)) throw refuse("an AE title has 1 to 16 characters of ASCII");
  std::string_view host = rest.substr(at + 1, colon - at - 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host.empty()) throw refuse("has no host");
  peer.host = host;
  const std::string_view port = rest.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), peer.port);
  if (error != std::errc() || end != port.data() + port.size() || peer.port == 0)
    throw refuse("a port is a number from 1 to 65535");
  return peer;
}

std::vector<DicomPeer> read_peers(const config::DicomOptions& options) {
  std::vector<DicomPeer> peers;
  std::vector<std::string> names;
  for (const std::string& text : options.peers) {
    DicomPeer peer = read_peer(text);
    if (std::find(names.begin(), names.end(), peer.name) != names.end())
      throw std::invalid_argument(fmt::format("dicom.peers: two peers are called '{}'", peer.name));
    names.push_back(peer.name);
    peers.push_back(std::move(peer));
  }
  for (const std::string& wanted : options.send_to)
    if (std::find(names.begin(), names.end(), wanted) == names.end())
      throw std::invalid_argument(fmt::format("dicom.send_to: no peer is called '{}'; dicom.peers has: {}", wanted,
                                              names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  if (peers.empty() != options.spool.empty())
    throw std::invalid_argument(
        "dicom.peers and dicom.spool belong together: name the peers, and a folder for images that wait for them");
  if (!is_title(options.ae_title))
    throw std::invalid_argument(
        fmt::format("dicom.ae_title: '{}' is none; it has 1 to 16 characters of ASCII", options.ae_title));
  return peers;
}

}  // namespace echotrain::server
