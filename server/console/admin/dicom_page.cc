#include "server/console/admin/dicom_page.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "server/console/admin/admin_pages.h"

namespace echotrain::server {

AdminPage dicom_page(const DicomOutput* output) {
  constexpr unsigned kUnavailable = 503;
  AdminPage page;
  page.content_type = "application/json";
  nlohmann::ordered_json peers = nlohmann::ordered_json::array();
  const auto all = output != nullptr ? output->status() : std::vector<DicomPeerStatus>();
  for (const DicomPeerStatus& one : all) {
    nlohmann::ordered_json entry{{"name", one.peer.name},
                                 {"address", fmt::format("{}@{}:{}", one.peer.ae_title, one.peer.host, one.peer.port)},
                                 {"reachable", nullptr},
                                 {"error", one.error},
                                 {"sent", one.sent},
                                 {"refused", one.refused},
                                 {"failures", one.failures},
                                 {"waiting_files", one.waiting.files},
                                 {"waiting_bytes", one.waiting.bytes},
                                 {"failing", one.failing},
                                 {"given_up", one.given_up},
                                 {"put_aside", one.waiting.refused},
                                 {"removed", one.removed},
                                 {"silent_s", nullptr}};
    if (one.reachable) entry["reachable"] = *one.reachable;
    if (one.last_contact)
      entry["silent_s"] = std::chrono::duration<double>(std::chrono::system_clock::now() - *one.last_contact).count();
    if (!one.reachable.value_or(true) || one.waiting.refused > 0 || one.failing > 0) page.status = kUnavailable;
    peers.push_back(std::move(entry));
  }
  const nlohmann::ordered_json json{{"dropped", output != nullptr ? output->dropped() : 0},
                                    {"peers", std::move(peers)}};
  page.body = json.dump(2, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace) + "\n";
  return page;
}

}  // namespace echotrain::server
