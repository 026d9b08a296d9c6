#include "server/environment.h"

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "gadgets/numerics/context.h"

namespace echotrain::server {

namespace {

void require(config::BackendChoice choice) {
  if (choice == config::BackendChoice::automatic) return;
  const auto backend = choice == config::BackendChoice::cuda ? numerics::Backend::cuda : numerics::Backend::cpu;
  std::string reason;
  if (!numerics::available(backend, &reason))
    throw std::runtime_error(fmt::format("--backend {} cannot run here: {}; --backend auto takes what works",
                                         numerics::to_string(backend), reason));
}

// A bound so low that one session's queues fill it would end scans that back-pressure should slow down.
std::shared_ptr<Memory> make_memory(const config::ServerOptions& options) {
  if (options.memory_mib == 0) return std::make_shared<Memory>(machine_memory() / 4 * 3);
  if (options.memory_mib < 4 * options.queue_mib)
    throw std::invalid_argument(
        fmt::format("memory_mib: {} MiB do not hold the queues of even one session (up to 4 x queue_mib = {} MiB); "
                    "raise memory_mib or lower queue_mib",
                    options.memory_mib, 4 * options.queue_mib));
  return std::make_shared<Memory>(static_cast<std::uint64_t>(options.memory_mib) << 20);
}

std::shared_ptr<Certificates> make_certificates(const config::TlsOptions& options) {
  if (!options.certificate.empty()) return std::make_shared<Certificates>(options);
  if (options.only || !options.key.empty() || !options.client_ca.empty())
    throw std::invalid_argument(
        "TLS needs a certificate and its key: give --tls-certificate FILE.pem and --tls-key FILE.pem");
  return nullptr;
}

}  // namespace

Environment make_environment(const config::ServerOptions& options, config::PipelineLibrary library,
                             const Registry& registry) {
  require(options.backend);
  return {options,
          protocol::Limits{},
          Catalogue(std::move(library), options.default_pipeline, registry),
          make_memory(options),
          make_compute_pool(options),
          make_certificates(options.tls),
          options.token_file.empty() ? nullptr : std::make_shared<Tokens>(options.token_file)};
}

}  // namespace echotrain::server
