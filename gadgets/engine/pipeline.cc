#include "gadgets/engine/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <utility>

#include "config/mistakes.h"
#include "gadgets/api/any_gadget.h"
#include "gadgets/engine/chain/chain.h"
#include "gadgets/engine/chain/chain_plan.h"
#include "gadgets/engine/chain/delivery.h"
#include "gadgets/engine/framer.h"
#include "gadgets/shared/image_check.h"
#include "gadgets/shared/incoming/image_input.h"
#include "protocol/data/meta.h"
#include "protocol/data/pluralized.h"

namespace echotrain {
namespace {

bool has_gadget(const std::vector<config::GadgetSpec>& chain, const std::string& name) {
  const std::vector<config::GadgetSpec> all = config::gadgets_in(chain);
  return std::any_of(all.begin(), all.end(), [&](const auto& gadget) { return gadget.name == name; });
}

/// The first encoding that leaves lines out; null: none does.
const protocol::Encoding* accelerated_encoding(const protocol::Header& header) {
  for (const auto& encoding : header.encodings)
    for (std::size_t a = 0; a < 2; ++a)
      if (encoding.acceleration[a] > 1 && encoding.encoded.matrix[a + 1] > 1) return &encoding;
  return nullptr;
}

void note_copied(ImageTimes& times) {
  times.copied = std::chrono::steady_clock::now();
  if (times.computed == Instant{}) times.computed = times.copied;
}

}  // namespace

std::shared_ptr<const PipelinePlan> PipelinePlan::check(config::PipelineSpec spec, const Registry& registry) {
  if (spec.gadgets.empty()) throw config::ConfigError(spec.mark, "the pipeline has no gadgets");
  auto plan = std::make_shared<PipelinePlan>();
  ChainEntrance entrance;
  entrance.input = spec.input;
  entrance.sent = spec.input == config::Input::images;
  int branches = 0;
  plan->chain_ = check_chain(spec.gadgets, entrance, registry, branches);
  plan->spec_ = std::move(spec);
  if (!config::Mistakes::found()) plan->delivery_ = resolve_delivery(plan->chain_->reached());
  if (!plan->spec_.accelerated.empty()) {
    config::PipelineSpec other = plan->spec_;
    other.gadgets = std::exchange(other.accelerated, {});
    plan->accelerated_ = check(std::move(other), registry);
    if (!config::Mistakes::found() && plan->accelerated_->types().front() != plan->types().front())
      throw config::ConfigError(
          plan->spec_.accelerated.front().mark,
          fmt::format("the chain for accelerated scans takes {}, but 'pipeline' takes {}; both must take the same",
                      to_string(plan->accelerated_->types().front()), to_string(plan->types().front())));
  }
  return plan;
}

const std::vector<ItemType>& PipelinePlan::types() const { return chain_->types; }

const PipelinePlan& PipelinePlan::chain_for(const protocol::Header& header) const {
  return accelerated_ && accelerated_encoding(header) != nullptr ? *accelerated_ : *this;
}

bool PipelinePlan::takes_images() const {
  const ItemType entrance = types().front();
  return entrance == ItemType::raw_batch || entrance == ItemType::image || entrance == ItemType::coil_images;
}

std::string PipelinePlan::misfit(std::uint64_t readouts, std::uint64_t images) const {
  if (spec_.input == config::Input::images) {
    if (readouts == 0 || images > 0) return "";
    return fmt::format(
        "pipeline '{}' takes images, but the scan has {} and no image: use a pipeline that reconstructs "
        "readouts",
        spec_.name, protocol::pluralized(readouts, "readout"));
  }
  if (readouts > 0 || images == 0 || takes_images() || chain_->takes_messages()) return "";
  return fmt::format(
      "pipeline '{}' reconstructs readouts, but the scan has {} and no readout: use a pipeline that takes "
      "images ('input: images'), such as 'images_denoise' or 'images_display'",
      spec_.name, protocol::pluralized(images, "image"));
}

std::string PipelinePlan::describe() const {
  std::string out = chain_->describe();
  if (accelerated_) out += "accelerated scans (R > 1):\n" + indented(accelerated_->describe());
  return out;
}

numerics::Backend choose_backend(const config::PipelineSpec& spec, config::BackendChoice server_choice) {
  using config::BackendChoice;
  const bool own = spec.backend != BackendChoice::automatic;
  const BackendChoice choice = own ? spec.backend : server_choice;
  if (choice == BackendChoice::cpu) return numerics::Backend::cpu;
  std::string reason;
  if (numerics::available(numerics::Backend::cuda, &reason)) return numerics::Backend::cuda;
  if (choice == BackendChoice::automatic) return numerics::Backend::cpu;
  throw ResourceError(own ? fmt::format("pipeline '{}' asks for backend cuda: {}", spec.name, reason)
                          : fmt::format("backend cuda was asked for: {}", reason));
}

struct Pipeline::Impl {
  static constexpr std::size_t kMostTexts = 200;  // texts of one scan, which may quote the client

  Impl(std::shared_ptr<const PipelinePlan> p, numerics::Context& c, PipelineSink s, ReadAsset read, numerics::Team* t)
      : plan(std::move(p)),
        compute(c),
        team(t),
        read_asset(std::move(read)),
        sink(std::make_shared<PipelineSink>(std::move(s))),
        framer(plan->spec().frame) {}

  /// Begins the scan. Taps look at a gadget's output as whole frames.
  void begin(const protocol::Header& header) {
    const bool other = &plan->chain_for(header) != plan.get();
    if (other) {
      chain.reset();  // before its plan
      plan = plan->accelerated_;
      make();
    }
    const auto say = [this](protocol::Level level, const std::string& text) {
      if (said.size() > kMostTexts || !said.insert(text).second) return;
      if (said.size() <= kMostTexts)
        sink->text(level, text);
      else
        sink->text(protocol::Level::warning, fmt::format("this scan has said {} different things; whatever else there "
                                                         "is to say is left out",
                                                         kMostTexts));
    };
    scan.emplace(compute, plan->spec().trajectory_unit, say, std::move(read_asset),
                 asked_taps.empty() ? plan->delivery_ : Delivery::frames, team);
    if (other) tell_of_chain(*accelerated_encoding(header));
  }

  void tell_of_chain(const protocol::Encoding& encoding) {
    std::vector<std::string> names;
    for (const auto& gadget : plan->spec_.gadgets) names.push_back(gadget.name);
    scan->info(fmt::format("R={}x{}: pipeline '{}' takes its chain for accelerated scans ({})",
                           encoding.acceleration[0], encoding.acceleration[1], plan->spec_.name,
                           fmt::join(names, ", ")));
  }

  void leave(Item&& item) {
    auto* image = std::get_if<Image>(&item);
    if (image == nullptr) return;  // waveforms that no gadget took are dropped
    const GadgetClock::Stay stay(clock(), GadgetClock::kExit);
    ++counts.images_out;
    // Pixels from the client are complete already, and callbacks must be short.
    const bool complete = !image->frame && !image->tally;
    if (complete) image_check->look(*image);
    auto held = std::make_shared<Image>(std::move(*image));
    compute.on_complete([to = sink, held, check = complete ? nullptr : image_check] {
      if (held->times) note_copied(*held->times);
      if (check) check->look(*held);
      to->image(std::move(held->message), held->times ? *held->times : ImageTimes{});
    });
  }

  /// Called after each batch of readouts, and after each image.
  void pause() {
    chain->pause();
    compute.check();
    image_check->report(*scan);
    tell_times();
  }

  /// The clock; null if times are not watched.
  GadgetClock* clock() { return watch.frame ? &times : nullptr; }

  /// Reports the times at the end of a push if images left with it: their frame's time is then whole.
  void tell_times() {
    const std::uint64_t left = counts.images_out - images_told;
    if (!watch.frame || left == 0) return;
    images_told = counts.images_out;
    const FrameTimes& frame = times.cut(left);
    const GadgetClock::Stay stay(&times, GadgetClock::kOutside);  // the observer's time must not count for the next
                                                                  // frame
    watch.frame(frame, times.names());
  }

  void enter(Item&& item) { chain->push(std::move(item)); }

  /// Makes the gadgets. If some are tapped, no gadgets are fused.
  void make() {
    const auto leaving = [this](Item&& item) { leave(std::move(item)); };
    chain.reset();
    times.clear();
    chain.emplace(plan->chain(), ChainBuild{asked_taps.empty(), compute.cuda(), leaving, clock(), "", watch.item},
                  leaving);
    for (const auto& [name, on_item] : asked_taps) chain->tap(name, on_item);
  }

  void count_frames() {
    const bool readouts = plan->spec().input == config::Input::readouts;
    counts.frames = (readouts ? framer.frames() : images.frames()) + chain->frames();
  }

  /// Offers an image to the branches, in a pipeline of readouts. Returns false if it is not for the pipeline's gadgets,
  /// too.
  bool offer(const protocol::Image& image) {
    if (!plan->chain().takes_messages()) return true;
    const OfferResult offered = chain->offer(image);
    if (!offered.taken && plan->types().front() != ItemType::raw_batch)
      scan->warn(
          fmt::format("no branch of pipeline '{}' takes images of series {} and image_type {}; they are left out",
                      plan->spec().name, +image.head.image_series_index, +image.head.image_type));
    return offered.goes_on;
  }

  void leave_out(const protocol::Image& image) {
    ++images_left_out;
    const std::string role = protocol::printable(protocol::meta_value(image.attributes, "role"), 64);
    const std::string which = role.empty() ? "" : fmt::format(" of role '{}'", role);
    scan->warn(fmt::format("pipeline '{}' reconstructs readouts and has no use for images{}; they are left out",
                           plan->spec().name, which));
  }

  /// Hands on the readouts that the framer has held back, which later items must not overtake.
  void flush() { framer.flush(enter_readouts()); }

  Framer::EmitReadouts enter_readouts() {
    return [this](Readouts&& readouts) { enter(Item(std::move(readouts))); };
  }

  std::shared_ptr<const PipelinePlan> plan;
  numerics::Context& compute;
  numerics::Team* team;
  ReadAsset read_asset;
  std::shared_ptr<PipelineSink> sink;
  std::shared_ptr<ImageCheck> image_check = std::make_shared<ImageCheck>();
  std::set<std::string> said;
  std::optional<Scan> scan;  // no value before start()
  Framer framer;
  ImageInput images;
  std::vector<std::pair<std::string, Chain::Tap>> asked_taps;  // by a gadget's name
  PipelineObserver watch;
  GadgetClock times;
  std::uint64_t images_told = 0, images_left_out = 0;
  std::optional<Chain> chain;
  PipelineCounts counts;
};

Pipeline::Pipeline(std::shared_ptr<const PipelinePlan> plan, numerics::Context& compute, PipelineSink sink,
                   ReadAsset read_asset, numerics::Team* team)
    : impl_(std::make_unique<Impl>(std::move(plan), compute, std::move(sink), std::move(read_asset), team)) {
  impl_->make();
}

Pipeline::~Pipeline() = default;

void Pipeline::start(const protocol::Header& header) {
  if (header.images_only && !impl_->plan->takes_images())
    throw ClientError(fmt::format(
        "the header describes no measurement (\"Dummy XML header\"), but pipeline '{}' reconstructs readouts; "
        "use one that takes images, such as 'passthrough'",
        impl_->plan->spec().name));
  impl_->begin(header);
  impl_->framer.start(header, *impl_->scan);
  impl_->images.start(header, *impl_->scan);
  impl_->chain->start(header, *impl_->scan);
}

void Pipeline::push(std::vector<protocol::Acquisition>&& readouts, std::optional<std::int64_t> waiting) {
  const GadgetClock::Stay stay(impl_->clock(), GadgetClock::kEntrance);
  impl_->counts.readouts += readouts.size();
  impl_->scan->behind = waiting.value_or(0) > 0;
  if (readouts.empty()) {
    // For gadgets that have results (gadgets/shared/program/scan_environment.h), or when all of a batch was left out.
    impl_->flush();
  } else if (impl_->plan->spec().input == config::Input::images) {
    impl_->scan->warn(
        fmt::format("pipeline '{}' takes images; the scan's readouts are left out", impl_->plan->spec().name));
  } else if (impl_->plan->types().front() == ItemType::raw_batch) {
    impl_->enter(RawBatch{std::move(readouts)});
  } else {
    impl_->framer.push(std::move(readouts), impl_->enter_readouts(), waiting);
    impl_->count_frames();
    impl_->counts.late_readouts = impl_->framer.late_readouts();
  }
  impl_->pause();
}

void Pipeline::push(protocol::Image&& image) {
  const GadgetClock::Stay stay(impl_->clock(), GadgetClock::kEntrance);
  impl_->flush();
  ++impl_->counts.images_in;
  const ItemType entrance = impl_->plan->types().front();
  if (entrance == ItemType::raw_batch) {
    if (impl_->offer(image)) impl_->enter(Image{nullptr, std::move(image), nullptr});
  } else if (impl_->scan->side_images.take(image)) {
    return;
  } else if (entrance == ItemType::image) {
    impl_->enter(Image{nullptr, std::move(image), nullptr});
  } else if (entrance == ItemType::coil_images) {
    impl_->enter(impl_->images.take(std::move(image)));
  } else if (impl_->plan->chain().takes_messages()) {
    impl_->offer(image);
  } else {
    impl_->leave_out(image);
    return;
  }
  impl_->count_frames();
  impl_->pause();
}

void Pipeline::push(protocol::Waveform&& waveform) {
  const GadgetClock::Stay stay(impl_->clock(), GadgetClock::kEntrance);
  impl_->flush();
  ++impl_->counts.waveforms;
  impl_->enter(Waveform{std::move(waveform)});
}

void Pipeline::finish(End how) {
  impl_->scan->behind = false;
  const GadgetClock::Stay stay(impl_->clock(), GadgetClock::kEntrance);
  impl_->framer.finish(how, impl_->enter_readouts());
  impl_->count_frames();
  impl_->chain->end(how);
  impl_->tell_times();
  if (how != End::complete) return;
  const bool takes_images = impl_->plan->spec().input == config::Input::images;
  const std::uint64_t images = takes_images ? impl_->counts.images_in : impl_->images_left_out;
  if (const std::string reason = impl_->plan->misfit(impl_->counts.readouts, images); !reason.empty())
    throw ClientError(reason);
}

void Pipeline::wait() {
  impl_->compute.synchronize();
  if (impl_->scan) impl_->image_check->report(*impl_->scan);
}

const PipelineCounts& Pipeline::counts() const {
  if (impl_->scan) impl_->counts.work = impl_->scan->numbers;
  return impl_->counts;
}

bool Pipeline::tap(const std::string& name, std::function<void(const Item&)> on_item) {
  const config::PipelineSpec& spec = impl_->plan->spec();
  if (!has_gadget(spec.gadgets, name) && !has_gadget(spec.accelerated, name)) return false;
  impl_->asked_taps.emplace_back(name, std::move(on_item));
  impl_->make();
  return true;
}

void Pipeline::watch(PipelineObserver watch) {
  impl_->watch = std::move(watch);
  impl_->make();
}

}  // namespace echotrain
