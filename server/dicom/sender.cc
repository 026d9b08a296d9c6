#include "server/dicom/sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "protocol/data/text.h"
#include "server/base/log.h"

namespace echotrain::server {
namespace {

constexpr std::chrono::seconds kFirstPause{1};

}  // namespace

DicomSender::DicomSender(DicomPeer peer, std::unique_ptr<DicomLink> link, std::shared_ptr<Spool> spool,
                         const config::DicomOptions& options)
    : peer_(std::move(peer)),
      link_(std::move(link)),
      spool_(std::move(spool)),
      retry_(seconds(options.retry_s)),
      echo_(seconds(options.echo_s)),
      next_echo_(Clock::now()) {
  status_.peer = peer_;
}

void DicomSender::wake() {
  {
    const std::scoped_lock lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void DicomSender::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  link_->interrupt();
}

bool DicomSender::stopped() const {
  const std::scoped_lock lock(mutex_);
  return stopped_;
}

DicomPeerStatus DicomSender::status() const {
  DicomPeerStatus status;
  {
    const std::scoped_lock lock(mutex_);
    status = status_;
  }
  status.waiting = spool_->waiting(peer_.name);
  return status;
}

void DicomSender::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    try {
      step(lock);
    } catch (const std::exception& error) {
      if (!lock.owns_lock()) lock.lock();
      note_failure(error.what());
    }
  }
  lock.unlock();
  link_->close();
  lock.lock();
  stopped_ = true;
}

// With the lock held, which exchanges let go.
void DicomSender::step(std::unique_lock<std::mutex>& lock) {
  if (pause_ > Clock::duration::zero()) {
    changed_.wait_for(lock, pause_, [this] { return stopping_; });
    if (stopping_) return;
  }
  woken_ = false;
  if (const auto file = spool_->oldest(peer_.name)) {
    send(*file, lock);
  } else if (pause_ > Clock::duration::zero() || Clock::now() >= next_echo_) {
    lock.unlock();
    const DicomReply reply = link_->echo();
    if (reply.kind == DicomReply::Kind::done) link_->close();
    lock.lock();
    note(reply);
  } else {
    lock.unlock();
    link_->close();
    lock.lock();
    changed_.wait_until(lock, next_echo_, [this] { return stopping_ || woken_; });
  }
}

void DicomSender::send(const std::filesystem::path& file, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const DicomReply reply = link_->store(file);
  if (reply.kind == DicomReply::Kind::done) spool_->remove(peer_.name, file);
  if (reply.kind == DicomReply::Kind::refused) {
    spool_->put_aside(peer_.name, file);
    write_log(LogLevel::error,
              protocol::printable(fmt::format("DICOM peer {} refuses an image, which is put aside as {}: {}",
                                              peer_.name, file.filename().string(), reply.text)));
  }
  lock.lock();
  status_.sent += reply.kind == DicomReply::Kind::done;
  status_.refused += reply.kind == DicomReply::Kind::refused;
  note(reply);
}

void DicomSender::note(const DicomReply& reply) {
  if (reply.kind == DicomReply::Kind::failed) {
    if (!stopping_) note_failure(reply.text);
    return;
  }
  if (status_.reachable && !*status_.reachable)
    write_log(LogLevel::info, fmt::format("DICOM peer {} answers again", peer_.name));
  status_.reachable = true;
  status_.error.clear();
  status_.last_contact = std::chrono::system_clock::now();
  pause_ = {};
  next_echo_ = Clock::now() + echo_;
}

void DicomSender::note_failure(const std::string& why) {
  const std::string text = protocol::printable(why);
  if (status_.reachable.value_or(true) || status_.error != text)
    write_log(LogLevel::warning,
              fmt::format("DICOM peer {} ({}@{}:{}) cannot be reached or used: {}; images wait in the spool",
                          peer_.name, peer_.ae_title, peer_.host, peer_.port, text));
  ++status_.failures;
  status_.reachable = false;
  status_.error = text;
  pause_ = std::min<Clock::duration>(retry_, pause_ == Clock::duration::zero() ? kFirstPause : 2 * pause_);
}

}  // namespace echotrain::server
