#include "server/dicom/dicom_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

#include "protocol/data/text.h"
#include "protocol/dicom/dicom_file.h"
#include "server/base/clock.h"

namespace echotrain::server {
namespace {

// A stop interrupts whatever a sender waits for, but for the opening of a connection.
constexpr std::chrono::milliseconds kGoodbye{500}, kLook{5};

std::vector<std::string> names_of(const std::vector<DicomPeer>& peers) {
  std::vector<std::string> names;
  for (const DicomPeer& peer : peers) names.push_back(peer.name);
  return names;
}

}  // namespace

std::int64_t instance_number(const protocol::ImageHeader& head, const std::vector<protocol::Encoding>& encodings) {
  const std::int64_t planes = std::max<std::int64_t>(1, head.matrix_size[2]);
  const std::int64_t as_counted = 1 + planes * std::max<std::int64_t>(0, head.image_index - 1);
  if (encodings.empty()) return as_counted;
  const protocol::Encoding& of = encodings[0];
  const std::array<std::pair<std::int64_t, const std::optional<protocol::CounterLimit>*>, 6> counters{
      {{head.set, &of.set},
       {head.contrast, &of.contrast},
       {head.average, &of.average},
       {head.repetition, &of.repetition},
       {head.phase, &of.phase},
       {head.slice, &of.slice}}};
  std::int64_t rank = 0;
  for (const auto& [counter, limit] : counters) {
    const std::int64_t count = *limit ? std::int64_t{(*limit)->maximum} + 1 : 1;
    if (counter >= count) return as_counted;
    rank = rank * count + counter;
    if (rank > std::numeric_limits<std::int32_t>::max()) return as_counted;
  }
  const std::int64_t number = 1 + rank * planes;
  return number > std::numeric_limits<std::int32_t>::max() - planes ? as_counted : number;
}

std::int64_t InstanceNumbers::take(std::int64_t wanted, std::int64_t count) {
  auto after = given_.upper_bound(wanted);
  const bool before_is_free = after == given_.begin() || std::prev(after)->second <= wanted;
  if (!before_is_free || (after != given_.end() && after->first < wanted + count)) {
    wanted = given_.rbegin()->second;
    after = given_.end();
  }
  std::int64_t end = wanted + count;
  if (after != given_.end() && after->first == end) {
    end = after->second;
    after = given_.erase(after);
  }
  if (after != given_.begin() && std::prev(after)->second == wanted)
    std::prev(after)->second = end;
  else
    given_.emplace_hint(after, wanted, end);
  return wanted;
}

std::string DicomScan::add(const protocol::Image& image) { return output_.add(shared_from_this(), image); }

DicomOutput::DicomOutput(const config::DicomOptions& options, std::shared_ptr<QueueMemory> memory,
                         const MakeDicomLink& links)
    : options_(options), share_(std::move(memory)) {
  const std::vector<DicomPeer> peers = read_peers(options);
  std::vector<std::unique_ptr<DicomLink>> made;
  for (const DicomPeer& peer : peers) made.push_back(links(peer));
  Spool::Limits limits{static_cast<std::uint64_t>(options.spool_mib) << 20,
                       static_cast<std::uint64_t>(options.refused_mib) << 20};
  if (options.refused_days > 0) limits.refused_age = std::chrono::hours(24) * options.refused_days;
  spool_ = std::make_shared<Spool>(options.spool, limits, names_of(peers));
  for (const std::string& name : spool_->orphans())
    write_log(LogLevel::warning,
              protocol::printable(fmt::format("the spool holds images for '{}', which dicom.peers does not name: they "
                                              "stay there",
                                              name)));
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (const auto waiting = spool_->waiting(peers[i].name); waiting.files > 0)
      write_log(LogLevel::info,
                fmt::format("the spool holds {} images for DICOM peer {}", waiting.files, peers[i].name));
    senders_.push_back(std::make_shared<DicomSender>(peers[i], std::move(made[i]), spool_, options));
  }
  for (const auto& sender : senders_) threads_.emplace_back([sender] { sender->run(); });
  converter_ = std::thread([this] { convert_all(); });
}

DicomOutput::~DicomOutput() { finish(); }

bool DicomOutput::finish() {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(finished_, true)) return all_ended_;
    finishing_ = true;
  }
  work_.notify_all();
  converter_.join();
  for (const auto& sender : senders_) sender->stop();
  const Clock::time_point until = Clock::now() + kGoodbye;
  const auto ended = [](const auto& sender) { return sender->stopped(); };
  while (!std::all_of(senders_.begin(), senders_.end(), ended) && Clock::now() < until)
    std::this_thread::sleep_for(kLook);
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    if (senders_[i]->stopped()) {
      threads_[i].join();
    } else {
      threads_[i].detach();
      all_ended_ = false;
    }
  }
  return all_ended_;
}

std::shared_ptr<DicomScan> DicomOutput::scan(const SessionLog& log, const std::vector<std::string>& peers,
                                             const protocol::Header& header, const std::string& pipeline_text,
                                             const std::string& occasion, const ImageOwner& owner) {
  std::vector<std::string> all = options_.send_to;
  for (const std::string& peer : peers)
    if (std::find(all.begin(), all.end(), peer) == all.end()) all.push_back(peer);
  if (all.empty()) return nullptr;
  std::shared_ptr<DicomScan> scan(new DicomScan(*this, log));
  for (std::string& peer : all) {
    const bool enhanced = std::any_of(senders_.begin(), senders_.end(),
                                      [&](const auto& sender) { return sender->name() == peer && sender->enhanced(); });
    (enhanced ? scan->enhanced_peers_ : scan->peers_).push_back(std::move(peer));
  }
  const std::string& client = owner.client.empty() ? owner.identity : owner.client;
  if (!client.empty()) scan->owner_ = spool_->owner(client);
  std::string whose = owner.data;
  if (whose.empty() && !owner.identity.empty()) whose = spool_->owner(owner.identity);
  scan->study_ = protocol::dicom::read_study(header.xml, options_.patient, header.xml, occasion, whose);
  scan->key_ = std::string(ECHOTRAIN_VERSION "\n") + pipeline_text;
  scan->encodings_ = header.encodings;
  // Whoever has it gives images; queue and converter have it by another owner, and so know when no more will come.
  DicomScan* const bare = scan.get();
  return {bare, [this, scan = std::move(scan)](DicomScan*) mutable { end(std::move(scan)); }};
}

void DicomOutput::end(std::shared_ptr<DicomScan> scan) {
  if (scan->enhanced_peers_.empty()) return;
  {
    const std::scoped_lock lock(mutex_);
    if (finished_) return;  // the converter gives what it has by itself
    queue_.push_back({std::move(scan), std::nullopt});
  }
  work_.notify_one();
}

std::size_t DicomOutput::Waiting::spool_bytes() const {
  constexpr std::size_t kBesidesPixels = 4096;
  if (!image) return 0;
  const protocol::ImageHeader& head = image->head;
  const bool is_short = head.data_type == ISMRMRD::ISMRMRD_USHORT || head.data_type == ISMRMRD::ISMRMRD_SHORT;
  return image->pixels.bytes.size() / (is_short ? 1 : 2) +
         kBesidesPixels * std::max<std::size_t>(1, head.matrix_size[2]);
}

std::string DicomOutput::add(std::shared_ptr<DicomScan> scan, const protocol::Image& image) {
  DicomScan& of = *scan;  // whoever adds has it, too
  Waiting waiting{std::move(scan), image};
  const std::size_t bytes = waiting.bytes();
  std::size_t to_come = waiting.spool_bytes();
  std::string trouble;
  {
    const std::scoped_lock lock(mutex_);
    to_come += of.waiting_bytes_;
  }
  // Room is asked for before the image is in the queue: it may be in the spool a moment later, and would count twice.
  const std::string why_not = no_room(of, to_come);
  {
    const std::scoped_lock lock(mutex_);
    const bool alone = queued_bytes_ == kept_bytes_;
    if (finishing_ || (!alone && queued_bytes_ + bytes > static_cast<std::size_t>(options_.queue_mib) << 20)) {
      dropped_ += of.peers_.size() + of.enhanced_peers_.size();
      const std::string why = fmt::format(
          "an image is not sent to DICOM peers: {} MiB of images wait to be written to the spool (dicom.queue_mib)",
          queued_bytes_ >> 20);
      if (!std::exchange(of.told_full_, true)) of.log_.error("{}; further ones are only counted", why);
      return why + "; send the scan again later";
    }
    of.waiting_bytes_ += waiting.spool_bytes();
    trouble = of.trouble_;
    queue_.push_back(std::move(waiting));
    queued_bytes_ += bytes;
    share_.set(queued_bytes_);
  }
  work_.notify_one();
  return trouble.empty() ? why_not : trouble;
}

std::string DicomOutput::no_room(const DicomScan& scan, std::size_t bytes) const {
  for (const auto* peers : {&scan.peers_, &scan.enhanced_peers_})
    for (const std::string& peer : *peers)
      if (const std::string why = spool_->no_room(peer, bytes, scan.owner_); !why.empty())
        return fmt::format("images may not be sent to DICOM peer {}: {}", peer, why);
  return "";
}

void DicomOutput::convert_all() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return finishing_ || !queue_.empty(); });
    if (queue_.empty()) break;
    Waiting waiting = std::move(queue_.front());
    queue_.pop_front();
    const std::shared_ptr<DicomScan> scan = waiting.scan;
    const std::size_t bytes = waiting.bytes(), done = waiting.spool_bytes();
    lock.unlock();
    convert(waiting);
    waiting = {};  // lets the pixels go before they are counted as gone
    lock.lock();
    queued_bytes_ -= bytes;
    share_.set(queued_bytes_);
    if (scan->enhanced_peers_.empty()) scan->waiting_bytes_ -= done;
  }
  lock.unlock();
  for (const auto& scan : std::exchange(keeping_, {})) give_enhanced(*scan);
}

void DicomOutput::convert(const Waiting& waiting) {
  DicomScan& scan = *waiting.scan;
  if (!waiting.image) {
    keeping_.erase(waiting.scan);
    return give_enhanced(scan);
  }
  if (!scan.enhanced_peers_.empty()) convert_enhanced(waiting.scan, *waiting.image);
  if (scan.peers_.empty()) return;
  try {
    const protocol::ImageHeader& head = waiting.image->head;
    const std::int64_t number = scan.numbers_[head.image_series_index].take(
        instance_number(head, scan.encodings_), std::max<std::int64_t>(1, head.matrix_size[2]));
    protocol::dicom::to_dicom(*waiting.image, {scan.study_, scan.key_}, number,
                              [&](protocol::dicom::Instance&& one) { spool(scan, scan.peers_, one.bytes); });
  } catch (const std::exception& error) {
    fail(scan, scan.peers_.size(), error);
  }
}

void DicomOutput::convert_enhanced(const std::shared_ptr<DicomScan>& scan, const protocol::Image& image) {
  using protocol::dicom::EnhancedImages;
  using protocol::dicom::Reconstruction;
  if (!scan->enhanced_) scan->enhanced_ = std::make_unique<EnhancedImages>(Reconstruction{scan->study_, scan->key_});
  const std::size_t before = scan->enhanced_->bytes();
  try {
    scan->enhanced_->add(image);
  } catch (const std::exception& error) {
    return fail(*scan, scan->enhanced_peers_.size(), error);
  }
  keeping_.insert(scan);
  keep(before, scan->enhanced_->bytes());
  if (kept_bytes_ > (static_cast<std::size_t>(options_.queue_mib) << 20) / 2) give_enhanced(*scan);
}

void DicomOutput::give_enhanced(DicomScan& scan) {
  if (!scan.enhanced_ || scan.enhanced_->empty()) return;
  const std::size_t before = scan.enhanced_->bytes();
  try {
    scan.enhanced_->finish([&](protocol::dicom::Instance&& one) { spool(scan, scan.enhanced_peers_, one.bytes); });
  } catch (const std::exception& error) {
    fail(scan, scan.enhanced_peers_.size(), error);
  }
  keep(before, scan.enhanced_->bytes());
  const std::scoped_lock lock(mutex_);
  scan.waiting_bytes_ = 0;
}

/// Counts what a scan keeps in memory.
void DicomOutput::keep(std::size_t before, std::size_t after) {
  const std::scoped_lock lock(mutex_);
  kept_bytes_ = kept_bytes_ - before + after;
  queued_bytes_ = queued_bytes_ - before + after;
  share_.set(queued_bytes_);
}

void DicomOutput::fail(DicomScan& scan, std::size_t images, const std::exception& error) {
  drop(scan, images, scan.told_bad_,
       fmt::format(
           "an image cannot be told in DICOM and is not sent: {}; mend what the pipeline or the header says of it",
           protocol::printable(error.what())));
}

/// Counts images that are not sent, and says so once, in the log and with what to do about it to who adds the next one.
void DicomOutput::drop(DicomScan& scan, std::size_t images, bool& told, const std::string& what) {
  {
    const std::scoped_lock lock(mutex_);
    dropped_ += images;
    if (scan.trouble_.empty()) scan.trouble_ = what;
  }
  if (!std::exchange(told, true)) scan.log_.error("{}; further ones are only counted", what);
}

void DicomOutput::spool(DicomScan& scan, const std::vector<std::string>& peers, const std::string& bytes) {
  for (const std::string& peer : peers) {
    if (const std::string failure = spool_->put(peer, bytes, scan.owner_); !failure.empty()) {
      drop(scan, 1, scan.told_spool_, fmt::format("an image is not sent to DICOM peer {}: {}", peer, failure));
      continue;
    }
    for (const auto& sender : senders_)
      if (sender->name() == peer) sender->wake();
  }
}

std::vector<DicomPeerStatus> DicomOutput::status() const {
  std::vector<DicomPeerStatus> all;
  for (const auto& sender : senders_) all.push_back(sender->status());
  return all;
}

std::uint64_t DicomOutput::dropped() const {
  const std::scoped_lock lock(mutex_);
  return dropped_;
}

std::size_t DicomOutput::queued_bytes() const {
  const std::scoped_lock lock(mutex_);
  return queued_bytes_;
}

}  // namespace echotrain::server
