// Sends a scan from a file and looks at the images as they come: stream SCAN.h5 PIPELINE HOST PORT
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <variant>

#include "clients/cpp/connection/exchange.h"
#include "clients/cpp/connection/scan_source.h"

namespace client = echotrain::client;
namespace protocol = echotrain::protocol;

namespace {

int stream(const std::string& file, const std::string& pipeline, const client::ServerAddress& server) {
  client::DatasetSource source(file, "dataset");
  protocol::Buffer preamble;
  protocol::encode(protocol::ConfigFile{pipeline}, preamble);
  protocol::encode(protocol::HeaderText{source.header_xml()}, preamble);

  client::Exchange exchange(server, {}, std::move(preamble), source, /*rate=*/0);
  int images = 0;
  while (!exchange.over()) {
    const auto event = exchange.next(std::chrono::milliseconds(100));
    if (!event) continue;
    if (const auto* text = std::get_if<protocol::Text>(&*event)) {
      std::printf("the server says: %s", text->text.c_str());
    } else {
      const protocol::ImageHeader head = std::get<client::ReceivedImage>(*event).image.head;
      std::printf("image %d: %d x %d\n", images++, int{head.matrix_size[0]}, int{head.matrix_size[1]});
    }
  }
  if (!exchange.failure().empty()) std::fprintf(stderr, "%s\n", exchange.failure().c_str());
  return exchange.failure().empty() && exchange.closed_by_server() && images > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: stream SCAN.h5 PIPELINE HOST PORT\n");
    return 2;
  }
  try {
    return stream(argv[1], argv[2], {argv[3], static_cast<std::uint16_t>(std::stoi(argv[4])), {}});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
