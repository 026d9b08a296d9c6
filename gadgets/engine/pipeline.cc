#include "gadgets/engine/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "gadgets/api/gadget.h"
#include "gadgets/engine/delivery.h"
#include "gadgets/engine/framer.h"
#include "gadgets/shared/image_check.h"
#include "gadgets/shared/incoming/image_entrance.h"
#include "protocol/data/meta.h"

namespace echotrain {
namespace {

bool is_entrance(ItemType type, config::Input input) {
  if (input == config::Input::images) return type == ItemType::coil_images || type == ItemType::image;
  return type == ItemType::readouts || type == ItemType::raw_batch;
}

std::string takes_text(const GadgetEntry& entry) {
  std::string out;
  for (const auto& form : entry.forms) out += (out.empty() ? "" : " or ") + std::string(to_string(form.takes));
  return out;
}

/// The gadget that turns `from` into something `entry` takes, as a hint, or nothing.
std::string bridge_hint(const Registry& registry, ItemType from, const GadgetEntry& entry) {
  for (const auto& name : registry.names())
    for (const auto& form : registry.find(name)->forms)
      if (form.takes == from && form.gives != from)
        for (const auto& wanted : entry.forms)
          if (form.gives == wanted.takes)
            return fmt::format("; put '{}' between them: it converts one to the other", name);
  return "";
}

bool has_gadget(const std::vector<config::GadgetSpec>& chain, const std::string& name) {
  return std::any_of(chain.begin(), chain.end(), [&](const auto& gadget) { return gadget.name == name; });
}

/// The first encoding that leaves lines out; null: none does.
const protocol::Encoding* accelerated_encoding(const protocol::Header& header) {
  for (const auto& encoding : header.encodings)
    for (std::size_t a = 0; a < 2; ++a)
      if (encoding.acceleration[a] > 1 && encoding.encoded.matrix[a + 1] > 1) return &encoding;
  return nullptr;
}

/// The forms that take what there is; `from`: nothing before the first gadget.
std::vector<const GadgetForm*> forms_that_take(const GadgetEntry& entry, std::optional<ItemType> from,
                                               config::Input input) {
  std::vector<const GadgetForm*> forms;
  for (const auto& form : entry.forms)
    if (from ? form.takes == *from : is_entrance(form.takes, input)) forms.push_back(&form);
  return forms;
}

/// The first of these forms that can have the gadget's parameters, which are added to `options`.
const GadgetForm* choose_form(const std::vector<const GadgetForm*>& forms, const config::GadgetSpec& gadget,
                              std::vector<GadgetOptions>& options) {
  for (const GadgetForm* form : forms) {
    GadgetOptions read = form->parse(gadget.parameters);
    try {
      form->make(read);
      options.push_back(std::move(read));
      return form;
    } catch (const std::invalid_argument& error) {
      if (form == forms.back())
        throw config::ConfigError(gadget.mark, fmt::format("'{}': {}", gadget.name, error.what()));
    }
  }
  return nullptr;
}

/// What is wrong with a pipeline that begins with this gadget.
std::string wrong_beginning(const GadgetEntry& entry, config::Input input) {
  if (input == config::Input::images)
    return fmt::format("with 'input: images' a pipeline begins with images, but '{}' takes {}", entry.name,
                       takes_text(entry));
  return fmt::format("a pipeline begins with readouts, but '{}' takes {}{}", entry.name, takes_text(entry),
                     forms_that_take(entry, std::nullopt, config::Input::images).empty()
                         ? ""
                         : "; for images of the client write 'input: images' before 'pipeline:'");
}

}  // namespace

std::shared_ptr<const PipelinePlan> PipelinePlan::check(config::PipelineSpec spec, const Registry& registry) {
  auto plan = std::make_shared<PipelinePlan>();
  std::optional<ItemType> type;
  std::string previous;
  std::vector<Reached> chain;
  for (const auto& gadget : spec.gadgets) {
    const GadgetEntry* entry = registry.find(gadget.name);
    if (entry == nullptr) {
      const auto names = registry.names();
      const std::string near = config::nearest(gadget.name, names);
      throw config::ConfigError(gadget.mark, fmt::format("no gadget is called '{}'{}", gadget.name,
                                                         near.empty() ? "; see echotrain-server --list-gadgets"
                                                                      : fmt::format("; did you mean '{}'?", near)));
    }
    const auto forms = forms_that_take(*entry, type, spec.input);
    if (forms.empty()) {
      if (!type) throw config::ConfigError(gadget.mark, wrong_beginning(*entry, spec.input));
      throw config::ConfigError(
          gadget.mark, fmt::format("'{}' takes {}, but '{}' before it gives {}{}", gadget.name, takes_text(*entry),
                                   previous, to_string(*type), bridge_hint(registry, *type, *entry)));
    }
    const GadgetForm* form = choose_form(forms, gadget, plan->options_);
    if (!type) plan->types_.push_back(form->takes);
    type = form->gives;
    plan->types_.push_back(*type);
    plan->forms_.push_back(form);
    chain.push_back({form->takes, form->delivery(plan->options_.back())});
    previous = gadget.name;
  }
  if (!type) throw config::ConfigError(spec.mark, "the pipeline has no gadgets");
  if (*type != ItemType::image)
    throw config::ConfigError(
        spec.gadgets.back().mark,
        fmt::format("the pipeline ends with {}, which nobody takes; end it with 'image', which takes CoilImages",
                    to_string(*type)));
  plan->spec_ = std::move(spec);
  plan->delivery_ = resolve_delivery(chain);
  plan->find_fusions(registry);
  if (!plan->spec_.accelerated.empty()) {
    config::PipelineSpec other = plan->spec_;
    other.gadgets = std::exchange(other.accelerated, {});
    plan->accelerated_ = check(std::move(other), registry);
    if (plan->accelerated_->types_.front() != plan->types_.front())
      throw config::ConfigError(
          plan->spec_.accelerated.front().mark,
          fmt::format("the chain for accelerated scans takes {}, but 'pipeline' takes {}; both must take the same",
                      to_string(plan->accelerated_->types_.front()), to_string(plan->types_.front())));
  }
  return plan;
}

const PipelinePlan& PipelinePlan::chain_for(const protocol::Header& header) const {
  return accelerated_ && accelerated_encoding(header) != nullptr ? *accelerated_ : *this;
}

void PipelinePlan::find_fusions(const Registry& registry) {
  const auto& gadgets = spec_.gadgets;
  const auto fits = [&](const Fusion& fusion, std::size_t first) {
    return first + fusion.names.size() <= gadgets.size() && types_[first] == fusion.takes &&
           std::equal(fusion.names.begin(), fusion.names.end(), gadgets.begin() + static_cast<std::ptrdiff_t>(first),
                      [](const std::string& name, const auto& gadget) { return name == gadget.name; });
  };
  for (std::size_t i = 0; i < gadgets.size(); ++i)
    for (const Fusion& fusion : registry.fusions()) {
      if (!fits(fusion, i)) continue;
      if (!fusion.make(std::span(options_).subspan(i, fusion.names.size()))) continue;
      fused_.push_back({i, fusion.names.size(), &fusion});
      i += fusion.names.size() - 1;
      break;
    }
}

bool PipelinePlan::takes_images() const {
  return types_.front() == ItemType::raw_batch || types_.front() == ItemType::image ||
         types_.front() == ItemType::coil_images;
}

std::string PipelinePlan::describe() const {
  std::string out;
  for (std::size_t i = 0; i < forms_.size(); ++i)
    out += fmt::format("{}: {} -> {}\n", spec_.gadgets[i].name, to_string(types_[i]), to_string(types_[i + 1]));
  for (const Fused& fused : fused_)
    out += fmt::format("as one{}: {}\n", fused.fusion->cpu_only ? " on the CPU" : "",
                       fmt::join(fused.fusion->names, ", "));
  if (accelerated_) {
    out += "accelerated scans (R > 1):\n";
    const std::string chain = accelerated_->describe();
    for (std::size_t begin = 0; begin < chain.size();) {
      const std::size_t end = chain.find('\n', begin) + 1;
      out += "  " + chain.substr(begin, end - begin);
      begin = end;
    }
  }
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
  static constexpr std::size_t kMostTexts = 200;  // of one scan; texts may hold what a client wrote

  Impl(std::shared_ptr<const PipelinePlan> p, numerics::Context& c, PipelineSink s, ReadAsset read, numerics::Team* t)
      : plan(std::move(p)),
        compute(c),
        team(t),
        read_asset(std::move(read)),
        sink(std::make_shared<PipelineSink>(std::move(s))),
        framer(plan->spec().frame) {}

  /// Taps look at a gadget's output as whole frames.
  void begin(const protocol::Header& header) {
    const bool other = &plan->chain_for(header) != plan.get();
    if (other) {
      plan = plan->accelerated_;
      place_taps();
      make(asked_taps.empty());
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

  /// Gives the taps that were asked for their gadgets in this chain, as far as it has them.
  void place_taps() {
    taps.clear();
    const auto& specs = plan->spec_.gadgets;
    for (const auto& [name, on_item] : asked_taps)
      for (std::size_t i = 0; i < specs.size(); ++i)
        if (specs[i].name == name) {
          taps[i] = on_item;
          break;
        }
  }

  void leave(Item&& item) {
    auto* image = std::get_if<Image>(&item);
    if (image == nullptr) return;  // waveforms that no gadget took are dropped
    ++counts.images_out;
    // The client's pixels are complete already, and callbacks must be short.
    const bool complete = !image->frame && !image->tally;
    if (complete) image_check->look(*image);
    auto held = std::make_shared<Image>(std::move(*image));
    compute.on_complete([to = sink, held, check = complete ? nullptr : image_check] {
      if (held->times) held->times->copied = std::chrono::steady_clock::now();
      if (check) check->look(*held);
      to->image(std::move(held->message), held->times ? *held->times : ImageTimes{});
    });
  }

  /// After each batch of readouts, and after each image.
  void pause() {
    for (std::size_t i = 0; i < gadgets.size(); ++i) gadgets[i]->pause(next[i]);
    compute.check();
    image_check->report(*scan);
  }

  void enter(Item&& item) { gadgets.front()->push(std::move(item), next.front()); }

  /// Makes the gadgets; with `fuse`, one gadget may stand for several.
  void make(bool fuse) {
    gadgets.clear();
    next.clear();
    last_of.clear();
    const auto& specs = plan->spec_.gadgets;
    auto fused = plan->fused_.begin();
    for (std::size_t i = 0; i < specs.size(); ++i) {
      if (fused != plan->fused_.end() && fused->first < i) ++fused;
      if (fuse && fused != plan->fused_.end() && fused->first == i && !(fused->fusion->cpu_only && compute.cuda())) {
        gadgets.push_back(fused->fusion->make(std::span(plan->options_).subspan(i, fused->count)));
        i += fused->count - 1;
      } else {
        gadgets.push_back(plan->forms_[i]->make(plan->options_[i]));
      }
      last_of.push_back(i);
      const std::size_t own = gadgets.size() - 1;
      next.push_back([this, own](Item&& item) {
        if (const auto tap = taps.find(last_of[own]); tap != taps.end()) tap->second(item);
        if (own + 1 < gadgets.size())
          gadgets[own + 1]->push(std::move(item), next[own + 1]);
        else
          leave(std::move(item));
      });
    }
  }

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
  std::optional<Scan> scan;  // empty before start()
  Framer framer;
  ImageEntrance images;
  std::vector<std::unique_ptr<AnyGadget>> gadgets;
  std::vector<AnyGadget::EmitItem> next;  // next[i] takes the items of gadget i
  std::vector<std::size_t> last_of;       // [i]: the last gadget of the spec that gadget i stands for
  std::vector<std::pair<std::string, std::function<void(const Item&)>>> asked_taps;  // by a gadget's name
  std::map<std::size_t, std::function<void(const Item&)>> taps;                      // by its place in the chain
  PipelineCounts counts;
};

Pipeline::Pipeline(std::shared_ptr<const PipelinePlan> plan, numerics::Context& compute, PipelineSink sink,
                   ReadAsset read_asset, numerics::Team* team)
    : impl_(std::make_unique<Impl>(std::move(plan), compute, std::move(sink), std::move(read_asset), team)) {
  impl_->make(true);
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
  for (auto& gadget : impl_->gadgets) gadget->start(header, *impl_->scan);
}

void Pipeline::push(std::vector<protocol::Acquisition>&& readouts, std::int64_t waiting) {
  impl_->counts.readouts += readouts.size();
  if (readouts.empty()) {
    // Only for gadgets that have something to give (gadgets/shared/scan_port.h).
  } else if (impl_->plan->spec().input == config::Input::images) {
    impl_->scan->warn(
        fmt::format("pipeline '{}' takes images; the scan's readouts are left out", impl_->plan->spec().name));
  } else if (impl_->plan->types_.front() == ItemType::raw_batch) {
    impl_->enter(RawBatch{std::move(readouts)});
  } else {
    impl_->framer.push(std::move(readouts), impl_->enter_readouts(), waiting);
    impl_->counts.frames = impl_->framer.frames();
    impl_->counts.late_readouts = impl_->framer.late_readouts();
  }
  impl_->pause();
}

void Pipeline::push(protocol::Image&& image) {
  ++impl_->counts.images_in;
  const ItemType entrance = impl_->plan->types_.front();
  if (entrance == ItemType::raw_batch) return impl_->enter(Image{nullptr, std::move(image), nullptr});
  if (impl_->scan->side_images.take(image)) return;
  if (entrance == ItemType::image) {
    impl_->enter(Image{nullptr, std::move(image), nullptr});
  } else if (entrance == ItemType::coil_images) {
    impl_->enter(impl_->images.take(std::move(image)));
    impl_->counts.frames = impl_->images.frames();
  } else {
    impl_->scan->warn(fmt::format("pipeline '{}' has no use for images of role '{}'; they are left out",
                                  impl_->plan->spec().name,
                                  protocol::printable(protocol::meta_value(image.attributes, "role"), 64)));
    return;
  }
  impl_->pause();
}

void Pipeline::push(protocol::Waveform&& waveform) {
  ++impl_->counts.waveforms;
  impl_->enter(Waveform{std::move(waveform)});
}

void Pipeline::finish(End how) {
  impl_->framer.finish(how, impl_->enter_readouts());
  if (impl_->plan->spec().input == config::Input::readouts) impl_->counts.frames = impl_->framer.frames();
  for (std::size_t i = 0; i < impl_->gadgets.size(); ++i) impl_->gadgets[i]->end(how, impl_->next[i]);
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
  impl_->place_taps();
  impl_->make(false);
  return true;
}

}  // namespace echotrain
