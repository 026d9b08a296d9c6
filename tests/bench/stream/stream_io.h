// The input and output of bench_stream are sockets, a server process and a client.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "protocol/wire/codec.h"

namespace echotrain::bench {

using Clock = std::chrono::steady_clock;
using protocol::Buffer;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// A TCP connection on loopback, closed with this.
class Connection {
 public:
  explicit Connection(std::uint16_t port);
  explicit Connection(int fd) : fd_(fd) {}
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// std::runtime_error when the peer does not take all.
  void write(const std::byte* bytes, std::size_t size);
  void write(const Buffer& bytes) { write(bytes.data(), bytes.size()); }
  void end();  ///< no more will be written
  void cut();  ///< from any thread: a read that waits ends
  /// Up to `size` bytes; 0 at the end of the stream.
  std::size_t read(std::byte* to, std::size_t size);

 private:
  int fd_;
};

/// A new folder in `where`, which goes with this.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& where);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// The bytes over a plain loopback socket from one thread to another, both with 1 MiB buffers.
double plain_copy_seconds(const Buffer& bytes);

/// echotrain-server from the folder this program is in, on a free loopback port.
class ServerProcess {
 public:
  /// `arguments`: further ones of echotrain-server.
  explicit ServerProcess(const std::string& backend, const std::vector<std::string>& arguments = {});
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  std::uint16_t port() const { return port_; }
  std::uint16_t admin_port() const { return admin_port_; }  ///< where the arguments have --admin-port, else 0
  double cpu_seconds() const;  ///< that it has used so far, in all threads, user and system

 private:
  pid_t pid_ = -1;
  std::uint16_t port_ = 0, admin_port_ = 0;
};

/// Reads what a server sends until its CLOSE. std::runtime_error when it ends otherwise, or says ERROR.
class Receiver {
 public:
  using OnImage = std::function<void(const protocol::Image&, Clock::time_point)>;
  void run(Connection& connection, const OnImage& on_image = {});

  std::size_t images = 0;
  Clock::time_point last_image{}, closed{};  ///< when the last byte of the last image, or of CLOSE, came
};

/// Sends a whole scan while receiving; the seconds from its first byte to the last image, or to CLOSE when there is
/// none. std::runtime_error when there are not as many images as `images`, or one whose meta attributes have not
/// `meta`, or when the server leaves out readouts.
double scan_seconds(std::uint16_t port, const Buffer& scan, std::size_t images, const std::string& meta = {});

}  // namespace echotrain::bench
