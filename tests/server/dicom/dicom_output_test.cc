#include "server/dicom/dicom_output.h"

#include <gmock/gmock.h>
#include <malloc.h>

#include <algorithm>
#include <set>

#include "protocol/dicom/dicom_file.h"
#include "tests/server/dicom/dicom_support.h"

namespace echotrain::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;

protocol::Image an_image(std::uint16_t side = 8) {
  protocol::Image image;
  for (std::size_t a = 0; a < 2; ++a) image.head.matrix_size[a] = side;
  image.head.matrix_size[2] = 1;
  for (std::size_t a = 0; a < 3; ++a) image.head.field_of_view[a] = 8;
  image.head.channels = 1;
  image.head.data_type = ISMRMRD::ISMRMRD_USHORT;
  image.head.image_type = ISMRMRD::ISMRMRD_IMTYPE_MAGNITUDE;
  image.head.image_index = 1;
  image.pixels = protocol::Payload::take(std::vector<std::uint16_t>(std::size_t{side} * side, 7));
  return image;
}

config::DicomOptions options_of(const SpoolFolder& folder) {
  config::DicomOptions options;
  options.peers = {"a=A@host:104", "b=B@host:104"};
  options.spool = folder.path();
  options.retry_s = 0.05;
  return options;
}

struct Peers {
  std::shared_ptr<FakePeer> a = std::make_shared<FakePeer>(), b = std::make_shared<FakePeer>();
  MakeDicomLink links() const {
    return [*this](const DicomPeer& peer) { return std::make_unique<FakeLink>(peer.name == "a" ? a : b); };
  }
};

ScanHeader header_with(const std::string& study, const std::string& measurement) {
  ScanHeader header;
  header.xml = "<ismrmrdHeader><studyInformation>" + study + "</studyInformation><measurementInformation>" +
               measurement + "</measurementInformation></ismrmrdHeader>";
  header.study = protocol::dicom::read_study_facts(header.xml);
  return header;
}

protocol::CounterLimit up_to(std::uint16_t maximum) { return {0, maximum, 0}; }

config::DicomOptions one_peer_and_a_small_spool(const SpoolFolder& folder) {
  config::DicomOptions options = options_of(folder);
  options.peers = {"a=A@host:104"};
  options.spool_mib = 1;
  return options;
}

TEST(DicomOutput, NumbersImagesByTheirCountersWhateverTheirOrder) {
  protocol::Encoding encoding;
  encoding.slice = up_to(4);
  encoding.repetition = up_to(9);
  protocol::ImageHeader head{};
  head.matrix_size[2] = 1;
  head.image_index = 77;
  EXPECT_EQ(instance_number(head, {encoding}), 1);
  head.slice = 3;
  EXPECT_EQ(instance_number(head, {encoding}), 4);
  head.repetition = 2;
  EXPECT_EQ(instance_number(head, {encoding}), 14);
  head.matrix_size[2] = 10;
  EXPECT_EQ(instance_number(head, {encoding}), 131);
  head.set = 1;  // beyond its limit: by the order in which images came
  EXPECT_EQ(instance_number(head, {encoding}), 761);
  EXPECT_EQ(instance_number(head, {}), 761);
  head.set = 0;
  encoding.repetition = encoding.contrast = encoding.set = encoding.phase = up_to(65535);
  head.contrast = 65535;
  EXPECT_EQ(instance_number(head, {encoding}), 761) << "not beyond 2^31";
}

TEST(DicomOutput, NoTwoInstancesOfASeriesHaveOneNumber) {
  InstanceNumbers numbers;
  EXPECT_EQ(numbers.take(7, 2, 1), 2);
  EXPECT_EQ(numbers.take(8, 3, 2), 3);  // 3, 4
  EXPECT_EQ(numbers.take(8, 1, 1), 1);  // whatever the order
  EXPECT_EQ(numbers.take(8, 2, 1), 2);
  EXPECT_EQ(numbers.take(8, 1, 1), 5);  // beyond all
  EXPECT_EQ(numbers.take(9, 6, 7), 6);
  EXPECT_EQ(numbers.take(8, 10, 5), 10);
  EXPECT_EQ(numbers.take(8, 9, 2), 15);  // 10 is taken
  EXPECT_EQ(numbers.take(8, 6, 4), 6);
  EXPECT_EQ(numbers.take(8, 12, 1), 17);
  EXPECT_EQ(numbers.take(7, 1, 2), 3) << "as 2 is taken";
}

TEST(DicomOutput, NumbersOfManyRangesTakeLittleMemory) {
  InstanceNumbers numbers;
  constexpr std::int64_t kMany = 100000;
  [[maybe_unused]] const std::uint64_t before = ::mallinfo2().uordblks;
  std::map<int, std::set<std::int64_t>> given;
  std::uint64_t most = 0;
  for (std::int64_t i = 0; i < kMany; ++i) {
    const int series = static_cast<int>(i % 1000);
    ASSERT_TRUE(given[series].insert(numbers.take(series, 10 * i, 1)).second);
    most = std::max<std::uint64_t>(most, numbers.bytes());
  }
  EXPECT_LE(most, InstanceNumbers::kMostRanges * 100);
  constexpr std::int64_t kForgotten = kMany - kMany % std::int64_t{InstanceNumbers::kMostRanges};
  EXPECT_EQ(numbers.take(5, 5, 1), 10 * (kForgotten - 1) + 1) << "beyond all that was forgotten";
  given.clear();
#ifndef ECHOTRAIN_SANITIZED
  EXPECT_GE(numbers.bytes(), ::mallinfo2().uordblks - before);
#endif
}

/// The values of an element of explicit little endian, in the order of the files: by PS3.5 7.1.2, without a library.
std::vector<std::string> values_of(const std::vector<std::string>& files, const std::string& tag_and_vr) {
  std::vector<std::string> out;
  for (const std::string& file : files) {
    const std::size_t at = file.find(tag_and_vr);
    EXPECT_NE(at, std::string::npos);
    if (at == std::string::npos) continue;
    const auto low = static_cast<unsigned char>(file[at + 6]), high = static_cast<unsigned char>(file[at + 7]);
    std::string value = file.substr(at + 8, low + 256 * high);
    while (!value.empty() && (value.back() == ' ' || value.back() == '\0')) value.pop_back();
    out.push_back(std::move(value));
  }
  std::sort(out.begin(), out.end());
  return out;
}
const std::string kStudy("\x20\0\x0d\0UI", 6), kSeries("\x20\0\x0e\0UI", 6), kNumber("\x20\0\x13\0IS", 6);

/// Phantoms of two subjects, with the same header, and one capture of them that is replayed.
TEST(DicomOutput, ScansOfEqualHeadersAreDifferentSeries) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const auto sent = [](const std::string& study, const std::string& measurement,
                       const std::vector<std::string>& occasions) {
    const SpoolFolder folder;
    const Peers peers;
    DicomOutput output(options_of(folder), std::make_shared<QueueMemory>(1 << 20), peers.links());
    const ScanHeader header = header_with(study, measurement);
    for (const std::string& occasion : occasions)
      for (int image = 0; image < 2; ++image) {
        protocol::Image one = an_image();
        one.pixels = protocol::Payload::take(std::vector<std::uint16_t>(64, static_cast<std::uint16_t>(7 + image)));
        EXPECT_EQ(output.scan(SessionLog(1), {"a"}, header, "pipeline", occasion)->add(one), "");
      }
    EXPECT_TRUE(comes_true([&] { return peers.a->stored().size() == 2 * occasions.size(); }));
    return peers.a->stored();
  };
  const auto different = [](std::vector<std::string> values) {
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values.size();
  };
  const std::string study = "<studyInstanceUID>1.2.3</studyInstanceUID>", id = "<measurementID>7</measurementID>";
  for (const auto& [with_study, with_id] : {std::pair{"", ""}, {"", id.c_str()}, {study.c_str(), ""}}) {
    const auto files = sent(with_study, with_id, {"one.mrd", "two.mrd"});
    EXPECT_EQ(different(values_of(files, kSeries)), 2U) << with_study << with_id;
    EXPECT_EQ(different(values_of(files, kStudy)), *with_study == '\0' ? 2U : 1U);
    EXPECT_EQ(values_of(sent(with_study, with_id, {"one.mrd"}), kSeries).front(),
              values_of(sent(with_study, with_id, {"one.mrd"}), kSeries).front());
  }
  // Such a header names its measurement: what comes of it is one series, whenever it comes.
  EXPECT_EQ(different(values_of(sent(study, id, {"one.mrd", "two.mrd"}), kSeries)), 1U);
}

/// A studyInstanceUID and a measurementID are what their sender says: two clients may say the same.
TEST(DicomOutput, ClientsOfEqualHeadersHaveSeriesOfTheirOwn) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const SpoolFolder folder;
  const Peers peers;
  DicomOutput output(options_of(folder), std::make_shared<QueueMemory>(1 << 20), peers.links());
  const ScanHeader header =
      header_with("<studyInstanceUID>1.2.3</studyInstanceUID>", "<measurementID>7</measurementID>");
  const auto send = [&](const std::string& identity, const std::string& owner) {
    EXPECT_EQ(output.scan(SessionLog(1), {"a"}, header, "pipeline", "", {identity, {}, owner})->add(an_image()), "");
  };
  for (const char* identity : {"token:mr1", "token:mr2", "token:mr1"}) send(identity, "");
  for (const char* identity : {"token:mr1", "program:replay of 5e0b9a47"}) send(identity, "5e0b9a47");
  EXPECT_TRUE(comes_true([&] { return peers.a->stored().size() == 5; }));
  const std::vector<std::string> series = values_of(peers.a->stored(), kSeries);  // sorted
  std::multiset<long> sizes;
  for (const std::string& uid : std::set(series.begin(), series.end()))
    sizes.insert(std::count(series.begin(), series.end(), uid));
  EXPECT_EQ(sizes, (std::multiset<long>{1, 2, 2})) << "a client's scans are one, and its replay is of its series";
  const std::vector<std::string> study = values_of(peers.a->stored(), kStudy);
  EXPECT_EQ(study.front(), study.back());
}

/// Two scanners of one IPv6 network are two clients with one part.
TEST(DicomOutput, ClientsOfOnePartHaveSeriesOfTheirOwnAndOnePartOfTheSpool) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const SpoolFolder folder;
  const Peers peers;
  peers.a->hang();
  const config::DicomOptions options = one_peer_and_a_small_spool(folder);
  const ScanHeader header =
      header_with("<studyInstanceUID>1.2.3</studyInstanceUID>", "<measurementID>7</measurementID>");
  {
    DicomOutput output(options, nullptr, peers.links());
    std::uint64_t written = 0, refused = 0;
    for (const char* identity : {"address:2001:db8::1", "address:2001:db8::2", "address:2001:db8::3", "token:mr2"}) {
      const bool alone = std::string(identity) == "token:mr2";
      const ImageOwner owner{identity, alone ? identity : "address:2001:db8::/64", ""};
      const auto scan = output.scan(SessionLog(1), {"a"}, header, "pipeline", "", owner);
      // 128 KiB each: three are less than half of 1 MiB.
      for (int i = 0; i < (alone ? 1 : 2); ++i) ++(scan->add(an_image(256)).empty() ? written : refused);
      EXPECT_TRUE(
          comes_true([&] { return output.queued_bytes() == 0 && output.status()[0].waiting.files >= written; }));
    }
    EXPECT_EQ(written, 4U) << "three of the network's, one of the other client's";
    EXPECT_EQ(refused, 3U);
  }
  const Peers fresh;
  DicomOutput output(options, nullptr, fresh.links());
  EXPECT_TRUE(comes_true([&] { return fresh.a->stored().size() == 4; }));
  const std::vector<std::string> series = values_of(fresh.a->stored(), kSeries);
  EXPECT_EQ(std::set(series.begin(), series.end()).size(), 3U);
}

TEST(DicomOutput, ImagesOfEqualCountersHaveNumbersOfTheirOwn) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const SpoolFolder folder;
  const Peers peers;
  DicomOutput output(options_of(folder), std::make_shared<QueueMemory>(1 << 20), peers.links());
  const auto scan = output.scan(SessionLog(1), {"a"}, {}, "pipeline", "one.mrd");
  for (int image = 0; image < 3; ++image) EXPECT_EQ(scan->add(an_image()), "");
  EXPECT_TRUE(comes_true([&] { return peers.a->stored().size() == 3; }));
  EXPECT_EQ(values_of(peers.a->stored(), kNumber), (std::vector<std::string>{"1", "2", "3"}));
}

TEST(DicomOutput, TellsSixteenCodesOfALongImageType) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const SpoolFolder folder;
  const Peers peers;
  DicomOutput output(options_of(folder), std::make_shared<QueueMemory>(1 << 20), peers.links());
  protocol::Image image = an_image();
  std::string type = "DERIVED\\PRIMARY";
  for (int i = 0; i < 30'000; ++i) type += "\\x";
  image.attributes =
      "<ismrmrdMeta><meta><name>ImageType</name><value>" + type + "</value><value>Y</value></meta></ismrmrdMeta>";
  EXPECT_EQ(output.scan(SessionLog(1), {"a"}, {}, "pipeline", "one.mrd")->add(image), "");
  EXPECT_TRUE(comes_true([&] { return peers.a->stored().size() == 1; }));
  std::string told = "DERIVED\\PRIMARY";
  for (int i = 2; i < 16; ++i) told += "\\X";
  EXPECT_EQ(values_of(peers.a->stored(), std::string("\x08\0\x08\0CS", 6)), std::vector<std::string>{told});
}

TEST(DicomOutput, SendsEachImageToThePeersOfThePipelineAndOfTheOptions) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const SpoolFolder folder;
  const Peers peers;
  config::DicomOptions options = options_of(folder);
  options.send_to = {"b"};
  DicomOutput output(options, std::make_shared<QueueMemory>(1 << 20), peers.links());
  const auto scan = output.scan(SessionLog(1), {"a", "b"}, {}, "pipeline", "one.mrd");
  const auto other = output.scan(SessionLog(2), {}, {}, "pipeline", "one.mrd");
  ASSERT_TRUE(scan && other);
  EXPECT_EQ(scan->add(an_image()), "");
  EXPECT_EQ(other->add(an_image()), "");
  EXPECT_TRUE(comes_true([&] { return peers.a->stored().size() == 1 && peers.b->stored().size() == 2; }));
  EXPECT_EQ(peers.a->stored()[0].substr(128, 4), "DICM");
  EXPECT_EQ(output.dropped(), 0U);
  EXPECT_TRUE(output.finish());
}

TEST(DicomOutput, HasNothingToDoForAScanWithoutPeers) {
  const SpoolFolder folder;
  const Peers peers;
  DicomOutput output(options_of(folder), nullptr, peers.links());
  EXPECT_EQ(output.scan(SessionLog(1), {}, {}, "pipeline", "one.mrd"), nullptr);
}

TEST(DicomOutput, TakesNoMoreThanItsQueueHoldsAndNeverWaits) {
  const SpoolFolder folder;
  const Peers peers;
  config::DicomOptions options = options_of(folder);
  options.queue_mib = 1;
  DicomOutput output(options, nullptr, peers.links());
  const auto scan = output.scan(SessionLog(1), {"a"}, {}, "pipeline", "one.mrd");
  const protocol::Image large = an_image(512);  // half of the queue; nothing is copied when it is added
  constexpr int kMany = 100000;
  int taken = 0;
  std::string trouble;
  while (taken < kMany && (trouble = scan->add(large)).empty()) ++taken;
  EXPECT_LT(taken, kMany);
  EXPECT_THAT(trouble, HasSubstr("(dicom.queue_mib)"));
  EXPECT_EQ(output.dropped(), 1U);
}

/// An image of so many planes, each of which becomes a file.
protocol::Image planes(std::uint16_t count) {
  protocol::Image image = an_image(2);
  image.head.matrix_size[2] = count;
  image.pixels = protocol::Payload::take(std::vector<std::uint16_t>(std::size_t{4} * count, 7));
  return image;
}

TEST(DicomOutput, TinyImagesCountWithAllThatTheyTake) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const SpoolFolder folder;
  const Peers peers;
  config::DicomOptions options = options_of(folder);
  options.queue_mib = 1;
  DicomOutput output(options, nullptr, peers.links());
  const auto scan = output.scan(SessionLog(1), {"a"}, {}, "pipeline", "one.mrd");
  EXPECT_EQ(scan->add(planes(200)), "") << "the converter has to do";
  const protocol::Image tiny = an_image(1);
  constexpr int kMany = 5000;  // their pixels are 10 KB
  int taken = 0;
  while (taken < kMany && scan->add(tiny).find("(dicom.queue_mib)") == std::string::npos) ++taken;
  EXPECT_LT(taken, kMany);
  output.finish(Clock::now());
}

TEST(DicomOutput, ConvertsByTurnsOfClients) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const SpoolFolder folder;
  const Peers peers;
  peers.a->hang();
  DicomOutput output(options_of(folder), nullptr, peers.links());
  const auto many = output.scan(SessionLog(1), {"a"}, {}, "pipeline", "one.mrd", {"token:mr1"});
  const auto one = output.scan(SessionLog(2), {"b"}, {}, "pipeline", "two.mrd", {"token:mr2"});
  constexpr std::uint64_t kImages = 20, kPlanes = 200;
  for (std::uint64_t i = 0; i < kImages; ++i) EXPECT_EQ(many->add(planes(kPlanes)), "");
  EXPECT_EQ(one->add(an_image()), "");
  EXPECT_TRUE(comes_true([&] { return peers.b->stored().size() == 1; }));
  EXPECT_LT(output.status()[0].waiting.files, kPlanes) << "the first image of the other client is still written";
  output.finish(Clock::now());
}

TEST(DicomOutput, EndsWhenItHasToWhateverWaits) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  for (const char* kind : {"", "/enhanced"}) {
    const SpoolFolder folder;
    const Peers peers;
    peers.a->hang();
    config::DicomOptions options = options_of(folder);
    options.peers = {std::string("a=A@host:104") + kind};
    DicomOutput output(options, nullptr, peers.links());
    const auto scan = output.scan(SessionLog(1), {"a"}, {}, "pipeline", "one.mrd");
    for (int i = 0; i < 10; ++i) EXPECT_EQ(scan->add(planes(200)), "");
    output.finish(Clock::now());
    EXPECT_GT(output.dropped(), 0U) << kind << ": at least the last of these images";
  }
}

/// A peer is away, and a client has many images for it: another one's are sent when it is back.
TEST(DicomOutput, AClientThatFillsTheSpoolHearsOfItAndKeepsNobodyOut) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const SpoolFolder folder;
  const Peers peers;
  peers.a->hang();
  const config::DicomOptions options = one_peer_and_a_small_spool(folder);
  {
    DicomOutput output(options, nullptr, peers.links());
    const auto many = output.scan(SessionLog(1), {"a"}, {}, "pipeline", "one.mrd", {"token:mr1"});
    const auto few = output.scan(SessionLog(2), {"a"}, {}, "pipeline", "two.mrd", {"token:mr2"});
    std::uint64_t taken = 0;
    const auto is_done = [&] {
      return output.queued_bytes() == 0 && output.status()[0].waiting.files + output.dropped() == taken;
    };
    while (taken < 20) {
      const std::string trouble = many->add(an_image(256));  // 128 KiB: three are less than half of 1 MiB
      EXPECT_EQ(trouble.empty(), taken++ < 3);
      if (!trouble.empty()) {
        EXPECT_THAT(trouble, AllOf(HasSubstr("sent to DICOM peer a: 0 MiB of this client's images"),
                                   HasSubstr("(dicom.spool_mib); send the scan again")));
      }
      EXPECT_TRUE(comes_true(is_done));
    }
    EXPECT_EQ(output.dropped(), 17U);
    for (; taken < 28; ++taken) EXPECT_EQ(few->add(an_image()), "");
    EXPECT_TRUE(comes_true(is_done));
    EXPECT_EQ(output.dropped(), 17U);
    // What waits in the queue counts before it is written.
    EXPECT_THAT(few->add(an_image(512)), HasSubstr("images may not be sent to DICOM peer a"));
  }
  const Peers fresh;
  DicomOutput output(options, nullptr, fresh.links());
  EXPECT_TRUE(comes_true([&] { return fresh.a->stored().size() == 3 + 8; }));
}

TEST(DicomOutput, SendsAnImageThatIsLargerThanItsQueueAlone) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const SpoolFolder folder;
  const Peers peers;
  config::DicomOptions options = options_of(folder);
  options.queue_mib = 1;
  DicomOutput output(options, nullptr, peers.links());
  const auto scan = output.scan(SessionLog(1), {"a"}, {}, "pipeline", "one.mrd");
  EXPECT_EQ(scan->add(an_image(1024)), "") << "2 MiB";
  EXPECT_TRUE(comes_true([&] { return peers.a->stored().size() == 1; }));
}

bool is_enhanced(const std::string& file) { return file.find("1.2.840.10008.5.1.4.1.1.4.1") != std::string::npos; }

TEST(DicomOutput, GivesOneObjectAtTheEndOfAScanToPeersThatTakeIt) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const SpoolFolder folder;
  const Peers peers;
  config::DicomOptions options = options_of(folder);
  options.peers = {"a=A@host:104/enhanced", "b=B@host:104"};
  DicomOutput output(options, nullptr, peers.links());
  auto scan = output.scan(SessionLog(1), {"a", "b"}, {}, "pipeline", "one.mrd");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(scan->add(an_image()), "");
  EXPECT_TRUE(comes_true([&] { return peers.b->stored().size() == 3; }));
  EXPECT_EQ(peers.a->stored().size(), 0U) << "the scan goes on";
  EXPECT_GT(output.queued_bytes(), 0U);
  scan.reset();
  EXPECT_TRUE(comes_true([&] { return peers.a->stored().size() == 1; }));
  EXPECT_TRUE(is_enhanced(peers.a->stored()[0]));
  EXPECT_FALSE(is_enhanced(peers.b->stored()[0]));
  EXPECT_TRUE(comes_true([&] { return output.queued_bytes() == 0; }));
  EXPECT_EQ(output.dropped(), 0U);
}

TEST(DicomOutput, WritesWhatItKeepsWhenItEndsAndWhenItIsMuch) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const SpoolFolder folder;
  const Peers peers;
  peers.a->hang();
  config::DicomOptions options = options_of(folder);
  options.peers = {"a=A@host:104/enhanced"};
  options.queue_mib = 1;
  {
    DicomOutput output(options, nullptr, peers.links());
    const auto scan = output.scan(SessionLog(1), {"a"}, {}, "pipeline", "one.mrd");
    EXPECT_EQ(scan->add(an_image(600)), "") << "more than half of the queue";
    EXPECT_TRUE(comes_true([&] { return output.status()[0].waiting.files == 1; }));
    EXPECT_TRUE(comes_true([&] { return output.queued_bytes() == 0; }));
    EXPECT_EQ(scan->add(an_image()), "");
    EXPECT_TRUE(output.finish());
    EXPECT_EQ(output.status()[0].waiting.files, 2U);
  }
}

TEST(DicomOutput, NoClientsObjectIsSplitForAnotherThatKeepsMore) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const SpoolFolder folder;
  const Peers peers;
  config::DicomOptions options = options_of(folder);
  options.peers = {"a=A@host:104/enhanced", "b=B@host:104/enhanced"};
  options.queue_mib = 1;
  DicomOutput output(options, nullptr, peers.links());
  const auto many = output.scan(SessionLog(1), {"a"}, {}, "pipeline", "one.mrd", {"token:mr1"});
  auto few = output.scan(SessionLog(2), {"b"}, {}, "pipeline", "two.mrd", {"token:mr2"});
  std::size_t kept = 0;
  const auto add = [&](DicomScan& scan, std::uint16_t side) {
    const bool is_added = scan.add(an_image(side)).empty();
    kept += protocol::dicom::EnhancedImages::bytes_of(an_image(side));
    return is_added && comes_true([&] { return output.queued_bytes() == kept || !peers.a->stored().empty(); });
  };
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(add(*many, 252));  // 496 KiB: half of the queue are 512
  EXPECT_EQ(peers.a->stored().size(), 0U);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(add(*few, 64));  // 8 KiB each
  EXPECT_TRUE(comes_true([&] { return peers.a->stored().size() == 1; }));
  EXPECT_EQ(peers.b->stored().size(), 0U);
  few.reset();
  EXPECT_TRUE(comes_true([&] { return peers.b->stored().size() == 1; }));
  const std::string frames("\x28\0\x08\0IS", 6);  // Number of Frames
  EXPECT_EQ(values_of(peers.a->stored(), frames), std::vector<std::string>{"4"});
  EXPECT_EQ(values_of(peers.b->stored(), frames), std::vector<std::string>{"8"});
  EXPECT_EQ(output.dropped(), 0U);
}

TEST(DicomOutput, DropsWhatCannotBeToldInDicomAndGoesOn) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const SpoolFolder folder;
  const Peers peers;
  DicomOutput output(options_of(folder), nullptr, peers.links());
  const auto scan = output.scan(SessionLog(1), {"a"}, {}, "pipeline", "one.mrd");
  protocol::Image bad = an_image();
  bad.head.field_of_view[0] = 0;
  EXPECT_EQ(scan->add(bad), "");
  EXPECT_TRUE(comes_true([&] { return output.dropped() == 1; }));
  EXPECT_THAT(scan->add(an_image()), HasSubstr("an image cannot be told in DICOM and is not sent: "));
  EXPECT_TRUE(comes_true([&] { return peers.a->stored().size() == 1; }));
  EXPECT_EQ(output.dropped(), 1U);
}

TEST(DicomOutput, KeepsOnDiskWhatAHangingPeerHasNotTaken) {
  if (!protocol::dicom::available()) GTEST_SKIP() << "built without DCMTK";
  const SpoolFolder folder;
  const Peers peers;
  peers.a->hang();
  {
    DicomOutput output(options_of(folder), nullptr, peers.links());
    const auto scan = output.scan(SessionLog(1), {"a"}, {}, "pipeline", "one.mrd");
    for (int i = 0; i < 5; ++i) EXPECT_EQ(scan->add(an_image()), "");
    EXPECT_TRUE(output.finish());
    EXPECT_NE(scan->add(an_image()), "") << "it takes nothing more";
  }
  const Peers fresh;
  DicomOutput output(options_of(folder), nullptr, fresh.links());
  EXPECT_TRUE(comes_true([&] { return fresh.a->stored().size() == 5; }));
}

}  // namespace
}  // namespace echotrain::server
