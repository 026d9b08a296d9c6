#include "protocol/files/stream_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <system_error>

#include "tests/protocol/wire_bytes.h"

namespace echotrain::protocol::test {
namespace {

class StreamFile : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("echotrain_stream_" + std::to_string(::getpid()));
  }
  void TearDown() override { std::filesystem::remove(path_); }
  void save(const Buffer& bytes) {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  std::filesystem::path path_;
};

TEST_F(StreamFile, WritesAndReadsBack) {
  const auto readout = decode_copy(acquisition_bytes(8, 2, 1));
  ASSERT_TRUE(readout);
  {
    StreamWriter writer(path_);
    writer.write(HeaderText{"<h/>"});
    for (int i = 0; i < 3; ++i) writer.write(*readout);
    writer.write(Close{});
    writer.flush();
  }
  EXPECT_EQ(std::filesystem::file_size(path_), 10u + 3 * (342 + 32 + 128) + 2);
  StreamReader reader(path_);
  std::vector<std::size_t> kinds;
  for (auto message = reader.next(); message && *message; message = reader.next()) kinds.push_back((*message)->index());
  EXPECT_EQ(kinds, (std::vector<std::size_t>{2, 7, 7, 7, 3}));
  const auto end = reader.next();
  ASSERT_TRUE(end);
  EXPECT_FALSE(*end);
}

TEST_F(StreamFile, EndInsideAMessageIsAnError) {
  Buffer bytes = Wire().u16(4).bytes;
  const Buffer readout = acquisition_bytes(8, 2, 1);
  bytes.insert(bytes.end(), readout.begin(), readout.end() - 1);
  save(bytes);
  StreamReader reader(path_);
  const auto close = reader.next();
  ASSERT_TRUE(close && *close);
  const auto cut = reader.next();
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, "truncated");
  EXPECT_NE(cut.error().message.find("1008 (ACQUISITION)"), std::string::npos) << cut.error().message;
}

TEST_F(StreamFile, PipeDeliversEachMessageAtOnce) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::FILE* in = ::fdopen(ends[0], "rb");
  std::FILE* out = ::fdopen(ends[1], "wb");
  {
    StreamReader reader(in);
    StreamWriter writer(out);
    for (int i = 0; i < 3; ++i) {
      writer.write(Text{"now"});
      writer.flush();
      const auto message = reader.next();  // would wait for ever if it wanted more than what is there
      ASSERT_TRUE(message && *message);
      EXPECT_EQ(std::get<Text>(**message).text, "now");
    }
  }
  std::fclose(out);
  std::fclose(in);
}

TEST_F(StreamFile, FilesThatCannotBeUsed) {
  EXPECT_THROW(StreamReader(path_ / "missing"), std::system_error);
  EXPECT_THROW(StreamWriter(path_ / "missing" / "file"), std::system_error);
  StreamReader folder(std::filesystem::temp_directory_path());
  const auto message = folder.next();
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().code, "io");
}

TEST_F(StreamFile, FullDiskIsAnError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full on this system";
  StreamWriter writer(std::filesystem::path("/dev/full"));
  const auto write_much = [&writer] {
    for (int i = 0; i < 10; ++i) writer.write(ConfigFile{"x"});
    writer.flush();
  };
  EXPECT_THROW(write_much(), std::system_error);
}

}  // namespace
}  // namespace echotrain::protocol::test
