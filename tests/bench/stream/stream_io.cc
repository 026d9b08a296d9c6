#include "tests/bench/stream/stream_io.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

#include "protocol/files/stream_file.h"

namespace echotrain::bench {
namespace {

constexpr std::size_t kBuffer = 1 << 20;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

}  // namespace

Connection::Connection(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("connect");
  const int one = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

Connection::~Connection() { ::close(fd_); }

void Connection::write(const std::byte* bytes, std::size_t size) {
  for (std::size_t at = 0; at < size;) {
    const ssize_t n = ::send(fd_, bytes + at, std::min(kBuffer, size - at), MSG_NOSIGNAL);
    if (n <= 0) fail("send");
    at += static_cast<std::size_t>(n);
  }
}

void Connection::end() { ::shutdown(fd_, SHUT_WR); }
void Connection::cut() { ::shutdown(fd_, SHUT_RDWR); }

std::size_t Connection::read(std::byte* to, std::size_t size) {
  const ssize_t n = ::recv(fd_, to, size, 0);
  if (n < 0) fail("recv");
  return static_cast<std::size_t>(n);
}

TemporaryFolder::TemporaryFolder(const std::filesystem::path& where)
    : path_((where / "echotrain-bench-XXXXXX").string()) {
  if (::mkdtemp(path_.data()) == nullptr) fail("cannot make " + path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

double plain_copy_seconds(const Buffer& bytes) {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (::bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(listener, 1) != 0)
    fail("listen");
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  std::size_t received = 0;
  std::thread receiver([&] {
    Connection connection(::accept(listener, nullptr, nullptr));
    std::vector<std::byte> buffer(kBuffer);
    while (const std::size_t n = connection.read(buffer.data(), buffer.size())) received += n;
  });
  double seconds = 0;
  {
    Connection connection(ntohs(address.sin_port));
    const auto start = Clock::now();
    connection.write(bytes);
    connection.end();
    receiver.join();
    seconds = seconds_since(start);
  }
  ::close(listener);
  if (received != bytes.size()) throw std::runtime_error("the plain copy lost bytes");
  return seconds;
}

ServerProcess::ServerProcess(const std::string& backend, const std::vector<std::string>& arguments) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "echotrain-server";
  int out[2];
  if (::pipe(out) != 0) fail("pipe");
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::close(out[0]);
    const char* level = std::getenv("ECHOTRAIN_BENCH_LOG");
    std::vector<std::string> all{
        program, "--port", "0", "--backend", backend, "--log-level", level == nullptr ? "error" : level};
    all.insert(all.end(), arguments.begin(), arguments.end());
    std::vector<char*> words;
    for (std::string& word : all) words.push_back(word.data());
    words.push_back(nullptr);
    ::execv(program.c_str(), words.data());
    ::_exit(127);
  }
  ::close(out[1]);
  const bool admin = std::find(arguments.begin(), arguments.end(), "--admin-port") != arguments.end();
  FILE* lines = ::fdopen(out[0], "r");
  char line[256];
  while (std::fgets(line, sizeof line, lines) != nullptr) {
    const std::string text = line;
    const auto port = [&] { return static_cast<std::uint16_t>(std::stoi(text.substr(text.rfind(':') + 1))); };
    if (text.starts_with("listening on ")) port_ = port();
    if (text.starts_with("admin on ")) admin_port_ = port();
    if (port_ != 0 && (admin_port_ != 0 || !admin)) return;
  }
  throw std::runtime_error("echotrain-server did not start: " + program.string());
}

ServerProcess::~ServerProcess() {
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
}

double ServerProcess::cpu_seconds() const {
  std::ifstream file(fmt::format("/proc/{}/stat", pid_));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));  // from the third field on
  std::string skipped;
  for (int i = 3; i < 14; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

void Receiver::run(Connection& connection, const OnImage& on_image) {
  protocol::MessageBuffer buffer{protocol::Limits{}};
  for (;;) {
    const auto room = buffer.prepare();
    const std::size_t n = connection.read(room.data(), room.size());
    if (n == 0) throw std::runtime_error("the server ended the connection without CLOSE");
    buffer.commit(n);
    const auto now = Clock::now();
    for (;;) {
      auto message = buffer.next();
      if (!message)
        throw std::runtime_error("the server sent bytes that are not a message: " + message.error().message);
      if (!message->has_value()) break;
      if (const auto* image = std::get_if<protocol::Image>(&**message)) {
        ++images;
        last_image = now;
        if (on_image) on_image(*image, now);
      } else if (const auto* text = std::get_if<protocol::Text>(&**message)) {
        if (text->text.starts_with("ERROR")) throw std::runtime_error("the server says: " + text->text);
        if (text->text.find("skipped (") != std::string::npos)
          throw std::runtime_error("the server leaves out readouts that are to be measured: " + text->text);
      } else if (std::holds_alternative<protocol::Close>(**message)) {
        closed = now;
        return;
      }
    }
  }
}

double scan_seconds(std::uint16_t port, const Buffer& scan, std::size_t images, const std::string& meta) {
  Connection connection(port);
  Receiver receiver;
  std::exception_ptr failed;
  std::thread receiving([&] {
    try {
      receiver.run(connection, [&](const protocol::Image& image, Clock::time_point) {
        if (image.attributes.find(meta) == std::string::npos) throw std::runtime_error("an image is without " + meta);
      });
    } catch (...) {
      failed = std::current_exception();
    }
  });
  const auto start = Clock::now();
  try {
    connection.write(scan);
    connection.end();
  } catch (const std::exception&) {  // the receiver knows why
  }
  receiving.join();
  if (failed) std::rethrow_exception(failed);
  if (receiver.images != images)
    throw std::runtime_error(fmt::format("{} images came instead of {}", receiver.images, images));
  return std::chrono::duration<double>((images > 0 ? receiver.last_image : receiver.closed) - start).count();
}

}  // namespace echotrain::bench
