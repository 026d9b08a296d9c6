#include "server/dicom/dicom_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <utility>

#include "gadgets/numerics/core/heap_account.h"
#include "protocol/data/meta.h"
#include "protocol/data/text.h"
#include "protocol/dicom/dicom_file.h"

namespace echotrain::server {
namespace {

// A stop interrupts whatever a sender waits for, but for the opening of a connection.
constexpr std::chrono::milliseconds kGoodbye{500}, kLook{5};
// A client's turn ends after the step in which it has taken so long.
constexpr std::chrono::milliseconds kTurn{50};
// Making an object of so many takes 0.7 s of computing at most, and 80 MiB beside its pixels.
constexpr std::size_t kMostFrames = 8192;

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

std::int64_t InstanceNumbers::take(int series, std::int64_t wanted, std::int64_t count) {
  if (given_.size() == kMostRanges)
    for (const auto& [first, beyond] : std::exchange(given_, {})) lowest_ = std::max(lowest_, beyond);
  wanted = std::max(wanted, lowest_);
  auto after = given_.upper_bound({series, wanted});
  // The range of the series that begins before the wanted one, or there; then the next.
  const auto before = [&] {
    return after != given_.begin() && std::prev(after)->first.first == series ? std::prev(after) : given_.end();
  };
  const auto next_begins_before = [&](std::int64_t end) {
    return after != given_.end() && after->first < std::pair(series, end);
  };
  if ((before() != given_.end() && before()->second > wanted) || next_begins_before(wanted + count)) {
    after = given_.upper_bound({series, std::numeric_limits<std::int64_t>::max()});
    wanted = before()->second;
  }
  std::int64_t end = wanted + count;
  if (next_begins_before(end + 1)) {
    end = after->second;
    after = given_.erase(after);
  }
  if (before() != given_.end() && before()->second == wanted)
    before()->second = end;
  else
    given_.emplace_hint(after, std::pair(series, wanted), end);
  return wanted;
}

std::string DicomScan::add(const protocol::Image& image) { return output_.add(shared_from_this(), image); }

std::size_t DicomScan::own_bytes() const {
  constexpr std::size_t kTexts = 4096;  // of the study, each of which is short
  const auto bytes_of = [](const std::vector<double>& numbers) { return numbers.capacity() * sizeof(double); };
  const std::size_t keys = (enhanced_peers_.empty() ? 1 : 2) * key_.size() + study_.key.size();  // whole texts
  return sizeof(DicomScan) + kTexts + keys + client_.size() + encodings_.size() * sizeof(protocol::Encoding) +
         bytes_of(study_.tr_ms) + bytes_of(study_.te_ms) + bytes_of(study_.ti_ms) + bytes_of(study_.flip_deg);
}

DicomOutput::DicomOutput(const config::DicomOptions& options, std::shared_ptr<QueueMemory> memory,
                         const MakeDicomLink& links)
    : options_(options),
      most_bytes_(static_cast<std::size_t>(options.queue_mib) << 20),
      memory_(std::move(memory)),
      queue_(most_bytes_),
      share_(memory_) {
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

bool DicomOutput::finish(Clock::time_point until) {
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(finished_, true)) return all_ended_;
    finishing_ = true;
    until_ = until;
  }
  work_.notify_all();
  converter_.join();
  for (const auto& sender : senders_) sender->stop();
  const Clock::time_point over = Clock::now() + kGoodbye;
  const auto ended = [](const auto& sender) { return sender->stopped(); };
  while (!std::all_of(senders_.begin(), senders_.end(), ended) && Clock::now() < over)
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
                                             const ScanHeader& header, const std::string& pipeline_text,
                                             const std::string& occasion, const ImageOwner& owner) {
  std::vector<std::string> all = options_.send_to;
  for (const std::string& peer : peers)
    if (std::find(all.begin(), all.end(), peer) == all.end()) all.push_back(peer);
  if (all.empty()) return nullptr;
  std::shared_ptr<DicomScan> scan(new DicomScan(*this, log, memory_));
  for (std::string& peer : all) {
    const bool enhanced = std::any_of(senders_.begin(), senders_.end(),
                                      [&](const auto& sender) { return sender->name() == peer && sender->enhanced(); });
    (enhanced ? scan->enhanced_peers_ : scan->peers_).push_back(std::move(peer));
  }
  const std::string& client = owner.client.empty() ? owner.identity : owner.client;
  scan->client_ = client;
  if (!client.empty()) scan->owner_ = spool_->owner(client);
  std::string whose = owner.data;
  if (whose.empty() && !owner.identity.empty()) whose = spool_->owner(owner.identity);
  scan->study_ = protocol::dicom::make_study(header.study, options_.patient, header.xml, occasion, whose);
  scan->key_ = std::string(ECHOTRAIN_VERSION "\n") + pipeline_text;
  if (!header.encodings.empty()) scan->encodings_ = {header.encodings.front()};  // instance_number() looks at no other
  scan->share_.set(scan->own_bytes());
  // Whoever has it gives images; queue and converter have it by another owner, and so know when no more will come.
  DicomScan* const bare = scan.get();
  return {bare, [this, scan = std::move(scan)](DicomScan*) mutable { end(std::move(scan)); }};
}

void DicomOutput::end(std::shared_ptr<DicomScan> scan) {
  if (scan->enhanced_peers_.empty()) return;
  {
    const std::scoped_lock lock(mutex_);
    if (finished_) return;  // the converter gives what it has by itself
    put_in_line(Conversion(std::move(scan)));
  }
  work_.notify_one();
}

/// Puts work behind all else of its client. The lock is held, as for count().
void DicomOutput::put_in_line(Conversion&& work) {
  DicomScan& scan = *work.scan;
  if (scan.in_line_++ == 0) work.bytes += scan.own_bytes();  // it lives as long as what waits
  queue_.push(scan.client_, std::move(work));
  count();
}

void DicomOutput::count() { share_.set(queue_.bytes() + kept_bytes_ + busy_bytes_); }

/// What the converter takes beside what waits and what is kept, as long as this lives.
class DicomOutput::Busy {
 public:
  Busy(DicomOutput& output, std::size_t bytes) : output_(output) { set(bytes); }
  ~Busy() { set(0); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  void set(std::size_t bytes) {
    const std::scoped_lock lock(output_.mutex_);
    output_.busy_bytes_ = bytes;
    output_.count();
  }
  DicomOutput& output_;
};

namespace {
/// About what an image's files will take.
std::size_t spool_bytes_of(const protocol::Image& image) {
  constexpr std::size_t kBesidesPixels = 4096;
  const protocol::ImageHeader& head = image.head;
  const bool is_short = head.data_type == ISMRMRD::ISMRMRD_USHORT || head.data_type == ISMRMRD::ISMRMRD_SHORT;
  return image.pixels.bytes.size() / (is_short ? 1 : 2) +
         kBesidesPixels * std::max<std::size_t>(1, head.matrix_size[2]);
}

/// What a channel of an image, as a file's pixels, takes; and while it is made: floats, magnitudes and copies.
std::size_t stored_bytes_of(const protocol::Image& image) {
  return image.pixels.bytes.size() / std::max<std::size_t>(1, image.head.channels);
}
std::size_t busy_bytes_of(const protocol::Image& image) {
  return 6 * stored_bytes_of(image) + protocol::bytes_to_read_meta(image.attributes);
}
}  // namespace

std::string DicomOutput::add(std::shared_ptr<DicomScan> scan, const protocol::Image& image) {
  const numerics::HeapScope uncharged(nullptr);  // the queue counts what waits
  DicomScan& of = *scan;                         // whoever adds has it, too
  Conversion work(std::move(scan), image);
  if (!of.enhanced_peers_.empty()) work.bytes += protocol::dicom::EnhancedImages::bytes_of(image);
  const std::size_t in_spool = spool_bytes_of(image);
  std::size_t to_come = in_spool;
  std::string trouble;
  {
    const std::scoped_lock lock(mutex_);
    to_come += of.waiting_bytes_;
  }
  // Room is asked for before the image is in the queue: it may be in the spool a moment later, and would count twice.
  const std::string why_not = no_room(of, to_come);
  {
    const std::scoped_lock lock(mutex_);
    if (finishing_ || (!queue_.empty() && !queue_.fits(of.client_, work.bytes, kept_bytes_))) {
      dropped_ += of.peers_.size() + of.enhanced_peers_.size();
      const std::string why = fmt::format(
          "an image is not sent to DICOM peers: {} MiB of images wait to be written to the spool, and what is left is "
          "for others (dicom.queue_mib)",
          (queue_.bytes() + kept_bytes_) >> 20);
      if (!std::exchange(of.told_full_, true)) of.log_.error("{}; further ones are only counted", why);
      return why + "; send the scan again later";
    }
    of.waiting_bytes_ += in_spool;
    trouble = of.trouble_;
    put_in_line(std::move(work));
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
    if (queue_.empty() || Clock::now() > until_) break;
    take_turn(lock);
  }
  lock.unlock();
  write_rest();
}

/// Writes the objects that are kept, as long as there is time, and counts what is not written. That stays where it is:
/// freeing much takes long.
void DicomOutput::write_rest() {
  std::size_t lost = 0;
  {
    const std::scoped_lock lock(mutex_);
    queue_.each([&](const Conversion& left) {
      if (left.image)
        lost += left.scan->peers_.size() + left.scan->enhanced_peers_.size();
      else if (left.scan->enhanced_)
        keeping_.insert(left.scan);
    });
  }
  for (const auto& scan : keeping_) {
    scan->enhanced_->close();
    while (Clock::now() <= until_ && give_object(*scan)) {
    }
    if (scan->enhanced_->has_closed()) lost += scan->enhanced_peers_.size();
  }
  if (lost == 0) return;
  write_log(LogLevel::error,
            fmt::format("{} images, or objects of several, are not sent to DICOM peers: the server ends "
                        "before they are in the spool",
                        lost));
  const std::scoped_lock lock(mutex_);
  dropped_ += lost;
}

void DicomOutput::take_turn(std::unique_lock<std::mutex>& lock) {
  const Clock::time_point until = Clock::now() + kTurn;
  const std::string* const whose = queue_.whose();
  while (queue_.whose() == whose) {
    Conversion& work = queue_.front();
    lock.unlock();
    bool done = false;
    do done = convert_some(work);
    while (!done && Clock::now() < until);
    lock.lock();
    if (done) retire(work, lock);
    if (Clock::now() < until) continue;
    if (queue_.whose() == whose) queue_.pass();
    return;
  }
}

void DicomOutput::retire(const Conversion& work, std::unique_lock<std::mutex>& lock) {
  std::optional<Conversion> done = queue_.pop(work);
  --done->scan->in_line_;
  if (done->image && !done->framed) done->scan->waiting_bytes_ -= spool_bytes_of(*done->image);
  lock.unlock();
  done.reset();  // lets the pixels go before they are counted as gone
  lock.lock();
  count();
}

/// Takes one step, of an instance at most. Returns whether it was the last.
bool DicomOutput::convert_some(Conversion& work) {
  DicomScan& scan = *work.scan;
  if (!work.image) {
    keeping_.erase(work.scan);
    if (!scan.enhanced_) return true;
    scan.enhanced_->close();
    return !give_object(scan);
  }
  if (!scan.enhanced_peers_.empty() && !std::exchange(work.framed, true)) {
    keep_frames(work);
    return false;
  }
  if (scan.enhanced_ && scan.enhanced_->has_closed()) {
    give_object(scan);
    return false;
  }
  return scan.peers_.empty() || !make_file(work);
}

/// Makes the next file of an image. False: there is none.
bool DicomOutput::make_file(Conversion& work) {
  DicomScan& scan = *work.scan;
  try {
    const protocol::ImageHeader& head = work.image->head;
    const Busy busy(*this, busy_bytes_of(*work.image));
    if (!work.files) {
      constexpr std::size_t kBesidePixels = 64 << 10;  // what is told of the image, planes and parts
      {
        const std::scoped_lock lock(mutex_);
        queue_.count_as(work, work.bytes + stored_bytes_of(*work.image) + scan.key_.size() + kBesidePixels);
      }
      const std::int64_t number = scan.numbers_.take(head.image_series_index, instance_number(head, scan.encodings_),
                                                     std::max<std::int64_t>(1, head.matrix_size[2]));
      scan.share_.set(scan.own_bytes() + scan.numbers_.bytes());
      work.files.emplace(*work.image, protocol::dicom::Reconstruction{scan.study_, scan.key_}, number);
    }
    const std::optional<protocol::dicom::Instance> one = work.files->next();
    if (one) spool(scan, scan.peers_, one->bytes);
    return one.has_value();
  } catch (const std::exception& error) {
    fail(scan, scan.peers_.size(), error);
    return false;
  }
}

/// Adds an image to the objects of its scan.
void DicomOutput::keep_frames(Conversion& work) {
  using protocol::dicom::EnhancedImages;
  DicomScan& scan = *work.scan;
  const std::size_t expected = EnhancedImages::bytes_of(*work.image);
  {
    const std::scoped_lock lock(mutex_);
    queue_.count_as(work, work.bytes - expected);
    scan.framed_bytes_ += spool_bytes_of(*work.image);
  }
  const Busy busy(*this, busy_bytes_of(*work.image));
  try {
    if (!scan.enhanced_)
      scan.enhanced_ =
          std::make_unique<EnhancedImages>(protocol::dicom::Reconstruction{scan.study_, scan.key_}, kMostFrames);
    const std::size_t before = scan.enhanced_->bytes();
    scan.enhanced_->add(*work.image);
    keep(before, scan.enhanced_->bytes());
  } catch (const std::exception& error) {
    return fail(scan, scan.enhanced_peers_.size(), error);
  }
  keeping_.insert(work.scan);
  close_largest();
}

/// Where what is kept is more than half of the queue, closes objects of the client that keeps most, its largest scan
/// first: another's object goes on.
void DicomOutput::close_largest() {
  std::map<std::string, std::size_t> of_client;
  std::size_t all = 0;
  for (const auto& scan : keeping_) {
    of_client[scan->client_] += scan->enhanced_->bytes();
    all += scan->enhanced_->bytes();
  }
  if (all <= most_bytes_ / 2) return;
  const auto order = [&](const auto& scan) { return std::pair(of_client[scan->client_], scan->enhanced_->bytes()); };
  const auto largest = std::max_element(keeping_.begin(), keeping_.end(),
                                        [&](const auto& a, const auto& b) { return order(a) < order(b); });
  const std::scoped_lock lock(mutex_);
  ++(*largest)->in_line_;
  queue_.push_front((*largest)->client_, Conversion(*largest));
  count();
  keeping_.erase(largest);
}

/// Gives an object of those that a scan has closed. False: there is none.
bool DicomOutput::give_object(DicomScan& scan) {
  const std::size_t before = scan.enhanced_->bytes();
  bool given = true;
  const Busy busy(*this, scan.enhanced_->bytes_to_make());
  try {
    const std::optional<protocol::dicom::Instance> one = scan.enhanced_->next();
    given = one.has_value();
    if (given) spool(scan, scan.enhanced_peers_, one->bytes);
  } catch (const std::exception& error) {
    fail(scan, scan.enhanced_peers_.size(), error);
  }
  const std::size_t after = scan.enhanced_->bytes();
  keep(before, after);
  const std::scoped_lock lock(mutex_);
  const double left = before > 0 ? static_cast<double>(after) / static_cast<double>(before) : 0;
  const std::size_t framed = static_cast<std::size_t>(static_cast<double>(scan.framed_bytes_) * left);
  scan.waiting_bytes_ -= std::exchange(scan.framed_bytes_, framed) - framed;
  return given;
}

/// Counts what a scan keeps in memory.
void DicomOutput::keep(std::size_t before, std::size_t after) {
  const std::scoped_lock lock(mutex_);
  kept_bytes_ = kept_bytes_ - before + after;
  count();
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
  return queue_.bytes() + kept_bytes_;
}

}  // namespace echotrain::server
