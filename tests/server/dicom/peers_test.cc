#include "server/dicom/peers.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace echotrain::server {
namespace {

TEST(DicomPeers, AreReadFromOneText) {
  const DicomPeer peer = read_peer("pacs=STORE SCP@10.0.0.5:4242");
  EXPECT_EQ(peer.name, "pacs");
  EXPECT_EQ(peer.ae_title, "STORE SCP");
  EXPECT_EQ(peer.host, "10.0.0.5");
  EXPECT_EQ(peer.port, 4242);
  EXPECT_FALSE(peer.tls);
  const DicomPeer other = read_peer("b-2=B@[fd00::1]:2762/tls");
  EXPECT_EQ(other.host, "fd00::1");
  EXPECT_EQ(other.port, 2762);
  EXPECT_TRUE(other.tls);
  EXPECT_FALSE(other.enhanced);
  for (const char* text : {"c=C@h:1/tls/enhanced", "c=C@h:1/enhanced/tls"}) {
    const DicomPeer both = read_peer(text);
    EXPECT_TRUE(both.tls && both.enhanced && both.port == 1) << text;
  }
  EXPECT_FALSE(read_peer("c=C@h:1/enhanced").tls);
}

TEST(DicomPeers, AreRefusedWithWhatIsWrong) {
  const auto why = [](const char* text) -> std::string {
    try {
      read_peer(text);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_NE(why("pacs").find("has no AE title"), std::string::npos);
  EXPECT_NE(why("pacs=A@host").find("has no port"), std::string::npos);
  EXPECT_NE(why("pacs=A@:104").find("has no host"), std::string::npos);
  EXPECT_NE(why("pacs=A@host:0").find("1 to 65535"), std::string::npos);
  EXPECT_NE(why("pacs=A@host:70000").find("1 to 65535"), std::string::npos);
  EXPECT_NE(why("pacs=A@host:104x").find("1 to 65535"), std::string::npos);
  EXPECT_NE(why("../up=A@host:104").find("a name has"), std::string::npos);
  EXPECT_NE(why("pacs=@host:104").find("an AE title has"), std::string::npos);
  EXPECT_NE(why("pacs=SEVENTEEN LETTERS@host:104").find("an AE title has"), std::string::npos);
  EXPECT_NE(why("pacs=A@host:104").find("accepted"), std::string::npos);
  for (const char* taken : {"salt=A@host:104", "lock=A@host:104", "refused=A@host:104"})
    EXPECT_NE(why(taken).find("names of the spool's own"), std::string::npos) << taken;
}

TEST(DicomPeers, OfTheOptionsBelongTogether) {
  config::DicomOptions options;
  EXPECT_TRUE(read_peers(options).empty());
  options.peers = {"a=A@host:104", "b=B@host:104"};
  EXPECT_THROW(read_peers(options), std::invalid_argument) << "no spool";
  options.spool = "spool";
  EXPECT_EQ(read_peers(options).size(), 2U);
  options.send_to = {"c"};
  EXPECT_THROW(read_peers(options), std::invalid_argument);
  options.send_to = {"b"};
  EXPECT_EQ(read_peers(options).size(), 2U);
  options.peers.push_back("a=C@host:104");
  EXPECT_THROW(read_peers(options), std::invalid_argument);
  options.peers.clear();
  options.send_to.clear();
  EXPECT_THROW(read_peers(options), std::invalid_argument) << "a spool without peers";
}

}  // namespace
}  // namespace echotrain::server
