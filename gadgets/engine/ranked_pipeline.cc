#include "gadgets/engine/ranked_pipeline.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "config/branch_spec.h"
#include "protocol/wire/codec.h"

namespace echotrain {
namespace {

using protocol::Buffer;

/// The steps of which rank 0 tells the other ranks. A step is one of these bytes, followed by its data.
enum class Step : std::uint8_t { begin, start, readouts, image, waveform, finish, leave };

Buffer step_of(Step step) { return {static_cast<std::byte>(step)}; }

void put(Buffer& to, std::string_view text) {
  const std::uint64_t size = text.size();
  const auto length = std::as_bytes(std::span(&size, 1));
  to.insert(to.end(), length.begin(), length.end());
  const auto bytes = std::as_bytes(std::span(text));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// Parses a step. Rank 0 runs the same program and is trusted.
class Reader {
 public:
  explicit Reader(Buffer&& bytes) : bytes_(std::make_shared<const Buffer>(std::move(bytes))), rest_(*bytes_) {}
  Step step() { return static_cast<Step>(take(1).front()); }
  bool done() const { return rest_.empty(); }
  std::string text() {
    std::uint64_t size = 0;
    std::memcpy(&size, take(sizeof(size)).data(), sizeof(size));
    const auto bytes = take(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::byte byte() { return take(1).front(); }
  /// The message's payload keeps the step alive.
  template <class Message>
  Message message() {
    protocol::Limits limits;  // rank 0 has checked the message
    limits.acquisition_bytes = limits.waveform_bytes = limits.image_bytes = limits.attribute_bytes =
        std::numeric_limits<std::uint32_t>::max();
    const auto extent = protocol::measure(rest_, limits);
    if (!extent) throw std::logic_error("ranks: " + extent.error().message);
    auto decoded = protocol::decode(take(extent->size), bytes_, limits);
    if (!decoded) throw std::logic_error("ranks: " + decoded.error().message);
    return std::get<Message>(std::move(*decoded));
  }

 private:
  std::span<const std::byte> take(std::uint64_t n) {
    if (n > rest_.size()) throw std::logic_error("ranks: a step ends too early");
    const auto taken = rest_.first(n);
    rest_ = rest_.subspan(n);
    return taken;
  }
  std::shared_ptr<const Buffer> bytes_;
  std::span<const std::byte> rest_;
};

/// The kind of a rank. Ranks of different kinds round differently and cannot work together.
std::string kind_of(const numerics::Context& context) {
  const numerics::Backend backend = context.backend();
  std::string device = numerics::describe(backend, context.resources());
  if (backend == numerics::Backend::cpu) device = "CPU " + device.substr(std::min(device.size(), device.find('(')));
  return fmt::format("Echotrain {}, {}", ECHOTRAIN_VERSION, device);
}

/// Shares files: rank 0 reads those that a pipeline names and sends them to the others.
ReadAsset shared_assets(numerics::Ranks& ranks, ReadAsset read) {
  return [&ranks, read = std::move(read)](const std::string& name) {
    Buffer bytes;
    if (ranks.rank() == 0) {
      if (!read) throw ClientError(fmt::format("the file '{}' was asked for, but files cannot be read here", name));
      for (const protocol::Image& image : read(name)) protocol::encode(image, bytes);
    }
    numerics::broadcast(ranks, bytes, 0);
    std::vector<protocol::Image> images;
    for (Reader reader(std::move(bytes)); !reader.done();) images.push_back(reader.message<protocol::Image>());
    return images;
  };
}

int own_device(const numerics::Ranks& ranks) {
  const int devices = numerics::device_count(), local = ranks.local_rank();
  if (devices == 1) return 0;  // this rank is allowed to see one only
  if (local < devices) return local;
  throw ResourceError(
      fmt::format("{} ranks or more were started on a machine of {} GPUs; each needs one", local + 1, devices));
}

/// The other ranks' side of a scan.
class Following {
 public:
  Following(numerics::Ranks& ranks, std::shared_ptr<numerics::Resources> resources, Reader& begin) {
    const auto backend = static_cast<numerics::Backend>(begin.byte());
    const std::string kind = begin.text();
    const auto plan = PipelinePlan::check(config::read_pipeline(begin.text(), "rank 0's pipeline"));
    const bool cuda = backend == numerics::Backend::cuda;
    context_ = std::make_unique<numerics::Context>(backend, std::move(resources),
                                                   numerics::ContextOptions{.device = cuda ? own_device(ranks) : 0});
    if (kind != kind_of(*context_))
      throw ResourceError(fmt::format("this rank is {}, but rank 0 is {}; ranks work together on machines of one kind",
                                      kind_of(*context_), kind));
    team_.emplace(*context_, ranks);
    PipelineSink sink;
    sink.image = [](protocol::Image&&, const ImageTimes&) {};
    sink.text = [](protocol::Level, const std::string&) {};
    pipeline_.emplace(plan, *context_, std::move(sink), shared_assets(ranks, nullptr), &*team_);
  }
  /// Takes a step. Returns false when the scan is over.
  bool take(Reader& step) {
    switch (step.step()) {
      case Step::start:
        return start(step);
      case Step::readouts:
        return push_readouts(step);
      case Step::image:
        pipeline_->push(step.message<protocol::Image>());
        return true;
      case Step::waveform:
        pipeline_->push(step.message<protocol::Waveform>());
        return true;
      case Step::finish:
        pipeline_->finish(static_cast<End>(step.byte()));
        pipeline_->wait();
        return false;
      default:
        throw std::logic_error("ranks: a step out of order");
    }
  }

 private:
  bool start(Reader& step) {
    const auto header = protocol::parse_header(step.text(), {});
    if (!header) throw ClientError(header.error().message);
    while (!step.done()) pipeline_->tap(step.text(), [](const Item&) {});
    pipeline_->start(*header);
    return true;
  }
  bool push_readouts(Reader& step) {
    std::vector<protocol::Acquisition> readouts;
    while (!step.done()) readouts.push_back(step.message<protocol::Acquisition>());
    pipeline_->push(std::move(readouts));
    return true;
  }

  std::unique_ptr<numerics::Context> context_;
  std::optional<numerics::Team> team_;
  std::optional<Pipeline> pipeline_;
};

/// A barrier: returns when all ranks have called it.
void meet(numerics::Ranks& ranks) {
  float one = 1;
  ranks.sum({&one, 1});
}

}  // namespace

bool Followers::dismiss() {
  if (busy_) return false;
  send(step_of(Step::leave));
  return true;
}

RankedPipeline::RankedPipeline(Followers* followers, const std::shared_ptr<const PipelinePlan>& plan,
                               numerics::Context& compute, PipelineSink sink, ReadAsset read_asset)
    : followers_(followers != nullptr && followers->size() > 1 ? followers : nullptr) {
  if (followers_ == nullptr) {
    pipeline_.emplace(plan, compute, std::move(sink), std::move(read_asset));
    return;
  }
  for (const auto* chain : {&plan->spec().gadgets, &plan->spec().accelerated})
    for (const config::GadgetSpec& gadget : config::gadgets_in(*chain))
      if (gadget.name == "python" || gadget.name == "mrd_server")
        throw ClientError(fmt::format("'{}' runs in one process only, not in several ranks", gadget.name));
  Buffer step = step_of(Step::begin);
  step.push_back(static_cast<std::byte>(compute.backend()));
  put(step, kind_of(compute));
  put(step, plan->spec().text);
  followers_->busy_ = true;
  followers_->send(std::move(step));
  team_.emplace(compute, followers_->ranks_);
  pipeline_.emplace(plan, compute, std::move(sink), shared_assets(followers_->ranks_, std::move(read_asset)), &*team_);
}

void RankedPipeline::start(const protocol::Header& header) {
  if (followers_ != nullptr) {
    Buffer step = step_of(Step::start);
    put(step, header.xml);
    for (const std::string& name : taps_) put(step, name);
    followers_->send(std::move(step));
  }
  pipeline_->start(header);
}

void RankedPipeline::push(std::vector<protocol::Acquisition>&& readouts) {
  if (followers_ != nullptr) {
    Buffer step = step_of(Step::readouts);
    for (const auto& readout : readouts) protocol::encode(readout, step);
    followers_->send(std::move(step));
  }
  pipeline_->push(std::move(readouts));
}

void RankedPipeline::push(protocol::Image&& image) {
  if (followers_ != nullptr) {
    Buffer step = step_of(Step::image);
    protocol::encode(image, step);
    followers_->send(std::move(step));
  }
  pipeline_->push(std::move(image));
}

void RankedPipeline::push(protocol::Waveform&& waveform) {
  if (followers_ != nullptr) {
    Buffer step = step_of(Step::waveform);
    protocol::encode(waveform, step);
    followers_->send(std::move(step));
  }
  pipeline_->push(std::move(waveform));
}

void RankedPipeline::finish(End how) {
  if (followers_ != nullptr) {
    Buffer step = step_of(Step::finish);
    step.push_back(static_cast<std::byte>(how));
    followers_->send(std::move(step));
  }
  pipeline_->finish(how);
  finished_ = true;
}

void RankedPipeline::wait() {
  pipeline_->wait();
  if (followers_ == nullptr || !finished_) return;
  meet(followers_->ranks_);
  followers_->busy_ = false;
}

bool RankedPipeline::tap(const std::string& name, std::function<void(const Item&)> tap) {
  taps_.push_back(name);
  return pipeline_->tap(name, std::move(tap));
}

void follow(numerics::Ranks& ranks, const std::shared_ptr<numerics::Resources>& resources) {
  const auto next = [&ranks] {
    Buffer bytes;
    numerics::broadcast(ranks, bytes, 0);
    return Reader(std::move(bytes));
  };
  for (;;) {
    Reader begin = next();
    const Step step = begin.step();
    if (step == Step::leave) return;
    if (step != Step::begin) throw std::logic_error("ranks: a scan without a beginning");
    Following scan(ranks, resources, begin);
    for (bool goes_on = true; goes_on;) {
      Reader reader = next();
      goes_on = scan.take(reader);
    }
    meet(ranks);
  }
}

}  // namespace echotrain
