#include "server/console/admin/admin_pages.h"

#include <fmt/format.h>

#include "gadgets/shared/store/calibration_store.h"
#include "gadgets/shared/store/noise_store.h"
#include "server/console/admin/dicom_page.h"
#include "server/console/admin/metrics_present.h"
#include "server/console/admin/noise_page.h"
#include "server/detached/detached_store.h"
#include "server/scan/queries.h"

namespace echotrain::server {

namespace {

constexpr unsigned kNotFound = 404;
constexpr unsigned kUnavailable = 503;

constexpr std::string_view kPlaces =
    "/page/      the live page, for browsers\n"
    "/livez      200 while the server's loop turns\n"
    "/readyz     200 while it takes scans; else 503 and the reason\n"
    "/metrics    for Prometheus\n"
    "/sessions   the current sessions, as JSON\n"
    "/dicom      the DICOM peers, as JSON; 503 while one cannot be reached or has refused an image\n"
    "/noise      the noise that scans have left for later ones, as JSON\n"
    "/calibration  the reference lines that they have left, as JSON\n"
    "/detached   the scans that outlive their connections, as JSON\n"
    "/sessions/ID/stop  to POST with a token of admin.token_file: ends a session\n"
    "/detached/ID/cancel  likewise: cancels a detached scan, or removes one that has ended\n";

AdminPage ready_page(const Readiness& readiness) {
  const Readiness::State state = readiness.state();
  AdminPage page;
  if (state == Readiness::State::ready) {
    page.body = "ready\n";
  } else {
    page.status = kUnavailable;
    page.body = fmt::format("{}: {}\n", to_string(state), readiness.reason());
  }
  return page;
}

}  // namespace

AdminPage admin_page(std::string_view path, const Environment& environment) {
  AdminPage page;
  if (path == "/livez") {
    page.body = "alive\n";
  } else if (path == "/readyz") {
    page = ready_page(*environment.readiness);
  } else if (path == "/metrics") {
    page.content_type = Metrics::kContentType;
    page.body = metrics_text(environment);
  } else if (path == "/sessions") {
    page.content_type = "application/json";
    page.body = sessions_json(*environment.session_registry);
  } else if (path == "/dicom") {
    page = dicom_page(environment.dicom.get());
  } else if (path == "/noise") {
    page.content_type = "application/json";
    page.body = noise_json(environment.resources->get<NoiseStore>().list());
  } else if (path == "/calibration") {
    page.content_type = "application/json";
    page.body = calibration_json(environment.resources->get<CalibrationStore>().list());
  } else if (path == "/detached") {
    page.content_type = "application/json";
    page.body = environment.detached ? environment.detached->json(nullptr) : "[]";
  } else if (path == "/") {
    page.body = fmt::format("echotrain-server {}\n\n{}", version(), kPlaces);
  } else {
    page.status = kNotFound;
    page.body = fmt::format("this page does not exist; these do:\n\n{}", kPlaces);
  }
  return page;
}

}  // namespace echotrain::server
