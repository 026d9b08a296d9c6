#include "clients/cpp/recon/recon_stream.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "clients/cpp/base/pipeline_files.h"
#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/connection/scan_source.h"
#include "clients/cpp/recon/recon_parts.h"
#include "gadgets/engine/host/host_parameters.h"
#include "gadgets/engine/ranked_pipeline.h"
#include "gadgets/shared/program/scan_environment.h"
#include "gadgets/shared/program/step_settings.h"
#include "protocol/data/header.h"
#include "protocol/data/pluralized.h"
#include "protocol/files/asset_folder.h"
#include "protocol/files/stream_file.h"

namespace echotrain::client {
namespace {

using namespace protocol;

constexpr std::size_t kQueuedBytes = 256 << 20;

/// The reply. A thread of its own writes it, so that an image leaves as soon as it is finished, and the thread that
/// finishes it does not wait for the reader.
class Reply {
 public:
  explicit Reply(std::FILE* out) : writer_(out), thread_([this] { run(); }) {}
  ~Reply() { end(); }
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  void add(Message&& message) {
    const std::lock_guard lock(mutex_);
    if (const auto* image = std::get_if<protocol::Image>(&message)) queued_bytes_ += image->pixels.bytes.size();
    queue_.push_back(std::move(message));
    changed_.notify_all();
  }
  /// Waits until the reader has taken enough. Throws what writing threw.
  void wait_for_room() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return queued_bytes_ < kQueuedBytes || failure_; });
    if (failure_) std::rethrow_exception(failure_);
  }
  /// Writes all that waits, and CLOSE. Throws what writing threw.
  void close() {
    add(Close{});
    end();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ended_ || !queue_.empty(); });
      if (queue_.empty() || failure_) return;
      const Message message = std::move(queue_.front());
      queue_.pop_front();
      const bool last = queue_.empty();
      lock.unlock();
      std::exception_ptr failure;
      try {
        writer_.write(message);
        if (last) writer_.flush();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      failure_ = failure;
      if (const auto* image = std::get_if<protocol::Image>(&message)) queued_bytes_ -= image->pixels.bytes.size();
      changed_.notify_all();
    }
  }

  StreamWriter writer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> queue_;
  std::size_t queued_bytes_ = 0;
  bool ended_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

config::PipelineLibrary library_of(const ReconOptions& options) {
  std::vector<std::filesystem::path> all = shipped_pipelines();
  all.insert(all.end(), options.pipelines.begin(), options.pipelines.end());
  return config::PipelineLibrary(all);
}

config::PipelineSpec named_pipeline(const std::string& name, const ReconOptions& options) {
  const config::PipelineLibrary library = library_of(options);
  if (const config::PipelineSpec* spec = library.find(name)) return *spec;
  throw std::runtime_error(
      fmt::format("the stream asks for the pipeline '{}', which is unknown here; choose one with "
                  "-c: {}",
                  printable(name, 255), fmt::join(library.names(), ", ")));
}

/// One scan: messages in, images to the reply.
class StreamRecon {
 public:
  StreamRecon(const ReconOptions& o, Reply& reply, std::ostream& err) : options_(o), reply_(reply), err_(err) {
    if (!o.config.empty()) spec_ = find_pipeline(o.config, o.pipelines);
    if (spec_) PipelinePlan::check(*spec_);
  }

  /// False after CLOSE.
  bool take(Message&& message) {
    if (std::holds_alternative<Close>(message)) return false;
    std::visit([this](auto& content) { take(content); }, message);
    return true;
  }
  /// Gives the pipeline the readouts that have arrived.
  void push() {
    reply_.wait_for_room();
    if (!batch_.empty()) pipeline_->push(std::exchange(batch_, {}));
  }
  void finish(End how) {
    push();
    if (!header_) return;
    begin();
    pipeline_->finish(how);
    pipeline_->wait();
    filter_->report();
    const PipelineCounts& counts = pipeline_->counts();
    err_ << fmt::format("{}: {}, {}, {} on {}\n", plan_->spec().name, pluralized(counts.readouts, "readout"),
                        pluralized(counts.frames, "frame"), pluralized(counts.images_out, "image"),
                        place_name(*context_, options_.followers));
  }
  /// Lets images out that were finished before a failure.
  void give_up() {
    try {
      if (pipeline_) pipeline_->wait();
    } catch (const std::exception&) {  // the first error is the one to tell
    }
  }
  bool has_header() const { return header_.has_value(); }

 private:
  void take(ConfigFile& config) {
    if (spec_) return;  // -c overrides it
    spec_ = named_pipeline(config.name, options_);
    PipelinePlan::check(*spec_);
  }
  void take(ConfigText& config) {
    const HostParameters host = read_host_parameters(config.text);
    if (host.given) host_ = host;
    if (spec_) return;
    spec_ = host.given ? named_pipeline(host.pipeline, options_)
                       : config::read_pipeline(config.text, "the stream's configuration");
    PipelinePlan::check(*spec_);
  }
  void take(HeaderText& text) {
    if (header_) throw std::runtime_error("the stream has a second header");
    if (!spec_) throw UsageError("the stream names no pipeline: choose one with -c");
    const auto header = parse_header(text.xml, {});
    if (!header) throw std::runtime_error(fmt::format("{}: {}", header.error().code, header.error().message));
    header_ = *header;
    if (!header->images_only) reply_.add(HeaderText{header->xml});
  }
  /// Starts the scan, once no more can be said about it: a host's JSON may follow the header.
  void begin() {
    if (!header_) throw std::runtime_error("the stream has data before its header");
    if (pipeline_) return;
    const HostChange change = with_host_values(*spec_, host_, Registry::builtin());
    if (!change.warning.empty()) err_ << "warning: " << change.warning << '\n';
    if (!change.set_by_host.empty() && options_.followers != nullptr)
      throw UsageError("a host's parameters are for one process, not for several ranks; choose values in a pipeline");
    plan_ = PipelinePlan::check(change.spec);
    const auto resources = std::make_shared<numerics::Resources>(options_.resources);
    resources->get<StepSettings>() = step_settings(options_.steps);
    context_ = std::make_unique<numerics::Context>(choose_backend(plan_->spec(), options_.backend), resources);
    PipelineSink sink;
    sink.image = [this, set = change.set_by_host](protocol::Image&& image, const ImageTimes& /*times*/) {
      note_parameters(image.attributes, set);
      reply_.add(std::move(image));
    };
    sink.text = [this](Level level, const std::string& line) { err_ << level_name(level) << ": " << line << '\n'; };
    context_->cache<ScanEnvironment>().host_json = change.used.json;
    filter_.emplace(*header_, err_);
    pipeline_ = std::make_unique<RankedPipeline>(
        options_.followers, plan_, *context_, std::move(sink),
        [this](const std::string& name) { return protocol::AssetFolder(options_.assets).images(name); });
    pipeline_->start(*header_);
  }
  void take(Acquisition& readout) {
    begin();
    if (filter_->keeps(readout)) batch_.push_back(std::move(readout));
  }
  void take(protocol::Waveform& waveform) {
    begin();
    push();
    pipeline_->push(std::move(waveform));
  }
  void take(protocol::Image& image) {
    begin();
    push();
    if (const auto reason = check_attributes(image, {})) {
      err_ << "warning: " << reason->message << "; the image is kept without them\n";
      image.attributes.clear();
    }
    pipeline_->push(std::move(image));
  }
  void take(Text& text) {
    const bool first = header_ && !std::exchange(text_came_, true);
    const HostParameters host = first ? read_host_parameters(text.text) : HostParameters();
    if (!host.given) {
      err_ << "the stream says: " << printable(text.text) << '\n';
      return;
    }
    if (pipeline_) {
      err_ << "warning: the host's parameters came after data, and change nothing\n";
      return;
    }
    const bool other = options_.config.empty() && !host.pipeline.empty() && choose_other(host.pipeline);
    host_ = other ? host : later(host_, host);
  }
  /// True if the host's text names another pipeline than the one that was chosen first.
  bool choose_other(const std::string& name) {
    const config::PipelineLibrary library = library_of(options_);
    const config::PipelineSpec* named = library.find(name);
    if (named == nullptr)
      err_ << fmt::format("warning: the host asks for the pipeline '{}', which is unknown here; staying with '{}'\n",
                          printable(name, 255), spec_->name);
    if (named == nullptr || named->name == spec_->name) return false;
    spec_ = *named;
    return true;
  }
  void take(Query& query) { err_ << "left out: query '" << printable(query.name) << "'\n"; }
  void take(Response& /*response*/) {}
  void take(Close& /*close*/) {}
  const ReconOptions& options_;
  Reply& reply_;
  std::ostream& err_;
  std::optional<config::PipelineSpec> spec_;  // before a host's values
  std::optional<Header> header_;
  HostParameters host_;
  bool text_came_ = false;  // after the header
  std::shared_ptr<const PipelinePlan> plan_;
  std::unique_ptr<numerics::Context> context_;
  std::unique_ptr<RankedPipeline> pipeline_;
  std::optional<ReadoutFilter> filter_;
  std::vector<Acquisition> batch_;
};

/// Takes messages until CLOSE (true) or the end of the stream. All messages that arrive together go on together.
bool read_stream(int in, MessageBuffer& buffer, StreamRecon& recon) {
  for (;;) {
    const auto room = buffer.prepare();
    const ssize_t n = ::read(in, room.data(), room.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw std::system_error(errno, std::generic_category(), "cannot read the stream");
    if (n == 0) return false;
    buffer.commit(static_cast<std::size_t>(n));
    for (;;) {
      auto message = buffer.next();
      if (!message) throw std::runtime_error(fmt::format("{}: {}", message.error().code, message.error().message));
      if (!*message) break;
      if (!recon.take(std::move(**message))) return true;
    }
    recon.push();
  }
}

}  // namespace

int recon_stream(const ReconOptions& o, int in, std::FILE* out, std::ostream& err) {
  Reply reply(out);
  try {
    StreamRecon recon(o, reply, err);
    MessageBuffer buffer{Limits{}};
    try {
      const bool closed = read_stream(in, buffer, recon);
      recon.finish(closed ? End::complete : End::truncated);
      if (!recon.has_header()) throw std::runtime_error("the stream has no header, so there is nothing to reconstruct");
      reply.close();
      if (closed) return 0;
    } catch (...) {
      recon.give_up();
      throw;
    }
    err << fmt::format(
        "error: the stream ended before its CLOSE{}; incomplete images are left out\n",
        buffer.pending_bytes() == 0 ? std::string() : fmt::format(", {} bytes into a message", buffer.pending_bytes()));
    return 1;
  } catch (...) {
    try {
      reply.close();
    } catch (const std::exception&) {  // the first error is the one to tell
    }
    throw;
  }
}

}  // namespace echotrain::client
