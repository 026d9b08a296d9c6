// A steady stream allocates nothing per readout: twice as many readouts, in as many batches and frames, cost as many
// calls of operator new and of the backend's allocator, except that vectors double once more.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include "gadgets/engine/pipeline.h"
#include "protocol/data/acquisition_check.h"
#include "protocol/files/stream_file.h"
#include "server/scan/inbox.h"
#include "tests/support/resources.h"
#include "tests/support/sources.h"

namespace {
std::atomic<std::size_t> calls_of_new{0};

void* counted(std::size_t size, std::size_t alignment) {
  ++calls_of_new;
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(size)
                     : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t size) { return counted(size, 1); }
void* operator new[](std::size_t size) { return counted(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return std::aligned_alloc(static_cast<std::size_t>(alignment), size);
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return std::aligned_alloc(static_cast<std::size_t>(alignment), size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept { std::free(memory); }

namespace echotrain::server {
namespace {

constexpr int kSamples = 32, kCoils = 2, kMatrix = 16;

std::string shipped(const std::string& name) {
  std::ifstream file(shipped_pipelines() / (name + ".yaml"));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

protocol::Header measurement(bool radial, int lines) {
  const auto space = fmt::format(
      "<matrixSize><x>{}</x><y>{}</y><z>1</z></matrixSize><fieldOfView_mm><x>{}</x><y>{}</y><z>5</z></fieldOfView_mm>",
      radial ? kMatrix : kSamples, radial ? kMatrix : lines, radial ? kMatrix : kSamples, radial ? kMatrix : lines);
  const auto header = protocol::parse_header(
      "<ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\"><experimentalConditions><H1resonanceFrequency_Hz>63870000"
      "</H1resonanceFrequency_Hz></experimentalConditions><encoding><encodedSpace>" +
          space + "</encodedSpace><reconSpace>" + space +
          fmt::format("</reconSpace><encodingLimits><kspace_encoding_step_1><minimum>0</minimum><maximum>{}</maximum>"
                      "<center>{}</center></kspace_encoding_step_1></encodingLimits><trajectory>{}</trajectory>"
                      "</encoding></ismrmrdHeader>",
                      lines - 1, lines / 2, radial ? "radial" : "cartesian"),
      {});
  if (!header) throw std::logic_error(header.error().message);
  return *header;
}

/// The readouts of one frame as they go over the wire.
protocol::Buffer frame(bool radial, int lines) {
  protocol::Buffer bytes;
  for (int line = 0; line < lines; ++line) {
    protocol::Acquisition readout;
    readout.head.version = 1;
    readout.head.number_of_samples = kSamples;
    readout.head.active_channels = readout.head.available_channels = kCoils;
    readout.head.center_sample = kSamples / 2;
    readout.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(line);
    if (line == lines - 1) readout.head.flags = 1 << 7;
    readout.data = protocol::Payload::take(std::vector<std::complex<float>>(kSamples * kCoils, {1, 2}));
    if (radial) {
      readout.head.trajectory_dimensions = 2;
      std::vector<float> positions;
      for (int s = 0; s < kSamples; ++s) {
        const double k = (s - kSamples / 2) / static_cast<double>(kSamples), angle = M_PI * line / lines;
        positions.push_back(static_cast<float>(k * std::cos(angle)));
        positions.push_back(static_cast<float>(k * std::sin(angle)));
      }
      readout.trajectory = protocol::Payload::take(std::move(positions));
    }
    protocol::encode(readout, bytes);
  }
  return bytes;
}

/// Bytes -> messages -> inbox -> pipeline, as in a session, on one thread.
class Stream {
 public:
  Stream(const std::string& pipeline, const protocol::Header& header)
      : compute_(numerics::Backend::cpu, test_resources()),
        pipeline_(PipelinePlan::check(config::read_pipeline(shipped(pipeline), pipeline)), compute_,
                  {[this](protocol::Image&&, const ImageTimes&) { ++images; }, [](protocol::Level, const auto&) {}}),
        check_(header) {
    pipeline_.start(header);
  }
  ~Stream() { pipeline_.finish(End::complete); }

  /// Gives the bytes in `batches` pieces of whole readouts.
  void give(const protocol::Buffer& bytes, std::size_t readouts, std::size_t batches) {
    const std::size_t piece = bytes.size() / readouts * (readouts / batches);
    for (std::size_t at = 0; at < bytes.size(); at += piece) give_batch(bytes.data() + at, piece, readouts / batches);
  }

  int images = 0;

 private:
  void give_batch(const std::byte* bytes, std::size_t size, std::size_t readouts) {
    std::vector<protocol::Acquisition> batch;
    for (std::size_t at = 0; at < size;) {
      const auto room = buffer_.prepare();
      const std::size_t n = std::min(room.size(), size - at);
      std::memcpy(room.data(), bytes + at, n);
      buffer_.commit(n);
      at += n;
      for (;;) {
        auto message = buffer_.next();
        ASSERT_TRUE(message) << message.error().message;
        if (!*message) break;
        batch.push_back(std::move(std::get<protocol::Acquisition>(**message)));
      }
    }
    ASSERT_EQ(batch.size(), readouts);
    inbox_.push(std::move(batch));
    auto taken = inbox_.take();
    auto& work = std::get<std::vector<protocol::Acquisition>>(*taken.work);
    for (const auto& readout : work) ASSERT_FALSE(check_.check(readout));
    pipeline_.push(std::move(work));
  }

  protocol::MessageBuffer buffer_{protocol::Limits{}};
  Inbox inbox_{64 << 20, [] {}};
  numerics::Context compute_;
  Pipeline pipeline_;
  protocol::AcquisitionCheck check_;
};

/// Calls of operator new per frame of a running scan.
double per_frame(const std::string& pipeline, bool radial, std::size_t lines, std::size_t batches) {
  constexpr int kWarm = 8, kFrames = 64;
  const protocol::Header header = measurement(radial, static_cast<int>(lines));
  const protocol::Buffer bytes = frame(radial, static_cast<int>(lines));
  Stream stream(pipeline, header);
  for (int i = 0; i < kWarm; ++i) stream.give(bytes, lines, batches);
  const int images = stream.images;
  const std::size_t before = calls_of_new;
  for (int i = 0; i < kFrames; ++i) stream.give(bytes, lines, batches);
  const std::size_t calls = calls_of_new - before;
  EXPECT_EQ(stream.images - images, pipeline == "passthrough" ? 0 : kFrames);
  return static_cast<double>(calls) / kFrames;
}

class Allocations : public ::testing::TestWithParam<const char*> {};

TEST_P(Allocations, DoNotGrowWithTheReadouts) {
  const std::string pipeline = GetParam();
  const bool radial = pipeline.starts_with("radial");
  for (const std::size_t batches : {1u, 4u}) {
    const double few = per_frame(pipeline, radial, 64, batches), many = per_frame(pipeline, radial, 256, batches);
    RecordProperty(fmt::format("per_frame_of_{}_batches", batches), fmt::format("{} {}", few, many));
    std::printf("%s, %zu batches per frame: %.1f calls for 64 readouts, %.1f for 256\n", pipeline.c_str(), batches, few,
                many);
    // The frame has 192 readouts more, so each vector that grows with a batch doubles twice more.
    EXPECT_LE(many - few, 4.0 * static_cast<double>(batches) + 8) << few << " " << many;
    EXPECT_LE(few, 40.0 * static_cast<double>(batches) + 120);
  }
}
INSTANTIATE_TEST_SUITE_P(Pipelines, Allocations, ::testing::Values("passthrough", "cartesian_plain", "radial_2d"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace echotrain::server
