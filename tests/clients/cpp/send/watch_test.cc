#include "clients/cpp/send/watch.h"

#include <gmock/gmock.h>

#include <cstring>
#include <vector>

namespace echotrain::client {
namespace {

using testing::HasSubstr;

std::string view(const std::string& head, const std::vector<float>& values) {
  const auto length = static_cast<std::uint32_t>(head.size());
  std::string bytes(4 + values.size() * 4, '\0');
  std::memcpy(bytes.data(), &length, 4);
  std::memcpy(bytes.data() + 4, values.data(), values.size() * 4);
  return bytes.insert(4, head);
}

TEST(Watch, ShowsScansAndDelays) {
  const std::string text = watch_text(
      R"({"server":{"version":"1.2","state":"ready","memory_used":2097152,"memory_bound":4194304,"queue_bytes":0},
          "delays":{"images":3,"p50_ms":4.25,"p99_ms":9.5},
          "scans":[{"id":7,"state":"scanning","pipeline":"radial_2d","lines":30,"lines_announced":60,"images":2,
                    "bytes_in":1048576,"peer":"10.0.0.1:5","error":{"code":"bad-data","text":"no \u001b[2J"}}],"ended":[]})",
      "");
  EXPECT_THAT(text, HasSubstr("echotrain-server 1.2: ready  memory 2 of 4 MiB"));
  EXPECT_THAT(text, HasSubstr("3 images, 4.2 ms (median), 9.5 ms (p99)"));
  EXPECT_THAT(text, HasSubstr("radial_2d"));
  EXPECT_THAT(text, HasSubstr("[############............] 30/60 lines  2 images  1.0 MiB in  10.0.0.1:5"));
  EXPECT_THAT(text, HasSubstr("bad-data: no "));
  EXPECT_EQ(text.find('\033'), std::string::npos);  // a client's text steers no terminal
}

TEST(Watch, DrawsDarkAndBright) {
  const std::string image =
      view(R"({"scan":1,"series":2,"index":3,"width":4,"height":2,"low":0,"high":9})", {0, 1, 5, 9, 9, 9, 0, 0});
  const std::string text = watch_text(R"({"scans":[],"ended":[]})", image);
  EXPECT_THAT(text, HasSubstr("no scan runs\nscan 1, series 2, image 3, 4 x 2, 0 to 9\n .+@\n@@  \n"));
}

TEST(Watch, DrawsNothingOfBrokenImages) {
  const std::string head = R"({"width":400,"height":200,"low":0,"high":9})";
  for (const std::string& image : {std::string("\x01"), std::string("\xff\xff\xff\xff{}"), view(head, {1, 2, 3}),
                                   view(R"({"width":0,"height":0})", {})})
    EXPECT_THAT(watch_text("{}", image), testing::EndsWith("no scan runs\n"));
}

}  // namespace
}  // namespace echotrain::client
