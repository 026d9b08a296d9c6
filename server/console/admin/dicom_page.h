// The admin page of DICOM peers lists them as JSON, each with what was sent to it and what waits.
#pragma once

#include <string>
#include <vector>

#include "server/dicom/dicom_output.h"

namespace echotrain::server {

struct AdminPage;

/// {"dropped": N, "peers": [{"name", "address", "reachable" (null before the first exchange), "error", "sent",
/// "refused", "failures", "waiting_files", "waiting_bytes", "put_aside", "silent_s" (null if it has never answered)}]}.
/// Status 503 while a peer cannot be reached or images of it are put aside. `output` may be null: no peers.
AdminPage dicom_page(const DicomOutput* output);

}  // namespace echotrain::server
