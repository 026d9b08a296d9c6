// The framer log says what a framer makes of a list of readouts: which of them form a frame, and when each frame ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/engine/framer.h"
#include "tests/gadgets/scan.h"
#include "tests/support/resources.h"

namespace echotrain::testing {

/// A readout with counters; its one sample is its number in the scan.
struct Counters {
  int step = 0, slice = 0, contrast = 0, repetition = 0, average = 0, step_2 = 0, encoding = 0;
  std::vector<int> flags;
};

inline std::vector<Acquisition> scan(const std::vector<Counters>& list) {
  std::vector<Acquisition> out;
  for (const Counters& c : list) {
    out.push_back(readout(1, {cfloat(static_cast<float>(out.size()), 0)}));
    auto& head = out.back().head;
    head.scan_counter = static_cast<std::uint32_t>(out.size() - 1);
    head.encoding_space_ref = static_cast<std::uint16_t>(c.encoding);
    head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(c.step);
    head.idx.kspace_encode_step_2 = static_cast<std::uint16_t>(c.step_2);
    head.idx.slice = static_cast<std::uint16_t>(c.slice);
    head.idx.contrast = static_cast<std::uint16_t>(c.contrast);
    head.idx.repetition = static_cast<std::uint16_t>(c.repetition);
    head.idx.average = static_cast<std::uint16_t>(c.average);
    for (int flag : c.flags) set_flag(out.back(), flag);
  }
  return out;
}

using Numbers = std::vector<int>;

/// The log of a framer: the readouts of each frame, and when each frame closed.
struct Log {
  std::map<std::uint64_t, Numbers> frames;
  std::map<std::uint64_t, FrameKey> keys;
  Numbers closed;                      ///< frame ids in the order of their ends
  std::map<int, std::size_t> open_at;  ///< readouts pushed when a frame closed, by frame
  std::map<int, int> began;            ///< the readout that gave a closed frame its geometry
  std::vector<std::pair<protocol::ReadoutKind, Numbers>> others;
  std::vector<std::string> order;  ///< "noise", or the frame's number, for each batch
  std::vector<std::string> warnings;
  std::uint64_t late = 0;
};

inline Log frames(const std::string& rule, const protocol::Header& measurement, std::vector<Acquisition> list,
                  std::size_t batch = 1, End how = End::complete, bool moves = false) {
  Log log;
  numerics::Context compute(Backend::cpu, test_resources());
  const auto notify = [&](protocol::Level level, const std::string& text) {
    if (level == protocol::Level::warning) log.warnings.push_back(text);
  };
  Scan scan(compute, config::TrajectoryUnit::cycles_per_pixel, notify, nullptr,
            moves ? Delivery::windows : Delivery::parts);
  Framer framer(config::read_pipeline(yaml("  - x\n", "frame: " + rule + "\n"), "p.yaml").frame);
  framer.start(measurement, scan);
  std::size_t pushed = 0;
  const auto take = [&](Readouts&& readouts) {
    Numbers numbers;
    const bool imaging = readouts.kind == protocol::ReadoutKind::imaging;
    const bool used = imaging || readouts.kind == protocol::ReadoutKind::calibration;
    EXPECT_EQ(used, !readouts.host_data);
    const cfloat* values = used ? readouts.data.data() : readouts.host_data.data();
    for (std::size_t i = 0; i < readouts.heads.size(); ++i) {
      numbers.push_back(static_cast<int>(readouts.heads[i].scan_counter));
      EXPECT_EQ(values[i].real(), static_cast<float>(numbers.back()));
    }
    if (!imaging) {
      EXPECT_EQ(readouts.frame, nullptr);
      log.others.emplace_back(readouts.kind, numbers);
      log.order.emplace_back("other");
      return;
    }
    const std::uint64_t id = readouts.frame->id;
    log.order.push_back(std::to_string(id));
    EXPECT_EQ(readouts.first, !log.frames.contains(id));
    log.frames[id].insert(log.frames[id].end(), numbers.begin(), numbers.end());
    log.keys[id] = readouts.frame->key;
    if (readouts.last) {
      log.closed.push_back(static_cast<int>(id));
      log.open_at[static_cast<int>(id)] = pushed;
      log.began[static_cast<int>(id)] = static_cast<int>(readouts.frame->reference.scan_counter);
      if (!moves) {
        EXPECT_EQ(readouts.frame->readouts, static_cast<std::int64_t>(log.frames[id].size()));
      }
    }
  };
  for (auto at = list.begin(); at != list.end();) {
    const auto n = std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(batch), list.end() - at);
    pushed += static_cast<std::size_t>(n);
    framer.push(std::vector<Acquisition>(at, at + n), take);
    at += n;
  }
  framer.finish(how, take);
  log.late = framer.late_readouts();
  return log;
}

inline protocol::Header lines(int n) { return header({.encoded = {8, n, 1}, .limits = step_limit(n)}); }

}  // namespace echotrain::testing
