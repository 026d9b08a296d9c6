// A DICOM link is a connection to one peer by DICOM's network protocol.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "config/server_options.h"
#include "server/dicom/peers.h"

namespace echotrain::server {

/// The outcome of an exchange with a peer.
struct DicomReply {
  enum class Kind {
    done,       ///< the peer has it
    refused,    ///< the peer answers that it will not take this one; trying again does not help
    failed,     ///< no connection: the peer may work later
    not_taken,  ///< the peer took the connection and not the file: it broke off, or did not answer in time
    no_room,    ///< the peer answers that it is out of resources, for this file at least
  };
  Kind kind = Kind::done;
  std::string text;  ///< why, if not done
};

/// A connection to one peer. It belongs to one thread, but for interrupt().
class DicomLink {
 public:
  virtual ~DicomLink() = default;
  /// Sends C-ECHO. Opens an association where none is open; so does store().
  virtual DicomReply echo() = 0;
  /// Sends a file by C-STORE.
  virtual DicomReply store(const std::filesystem::path& file) = 0;
  /// Releases the association, if one is open.
  virtual void close() = 0;
  /// Ends what is under way, with `failed`; what begins later fails at once. Any thread may call it.
  virtual void interrupt() = 0;
};

using MakeDicomLink = std::function<std::unique_ptr<DicomLink>(const DicomPeer&)>;

/// Makes links by DCMTK, with the AE title, deadlines and TLS files of the options. Throws std::runtime_error where
/// this server was built without DCMTK, or where a file of TLS cannot be used.
MakeDicomLink dcmtk_links(const config::DicomOptions& options);

}  // namespace echotrain::server
