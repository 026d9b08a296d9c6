// The scan header is a measurement's header with all that the server reads of it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/data/header.h"
#include "protocol/data/limits.h"
#include "protocol/data/result.h"
#include "protocol/data/scanner_device.h"
#include "protocol/data/trace.h"
#include "protocol/dicom/study.h"

namespace echotrain::server {

/// A header of 1 MiB takes some 100 ms to read: it is read once, off the threads that move bytes, and not copied there.
struct ScanHeader : protocol::Header {
  std::string device{};                 ///< by protocol::device_of()
  protocol::dicom::StudyFacts study{};  ///< for the live page and DICOM
  std::string trace{};                  ///< the header's trace ID, or a new one
};

/// Parses and checks a header. Errors are those of protocol::parse_header().
inline protocol::Result<std::shared_ptr<const ScanHeader>> read_scan_header(std::string_view xml,
                                                                            const protocol::Limits& limits) {
  protocol::Result<protocol::Header> parsed = protocol::parse_header(xml, limits);
  if (!parsed) return parsed.error();
  auto header = std::make_shared<ScanHeader>(ScanHeader{*std::move(parsed)});
  header->device = protocol::device_of(header->xml);
  header->study = protocol::dicom::read_study_facts(header->xml);
  header->trace = header->study.trace.empty() ? protocol::new_trace_id() : header->study.trace;
  return std::shared_ptr<const ScanHeader>(std::move(header));
}

}  // namespace echotrain::server
