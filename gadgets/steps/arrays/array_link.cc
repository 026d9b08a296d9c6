#include "gadgets/steps/arrays/array_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "gadgets/api/errors.h"

namespace echotrain {
namespace {

constexpr std::size_t kHead = 24, kEntry = 96, kName = 24, kType = 16, kAxes = 5;
constexpr std::uint32_t kInputs = 0, kResults = 1, kAtEnd = 2;
constexpr std::size_t kSmall = 4096;  // bytes of an array that goes through the socket faster
constexpr std::size_t kMostArrays = 16, kMostFacts = std::size_t{1} << 20;
constexpr int kMostResults = 4096;             // of one item
constexpr int kReads = 16, kLastReads = 1024;  // of lines at a time, which may come without end
constexpr std::chrono::milliseconds kAwake{1}, kLongestWait{50}, kForStatus{300};

template <class T>
void put(std::vector<std::byte>& to, T value) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

void put_text(std::vector<std::byte>& to, const std::string& text, std::size_t room) {
  for (std::size_t i = 0; i < room; ++i)
    to.push_back(i < text.size() && i + 1 < room ? static_cast<std::byte>(text[i]) : std::byte{0});
}

template <class T>
T number_at(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::string text_at(const std::byte* from, std::size_t room) {
  const auto* const text = reinterpret_cast<const char*>(from);
  return {text, ::strnlen(text, room)};
}

/// The bytes of an element; 0 for a type that is not known.
std::size_t element_bytes(const std::string& type) {
  for (const char* known : {"|u1", "<u2", "<i2", "<u4", "<i4", "<f4", "<f8", "<c8", "<c16"})
    if (type == known) return std::stoul(type.substr(2));
  return 0;
}

}  // namespace

const LinkedArray* ArrayMessage::find(const std::string& name) const {
  const auto found = std::find_if(arrays.begin(), arrays.end(), [&](const auto& each) { return each.name == name; });
  return found == arrays.end() ? nullptr : &*found;
}

ArrayLink::ArrayLink(Scan& scan, std::string who, double timeout_s, ModuleProcess process,
                     std::shared_ptr<SharedArea> area, const ArrayMessage& greeting)
    : scan_(scan),
      who_(std::move(who)),
      timeout_(timeout_s),
      area_(std::move(area)),
      socket_(std::move(process.socket)),
      output_(std::move(process.lines)),
      child_(std::move(process.child)) {
  for (const int each : {socket_.get(), output_.get()})
    if (::fcntl(each, F_SETFL, O_NONBLOCK) != 0) throw ResourceError("a step's socket cannot be set up");
  moved_ = std::chrono::steady_clock::now();
  send(Kind::greeting, greeting);
}

void ArrayLink::exchange(const ArrayMessage& item, const OnResult& on_result) {
  moved_ = std::chrono::steady_clock::now();
  send(Kind::item, item);
  for (int results = 0;; ++results) {
    ArrayMessage message;
    const Kind kind = receive(message);
    if (kind == Kind::done) break;
    if (kind != Kind::result || results == kMostResults)
      fail(fmt::format("has sent what is no result (message {})", static_cast<std::uint32_t>(kind)));
    on_result(std::move(message));
    scan_.compute.check_stop();
    moved_ = std::chrono::steady_clock::now();
  }
  sent_.clear();
  copies_.clear();
}

void ArrayLink::finish() {
  send(Kind::end, {});
  child_->may_end();
}

void ArrayLink::send(Kind kind, const ArrayMessage& message) {
  sent_.clear();
  copies_.clear();
  std::vector<const LinkedArray*> at_end;
  std::uint64_t end_bytes = 0;
  std::vector<std::byte> entries;
  for (const LinkedArray& array : message.arrays) {
    std::int64_t place = array.bytes > 0 ? area_->place_of(array.memory.get()) : -1;
    if (place < 0 && array.bytes >= kSmall) {
      if (std::shared_ptr<void> copy = area_->take(array.bytes)) {
        const auto n = static_cast<std::int64_t>(array.bytes);
        scan_.compute.copy<std::byte>(
            numerics::HostView<const std::byte>(static_cast<const std::byte*>(array.memory.get()), {n}),
            numerics::HostView<std::byte>(static_cast<std::byte*>(copy.get()), {n}));
        place = area_->place_of(copy.get());
        copies_.push_back(std::move(copy));
      }
    }
    put_text(entries, array.name, kName);
    put_text(entries, array.type, kType);
    put(entries, static_cast<std::uint32_t>(array.shape.rank()));
    put(entries, place < 0 ? kAtEnd : kInputs);
    for (std::size_t axis = 0; axis < kAxes; ++axis)
      put(entries, axis < array.shape.rank() ? array.shape[axis] : std::int64_t{0});
    put(entries, place < 0 ? end_bytes : static_cast<std::uint64_t>(place));
    if (place >= 0) {
      sent_.push_back({static_cast<std::uint64_t>(place), &array});
    } else {
      at_end.push_back(&array);
      end_bytes += array.bytes;
    }
  }
  std::string facts;
  for (const auto& [name, value] : message.facts) (((facts += name.c_str()) += '\0') += value.c_str()) += '\0';
  const std::vector<std::uint64_t> free = area_->released();
  std::vector<std::byte> bytes;
  bytes.reserve(kHead + entries.size() + 8 * free.size() + facts.size());
  put(bytes, static_cast<std::uint32_t>(kind));
  put(bytes, static_cast<std::uint32_t>(message.arrays.size()));
  put(bytes, static_cast<std::uint32_t>(free.size()));
  put(bytes, static_cast<std::uint32_t>(facts.size()));
  put(bytes, end_bytes);
  bytes.insert(bytes.end(), entries.begin(), entries.end());
  for (const std::uint64_t place : free) put(bytes, place);
  const auto* const text = reinterpret_cast<const std::byte*>(facts.data());
  bytes.insert(bytes.end(), text, text + facts.size());
  for (const LinkedArray* array : at_end) {
    const auto* const data = static_cast<const std::byte*>(array->memory.get());
    if (array->bytes < kSmall) {
      bytes.insert(bytes.end(), data, data + array->bytes);
    } else {
      write(bytes.data(), bytes.size());
      bytes.clear();
      write(data, array->bytes);
    }
  }
  write(bytes.data(), bytes.size());
}

ArrayLink::Kind ArrayLink::receive(ArrayMessage& message) {
  std::array<std::byte, kHead> head{};
  read(head.data(), kHead);
  const auto kind = number_at<std::uint32_t>(head.data()), arrays = number_at<std::uint32_t>(head.data() + 4),
             released = number_at<std::uint32_t>(head.data() + 8), facts = number_at<std::uint32_t>(head.data() + 12);
  const auto end_bytes = number_at<std::uint64_t>(head.data() + 16);
  if (arrays > kMostArrays || released != 0 || facts > kMostFacts)
    fail("has sent bytes that are no message of a step; something in it writes to descriptor 3");
  std::vector<std::byte> entries(arrays * kEntry + facts);
  read(entries.data(), entries.size());
  std::uint64_t at_end = 0;
  for (std::size_t i = 0; i < arrays; ++i) message.arrays.push_back(received(entries.data() + i * kEntry, at_end));
  if (at_end != end_bytes) fail("has sent a message whose sizes contradict each other");
  for (LinkedArray& array : message.arrays)
    if (!array.memory && array.bytes > 0) {
      const auto made = scan_.compute.allocate_host<std::byte>({static_cast<std::int64_t>(array.bytes)});
      array.memory = made.memory();
      read(array.memory.get(), array.bytes);
    }
  std::string_view rest(reinterpret_cast<const char*>(entries.data() + arrays * kEntry), facts);
  const auto next = [&rest] {
    const std::string text(rest.substr(0, rest.find('\0')));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    return text;
  };
  while (!rest.empty()) {
    std::string name = next();
    message.facts.emplace_back(std::move(name), next());
  }
  return static_cast<Kind>(kind);
}

/// Reads an array's entry. Its memory is empty if its elements follow at the end of the message.
LinkedArray ArrayLink::received(const std::byte* entry, std::uint64_t& at_end) {
  LinkedArray array{text_at(entry, kName), text_at(entry + kName, kType), {}, nullptr, element_bytes(array.type)};
  const auto rank = number_at<std::uint32_t>(entry + 40), where = number_at<std::uint32_t>(entry + 44);
  const auto place = number_at<std::uint64_t>(entry + 88);
  if (array.bytes == 0 || rank > kAxes)
    fail(fmt::format("has given an array of type '{}' and {} axes, which no item has", array.type, rank));
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // bytes
  for (std::uint32_t axis = 0; axis < rank; ++axis) {
    const auto extent = number_at<std::int64_t>(entry + 48 + std::size_t{8} * axis);
    std::size_t bytes = 0;
    if (extent < 0 || __builtin_mul_overflow(array.bytes, static_cast<std::size_t>(extent), &bytes) || bytes > kMost)
      fail("has given an array of an impossible size");
    array.bytes = bytes;
    array.shape.push_back(extent);
  }
  if (where == kAtEnd) {
    at_end += array.bytes;
  } else if (where == kResults) {
    array.memory = area_->result(place, array.bytes);
    if (!array.memory) fail("has given an array that lies outside its memory");
  } else {
    // What came goes back, or a part of it.
    const auto found = std::find_if(sent_.begin(), sent_.end(), [&](const Sent& each) {
      const std::uint64_t size = each.array->bytes;
      return place >= each.place && array.bytes <= size && place - each.place <= size - array.bytes;
    });
    if (found == sent_.end() || place % SharedArea::kAligned != 0)
      fail("has given an array of an earlier item; give a copy");
    const std::shared_ptr<void>& whole = found->array->memory;
    array.memory = {whole, static_cast<std::byte*>(whole.get()) + (place - found->place)};
  }
  return array;
}

void ArrayLink::write(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t n = ::send(socket_.get(), from, bytes, MSG_NOSIGNAL);
    if (n > 0) {
      from += n;
      bytes -= static_cast<std::size_t>(n);
      moved_ = std::chrono::steady_clock::now();
    } else if (errno == EAGAIN) {
      wait(POLLOUT);
    } else if (errno != EINTR) {
      const auto how = child_->ended(kForStatus);
      fail(how.value_or("takes nothing any more"));
    }
  }
}

void ArrayLink::read(void* to, std::size_t bytes) {
  auto* into = static_cast<std::byte*>(to);
  while (bytes > 0) {
    if (const std::size_t n = std::min(bytes, came_.size() - begin_); n > 0) {
      std::memcpy(into, came_.data() + begin_, n);
      into += n;
      bytes -= n;
      begin_ += n;
      continue;
    }
    // Small messages are read at once, long arrays into their place.
    constexpr std::size_t kRoom = std::size_t{1} << 14;
    const bool direct = bytes >= kRoom;
    came_.resize(direct ? 0 : kRoom);
    begin_ = 0;
    const ssize_t n = ::recv(socket_.get(), direct ? into : came_.data(), direct ? bytes : kRoom, 0);
    if (!direct) came_.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n > 0) {
      moved_ = std::chrono::steady_clock::now();
      if (direct) {
        into += n;
        bytes -= static_cast<std::size_t>(n);
      }
    } else if (n < 0 && errno == EAGAIN) {
      wait(POLLIN);
    } else if (n == 0 || errno != EINTR) {
      const auto how = child_->ended(kForStatus);
      fail(how.value_or("has ended the connection"));
    }
  }
}

void ArrayLink::wait(short events) {
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    // A thread that sleeps wakes some 50 us late, which short functions would notice. Others may have the core
    // meanwhile.
    const bool awake = std::chrono::steady_clock::now() - begin < kAwake;
    std::array<pollfd, 2> files{pollfd{socket_.get(), events, 0}, pollfd{output_.get(), POLLIN, 0}};
    ::poll(files.data(), files.size(), awake ? 0 : static_cast<int>(kLongestWait.count()));
    if (files[1].revents != 0) read_lines(kReads);
    if (files[0].revents != 0) return;
    if (awake) {
      std::this_thread::yield();
      continue;
    }
    scan_.compute.check_stop();
    // Processes that the module has started may keep its socket open.
    if (const auto how = child_->ended()) fail(*how);
    if (numerics::Yield* const yield = numerics::Yield::of_thread()) yield->rest();
    if (std::chrono::steady_clock::now() - moved_ > timeout_)
      fail(fmt::format("has neither taken nor given anything for {} s (timeout_s)", timeout_.count()));
  }
}

void ArrayLink::read_lines(int most) {
  std::array<char, 4096> piece{};
  ssize_t n = 1;
  while (output_.get() >= 0 && most-- > 0 && (n = ::read(output_.get(), piece.data(), piece.size())) > 0)
    lines_.add({piece.data(), static_cast<std::size_t>(n)});
  if (n == 0) output_ = OwnDescriptor();  // the end
}

void ArrayLink::fail(const std::string& why) {
  child_->kill();
  read_lines(kLastReads);
  lines_.finish_line();
  const std::vector<std::string> lines = lines_.get();
  for (const std::string& line : lines) scan_.warn(fmt::format("{}: {}", who_, line));
  throw std::runtime_error(lines.empty() ? fmt::format("{} {}", who_, why)
                                         : fmt::format("{} {}; its last line: {}", who_, why, lines.back()));
}

}  // namespace echotrain
