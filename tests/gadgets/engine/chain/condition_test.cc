// A condition says which items it holds for.
#include "gadgets/engine/chain/condition.h"

#include "gadgets/shared/incoming/meta_notes.h"
#include "tests/gadgets/sent_images.h"

namespace echotrain::testing {
namespace {

Condition condition(const std::string& when) {
  const auto spec = config::read_pipeline(yaml("  - branch: {when: {" + when + "}, pipeline: [image]}\n"), "p.yaml");
  return Condition(config::read_branch(spec.gadgets.at(0)).when);
}

std::shared_ptr<Frame> frame_of(const FrameKey& key) {
  auto frame = std::make_shared<Frame>();
  frame->key = key;
  return frame;
}

bool of_images(const std::string& when, const std::shared_ptr<const Frame>& frame) {
  return condition(when).holds(Item(CoilImages{frame, {}}));
}

TEST(Condition, EachCounterIsItsOwn) {
  const FrameKey key{1, 2, 3, 4, 5, 6, 0};
  const std::array<std::string, 6> names{"encoding", "slice", "contrast", "phase", "repetition", "set"};
  for (std::size_t i = 0; i < names.size(); ++i)
    for (std::size_t value = 0; value < 8; ++value)
      EXPECT_EQ(of_images(names[i] + ": " + std::to_string(value), frame_of(key)), value == i + 1) << names[i];
  EXPECT_TRUE(of_images("slice: [0, 2], contrast: {from: 3}", frame_of(key)));
  EXPECT_TRUE(of_images("contrast: {to: 3}", frame_of(key)));
  EXPECT_FALSE(of_images("contrast: {to: 2}", frame_of(key)));
  EXPECT_FALSE(of_images("slice: 2, contrast: 2", frame_of(key)));
}

TEST(Condition, FlagsAreThoseOfTheFramesFirstReadout) {
  const auto frame = frame_of({});
  frame->reference.flags = 1ull << 57;  // ACQ_USER2
  EXPECT_TRUE(of_images("flag: user_2", frame));
  EXPECT_TRUE(of_images("flag: [reverse, user_2]", frame));
  EXPECT_FALSE(of_images("flag: [reverse, user_1, user_3, user_8]", frame));
  frame->reference.flags = 1ull << 21;  // ACQ_IS_REVERSE
  EXPECT_TRUE(of_images("flag: reverse", frame));
}

TEST(Condition, ContentIsOfImagesMadeOfReadouts) {
  for (std::uint16_t series = 0; series < 3; ++series) {
    const auto frame = frame_of({0, 0, 0, 0, 0, 0, series});
    EXPECT_EQ(of_images("content: image", frame), series == 0);
    EXPECT_EQ(of_images("content: g_factor", frame), series == 1);
    EXPECT_EQ(of_images("content: snr", frame), series == 2);
  }
}

TEST(Condition, ImagesOfAClientAreKnownByTheirMessages) {
  auto message = sent_image(std::vector<float>(4, 1.0f), {2, 2, 1}, {{"own", "a"}, {"own", "b"}}, 4);
  message.head.image_series_index = 7;
  message.head.slice = 2;
  auto frame = std::make_shared<Frame>();
  frame->key = {0, 2, 0, 0, 0, 0, 5};
  frame->notes = {{"own", note_of({"a", "b"})}};
  frame->source = std::make_shared<protocol::Image>(message);
  for (const auto& [when, holds] : std::vector<std::pair<std::string, bool>>{{"series: 7", true},
                                                                             {"series: 5", false},
                                                                             {"image_type: imag", true},
                                                                             {"image_type: [phase, real]", false},
                                                                             {"slice: 2", true},
                                                                             {"slice: 1", false},
                                                                             {"meta: {own: b}", true},
                                                                             {"meta: {own: [c, a]}", true},
                                                                             {"meta: {own: c}", false},
                                                                             {"meta: {own: b, other: b}", false}}) {
    EXPECT_EQ(condition(when).holds(message), holds) << when;
    EXPECT_EQ(condition(when).holds(Item(Image{nullptr, message, nullptr, {}})), holds) << when;
    EXPECT_EQ(of_images(when, frame), holds) << when;
  }
}

TEST(Condition, ReadoutsOfOtherKindsAreKeptOutByTheirKindOnly) {
  using protocol::ReadoutKind;
  const std::array<std::pair<std::string, ReadoutKind>, 6> kinds{{{"imaging", ReadoutKind::imaging},
                                                                  {"noise", ReadoutKind::noise},
                                                                  {"calibration", ReadoutKind::calibration},
                                                                  {"navigator", ReadoutKind::navigator},
                                                                  {"phase_correction", ReadoutKind::phase_correction},
                                                                  {"other", ReadoutKind::other}}};
  for (const auto& [name, kind] : kinds) {
    Readouts readouts;
    readouts.kind = kind;
    const bool imaging = kind == ReadoutKind::imaging;
    if (imaging) readouts.frame = frame_of({0, 0, 1, 0, 0, 0, 0});
    PlaneReadouts planes;
    static_cast<Readouts&>(planes) = readouts;
    for (const auto& [asked, wanted] : kinds) {
      EXPECT_EQ(condition("kind: " + asked).holds(Item(readouts)), kind == wanted) << name << asked;
      EXPECT_EQ(condition("kind: " + asked).holds(Item(planes)), kind == wanted) << name << asked;
    }
    EXPECT_TRUE(condition("contrast: 1").holds(Item(readouts))) << name;
    EXPECT_EQ(condition("contrast: 0").holds(Item(readouts)), !imaging) << name;
    EXPECT_EQ(condition("flag: user_1").holds(Item(planes)), !imaging) << name;
  }
}

TEST(Condition, KnowsWhenItAsksForEncodingSpacesOnly) {
  EXPECT_TRUE(condition("encoding: [1, 3]").asks_space_only());
  EXPECT_TRUE(condition("item: readouts, encoding: 1").asks_space_only());
  EXPECT_FALSE(condition("encoding: 1, contrast: 0").asks_space_only());
  EXPECT_FALSE(condition("contrast: 0").asks_space_only());
  EXPECT_TRUE(condition("encoding: [1, 3]").admits_space(3));
  EXPECT_FALSE(condition("encoding: [1, 3]").admits_space(2));
  EXPECT_TRUE(condition("contrast: 0").admits_space(2));
}

}  // namespace
}  // namespace echotrain::testing
