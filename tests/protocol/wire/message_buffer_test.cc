#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

#include "protocol/files/stream_file.h"
#include "tests/protocol/wire_bytes.h"

namespace echotrain::protocol::test {
namespace {

// Feeds `stream` in pieces of at most `piece` bytes and encodes every message that comes out again.
Buffer pass_through(const Buffer& stream, std::size_t piece, std::size_t slab_bytes, std::size_t* count = nullptr) {
  MessageBuffer buffer(Limits{}, slab_bytes);
  Buffer out;
  std::vector<Message> kept;  // so that slabs cannot be used again
  std::size_t at = 0;
  while (at < stream.size()) {
    const auto room = buffer.prepare();
    EXPECT_FALSE(room.empty());
    const std::size_t n = std::min({piece, room.size(), stream.size() - at});
    std::copy_n(stream.begin() + static_cast<std::ptrdiff_t>(at), n, room.begin());
    buffer.commit(n);
    at += n;
    while (true) {
      auto message = buffer.next();
      if (!message) {
        ADD_FAILURE() << message.error().message;
        return out;
      }
      if (!*message) break;
      kept.push_back(**std::move(message));
    }
  }
  EXPECT_EQ(buffer.pending_bytes(), 0u);
  for (const Message& message : kept) std::visit([&out](const auto& content) { encode(content, out); }, message);
  if (count != nullptr) *count = kept.size();
  return out;
}

Buffer mixed_stream() {
  Buffer stream;
  const auto append = [&stream](const Buffer& bytes) { stream.insert(stream.end(), bytes.begin(), bytes.end()); };
  append(Wire().u16(1).text("a").zeros(1023).bytes);
  append(Wire().u16(3).u32(9).text("<header/>").bytes);
  for (std::uint16_t i = 0; i < 40; ++i) {
    append(acquisition_bytes(static_cast<std::uint16_t>(i * 3), static_cast<std::uint16_t>(i % 4),
                             static_cast<std::uint16_t>(i % 3)));
    if (i % 7 == 0) append(Wire().u16(5).u32(3).text("hi").u8(0).bytes);
    if (i % 9 == 0) append(Wire{image_head(5, 16, 16, 2, 2, 0)}.zeros(16 * 16 * 2 * 2 * 4).bytes);
  }
  append(Wire().u16(4).bytes);
  return stream;
}

TEST(MessageBuffer, ReceivedBytesLieStillWhileTheyAreHeld) {
  const Buffer stream = mixed_stream();
  for (const std::size_t piece : {7u, 300u, 5000u}) {
    MessageBuffer buffer(Limits{}, 1024);
    std::vector<Payload> held;
    for (std::size_t at = 0; at < stream.size();) {
      const auto room = buffer.prepare();
      const std::size_t n = std::min({piece, room.size(), stream.size() - at});
      std::copy_n(stream.begin() + static_cast<std::ptrdiff_t>(at), n, room.begin());
      buffer.commit(n);
      held.push_back(buffer.received(n));
      EXPECT_EQ(held.back().bytes.data(), room.data());  // nothing was copied
      at += n;
      for (auto message = buffer.next(); message && *message; message = buffer.next()) {
      }
    }
    Buffer all;
    for (const Payload& part : held) all.insert(all.end(), part.bytes.begin(), part.bytes.end());
    EXPECT_EQ(all, stream) << piece;
  }
}

TEST(MessageBuffer, AnyFragmentationGivesTheSameMessages) {
  const Buffer stream = mixed_stream();
  // Python's version-0 headers are kept for readouts, so what is encoded again is what came, byte for byte.
  for (const std::size_t slab : {std::size_t{1}, std::size_t{1000}, std::size_t{4096}, std::size_t{1} << 20}) {
    for (const std::size_t piece :
         {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{341}, std::size_t{4096}, stream.size()}) {
      std::size_t count = 0;
      EXPECT_EQ(pass_through(stream, piece, slab, &count), stream) << "pieces of " << piece << ", slabs of " << slab;
      EXPECT_EQ(count, 54u);
    }
  }
}

/// next_readout() takes readouts, all of them where it is asked at each, and leaves other messages to next().
TEST(MessageBuffer, ReadoutsInPlaceAreTheSameMessages) {
  const Buffer stream = mixed_stream();
  for (const std::size_t piece : {1u, 7u, 300u, 5000u}) {
    MessageBuffer buffer(Limits{}, 3000);
    Buffer out;
    std::size_t readouts = 0, others = 0;
    std::vector<Acquisition> kept;  // so that slabs cannot be used again
    for (std::size_t at = 0; at < stream.size();) {
      const auto room = buffer.prepare();
      const std::size_t n = std::min({piece, room.size(), stream.size() - at});
      std::copy_n(stream.begin() + static_cast<std::ptrdiff_t>(at), n, room.begin());
      buffer.commit(n);
      at += n;
      for (;;) {
        Acquisition readout;
        const Result<bool> taken = buffer.next_readout(readout);
        ASSERT_TRUE(taken) << taken.error().message;
        if (*taken) {
          encode(readout, out);
          kept.push_back(std::move(readout));
          ++readouts;
          continue;
        }
        auto message = buffer.next();
        ASSERT_TRUE(message) << message.error().message;
        if (!*message) break;
        EXPECT_FALSE(std::holds_alternative<Acquisition>(**message));
        std::visit([&out](const auto& content) { encode(content, out); }, **message);
        ++others;
      }
    }
    EXPECT_EQ(buffer.pending_bytes(), 0u);
    EXPECT_EQ(readouts, 40u);
    EXPECT_EQ(others, 3u + 6u + 5u);
    EXPECT_EQ(out, stream) << piece;
    Buffer again;
    for (const Acquisition& readout : kept) encode(readout, again);
    Buffer plain;
    for (std::uint16_t i = 0; i < 40; ++i) {
      const Buffer one = acquisition_bytes(static_cast<std::uint16_t>(i * 3), static_cast<std::uint16_t>(i % 4),
                                           static_cast<std::uint16_t>(i % 3));
      plain.insert(plain.end(), one.begin(), one.end());
    }
    EXPECT_EQ(again, plain) << piece;  // nothing was written over what is held
  }
}

TEST(MessageBuffer, ReadoutInPlaceThatIsWrongIsRefused) {
  Buffer bytes = acquisition_bytes(16, 2, 0);
  poke<std::uint64_t>(bytes, 2, std::uint64_t{1} << 53);  // COMPRESSION2: what follows is no packed block
  poke<std::uint32_t>(bytes, 340, static_cast<std::uint32_t>(bytes.size() - 346));
  MessageBuffer buffer(Limits{});
  std::copy(bytes.begin(), bytes.end(), buffer.prepare().begin());
  buffer.commit(bytes.size());
  Acquisition readout;
  const Result<bool> taken = buffer.next_readout(readout);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, "compression");
  EXPECT_FALSE(buffer.next());

  poke<std::uint16_t>(bytes, 0, 9);  // a version that next() refuses
  MessageBuffer other(Limits{});
  std::copy(bytes.begin(), bytes.end(), other.prepare().begin());
  other.commit(bytes.size());
  const Result<bool> later = other.next_readout(readout);
  ASSERT_TRUE(later);
  EXPECT_FALSE(*later);
  ASSERT_FALSE(other.next());
}

TEST(MessageBuffer, GrowsWithWhatArrivesAndNotWithWhatIsClaimed) {
  MessageBuffer buffer(Limits{}, 4096);
  const Buffer head = image_head(8, 1024, 1024, 64, 1, 0);  // 1 GiB of pixels
  std::size_t received = 0;
  const auto feed = [&](std::size_t n) {
    const auto room = buffer.prepare();
    n = std::min(n, room.size());
    for (std::size_t i = 0; i < n; ++i) room[i] = received + i < head.size() ? head[received + i] : std::byte{0};
    buffer.commit(n);
    received += n;
    const auto message = buffer.next();
    ASSERT_TRUE(message);
    EXPECT_FALSE(*message);
  };
  feed(head.size());
  EXPECT_EQ(buffer.pending_id(), 1022);
  EXPECT_LE(buffer.prepare().size(), 4096u);
  while (received < 1'000'000) {
    feed(1500);
    EXPECT_LE(buffer.prepare().size(), std::max<std::size_t>(received, 4096));
  }
  EXPECT_EQ(buffer.pending_bytes(), received);
}

TEST(MessageBuffer, LargeMessageEndsExactlyWhereItWasMeasured) {
  Buffer stream = Wire{image_head(5, 64, 64, 4, 1, 0)}.zeros(64 * 64 * 4 * 4).bytes;
  const std::size_t image = stream.size();
  stream.push_back(std::byte{4});
  stream.push_back(std::byte{0});
  MessageBuffer buffer(Limits{}, 256);
  std::size_t at = 0;
  bool whole = false;
  while (!whole) {
    const auto room = buffer.prepare();
    const std::size_t n = std::min(room.size(), stream.size() - at);
    std::copy_n(stream.begin() + static_cast<std::ptrdiff_t>(at), n, room.begin());
    buffer.commit(n);
    at += n;
    const auto message = buffer.next();
    ASSERT_TRUE(message);
    whole = message->has_value();
  }
  EXPECT_EQ(at, image);  // the room was never larger than the rest of the message
}

TEST(MessageBuffer, PendingTellsIdAndBytes) {
  MessageBuffer buffer(Limits{});
  EXPECT_EQ(buffer.pending_id(), 0);
  const Buffer bytes = Wire().u16(5).u32(3).text("hi").bytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    buffer.prepare()[0] = bytes[i];
    buffer.commit(1);
    const auto message = buffer.next();
    ASSERT_TRUE(message);
    EXPECT_FALSE(*message);
    EXPECT_EQ(buffer.pending_bytes(), i + 1);
    EXPECT_EQ(buffer.pending_id(), i == 0 ? 0 : 5);
  }
  buffer.prepare()[0] = std::byte{0};
  buffer.commit(1);
  const auto message = buffer.next();
  ASSERT_TRUE(message && *message);
  EXPECT_EQ(buffer.pending_bytes(), 0u);
  EXPECT_EQ(buffer.pending_id(), 0);
}

TEST(MessageBuffer, AnErrorStays) {
  MessageBuffer buffer(Limits{});
  const auto room = buffer.prepare();
  room[0] = room[1] = std::byte{0xff};
  buffer.commit(2);
  for (int i = 0; i < 3; ++i) {
    const auto message = buffer.next();
    ASSERT_FALSE(message);
    EXPECT_EQ(message.error().code, "unknown-message");
    EXPECT_FALSE(buffer.prepare().empty());
  }
}

TEST(MessageBuffer, MessagesOutliveTheBufferAndSlabsAreUsedAgain) {
  const Buffer readout = acquisition_bytes(16, 2, 0);
  std::vector<Message> held;
  std::set<const std::byte*> slabs;
  std::vector<std::unique_ptr<std::byte[]>> squatters;
  {
    MessageBuffer buffer(Limits{}, 4 * readout.size());
    for (int i = 0; i < 10'000; ++i) {
      const auto room = buffer.prepare();
      ASSERT_GE(room.size(), readout.size());
      std::copy(readout.begin(), readout.end(), room.begin());
      buffer.commit(readout.size());
      auto message = buffer.next();
      ASSERT_TRUE(message && *message);
      if (i % 4 == 0) {
        slabs.insert(room.data());
        // Takes up the memory of a slab that was freed rather than kept, so that the next slab lies elsewhere.
        squatters.push_back(std::make_unique_for_overwrite<std::byte[]>(4 * readout.size()));
      }
      held.push_back(**std::move(message));
      if (i >= 20) held.erase(held.begin());  // the last 20 readouts, on 6 slabs at most, are in use
    }
  }
  EXPECT_LE(slabs.size(), 8u);
  for (const Message& message : held) {
    Buffer again;
    encode(std::get<Acquisition>(message), again);
    EXPECT_EQ(again, readout);
  }
}

Image small_image(std::size_t attribute_bytes) {
  Image image;
  image.head.version = image.head.channels = 1;
  image.head.data_type = 5;
  image.head.matrix_size[0] = 10;
  image.head.matrix_size[1] = image.head.matrix_size[2] = 1;
  image.attributes = std::string(attribute_bytes, 'a');
  image.pixels = Payload::take(std::vector<float>(10, 7));
  return image;
}

/// Receives an image. Returns whether its pixels lie where the buffer received them.
bool stays_where_it_came(MessageBuffer& buffer, const Image& image) {
  Buffer bytes;
  encode(image, bytes);
  const auto room = buffer.prepare();
  EXPECT_GE(room.size(), bytes.size());
  std::copy(bytes.begin(), bytes.end(), room.begin());
  buffer.commit(bytes.size());
  const auto message = buffer.next();
  EXPECT_TRUE(message && *message);
  const auto& got = std::get<Image>(**message);
  EXPECT_TRUE(std::equal(got.pixels.bytes.begin(), got.pixels.bytes.end(), image.pixels.bytes.begin(),
                         image.pixels.bytes.end()));
  const std::byte* const at = got.pixels.bytes.data();
  return at >= room.data() && at < room.data() + room.size();
}

TEST(MessageBuffer, FewPixelsDoNotKeepWhatLongAttributesCameIn) {
  for (const std::size_t length : {1000, 10}) {
    MessageBuffer buffer(Limits{}, 4096);
    const Image image = small_image(length);
    EXPECT_EQ(stays_where_it_came(buffer, image), length < image.pixels.bytes.size());
  }
}

TEST(MessageBuffer, NoImageKeepsASlabFarLargerThanAUsualOne) {
  for (const std::size_t free_slab : {std::size_t{3} << 19, SlabPool::kSlabBytes}) {
    const auto pool = std::make_shared<SlabPool>();
    pool->get(free_slab);  // and gives it back
    MessageBuffer buffer(Limits{}, pool);
    EXPECT_EQ(stays_where_it_came(buffer, small_image(0)), free_slab == SlabPool::kSlabBytes);
    EXPECT_EQ(buffer.held_bytes(), free_slab) << "it took the free one";
  }
}

TEST(MessageBuffer, MessagesMayBeLetGoOnAnotherThread) {
  const Buffer readout = acquisition_bytes(16, 2, 0);
  MessageBuffer buffer(Limits{}, 4 * readout.size());
  std::mutex mutex;
  std::vector<Message> handed_over;
  bool done = false;
  float sum = 0;
  std::thread worker([&] {
    while (true) {
      std::vector<Message> batch;
      bool last = false;
      {
        const std::lock_guard lock(mutex);
        batch.swap(handed_over);
        last = done;
      }
      for (const Message& message : batch) sum += numbers<float>(std::get<Acquisition>(message).data)[1];
      if (last) return;
    }
  });
  std::size_t count = 0;
  while (count < 5000) {
    const auto room = buffer.prepare();
    std::copy(readout.begin(), readout.end(), room.begin());
    buffer.commit(readout.size());
    auto message = buffer.next();
    if (!message || !*message) break;
    ++count;
    const std::lock_guard lock(mutex);
    handed_over.push_back(**std::move(message));
  }
  {
    const std::lock_guard lock(mutex);
    done = true;
  }
  worker.join();
  EXPECT_EQ(count, 5000u);
  EXPECT_EQ(sum, 2500.0f);  // sample 1 of each readout is 0.5
}

TEST(MessageBuffer, HeldMessagesAreNeverOverwritten) {
  MessageBuffer buffer(Limits{}, 2000);
  std::vector<Acquisition> held;
  for (std::uint32_t i = 0; i < 200; ++i) {
    Buffer bytes = acquisition_bytes(8, 1, 0);
    poke<std::uint32_t>(bytes, 340, i);
    for (const std::byte b : bytes) {
      buffer.prepare()[0] = b;
      buffer.commit(1);
      auto message = buffer.next();
      ASSERT_TRUE(message);
      if (*message) held.push_back(std::get<Acquisition>(**std::move(message)));
    }
  }
  ASSERT_EQ(held.size(), 200u);
  for (std::uint32_t i = 0; i < 200; ++i) EXPECT_EQ(numbers<std::uint32_t>(held[i].data)[0], i);
}

TEST(MessageBuffer, BuffersOfOnePoolShareSlabs) {
  const auto pool = std::make_shared<SlabPool>(), other = std::make_shared<SlabPool>();
  const auto room_of_new_buffer = [](const std::shared_ptr<SlabPool>& from) {
    return MessageBuffer(Limits{}, from).prepare();
  };
  const std::span<std::byte> first = room_of_new_buffer(pool);
  EXPECT_EQ(first.size(), SlabPool::kSlabBytes);
  EXPECT_NE(room_of_new_buffer(other).data(), first.data()) << "it is another pool's, which still has it";
  EXPECT_EQ(room_of_new_buffer(pool).data(), first.data());
}

}  // namespace
}  // namespace echotrain::protocol::test
