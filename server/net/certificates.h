// The server's certificate, which can be replaced while the server runs.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "config/server_options.h"
#include "server/net/transport.h"

namespace echotrain::server {

/// Holds the certificate and its key. Thread-safe.
class Certificates {
 public:
  /// Reads the files; throws std::runtime_error as TlsContext does.
  explicit Certificates(config::TlsOptions options) : options_(std::move(options)) { reload(); }

  /// Reads the files again, for connections to come. What fails (std::runtime_error) leaves the old ones in use.
  void reload() {
    auto fresh =
        std::make_shared<const TlsContext>(options_.certificate, options_.key, options_.client_ca, options_.client_crl);
    const std::scoped_lock lock(mutex_);
    context_ = std::move(fresh);
  }

  std::shared_ptr<const TlsContext> context() const {
    const std::scoped_lock lock(mutex_);
    return context_;
  }

 private:
  const config::TlsOptions options_;
  mutable std::mutex mutex_;
  std::shared_ptr<const TlsContext> context_;
};

}  // namespace echotrain::server
