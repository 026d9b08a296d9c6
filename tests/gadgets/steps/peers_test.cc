// Processes and connections as a step has them: limits, ends, bounds.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "gadgets/api/errors.h"
#include "gadgets/steps/child_process.h"
#include "gadgets/steps/python_peer.h"
#include "gadgets/steps/server_peer.h"
#include "gadgets/steps/stream_peer.h"

namespace echotrain::testing {
namespace {

using protocol::Message;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr milliseconds kLong{30000};

struct BothEnds {
  OwnDescriptor one, other;
};

BothEnds socket_pair() {
  std::array<int, 2> pair{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  return {OwnDescriptor(pair[0]), OwnDescriptor(pair[1])};
}

BothEnds pipe_pair() {
  std::array<int, 2> pair{};
  EXPECT_EQ(::pipe2(pair.data(), O_CLOEXEC), 0);
  return {OwnDescriptor(pair[0]), OwnDescriptor(pair[1])};
}

/// A shell that runs `script`, and what it prints.
struct Shell {
  BothEnds output = pipe_pair();
  std::optional<ChildProcess> process;
  explicit Shell(const std::string& script, ChildLimits limits = {1ull << 30, 100, 100}) {
    process.emplace(std::vector<std::string>{"sh", "-c", script}, std::vector<std::string>{"GIVEN=yes"},
                    output.other.get(), std::vector<int>{}, limits);
    output.other = OwnDescriptor();
  }
  /// All it prints until nobody has its output open any more.
  std::string text() {
    std::string all;
    std::array<char, 512> room{};
    for (ssize_t n = 0; (n = ::read(output.one.get(), room.data(), room.size())) > 0;)
      all.append(room.data(), static_cast<std::size_t>(n));
    return all;
  }
};

TEST(ChildProcessTest, SaysHowItEnded) {
  EXPECT_EQ(Shell("exit 0").process->ended(kLong), "has ended with exit code 0");
  EXPECT_EQ(Shell("exit 41").process->ended(kLong), "has ended with exit code 41");
  EXPECT_THAT(*Shell("kill -SEGV $$").process->ended(kLong), HasSubstr("was ended by signal 11"));
  EXPECT_EQ(Shell("sleep 1000").process->ended(), std::nullopt);
  EXPECT_EQ(Shell("while :; do :; done", {1ull << 30, 100, 1}).process->ended(kLong),
            "has used more than its 1 s of CPU time");
}

TEST(ChildProcessTest, HasLimitsAndFewVariables) {
  ::setenv("ECHOTRAIN_SECRET", "hidden", 1);
  // The limits come right after the start: the process time last but one.
  Shell shell(
      "until [ $(ulimit -t) = 100 ]; do :; done; "
      "echo $(ulimit -n) $(ulimit -d) ${GIVEN} ${ECHOTRAIN_SECRET:-none} $(ls /proc/self/fd | wc -l)",
      {256ull << 20, 77, 100});
  ::unsetenv("ECHOTRAIN_SECRET");
  // stdin, stdout, stderr, and the folder that ls reads
  EXPECT_EQ(shell.text(), "77 262144 yes none 4\n");
}

TEST(ChildProcessTest, EndsWithWhatItHasStarted) {
  std::optional<Shell> shell("sleep 1000 & echo begun; sleep 1000");
  std::array<char, 6> begun{};
  ASSERT_EQ(::read(shell->output.one.get(), begun.data(), begun.size()), 6);
  shell->process.reset();
  EXPECT_EQ(shell->text(), "");  // returns, as nobody is left who could write
  Shell leader("sleep 1000 & exit 3");
  EXPECT_EQ(leader.process->ended(kLong), "has ended with exit code 3");
  EXPECT_EQ(leader.text(), "");
}

TEST(ChildProcessTest, IsHeardOfWhereSigchldWasIgnored) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(Shell("exit 41").process->ended(kLong), "has ended with exit code 41");
  ::signal(SIGCHLD, before);
}

TEST(ChildProcessTest, WhoseEndSomebodyElseHasHeardIsOver) {
  Shell shell("exit 3");
  // Hears of the end as a program's own loop over all its children would.
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
  EXPECT_THAT(*shell.process->ended(kLong), HasSubstr("how is not known"));
}

/// Lowers a hard limit, in a process of its own: root alone could raise it again.
template <class Then>
int with_hard_limit(__rlimit_resource what, rlim_t most, const Then& then) {
  const pid_t process = ::fork();
  if (process == 0) {
    const rlimit bound{most, most};
    ::_exit(::setrlimit(what, &bound) == 0 && then() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(process, &status, 0);
  return status;
}

TEST(ChildLimitsTest, AreLoweredToWhatTheMachineAllows) {
  ChildLimits usual{1 << 20, 10, 100};
  EXPECT_THAT(fit(usual), ::testing::IsEmpty());
  EXPECT_EQ(usual.files, 10);
  EXPECT_EQ(with_hard_limit(RLIMIT_NOFILE, 64,
                            [] {
                              ChildLimits limits{1 << 20, 65, 100};
                              const auto lines = fit(limits);
                              return lines.size() == 1 && limits.files == 64 &&
                                     lines[0].find("64 open files") != std::string::npos;
                            }),
            0);
  EXPECT_EQ(with_hard_limit(RLIMIT_CPU, 50,
                            [] {
                              ChildLimits limits{1 << 20, 10, 51}, same{1 << 20, 10, 50};
                              return fit(limits).size() == 1 && limits.cpu_s == 50 && fit(same).empty();
                            }),
            0);
  EXPECT_EQ(with_hard_limit(RLIMIT_DATA, rlim_t{1} << 46,
                            [] {
                              ChildLimits limits{std::uint64_t{1} << 47, 10, 50};
                              return fit(limits).size() == 1 && limits.memory_bytes == std::uint64_t{1} << 46;
                            }),
            0);
}

TEST(ChildProcessTest, SaysThatThereIsNoSuchProgram) {
  const BothEnds output = pipe_pair();
  EXPECT_THROW(ChildProcess({"/nowhere/python"}, {}, output.other.get(), {}, {1 << 20, 10, 10}), ResourceError);
}

StepBytes text_bytes(std::size_t size) {
  StepBytes bytes;
  protocol::encode(protocol::Text{std::string(size, 'x')}, bytes.head);
  return bytes;
}

void write_all(int to, const protocol::Buffer& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::send(to, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (n <= 0) return;
    at += static_cast<std::size_t>(n);
  }
}

/// Waits for a message or the end.
std::optional<Message> next_of(Peer& peer) {
  for (const auto until = std::chrono::steady_clock::now() + kLong; std::chrono::steady_clock::now() < until;) {
    if (auto message = peer.receive()) return message;
    if (peer.end()) return std::nullopt;
    peer.wait(milliseconds(20), {});
  }
  ADD_FAILURE() << "nothing came";
  return std::nullopt;
}

TEST(StreamPeerTest, SendsAndReceivesAtOnce) {
  BothEnds ends = socket_pair();
  std::atomic<int> woken = 0;
  StreamPeer one(std::move(ends.one), OwnDescriptor(), {[&] { ++woken; }, nullptr});
  StreamPeer other(std::move(ends.other), OwnDescriptor(), {});
  constexpr int kCount = 200;
  for (int i = 0; i < kCount; ++i) {
    one.send(text_bytes(10000));
    other.send(text_bytes(100 + static_cast<std::size_t>(i)));
  }
  for (int i = 0; i < kCount; ++i) {
    auto from_other = next_of(one), from_one = next_of(other);
    ASSERT_TRUE(from_other && from_one);
    EXPECT_EQ(std::get<protocol::Text>(*from_other).text.size(), 100u + static_cast<std::size_t>(i));
    EXPECT_EQ(std::get<protocol::Text>(*from_one).text.size(), 10000u);
  }
  EXPECT_GE(woken, 1);
  EXPECT_GT(one.moved(), kCount * 10100u);
}

TEST(StreamPeerTest, BothDirectionsAreBounded) {
  BothEnds ends = socket_pair();
  const int other = ends.other.get();
  StreamPeer peer(std::move(ends.one), OwnDescriptor(), {});
  std::size_t given = 0;
  for (; peer.has_room() && given < 1000; ++given) peer.send(text_bytes(1 << 18));
  EXPECT_GE(given * (1 << 18), Peer::kQueueBytes);
  EXPECT_LT(given * (1 << 18), Peer::kQueueBytes + (8 << 20));  // what the kernel's buffer holds, and one message
  // Nobody receives: what is written is read up to the bound, and then no more until somebody does.
  std::thread writer([&] {
    for (int i = 0; i < 200; ++i) write_all(other, text_bytes(1 << 18).head);
    ::shutdown(other, SHUT_WR);
  });
  const auto until = std::chrono::steady_clock::now() + kLong;
  std::uint64_t moved = 0;
  while (peer.moved() < Peer::kQueueBytes && std::chrono::steady_clock::now() < until) peer.wait(milliseconds(20), {});
  for (int still = 0; still < 10; still = moved == peer.moved() ? still + 1 : 0) {
    moved = peer.moved();
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_LT(moved, Peer::kQueueBytes + (4u << 20));
  int came = 0;
  while (next_of(peer)) ++came;
  EXPECT_EQ(came, 200);
  writer.join();
}

/// The first bytes of an image of `mib` MiB: the message's id, its head, no attributes, and `sent_mib` MiB of pixels.
protocol::Buffer begun_image(std::size_t mib, std::size_t sent_mib) {
  protocol::ImageHeader head{};
  head.version = 1;
  head.data_type = ISMRMRD::ISMRMRD_FLOAT;
  head.channels = 1;
  head.matrix_size[0] = head.matrix_size[1] = 512;
  head.matrix_size[2] = static_cast<std::uint16_t>(mib);
  constexpr std::uint16_t kImage = 1022;
  protocol::Buffer bytes(sizeof kImage + sizeof head + sizeof(std::uint64_t) + (sent_mib << 20));
  std::memcpy(bytes.data(), &kImage, sizeof kImage);
  std::memcpy(bytes.data() + sizeof kImage, &head, sizeof head);
  return bytes;
}

template <class Reached>
bool comes_true(const Reached& reached) {
  for (const auto until = std::chrono::steady_clock::now() + kLong; std::chrono::steady_clock::now() < until;) {
    if (reached()) return true;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return false;
}

TEST(StreamPeerTest, CountsWhatIsBeyondItsQueues) {
  constexpr std::uint64_t kMiB = 1 << 20;
  const auto budget = std::make_shared<numerics::MemoryBudget>(1000 * kMiB);
  const auto account = std::make_shared<numerics::MemoryAccount>(budget);
  BothEnds ends = socket_pair();
  const int other = ends.other.get();
  std::optional<StreamPeer> peer(std::in_place, std::move(ends.one), OwnDescriptor(), PeerScan{nullptr, account});
  peer->send(text_bytes(1000));
  EXPECT_EQ(budget->used(), 0u);  // the queues are the step's
  // A message that comes: as much as has come, and at most twice that.
  write_all(other, begun_image(100, 60));
  EXPECT_TRUE(comes_true([&] { return budget->used() >= 28 * kMiB; })) << budget->used();
  EXPECT_LE(budget->used(), 120 * kMiB);
  write_all(other, protocol::Buffer(40 * kMiB));
  const auto image = next_of(*peer);
  ASSERT_TRUE(image);
  EXPECT_GE(budget->used(), 68 * kMiB);  // it is still held
  // One that goes, and that nobody takes.
  peer->send(text_bytes(50 * kMiB));
  EXPECT_GE(budget->used(), 18 * kMiB);
  peer.reset();
  EXPECT_EQ(budget->used(), 0u);
}

TEST(StreamPeerTest, LetsGoOfWhatItNoLongerHolds) {
  constexpr std::uint64_t kMiB = 1 << 20;
  const auto budget = std::make_shared<numerics::MemoryBudget>(1000 * kMiB);
  BothEnds ends = socket_pair();
  const int other = ends.other.get();
  StreamPeer peer(std::move(ends.one), OwnDescriptor(),
                  PeerScan{nullptr, std::make_shared<numerics::MemoryAccount>(budget)});
  write_all(other, begun_image(60, 60));
  std::optional<Message> image = next_of(peer);
  ASSERT_TRUE(image);
  EXPECT_GE(budget->used(), 28 * kMiB);
  image.reset();
  write_all(other, text_bytes(10).head);  // takes the slab's place
  EXPECT_TRUE(next_of(peer));
  EXPECT_TRUE(comes_true([&] { return budget->used() == 0; })) << budget->used();
}

TEST(StreamPeerTest, EndsWhereThereIsNoMemoryForAMessage) {
  constexpr std::uint64_t kMiB = 1 << 20;
  const auto budget = std::make_shared<numerics::MemoryBudget>(100 * kMiB);
  BothEnds ends = socket_pair();
  const int other = ends.other.get();
  StreamPeer peer(std::move(ends.one), OwnDescriptor(),
                  PeerScan{nullptr, std::make_shared<numerics::MemoryAccount>(budget)});
  std::thread writer([&] {
    write_all(other, begun_image(500, 0));
    for (int i = 0; i < 500; ++i) {
      const std::vector<std::byte> piece(kMiB);
      std::size_t at = 0;
      while (at < piece.size()) {
        const ssize_t n = ::send(other, piece.data() + at, piece.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
          at += static_cast<std::size_t>(n);
        } else if (peer.end()) {
          return;
        } else {
          std::this_thread::sleep_for(milliseconds(1));
        }
      }
    }
  });
  EXPECT_FALSE(next_of(peer));
  writer.join();
  EXPECT_THAT(peer.end().value_or(""), HasSubstr("more than there is memory for"));
  EXPECT_LT(peer.moved(), 200 * kMiB);
}

TEST(StreamPeerTest, SaysHowTheOtherSideEnded) {
  const auto end_after = [](const std::string& bytes) {
    BothEnds ends = socket_pair();
    StreamPeer peer(std::move(ends.one), OwnDescriptor(), {});
    EXPECT_EQ(::send(ends.other.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    ends.other = OwnDescriptor();
    const auto message = next_of(peer);
    EXPECT_FALSE(message);
    return peer.end().value_or("");
  };
  EXPECT_EQ(end_after(""), "has ended the connection without CLOSE");
  EXPECT_EQ(end_after(std::string("\xfe", 1)), "has ended inside a message");
  EXPECT_THAT(end_after("GET / HTTP/1.1\r\n"), HasSubstr("bytes that are no MRD message"));
  BothEnds ends = socket_pair();
  StreamPeer peer(std::move(ends.one), OwnDescriptor(), {});
  EXPECT_EQ(::send(ends.other.get(), "\4\0", 2, 0), 2);
  const auto close = next_of(peer);
  ASSERT_TRUE(close);
  EXPECT_TRUE(std::holds_alternative<protocol::Close>(*close));
}

TEST(StreamPeerTest, KeepsTheLastLines) {
  BothEnds ends = socket_pair(), lines = pipe_pair();
  StreamPeer peer(std::move(ends.one), std::move(lines.one), {});
  std::string text;
  for (int i = 0; i < 50; ++i) text += "line " + std::to_string(i) + "\n";
  text += "\n" + std::string(2000, 'y');
  ASSERT_EQ(::write(lines.other.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  lines.other = OwnDescriptor();
  const auto last = peer.last_lines();
  ASSERT_EQ(last.size(), 20u);
  EXPECT_EQ(last.front(), "line 31");
  EXPECT_EQ(last.back(), std::string(500, 'y'));
}

TEST(ServerPeerTest, StopsWaitingWhenTheScanDoes) {
  // A listener whose queue is full answers no further connection.
  std::stop_source stop;
  auto waiting = std::async(std::launch::async, [&] {
    // 192.0.2.0/24 is for documents (RFC 5737): where nothing refuses it, it is never answered.
    return connect_to_server("192.0.2.1:9", milliseconds(60000), stop.get_token(), {}) != nullptr;
  });
  stop.request_stop();
  try {
    EXPECT_FALSE(waiting.get());
  } catch (const numerics::Stopped&) {
  } catch (const ResourceError&) {  // a machine without a way there says so at once
  }
}

/// A folder that is removed in the end.
struct ModuleFolder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("echotrain_modules_" + std::to_string(::getpid()));
  ModuleFolder() {
    std::filesystem::create_directories(path / "inside" / "package");
    std::filesystem::create_directories(path / "outside");
    for (const char* file :
         {"inside/good.py", "inside/package/__init__.py", "outside/secret.py", "outside/__init__.py"})
      std::ofstream(path / file) << "pass\n";
    std::filesystem::create_symlink(path / "outside" / "secret.py", path / "inside" / "linked.py");
    std::filesystem::create_symlink(path / "outside", path / "inside" / "linked_package");
    std::filesystem::create_symlink(path / "inside" / "good.py", path / "inside" / "alias.py");
  }
  ~ModuleFolder() { std::filesystem::remove_all(path); }
  std::string refusal(const std::string& name) const {
    try {
      find_module(path / "inside", name);
    } catch (const ClientError& error) {
      return error.what();
    }
    return "";
  }
};

TEST(FindModuleTest, TakesWhatLiesInTheFolder) {
  const ModuleFolder folder;
  for (const char* name : {"good", "package", "alias"}) EXPECT_EQ(folder.refusal(name), "");
  for (const char* name : {"linked", "linked_package"}) EXPECT_THAT(folder.refusal(name), HasSubstr("link out of"));
  EXPECT_THAT(folder.refusal("json"),
              HasSubstr("has no module 'json'; it has alias, good, linked, linked_package, package"));
  EXPECT_THROW(find_module("", "good"), ClientError);
  EXPECT_THROW(find_module(folder.path / "missing", "good"), ClientError);
}

TEST(FindModuleTest, RefusesWhatAnybodyMayChange) {
  using std::filesystem::perms;
  const ModuleFolder folder;
  for (const char* place : {"inside/good.py", "inside"}) {
    std::filesystem::permissions(folder.path / place, perms::others_write, std::filesystem::perm_options::add);
    EXPECT_THAT(folder.refusal("good"), HasSubstr("every user"));
    std::filesystem::permissions(folder.path / place, perms::others_write, std::filesystem::perm_options::remove);
    EXPECT_EQ(folder.refusal("good"), "");
  }
}

}  // namespace
}  // namespace echotrain::testing
