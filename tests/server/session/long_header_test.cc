// A long header is read once, and not on the threads that move bytes.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <pugixml.hpp>
#include <thread>

#include "server/console/live/live_scan_registry.h"
#include "server/dicom/dicom_output.h"
#include "tests/server/dicom/dicom_support.h"
#include "tests/server/session/handled_session.h"
#include "tests/support/resources.h"
#include "tests/support/sources.h"

namespace echotrain::server {
namespace {

/// Counts the allocations of all XML documents, on this thread and on others, as long as it lives.
class XmlRead {
 public:
  XmlRead() {
    here = std::this_thread::get_id();
    on_this = on_others = 0;
    pugi::set_memory_management_functions(
        [](std::size_t bytes) {
          ++(std::this_thread::get_id() == here ? on_this : on_others);
          return std::malloc(bytes);
        },
        std::free);
  }
  ~XmlRead() { pugi::set_memory_management_functions(std::malloc, std::free); }
  XmlRead(const XmlRead&) = delete;
  XmlRead& operator=(const XmlRead&) = delete;

  static inline std::thread::id here;
  static inline std::atomic<int> on_this, on_others;
};

TEST(LongHeader, IsReadBesideTheThreadsThatMoveBytes) {
  asio::io_context io;
  config::ServerOptions options;
  options.backend = config::BackendChoice::cpu;
  Environment environment =
      make_environment(options, config::PipelineLibrary({shipped_pipelines()}), Registry::builtin(), test_resources());
  const auto live = std::make_shared<LiveScanRegistry>(0, false, environment.memory);
  environment.observers = live;
  const SpoolFolder folder;
  config::DicomOptions dicom;
  dicom.peers = {"a=A@host:104"};
  dicom.spool = folder.path();
  dicom.send_to = {"a"};
  const auto peer = std::make_shared<FakePeer>();
  environment.sinks = std::make_shared<DicomOutput>(dicom, std::make_shared<QueueMemory>(1 << 20),
                                                    [&](const DicomPeer&) { return std::make_unique<FakeLink>(peer); });
  std::string xml = wire::xml();
  xml.insert(xml.rfind("</ismrmrdHeader>"), "<!--" + std::string(64 << 10, 'x') + "-->");
  Handled handled(io, environment);
  {
    const XmlRead read;
    handled.take(io, wire::config("cartesian_plain") + wire::header(xml) + wire::acquisition(0));
    EXPECT_TRUE(runs_until(io, [&] { return handled.done && handled.scan.started(); }));
    EXPECT_EQ(read.on_this, 0) << "parsers of XML asked for memory";
    EXPECT_GE(read.on_others, 3) << "the header, its device, its study";
  }
  const auto origin = live->origin(handled.connection.status->id);
  ASSERT_NE(origin, nullptr) << "the scan has begun";
  EXPECT_EQ(origin->study.protocol_name, "");
  EXPECT_LT(origin->study.key.size(), 200U) << "whoever keeps it, keeps no header";
  handled.connection.drop();
  handled.scan.abandon();
  environment.end_texts();
}

}  // namespace
}  // namespace echotrain::server
