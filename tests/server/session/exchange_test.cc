// The order of messages: docs/protocol.md, "Exchange".
#include <gmock/gmock.h>

#include "tests/server/raw_client.h"

namespace echotrain::server {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

const std::string kStart = wire::config("cartesian_plain") + wire::header(wire::xml());
const std::string kRadialJson = wire::text("{\"parameters\": {\"config\": \"radial_2d\"}}" + std::string(1, '\0'));

TEST(Exchange, ScanGivesOneImagePerFrameThenClose) {
  TestServer server;
  const Conversation all = server.exchange(kStart + wire::frame(0) + wire::frame(1) + wire::frame(2) + wire::close());
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 3U) << all.texts();
  EXPECT_THAT(all.texts(), Not(HasSubstr("WARNING")));
}

TEST(Exchange, FirstImageComesBeforeTheSecondFrameIsSent) {
  TestServer server;
  RawClient client(server.port());
  client.send(kStart + wire::frame(0));
  const auto first = client.receive();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->id, 1022);
  client.send(wire::frame(1) + wire::close());
  const Conversation rest = client.receive_all();
  EXPECT_TRUE(rest.ended_well());
  EXPECT_EQ(rest.count(1022), 1U);
}

TEST(Exchange, FragmentsAndOneWriteGiveTheSameBits) {
  TestServer server;
  const std::string scan = kStart + wire::frame(0) + wire::waveform() + wire::frame(1) + wire::close();
  const Conversation whole = server.exchange(scan);
  RawClient client(server.port());
  for (const char byte : scan) ASSERT_TRUE(client.send(std::string(1, byte)));
  const Conversation bytes = client.receive_all();
  EXPECT_TRUE(bytes.ended_well());
  ASSERT_EQ(whole.count(1022), 2U);
  EXPECT_EQ(whole.reproducible_images(), bytes.reproducible_images());
}

TEST(Exchange, ImagesComeBackUnchangedAndInOrder) {
  TestServer server;
  std::string scan = wire::config("passthrough") + wire::header("Dummy XML header");
  std::vector<std::string> sent;
  for (std::uint16_t i = 1; i <= 20; ++i) {
    const std::string image = wire::image(wire::image_head(16, i));
    sent.push_back(image.substr(2));
    scan += image;
  }
  const Conversation all = server.exchange(scan + wire::close());
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.images(), sent);
}

TEST(Exchange, QueryNeedsNoConfig) {
  TestServer server;
  const Conversation all =
      server.exchange(wire::query("ismrmrd::version", 5) + wire::query("gadgetron::version", 6) +
                      wire::query("what", 7) + wire::query("echotrain::pipelines", 8) + wire::close());
  EXPECT_TRUE(all.ended_well());
  ASSERT_EQ(all.count(7), 4U);
  EXPECT_EQ(all.count(5), 0U);
  using wire::raw;
  EXPECT_EQ(all.messages[0].body, raw(std::uint64_t{5}) + raw(std::uint64_t{5}) + "1.8.0");
  EXPECT_THAT(all.messages[1].body, HasSubstr("Echotrain"));
  EXPECT_EQ(all.messages[2].body, raw(std::uint64_t{7}) + raw(std::uint64_t{13}) + "Unknown query");
  EXPECT_THAT(all.messages[3].body, HasSubstr("cartesian_plain"));
}

/// A client without a session gets no more than a bound and a short answer for each question.
TEST(Exchange, AnswersBeforeTheConfigAreBounded) {
  TestServer server;
  std::string queries;
  for (std::uint64_t i = 0; i < 400; ++i) queries += wire::query("echotrain::pipelines", i);
  const Conversation all = server.exchange(queries + wire::config("cartesian_plain") +
                                           wire::query("echotrain::pipelines", 400) + wire::close());
  EXPECT_TRUE(all.ended_well());
  ASSERT_EQ(all.count(7), 401U);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < 400; ++i) bytes += all.messages[i].body.size();
  const std::size_t longest = all.messages[0].body.size();
  EXPECT_LE(bytes, (16 << 10) + longest + 400 * 50);
  EXPECT_THAT(all.messages[399].body, HasSubstr("refused: send a config first"));
  EXPECT_EQ(all.messages[400].body.size(), longest) << "to who has a session";
}

TEST(Exchange, QueryIsAnsweredInEveryState) {
  TestServer server;
  const std::string query = wire::query("ismrmrd::version", 1);
  const Conversation all = server.exchange(query + wire::config("cartesian_plain") + query + wire::header(wire::xml()) +
                                           query + wire::frame() + query + wire::close() + query);
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(7), 4U);  // what comes after CLOSE is ignored
  EXPECT_EQ(all.count(1022), 1U);
}

TEST(Exchange, ConfigThenCloseIsAnsweredByCloseAlone) {
  TestServer server;
  for (const std::string& config :
       {wire::config("cartesian_plain"), wire::config("simplefft"), wire::config("no_such_pipeline"), wire::config(""),
        wire::config_text(""), wire::config_text("not: [a pipeline"),
        wire::config_text("<?xml version=\"1.0\"?><gadgetronStreamConfiguration/>")}) {
    const Conversation all = server.exchange(config + wire::close());
    EXPECT_TRUE(all.ended_well());
    EXPECT_EQ(all.messages.size(), 1U) << all.texts();
  }
}

TEST(Exchange, CloseAloneAndHeaderThenCloseEndWell) {
  TestServer server;
  EXPECT_EQ(server.exchange(wire::close()).messages.size(), 1U);
  const Conversation all = server.exchange(kStart + wire::close());
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 0U);
}

TEST(Exchange, ConfigTextRunsAPipelineOfTheClient) {
  TestServer server;
  const Conversation all = server.exchange(
      wire::config_text(
          "echotrain: 1\nname: mine\ndescription: x\npipeline:\n  - cartesian_kspace\n  - fft: {direction: inverse}\n"
          "  - coil_combine: {method: none}\n  - image: {component: complex}\n") +
      wire::header(wire::xml()) + wire::frame() + wire::close());
  EXPECT_TRUE(all.ended_well());
  ASSERT_EQ(all.count(1022), 1U) << all.texts();
  EXPECT_EQ(all.messages[0].pixels().size(), 2U * 8 * 8 * 8);  // 2 coils of complex float
}

TEST(Exchange, HeaderWithoutConfigTakesTheDefaultPipeline) {
  config::ServerOptions options;
  options.default_pipeline = "cartesian_plain";
  TestServer server(options);
  for (const std::string& config : {std::string(), wire::config(""), wire::config_text("")}) {
    const Conversation all = server.exchange(config + wire::header(wire::xml()) + wire::frame() + wire::close());
    EXPECT_TRUE(all.ended_well());
    EXPECT_EQ(all.count(1022), 1U) << all.texts();
  }
}

TEST(Exchange, JsonAfterTheHeaderReplacesTheConfig) {
  TestServer server;
  const std::string data = wire::frame() + wire::close();
  const std::string pass = wire::config("passthrough") + wire::header(wire::xml());
  const auto json = [](const std::string& config, const std::string& custom) {
    return wire::text("{\"parameters\": {\"config\": \"" + config + "\", \"customconfig\": \"" + custom + "\"}}" +
                      std::string(1, '\0'));
  };
  EXPECT_EQ(server.exchange(pass + data).count(1022), 0U);
  for (const std::string& text :
       {json("cartesian_plain", ""), json("whatever", "cartesian_plain"), json("simplefft", "")}) {
    const Conversation all = server.exchange(pass + text + data);
    EXPECT_TRUE(all.ended_well());
    EXPECT_EQ(all.count(1022), 1U) << all.texts();
  }
  // A name that is not known, and a name that comes too late, change nothing.
  const Conversation unknown = server.exchange(pass + json("no_such", "") + data);
  EXPECT_TRUE(unknown.ended_well());
  EXPECT_EQ(unknown.count(1022), 0U);
  EXPECT_THAT(unknown.texts(), HasSubstr("WARNING  additional config"));
  const Conversation late = server.exchange(pass + wire::acquisition(0) + json("cartesian_plain", "") + data);
  EXPECT_TRUE(late.ended_well());
  EXPECT_EQ(late.count(1022), 0U);
  EXPECT_THAT(late.texts(), HasSubstr("WARNING  additional config"));
}

TEST(Exchange, HalfCloseAfterCloseIsNoCancellation) {
  TestServer server;
  const Conversation all =
      server.exchange(kStart + wire::frame(0) + wire::frame(1) + wire::close(), /*half_close=*/true);
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 2U);
  EXPECT_THAT(all.texts(), Not(HasSubstr("incomplete")));
}

TEST(Exchange, BytesAfterCloseAreIgnored) {
  TestServer server;
  const Conversation all =
      server.exchange(kStart + wire::frame() + wire::close() + wire::id(2000) + std::string(100000, 'x'));
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 1U);
  EXPECT_THAT(all.texts(), Not(HasSubstr("ERROR")));
}

TEST(Exchange, EndAtAnyByteBeforeCloseIsIncomplete) {
  TestServer server;
  const std::string config = wire::config("cartesian_plain"), header = wire::header(wire::xml());
  const std::string scan = config + header + wire::frame(0) + wire::acquisition(0, 1) + wire::close();
  const std::size_t in_frame = config.size() + header.size();
  const std::size_t readout = wire::acquisition(0).size();
  const std::size_t whole_frame = in_frame + 8 * readout;
  for (const std::size_t cut :
       {std::size_t{1}, std::size_t{2}, std::size_t{700}, config.size(), config.size() + 1, config.size() + 5,
        in_frame - 1, in_frame, in_frame + 1, in_frame + 2, in_frame + 300, in_frame + 342, in_frame + readout,
        in_frame + readout + 1, whole_frame - 1, whole_frame, whole_frame + readout, whole_frame + readout + 1}) {
    const Conversation all = server.exchange(scan.substr(0, cut), /*half_close=*/true);
    EXPECT_TRUE(all.ended_well()) << cut;
    EXPECT_EQ(all.count(1022), cut >= whole_frame ? 1U : 0U) << cut;  // whole frames are kept, partial ones dropped
    EXPECT_THAT(all.texts(), HasSubstr("incomplete")) << cut;
    // Only fatal texts may come before the header.
    EXPECT_THAT(all.texts(), HasSubstr(cut < in_frame ? "ERROR    incomplete" : "WARNING  incomplete")) << cut;
  }
}

TEST(Exchange, JsonInItsOwnWriteReplacesAPipelineThatRefusesTheHeader) {
  TestServer server;
  RawClient client(server.port());
  client.send(wire::config("cartesian_plain") + wire::header(wire::Xml{.trajectory = "radial"}.text()));
  std::this_thread::sleep_for(50ms);  // cartesian_plain has refused by now
  client.send(kRadialJson);
  std::this_thread::sleep_for(50ms);
  for (int line = 0; line < wire::kMatrix; ++line) client.send(wire::spoke(line));
  client.send(wire::close());
  const Conversation all = client.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 1U) << all.texts();
  EXPECT_EQ(all.texts(), "");
}

TEST(Exchange, WarningsOfAReplacedPipelineAreNotSent) {
  TestServer server;
  wire::Xml xml;
  xml.acceleration = 3;
  const std::string start = wire::config("cartesian_plain") + wire::header(xml.text());
  const std::string json = wire::text("{\"parameters\": {\"config\": \"passthrough\"}}");
  RawClient client(server.port());
  client.send(start);
  EXPECT_FALSE(client.receive(50ms));
  client.send(json + wire::image(wire::image_head(4)) + wire::close());
  const Conversation replaced = client.receive_all();
  EXPECT_TRUE(replaced.ended_well());
  EXPECT_EQ(replaced.count(1022), 1U);
  EXPECT_THAT(replaced.texts(), Not(HasSubstr("R=3")));
  // Data, CLOSE or a text that names nothing: the pipeline stays, and its text comes once.
  for (const std::string& next : {wire::frame(), wire::close(), wire::text("hello"), wire::query("x", 1)}) {
    RawClient other(server.port());
    other.send(start);
    std::this_thread::sleep_for(20ms);
    other.send(next + wire::close());
    const Conversation all = other.receive_all();
    EXPECT_TRUE(all.ended_well());
    EXPECT_THAT(all.texts(), HasSubstr("R=3"));
    EXPECT_EQ(all.texts().find("R=3"), all.texts().rfind("R=3")) << all.texts();
  }
}

TEST(Exchange, SilenceAfterTheHeaderEndsTheWaitForJson) {
  TestServer server;
  wire::Xml xml;
  xml.acceleration = 3;
  RawClient warned(server.port());
  warned.send(wire::config("cartesian_plain") + wire::header(xml.text()));
  const auto warning = warned.receive(5s);
  ASSERT_TRUE(warning);
  EXPECT_THAT(warning->text(), HasSubstr("R=3"));
  const std::string refused = wire::config("cartesian_plain") + wire::header(wire::Xml{.trajectory = "radial"}.text());
  for (const std::string& more : {std::string(), wire::frame(), wire::close()}) {
    const Conversation all = server.exchange(refused + more);
    EXPECT_TRUE(all.ended_well());
    EXPECT_THAT(all.texts(), HasSubstr("ERROR    bad-data"));
  }
  EXPECT_THAT(server.exchange(refused, /*half_close=*/true).texts(), HasSubstr("ERROR    bad-data"));
}

TEST(Exchange, ConfigAfterTheHeaderOfTheDefaultPipelineIsOutOfOrder) {
  config::ServerOptions options;
  options.default_pipeline = "cartesian_plain";
  TestServer server(options);
  const Conversation first = server.exchange(wire::header(wire::xml()) + wire::config("cartesian_plain"));
  EXPECT_TRUE(first.ended_well());
  EXPECT_THAT(first.texts(), HasSubstr("ERROR    out-of-order: a config came after the header"));
  const Conversation second = server.exchange(wire::config("") + wire::header(wire::xml()) + wire::config(""));
  EXPECT_TRUE(second.ended_well());
  EXPECT_THAT(second.texts(), HasSubstr("ERROR    duplicate-config"));
}

TEST(Exchange, QueryThenEndAndNothingThenEndAreNoErrors) {
  TestServer server;
  const Conversation query = server.exchange(wire::query("ismrmrd::version", 1), /*half_close=*/true);
  EXPECT_TRUE(query.ended_well());
  EXPECT_EQ(query.count(5), 0U);
  const Conversation nothing = server.exchange("", /*half_close=*/true);
  EXPECT_TRUE(nothing.ended_well());
  EXPECT_EQ(nothing.messages.size(), 1U);
}

TEST(Exchange, ImagesFinishedBeforeAFatalErrorComeFirst) {
  TestServer server;
  const Conversation all = server.exchange(kStart + wire::frame(0) + wire::frame(1) + wire::id(2000));
  EXPECT_TRUE(all.ended_well());
  ASSERT_EQ(all.messages.size(), 4U) << all.texts();
  EXPECT_EQ(all.messages[0].id, 1022);
  EXPECT_EQ(all.messages[1].id, 1022);
  EXPECT_EQ(all.messages[2].id, 5);
}

TEST(Exchange, UnsuitableDataIsRefusedWithTheGadgetsReason) {
  TestServer server;
  // No trajectory in the data of a radial pipeline.
  const Conversation all =
      server.exchange(wire::config("radial_2d") + wire::header(wire::Xml{.trajectory = "radial"}.text()) +
                      wire::frame() + wire::close());
  EXPECT_TRUE(all.ended_well());
  EXPECT_THAT(all.texts(), HasSubstr("ERROR    bad-data: "));
  EXPECT_TRUE(server.works());
}

TEST(Exchange, TextsAreWellFormedAndFew) {
  TestServer server;
  const Conversation all = server.exchange(kStart + wire::acquisition(0) + wire::close(), false);
  for (const Received& message : all.messages)
    if (message.id == 5) {
      const std::string text = message.text();
      ASSERT_GT(text.size(), 11U);
      EXPECT_EQ(text.substr(text.size() - 2), std::string("\n\0", 2));
      EXPECT_EQ(text[8], ' ');
      EXPECT_EQ(text.find('\n'), text.size() - 2);
    }
}

TEST(Exchange, SessionsDoNotDisturbEachOther) {
  TestServer server;
  RawClient good(server.port()), bad(server.port());
  good.send(kStart + wire::frame(0));
  bad.send(kStart + wire::acquisition(0) + wire::id(2000));
  EXPECT_TRUE(bad.receive_all().ended_well());
  good.send(wire::frame(1) + wire::close());
  const Conversation all = good.receive_all();
  EXPECT_TRUE(all.ended_well());
  EXPECT_EQ(all.count(1022), 2U);
}

}  // namespace
}  // namespace echotrain::server
