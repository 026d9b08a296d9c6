// The peers that get every scan's images (dicom.send_to) get those of some clients' pipelines only.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "protocol/dicom/dicom_file.h"
#include "tests/server/dicom/dicom_support.h"
#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Returns the text that a server, whose peer is away, sends to the client of such a config, and the number of files in
/// its spool then.
std::pair<std::string, std::ptrdiff_t> sent(const std::string& config, config::ClientPipelines client_pipelines) {
  const SpoolFolder folder;
  config::ServerOptions options;
  options.dicom.peers = {"pacs=X@127.0.0.1:1"};
  options.dicom.send_to = {"pacs"};
  options.dicom.spool = folder.path();
  options.client_pipelines = client_pipelines;
  std::string texts;
  {
    TestServer server(options);
    const Conversation all = server.exchange(config + wire::header(wire::xml()) + wire::frame() + wire::close());
    EXPECT_TRUE(all.ended_well());
    EXPECT_EQ(all.count(1022), 1U) << all.texts();
    texts = all.texts();
  }  // writes what waits in memory
  const std::filesystem::recursive_directory_iterator files(folder.path());
  return {texts,
          std::count_if(begin(files), end(files), [](const auto& file) { return file.path().extension() == ".dcm"; })};
}

TEST(DicomOutput, PipelinesOfClientsSendToNoPeerUnlessTheyAreTrusted) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const std::string own = wire::config_text(
      "echotrain: 1\nname: mine\ndescription: x\npipeline:\n  - cartesian_kspace\n  - fft\n"
      "  - coil_combine: {method: rss}\n  - image: {component: magnitude}\n");
  const auto [refused, none] = sent(own, config::ClientPipelines::gadgets);
  EXPECT_EQ(none, 0);
  EXPECT_THAT(refused, HasSubstr("go to no DICOM peer (dicom.send_to)"));
  EXPECT_THAT(refused, HasSubstr("client_pipelines: all"));
  const auto [trusted, one] = sent(own, config::ClientPipelines::all);
  EXPECT_EQ(one, 1);
  EXPECT_THAT(trusted, Not(HasSubstr("DICOM")));
  const auto [named, servers] = sent(wire::config("cartesian_plain"), config::ClientPipelines::off);
  EXPECT_EQ(servers, 1);
  EXPECT_THAT(named, Not(HasSubstr("DICOM")));
}

}  // namespace
}  // namespace echotrain::server
