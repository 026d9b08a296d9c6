#include "server/dicom/sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "protocol/data/text.h"
#include "server/base/log.h"

namespace echotrain::server {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds kFirstPause{1};
constexpr std::chrono::hours kTidy{1};

}  // namespace

DicomSender::DicomSender(DicomPeer peer, std::unique_ptr<DicomLink> link, std::shared_ptr<Spool> spool,
                         const config::DicomOptions& options)
    : peer_(std::move(peer)),
      link_(std::move(link)),
      spool_(std::move(spool)),
      retry_(seconds(options.retry_s)),
      echo_(seconds(options.echo_s)),
      tries_(options.tries),
      next_echo_(Clock::now()),
      next_tidy_(Clock::now()) {
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
    status.failing = failing_.size();
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

// Requires the lock, which exchanges let go.
void DicomSender::step(std::unique_lock<std::mutex>& lock) {
  if (pause_ > Clock::duration::zero()) {
    changed_.wait_for(lock, pause_, [this] { return stopping_; });
    if (stopping_) return;
  }
  woken_ = false;
  if (Clock::now() >= next_tidy_) tidy(lock);
  const std::optional<fs::path> file = next();
  // Before a file is tried again, an exchange must go well: it may be the peer that does not work.
  const bool unproven = file && failing_.contains(*file) && !proven_;
  if (file && !unproven) {
    send(*file, lock);
  } else if (unproven || pause_ > Clock::duration::zero() || Clock::now() >= next_echo_) {
    echo(lock);
  } else {
    Clock::time_point until = next_echo_;
    for (const auto& [name, failing] : failing_) until = std::min(until, failing.not_before);
    lock.unlock();
    link_->close();
    lock.lock();
    changed_.wait_until(lock, until, [this] { return stopping_ || woken_; });
  }
}

/// Returns the file to send at once: one that has not failed before those that have.
std::optional<fs::path> DicomSender::next() const {
  if (auto file = spool_->next(peer_.name, [this](const fs::path& one) { return failing_.contains(one); })) return file;
  const auto first = std::min_element(failing_.begin(), failing_.end(), [](const auto& a, const auto& b) {
    return a.second.not_before < b.second.not_before;
  });
  if (first == failing_.end() || first->second.not_before > Clock::now()) return std::nullopt;
  return first->first;
}

void DicomSender::echo(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const DicomReply reply = link_->echo();
  if (reply.kind == DicomReply::Kind::done) link_->close();
  lock.lock();
  note(reply);
}

void DicomSender::send(const fs::path& file, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const DicomReply reply = link_->store(file);
  if (reply.kind == DicomReply::Kind::done) spool_->remove(peer_.name, file);
  lock.lock();
  if (reply.kind == DicomReply::Kind::not_taken || reply.kind == DicomReply::Kind::no_room) {
    if (!stopping_) note_failing(file, reply, lock);
    return;
  }
  status_.sent += reply.kind == DicomReply::Kind::done;
  if (reply.kind == DicomReply::Kind::refused) {
    ++status_.refused;
    put_aside(file, "refuses an image", reply.text, lock);
  }
  if (reply.kind != DicomReply::Kind::failed) failing_.erase(file);
  note(reply);
}

void DicomSender::put_aside(const fs::path& file, const std::string& what, const std::string& why,
                            std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  spool_->put_aside(peer_.name, file);
  write_log(LogLevel::error, protocol::printable(fmt::format("DICOM peer {} {}, which is put aside as {}: {}",
                                                             peer_.name, what, file.filename().string(), why)));
  lock.lock();
  tidy(lock);
}

void DicomSender::tidy(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const std::uint64_t removed = spool_->tidy(peer_.name);
  if (removed > 0)
    write_log(LogLevel::warning,
              fmt::format("{} images that were put aside for DICOM peer {} are removed (dicom.refused_mib, "
                          "dicom.refused_days)",
                          removed, peer_.name));
  lock.lock();
  status_.removed += removed;
  next_tidy_ = Clock::now() + kTidy;
}

void DicomSender::note(const DicomReply& reply) {
  if (reply.kind != DicomReply::Kind::done && reply.kind != DicomReply::Kind::refused) {
    if (!stopping_) note_failure(reply.text);
    return;
  }
  if (status_.reachable && !*status_.reachable)
    write_log(LogLevel::info, fmt::format("DICOM peer {} answers again", peer_.name));
  ++answers_;
  proven_ = true;
  status_.reachable = true;
  if (failing_.empty()) status_.error.clear();
  status_.last_contact = std::chrono::system_clock::now();
  pause_ = {};
  next_echo_ = Clock::now() + echo_;
}

void DicomSender::note_failing(const fs::path& file, const DicomReply& reply, std::unique_lock<std::mutex>& lock) {
  const bool out_of_room = reply.kind == DicomReply::Kind::no_room;
  const std::string text = protocol::printable(reply.text);
  const auto [at, first] = failing_.try_emplace(file, Failing{status_.sent, answers_});
  Failing& failing = at->second;
  const bool works = status_.sent > failing.sent || (!out_of_room && answers_ > failing.answers);
  if (first || works) ++failing.tries;
  lengthen(failing.pause);
  failing.not_before = Clock::now() + failing.pause;
  ++status_.failures;
  if (out_of_room) status_.reachable = true;
  if (first && status_.error != text)
    write_log(LogLevel::warning, fmt::format("DICOM peer {} does not take the image {}: {}; others go before it",
                                             peer_.name, file.filename().string(), text));
  status_.error = text;
  proven_ = false;
  lengthen(pause_);
  if (!works || failing.tries < tries_) return;
  const std::string what = fmt::format("has not taken an image in {} tries", failing.tries);
  failing_.erase(at);
  ++status_.given_up;
  put_aside(file, what, text, lock);
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
  proven_ = false;
  lengthen(pause_);
}

void DicomSender::lengthen(Clock::duration& pause) const {
  pause = std::min<Clock::duration>(retry_, pause == Clock::duration::zero() ? kFirstPause : 2 * pause);
}

}  // namespace echotrain::server
