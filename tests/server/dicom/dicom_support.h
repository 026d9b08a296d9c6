// The support of tests of DICOM output is a folder that goes away, peers that do as they are told, and an image.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/dicom/link.h"
#include "tests/server/comes_true.h"

namespace echotrain::server {

class SpoolFolder {
 public:
  SpoolFolder() {
    std::string pattern = testing::TempDir() + "/echotrain_spool_XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = pattern;
  }
  ~SpoolFolder() { std::filesystem::remove_all(path_); }
  SpoolFolder(const SpoolFolder&) = delete;
  SpoolFolder& operator=(const SpoolFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string text_of_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A peer in memory, as several links see it.
class FakePeer {
 public:
  /// The next exchanges end so; those after them well.
  void answer(std::deque<DicomReply> replies) {
    const std::scoped_lock lock(mutex_);
    replies_ = std::move(replies);
  }
  /// Files with these bytes are always answered so.
  void answer_to(const std::string& bytes, DicomReply reply) {
    const std::scoped_lock lock(mutex_);
    by_file_[bytes] = std::move(reply);
  }
  /// The files of all C-STOREs, in their order.
  std::vector<std::string> tried() const {
    const std::scoped_lock lock(mutex_);
    return tried_;
  }
  /// Exchanges wait until they are interrupted.
  void hang() {
    const std::scoped_lock lock(mutex_);
    hangs_ = true;
  }
  std::vector<std::string> stored() const {
    const std::scoped_lock lock(mutex_);
    return stored_;
  }
  int echoes() const {
    const std::scoped_lock lock(mutex_);
    return echoes_;
  }

 private:
  friend class FakeLink;
  DicomReply exchange() {
    std::unique_lock lock(mutex_);
    interrupted_.wait(lock, [this] { return !hangs_ || ended_; });
    if (ended_) return {DicomReply::Kind::failed, "interrupted"};
    if (replies_.empty()) return {};
    DicomReply reply = std::move(replies_.front());
    replies_.pop_front();
    return reply;
  }

  mutable std::mutex mutex_;
  std::condition_variable interrupted_;
  std::deque<DicomReply> replies_;
  bool hangs_ = false, ended_ = false;
  std::vector<std::string> stored_, tried_;
  std::map<std::string, DicomReply> by_file_;
  int echoes_ = 0;
};

class FakeLink : public DicomLink {
 public:
  explicit FakeLink(std::shared_ptr<FakePeer> peer) : peer_(std::move(peer)) {}
  DicomReply echo() override {
    DicomReply reply = peer_->exchange();
    const std::scoped_lock lock(peer_->mutex_);
    ++peer_->echoes_;
    return reply;
  }
  DicomReply store(const std::filesystem::path& file) override {
    DicomReply reply = peer_->exchange();
    const std::scoped_lock lock(peer_->mutex_);
    const std::string bytes = text_of_file(file);
    peer_->tried_.push_back(bytes);
    if (const auto own = peer_->by_file_.find(bytes);
        own != peer_->by_file_.end() && reply.kind == DicomReply::Kind::done)
      return own->second;
    if (reply.kind == DicomReply::Kind::done) peer_->stored_.push_back(text_of_file(file));
    return reply;
  }
  void close() override {}
  void interrupt() override {
    {
      const std::scoped_lock lock(peer_->mutex_);
      peer_->ended_ = true;
    }
    peer_->interrupted_.notify_all();
  }

 private:
  const std::shared_ptr<FakePeer> peer_;
};

}  // namespace echotrain::server
