// An ArrayLink is one scan's conversation with a module that takes arrays.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/api/scan.h"
#include "gadgets/steps/arrays/shared_area.h"
#include "gadgets/steps/last_lines.h"
#include "gadgets/steps/python_peer.h"

namespace echotrain {

/// An array beside a message: its name, its elements' type as numpy writes it ("<c8"), and host memory.
struct LinkedArray {
  std::string name, type;
  numerics::Shape shape;
  std::shared_ptr<void> memory;
  std::size_t bytes = 0;
};

/// A message in either direction: arrays, and facts about them by name.
struct ArrayMessage {
  std::vector<LinkedArray> arrays;
  std::vector<std::pair<std::string, std::string>> facts;
  /// Returns the array, or null.
  const LinkedArray* find(const std::string& name) const;
};

/// The version of the format, which the process compares with its own.
inline constexpr const char* kArraysVersion = "2";

/// Gives the process one item at a time and waits for what it makes of it. Arrays lie in the shared area, and only
/// their places go through the socket; those that are small, or for which the area has no room, go through the socket
/// themselves. Format of messages, all numbers little-endian:
///
///   u32 kind, u32 number of arrays, u32 number of released places, u32 bytes of facts, u64 bytes of arrays at the end
///   per array: char name[24], char type[16], u32 rank, u32 where (0 inputs, 1 results, 2 end), i64 extents[5], u64
///   place u64 places of results that are free again; facts: name 0 value 0 ...; arrays
///
/// For the pipeline's thread. Members throw std::runtime_error when the process has failed, after its last lines were
/// sent to the client; numerics::Stopped when the scan is to stop.
class ArrayLink {
 public:
  using OnResult = std::function<void(ArrayMessage&&)>;

  /// `who` names the process in messages; `timeout_s`: the longest time for one item. Sends the greeting.
  ArrayLink(Scan& scan, std::string who, double timeout_s, ModuleProcess process, std::shared_ptr<SharedArea> area,
            const ArrayMessage& greeting);

  /// Sends an item and waits until all its results have come. The message's memory is read until then.
  void exchange(const ArrayMessage& item, const OnResult& on_result);
  /// Tells the process that the scan has ended.
  void finish();
  /// Ends the scan because of what the process has done: "has given no CoilImages".
  [[noreturn]] void fail(const std::string& why);

 private:
  enum class Kind : std::uint32_t { greeting = 1, item, end, result, done };
  struct Sent {
    std::uint64_t place;
    const LinkedArray* array;
  };
  void send(Kind kind, const ArrayMessage& message);
  Kind receive(ArrayMessage& message);
  LinkedArray received(const std::byte* entry, std::uint64_t& at_end);
  void write(const void* data, std::size_t bytes);
  void read(void* to, std::size_t bytes);
  void wait(short events);
  void read_lines(int most);

  Scan& scan_;
  const std::string who_;
  const std::chrono::duration<double> timeout_;
  const std::shared_ptr<SharedArea> area_;
  OwnDescriptor socket_, output_;  // closed after the process has ended
  std::unique_ptr<ChildProcess> child_;
  LastLines lines_;
  std::vector<Sent> sent_;                     // of the present item, in the area
  std::vector<std::shared_ptr<void>> copies_;  // likewise, made for it
  std::vector<std::byte> came_;                // read from the socket, from begin_ on not yet taken
  std::size_t begin_ = 0;
  std::chrono::steady_clock::time_point moved_;
};

}  // namespace echotrain
