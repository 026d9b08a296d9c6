#include "gadgets/steps/warm_modules.h"

#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace echotrain {
namespace {

constexpr std::chrono::seconds kInterval{1};  // of looks at the processes, and before one is started

/// True if all files are as runner.py has found them: path, time of change [ns] and size, each with a 0 at its end.
bool unchanged(std::string_view files) {
  const auto next = [&files] {
    const std::string text(files.substr(0, files.find('\0')));
    files.remove_prefix(std::min(files.size(), text.size() + 1));
    return text;
  };
  while (!files.empty()) {
    const std::string path = next(), time = next(), size = next();
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return false;
    const std::int64_t ns = std::int64_t{1000000000} * found.st_mtim.tv_sec + found.st_mtim.tv_nsec;
    if (std::to_string(ns) != time || std::to_string(found.st_size) != size) return false;
  }
  return true;
}

}  // namespace

bool WarmModules::Kind::is(const PythonStart& other, const std::vector<std::string>& more) const {
  return start.module == other.module && start.function == other.function && start.threads == other.threads &&
         arguments == more;
}

WarmModules::WarmModules(numerics::Resources& resources)
    : budget_(resources.memory()), most_(static_cast<std::size_t>(resources.get<StepSettings>().warm)) {
  budget_->add_evictable(*this);
}

WarmModules::~WarmModules() {
  budget_->remove_evictable(*this);
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  end(std::exchange(waiting_, {}));
}

std::optional<ModuleProcess> WarmModules::take(const StepSettings& settings, const PythonStart& start,
                                               const std::vector<std::string>& arguments) {
  std::list<Waiting> gone;
  std::optional<ModuleProcess> found;
  {
    const std::scoped_lock lock(mutex_);
    const auto known =
        std::find_if(kinds_.begin(), kinds_.end(), [&](const auto& kind) { return kind->is(start, arguments); });
    if (known == kinds_.end()) {
      kinds_.push_front(std::make_shared<Kind>(Kind{settings, start, arguments}));
      kinds_.front()->start.config.clear();
      kinds_.front()->start.warm = nullptr;
      if (kinds_.size() > most_) kinds_.pop_back();
    } else {
      kinds_.splice(kinds_.begin(), kinds_, known);
      kinds_.front()->broken = false;
    }
    gone = take_out_bad();
    const auto one = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const Waiting& each) { return each.ready && each.kind == kinds_.front(); });
    if (one != waiting_.end()) {
      found = std::move(one->process);
      budget_->give(one->bytes);  // the scan has reserved as much
      waiting_.erase(one);
    }
    if (!thread_.joinable()) thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  }
  end(std::move(gone));
  return found;
}

std::size_t WarmModules::ready() {
  const std::scoped_lock lock(mutex_);
  return static_cast<std::size_t>(
      std::count_if(waiting_.begin(), waiting_.end(), [](const Waiting& each) { return each.ready; }));
}

std::optional<std::uint64_t> WarmModules::unused_since() const {
  const std::scoped_lock lock(mutex_);
  return waiting_.empty() ? std::nullopt : std::optional(waiting_.front().since);
}

void WarmModules::evict(std::uint64_t wanted) {
  std::list<Waiting> gone;
  {
    const std::scoped_lock lock(mutex_);
    const auto bytes = [&] {
      std::uint64_t sum = 0;
      for (const Waiting& each : waiting_) sum += each.bytes;
      return sum;
    };
    while (!waiting_.empty() && bytes() > wanted) gone.splice(gone.end(), waiting_, waiting_.begin());
  }
  end(std::move(gone));
}

/// Ends processes, which takes milliseconds, without the lock.
void WarmModules::end(std::list<Waiting>&& gone) {
  while (!gone.empty()) {
    const std::uint64_t bytes = gone.front().bytes;
    gone.pop_front();
    budget_->give(bytes);
  }
}

/// Looks at all, and takes out those that have ended, whose files have changed, or that are wanted no more.
std::list<WarmModules::Waiting> WarmModules::take_out_bad() {
  std::list<Waiting> gone;
  for (auto each = waiting_.begin(); each != waiting_.end();) {
    const auto here = each++;
    if (!here->ready) {
      here->files += here->process.child->word();
      here->ready = here->files.ends_with('\1');
      if (here->ready) here->files.pop_back();
    }
    const bool ended = here->process.child->ended().has_value();
    if (ended && !here->ready) here->kind->broken = true;
    const bool known = std::find(kinds_.begin(), kinds_.end(), here->kind) != kinds_.end();
    if (ended || !known || (here->ready && !unchanged(here->files))) gone.splice(gone.end(), waiting_, here);
  }
  return gone;
}

/// The kind of which one is to be started; null: there are enough.
std::shared_ptr<WarmModules::Kind> WarmModules::wanted() const {
  if (waiting_.size() >= most_) return nullptr;
  std::shared_ptr<Kind> fewest;
  std::ptrdiff_t least = 0;
  for (const auto& kind : kinds_) {
    if (kind->broken) continue;
    const auto n =
        std::count_if(waiting_.begin(), waiting_.end(), [&](const Waiting& each) { return each.kind == kind; });
    if (!fewest || n < least) {
      fewest = kind;
      least = n;
    }
  }
  return fewest;
}

void WarmModules::work(const std::stop_token& stop) {
  for (;;) {
    std::list<Waiting> gone;
    std::shared_ptr<Kind> kind;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, stop, kInterval, [] { return false; });
      if (stop.stop_requested()) return;
      gone = take_out_bad();
      kind = wanted();
    }
    end(std::move(gone));
    const std::uint64_t bytes = kind ? kind->settings.memory_bytes : 0;
    if (!kind || !budget_->take_if_it_fits(bytes)) continue;
    try {
      Waiting made{kind, spawn_module(kind->settings, kind->start, kind->arguments, /*warm=*/true)};
      made.bytes = bytes;
      made.since = budget_->now();
      const std::scoped_lock lock(mutex_);
      waiting_.push_back(std::move(made));
    } catch (const std::exception&) {  // the module is gone, or no process can be started; the next scan will tell
      budget_->give(bytes);
      const std::scoped_lock lock(mutex_);
      kind->broken = true;
    }
  }
}

}  // namespace echotrain
