// Images of a client that goes before its scan ends do not stay in the way of others.
#include <gtest/gtest.h>

#include "protocol/dicom/dicom_file.h"
#include "tests/server/dicom/dicom_support.h"
#include "tests/server/http_client.h"
#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

/// An image of so many planes, whose pixels but for the first are 0.
std::string image_of_planes(std::uint16_t index, std::uint16_t planes) {
  auto head = wire::image_head(1, index);
  head.matrix_size[2] = planes;
  for (float& mm : head.field_of_view) mm = 1;
  return wire::image(head) + std::string(std::size_t{4} * (planes - 1U), '\0');
}

TEST(DicomOutput, ImagesThatWaitLeaveTheQueueWhenTheirClientGoes) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const SpoolFolder folder;
  config::ServerOptions options;
  options.dicom.peers = {"pacs=X@127.0.0.1:1"};
  options.dicom.send_to = {"pacs"};
  options.dicom.spool = folder.path();
  TestServer server(options);
  constexpr std::uint16_t kMany = 20, kPlanes = 500;
  {
    RawClient client(server.port());
    std::string bytes = wire::config("passthrough") + wire::header(wire::xml()) + image_of_planes(1, kPlanes);
    for (std::uint16_t i = 2; i < 2 + kMany; ++i) bytes += image_of_planes(i, 1);
    client.send(bytes);
    for (int images = 0; images < 1 + kMany;) {
      const auto message = client.receive();
      ASSERT_TRUE(message);
      images += message->id == 1022 ? 1 : 0;
    }
    client.reset();  // the planes of the first one are being written
  }
  EXPECT_TRUE(comes_true([&] { return scrape(server.admin_port())["echotrain_dicom_dropped_total"] > 0; }));
}

}  // namespace
}  // namespace echotrain::server
