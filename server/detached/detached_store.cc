#include "server/detached/detached_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "protocol/data/message_id.h"
#include "server/base/log.h"
#include "server/capture/capture_files.h"
#include "server/capture/capture_stream.h"

namespace echotrain::server {

namespace fs = std::filesystem;
using protocol::MessageId;

namespace {

constexpr std::size_t kMostAtWork = 256;  // each has a thread
constexpr int kTurns = 2;                 // scans without a client that run at a time beside live ones
constexpr std::chrono::seconds kBetweenPrunings{20}, kBetweenTries{1};
constexpr std::chrono::seconds kLongestBeginning{10};  // until the head of a scan is on the disk

config::CaptureOptions journal_options(const config::DetachedOptions& options) {
  config::CaptureOptions out;
  out.directory = options.directory;
  out.sync = config::CaptureOptions::Sync::periodic;
  out.queue_mib = 16;
  out.max_mib = options.max_gib << 10;
  out.reserve_mib = options.reserve_mib;
  return out;
}

std::uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(file, error);
  return error ? 0 : size;
}

/// Opens a file of a scan; a negative one: it is not there. std::system_error: its files must stay as they are.
Descriptor open_to_read(const fs::path& file, std::uint64_t& size) {
  Descriptor out(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (out.get() < 0 && errno == ENOENT) return out;
  struct stat status {};
  if (out.get() < 0 || ::fstat(out.get(), &status) != 0)
    throw std::system_error(errno, std::generic_category(), file.filename().string());
  size = static_cast<std::uint64_t>(status.st_size);
  return out;
}

/// The whole messages of a journal: `head` up to the header. A partial one at its end was cut off by a kill. An error
/// keeps what was acknowledged from being cut: std::exception. `stop`: what it returns is of no use.
DetachedScan::Found read_journal(const fs::path& file, const protocol::Limits& limits, const std::atomic<bool>& stop) {
  DetachedScan::Found found;
  std::uint64_t size = 0;
  const Descriptor journal = open_to_read(file, size);
  if (journal.get() < 0) return found;
  CaptureStream stream(journal.get(), size, limits);
  for (auto message = stream.next(); message && !found.closed && !stop; message = stream.next()) {
    found.journal_bytes = message->offset + message->size;
    if (found.head_bytes == 0) {
      if (static_cast<MessageId>(message->id) == MessageId::header) found.head_bytes = found.journal_bytes;
      continue;
    }
    ++found.messages;
    found.closed = static_cast<MessageId>(message->id) == MessageId::close;
  }
  if (stream.read_failed() || (found.head_bytes > 0 && !stream.problem().empty() && !stream.cut_off()))
    throw std::runtime_error(file.filename().string() + ": " + stream.problem());
  return found;
}

void read_results(const fs::path& file, const protocol::Limits& limits, const std::atomic<bool>& stop,
                  DetachedScan::Found& found) {
  std::uint64_t size = 0;
  const Descriptor results = open_to_read(file, size);
  if (results.get() < 0) return;
  CaptureStream stream(results.get(), size, limits);
  for (auto message = stream.next(); message && !stop; message = stream.next()) {
    found.results_bytes = message->offset + message->size;
    found.images += static_cast<MessageId>(message->id) == MessageId::image ? 1 : 0;
  }
  if (stream.read_failed()) throw std::runtime_error(file.filename().string() + ": " + stream.problem());
}

/// Waits until the head of a new scan is safe. Returns why it is not, or nothing.
std::string why_not_begun(DetachedScan& scan) {
  const Clock::time_point last = Clock::now() + kLongestBeginning;
  for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    const DetachedScan::View now = scan.look();
    if (now.begun) return {};
    if (!now.problem.empty()) return now.problem;
    if (scan.stopping()) return "the server is shutting down";
    if (Clock::now() > last) return "the disk does not answer";
  }
}

}  // namespace

DetachedStore::DetachedStore(const config::DetachedOptions& options, std::shared_ptr<QueueMemory> memory,
                             const protocol::Limits& limits, Disk disk, Clock::duration ages)
    : options_(options), memory_(std::move(memory)), disk_(std::move(disk)), folder_(options.directory), ages_(ages) {
  common_.folder = folder_;
  common_.limits = limits;
  common_.reserve_bytes = static_cast<std::uint64_t>(options.reserve_mib) << 20;
  common_.free_bytes = disk_.free ? disk_.free : free_bytes;
  common_.sync = disk_.sync ? disk_.sync : ::fdatasync;
  common_.make_room = [this](const Identity& of) {
    Scan goes;
    {
      const std::scoped_lock lock(mutex_);
      goes = delivered_of(of);
    }
    if (goes) remove(goes);
    return goes != nullptr;
  };
  common_.resume_within = seconds(options.resume_within_s);
  common_.take_turn = [this](Clock::duration waited) { return take_turn(waited); };
  common_.end_turn = [this] {
    const std::scoped_lock lock(mutex_);
    --turns_;
  };
}

DetachedStore::~DetachedStore() { finish(); }

void DetachedStore::serve(AddDetachedSession add_session, std::function<bool()> live_waits) {
  common_.add_session = std::move(add_session);
  live_waits_ = std::move(live_waits);
  {
    const std::scoped_lock lock(mutex_);
    serving_ = true;
  }
  housekeeper_ = std::thread([this] { keep_house(); });
}

// Makes the folder where need be, and takes it for this process: two would run the same scans.
std::string DetachedStore::open_folder(bool make) {
  const std::scoped_lock lock(folder_mutex_);
  if (journals_) return {};
  try {
    if (make) prepare_capture_directory(folder_, "detached.directory");
    Descriptor mine(::open((folder_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
    if (mine.get() < 0) return fmt::format("{}: {}", folder_.string(), system_text(errno));
    if (::flock(mine.get(), LOCK_EX | LOCK_NB) != 0) {
      elsewhere_ = true;
      return fmt::format("another server uses {} (detached.directory)", folder_.string());
    }
    auto journals = std::make_unique<CaptureStore>(journal_options(options_), memory_, disk_, "detached");
    lock_ = std::move(mine);
    journals_ = std::move(journals);
    common_.captures = journals_.get();
    list();
    opened_ = true;
    elsewhere_ = false;  // now that it is known what is there
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

void DetachedStore::list() {
  std::vector<ScanRecord> records;
  std::vector<std::string> lone;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string(), id = name.substr(0, name.find('.'));
    if (!is_scan_id(id)) continue;
    if (name == record_name(id)) {
      if (auto record = read_record(entry->path()))
        records.push_back(*std::move(record));
      else
        write_log(LogLevel::error, fmt::format("detached scan {}: its record cannot be read; its files stay", id));
    } else if (std::error_code unknown; !fs::exists(folder_ / record_name(id), unknown) && !unknown) {
      lone.push_back(name);  // of a scan of which no client has heard, or of a record that was being written
    }
  }
  for (const std::string& name : lone) ::unlink((folder_ / name).c_str());
  for (ScanRecord& record : records) {
    if (!record.end.empty() && record.keep_until <= unix_now()) {
      remove_scan_files(folder_, record.id);
      continue;
    }
    DetachedScan::Found found;
    found.messages = record.received;
    found.journal_bytes = size_of(folder_ / journal_name(record.id));
    found.images = record.images;
    found.results_bytes = record.end.empty() ? size_of(folder_ / results_name(record.id)) : record.results_bytes;
    const std::scoped_lock lock(mutex_);
    const std::string id = record.id;
    std::shared_ptr<ClientBytes> of_client = bytes_of(record.identity);
    if (!record.end.empty()) {
      scans_[id] = std::make_shared<DetachedScan>(common_, std::move(record), found, std::move(of_client));
      continue;
    }
    const std::uint64_t bytes = found.journal_bytes + found.results_bytes;
    of_client->add(bytes);
    unread_[id] = {std::move(record), std::move(of_client), bytes};
  }
}

// Reads the journals of scans that have not ended, which may take long.
void DetachedStore::take_up() {
  for (;;) {
    ScanRecord record;
    {
      const std::scoped_lock lock(mutex_);
      if (stopping_ || unread_.empty()) return;
      const auto wanted = unread_.find(wanted_);
      record = (wanted == unread_.end() ? unread_.begin() : wanted)->second.record;
    }
    try {
      take_up(record);
    } catch (const std::exception& problem) {
      write_log(LogLevel::error,
                fmt::format("detached scan {} cannot be read; its files stay: {}", record.id, problem.what()));
    }
    if (stopping_) return;
    const std::scoped_lock lock(mutex_);
    if (const auto read = unread_.extract(record.id)) read.mapped().of_client->give_back(read.mapped().bytes);
  }
}

void DetachedStore::take_up(const ScanRecord& record) {
  DetachedScan::Found found = read_journal(folder_ / journal_name(record.id), common_.limits, stopping_);
  if (stopping_) return;
  if (found.head_bytes == 0) return remove_scan_files(folder_, record.id);
  read_results(folder_ / results_name(record.id), common_.limits, stopping_, found);
  if (stopping_) return;
  std::shared_ptr<ClientBytes> of_client;
  {
    const std::scoped_lock lock(mutex_);
    of_client = bytes_of(record.identity);
  }
  const auto scan = std::make_shared<DetachedScan>(common_, record, found, std::move(of_client));
  const std::scoped_lock lock(mutex_);
  scans_[record.id] = scan;
  write_log(LogLevel::info,
            fmt::format("detached scan {} goes on: {} messages are there, {} images are made{}", record.id,
                        found.messages, found.images, found.closed ? "" : "; it waits for its client"));
  scan->start();
  if (stopping_) scan->stop();
}

std::string DetachedStore::why_unknown(const std::string& id) {
  if (elsewhere_) return fmt::format("another server uses {} (detached.directory)", folder_.string());
  const std::scoped_lock lock(mutex_);
  if (serving_ && !looked_ && !opened_) return "the server has not read its detached scans yet";
  if (!unread_.contains(id)) return {};
  wanted_ = id;
  return "the server has not read this scan yet";
}

// With the lock held.
std::shared_ptr<ClientBytes> DetachedStore::bytes_of(const Identity& identity) {
  std::erase_if(clients_, [](const auto& each) { return each.second.expired(); });
  std::weak_ptr<ClientBytes>& known = clients_[identity.part];
  std::shared_ptr<ClientBytes> bytes = known.lock();
  if (!bytes) known = bytes = std::make_shared<ClientBytes>(static_cast<std::uint64_t>(options_.max_gib) << 30);
  return bytes;
}

// With the lock held: the oldest scan of the client that it has all of; null: none.
DetachedStore::Scan DetachedStore::delivered_of(const Identity& identity) const {
  Scan oldest;
  for (const auto& [id, scan] : scans_)
    if (scan->may_go() && scan->record().identity.part == identity.part &&
        (!oldest || scan->record().begun < oldest->record().begun))
      oldest = scan;
  return oldest;
}

// With the lock held.
std::string DetachedStore::why_no_room(const NewScan& scan) {
  if (!serving_) return "this server serves one session";
  if (stopping_) return "the server is shutting down";
  std::int64_t mine = 0;
  std::size_t at_work = 0;
  for (const auto& [id, each] : scans_) {
    mine += each->record().identity.part == scan.identity.part ? 1 : 0;
    at_work += DetachedScan::is_end(each->look().state) ? 0 : 1;
  }
  for (const auto& [id, each] : unread_) mine += each.record.identity.part == scan.identity.part ? 1 : 0;
  at_work += unread_.size();
  if (mine >= options_.max_scans)
    return fmt::format(
        "busy: {} detached scans of this client are here (detached.max_scans); cancel one that is no "
        "longer needed",
        mine);
  if (at_work >= kMostAtWork) return fmt::format("busy: {} detached scans of all clients have not ended", at_work);
  if (bytes_of(scan.identity)->left() < scan.config.size() + scan.header.size() + (1 << 20))
    return fmt::format(
        "busy: the detached scans of this client have {} GiB (detached.max_gib); cancel one that is no "
        "longer needed",
        options_.max_gib);
  return {};
}

protocol::Result<std::shared_ptr<DetachedScan>> DetachedStore::create(NewScan scan) {
  const auto refused = [](std::string why) { return protocol::Error{"detached", std::move(why)}; };
  if (scan.asked && !options_.allow)
    return refused("this server detaches no scan because its client asks (detached.allow)");
  if (std::string problem = open_folder(true); !problem.empty()) return refused(std::move(problem));
  std::unique_lock making(making_mutex_);
  std::shared_ptr<ClientBytes> of_client;
  for (std::string why;;) {
    Scan goes;
    {
      const std::scoped_lock lock(mutex_);
      of_client = bytes_of(scan.identity);
      why = why_no_room(scan);
      if (!why.empty()) goes = delivered_of(scan.identity);
    }
    if (why.empty()) break;
    if (!goes) return refused(std::move(why));
    remove(goes);
  }
  ScanRecord record;
  record.id = new_scan_id();
  record.pipeline = scan.pipeline;
  record.identity = scan.identity;
  record.peer = scan.peer;
  record.granted = scan.granted;
  record.occasion = scan.occasion;
  record.begun = unix_now();
  record.keep_h = std::min(scan.spec.keep_h, options_.max_keep_h);
  record.to_client = scan.spec.to_client;
  record.to_dicom = scan.spec.to_dicom;
  record.power = scan.spec.power;
  housework_.notify_all();  // should the folder have been opened just now
  try {
    const auto made = std::make_shared<DetachedScan>(common_, record, DetachedScan::Found{}, of_client);
    std::vector<std::byte> head = std::move(scan.config);
    head.insert(head.end(), scan.header.begin(), scan.header.end());
    made->begin(protocol::Payload::take(std::move(head)));
    if (std::string problem = write_record(folder_, record, record.power); !problem.empty()) {
      remove_scan_files(folder_, record.id);
      return refused(std::move(problem));
    }
    made->start();
    {
      const std::scoped_lock lock(mutex_);
      scans_[record.id] = made;
      if (stopping_) made->stop();
    }
    making.unlock();
    std::string problem = why_not_begun(*made);
    if (problem.empty()) return made;
    made->join(true);
    remove(made);
    return refused("the raw data cannot be kept: " + problem);
  } catch (const std::exception& error) {
    remove_scan_files(folder_, record.id);
    return refused(error.what());
  }
}

std::shared_ptr<DetachedScan> DetachedStore::find(const std::string& id, const Identity& identity) const {
  const std::scoped_lock lock(mutex_);
  const auto found = scans_.find(id);
  return found != scans_.end() && found->second->record().identity.text == identity.text ? found->second : nullptr;
}

std::string DetachedStore::json(const Identity* of) const {
  std::vector<std::pair<std::int64_t, Scan>> wanted;
  std::vector<ScanRecord> unread;
  const auto is_wanted = [of](const ScanRecord& record) { return of == nullptr || record.identity.text == of->text; };
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, scan] : scans_)
      if (const ScanRecord record = scan->record(); is_wanted(record)) wanted.emplace_back(record.begun, scan);
    for (const auto& [id, each] : unread_)
      if (is_wanted(each.record) && !scans_.contains(id)) unread.push_back(each.record);
  }
  std::stable_sort(wanted.begin(), wanted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string out = "[";
  const auto add = [&out](const std::string& facts) {
    if (out.size() > 1) out += ',';
    out += facts;
  };
  for (const auto& [begun, scan] : wanted) add(scan->json());
  for (const ScanRecord& record : unread)
    add(json_of(record, DetachedScan::State::waiting, record.received, record.images,
                "its files are being read since the server's start"));
  out += ']';
  return out;
}

bool DetachedStore::cancel(const std::string& id, const Identity* of) {
  Scan scan;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = scans_.find(id);
    if (found == scans_.end() || (of != nullptr && found->second->record().identity.text != of->text)) return false;
    scan = found->second;
  }
  if (DetachedScan::is_end(scan->look().state))
    remove(scan);
  else
    scan->cancel();
  return true;
}

DetachedStore::Counts DetachedStore::counts() const {
  using State = DetachedScan::State;
  Counts counts;
  for (const State each : {State::receiving, State::waiting, State::running, State::done, State::failed,
                           State::incomplete, State::cancelled})
    counts.scans[std::string(DetachedScan::to_string(each))] = 0;
  const std::scoped_lock lock(mutex_);
  for (const auto& [id, scan] : scans_) {
    ++counts.scans[std::string(DetachedScan::to_string(scan->look().state))];
    counts.bytes += scan->bytes();
  }
  counts.scans[std::string(DetachedScan::to_string(State::waiting))] += unread_.size();
  for (const auto& [id, each] : unread_) counts.bytes += each.bytes;
  return counts;
}

void DetachedStore::stop() {
  const std::scoped_lock lock(mutex_);
  stopping_ = true;
  for (const auto& [id, scan] : scans_) scan->stop();
}

void DetachedStore::finish() {
  std::map<std::string, Scan> scans;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  housework_.notify_all();
  if (housekeeper_.joinable()) housekeeper_.join();
  {
    const std::scoped_lock lock(mutex_);
    scans = scans_;
  }
  for (const auto& [id, scan] : scans) scan->stop();
  for (const auto& [id, scan] : scans) scan->join(true);
  scans.clear();
  const std::scoped_lock folder(folder_mutex_);
  if (!journals_) return;
  {
    const std::scoped_lock lock(mutex_);
    scans_.clear();
  }
  journals_->finish();
}

// A scan whose client is gone goes behind live ones, for a while.
bool DetachedStore::take_turn(Clock::duration waited) {
  const bool aged = waited > ages_;
  if (!aged && live_waits_ && live_waits_()) return false;
  const std::scoped_lock lock(mutex_);
  if (stopping_ || turns_ >= kTurns) return false;
  ++turns_;
  return true;
}

void DetachedStore::keep_house() {
  std::string told;
  while (!stopping_) {
    if (std::error_code error; !opened_ && fs::is_directory(folder_, error)) {
      std::string problem = open_folder(false);
      if (!problem.empty() && problem != told) write_log(LogLevel::warning, "no detached scans: " + problem);
      if (problem.empty() && !told.empty())
        write_log(LogLevel::info, fmt::format("{} is this server's now (detached.directory)", folder_.string()));
      told = std::move(problem);
    }
    {
      const std::scoped_lock lock(mutex_);
      looked_ = true;
    }
    take_up();
    prune();
    std::unique_lock lock(mutex_);
    housework_.wait_for(lock, elsewhere_ ? kBetweenTries : kBetweenPrunings,
                        [this] { return stopping_ || !unread_.empty(); });
  }
}

void DetachedStore::prune() {
  std::vector<Scan> ended;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, scan] : scans_)
      if (scan->thread_ended()) ended.push_back(scan);
  }
  const std::int64_t now = unix_now();
  for (const Scan& scan : ended) {
    scan->join(false);
    if (const ScanRecord record = scan->record(); !record.end.empty() && record.keep_until <= now) remove(scan);
  }
}

// Clients that read its results keep the file open.
void DetachedStore::remove(const Scan& scan) {
  {
    const std::scoped_lock lock(mutex_);
    scans_.erase(scan->id());
  }
  scan->is_removed();
  remove_scan_files(folder_, scan->id());
  write_log(LogLevel::info, fmt::format("detached scan {} is removed", scan->id()));
}

}  // namespace echotrain::server
