#include "gadgets/engine/chain/chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "gadgets/engine/chain/fork.h"

namespace echotrain {
namespace {

ChainBuild in_branch(ChainBuild making) {
  if (making.clock != nullptr) making.branch = fmt::format("branch {}: ", making.clock->next_branch());
  return making;
}

}  // namespace

Chain::Chain(const ChainPlan& plan, const ChainBuild& making, AnyGadget::EmitItem leave)
    : plan_(plan), leave_(std::move(leave)), clock_(making.clock), look_(making.look) {
  for (std::size_t place = 0; place < plan_.gadgets.size(); ++place) {
    forks_.push_back(nullptr);
    place = plan_.forms[place] == nullptr ? add_fork(place, making) : add_gadget(place, making);
    last_of_.push_back(place);
    const std::size_t own = gadgets_.size() - 1;
    next_.emplace_back([this, own](Item&& item) {
      if (const auto tap = taps_.find(last_of_[own]); tap != taps_.end()) tap->second(item);
      if (own + 1 < gadgets_.size())
        give(own + 1, std::move(item));
      else
        leave_(std::move(item));
    });
  }
}

Chain::~Chain() = default;

void Chain::give(std::size_t gadget, Item&& item) {
  const GadgetClock::Stay stay(clock_, clock_place_[gadget]);
  const numerics::Progress::Stay here = stay_in(gadget);
  if (look_) look_(*gadgets_[gadget], item);
  const ImageSteps::Stay step = step_of(gadget, item);
  gadgets_[gadget]->push(std::move(item), next_[gadget]);
}

/// Adds the gadget at this place of the plan, with those fused to it; returns the last of these places.
std::size_t Chain::add_gadget(std::size_t place, const ChainBuild& making) {
  const auto fused = std::find_if(plan_.fused.begin(), plan_.fused.end(),
                                  [&](const ChainPlan::Fused& each) { return each.first == place; });
  const bool alone = !making.fuse || fused == plan_.fused.end() || (fused->fusion->cpu_only && making.cuda);
  if (clock_ != nullptr) {
    std::string name = making.branch + plan_.gadgets[place].name;
    for (std::size_t i = 1; !alone && i < fused->count; ++i) name += " + " + plan_.gadgets[place + i].name;
    clock_place_.push_back(clock_->add(std::move(name)));
  } else {
    clock_place_.push_back(0);
  }
  if (alone) {
    gadgets_.push_back(plan_.forms[place]->make(plan_.options[place]));
    return place;
  }
  gadgets_.push_back(fused->fusion->make(std::span(plan_.options).subspan(place, fused->count)));
  return place + fused->count - 1;
}

/// Adds the branch at this place and those next to it; returns the last of these places.
std::size_t Chain::add_fork(std::size_t place, const ChainBuild& making) {
  const ItemType type = plan_.types[place];
  std::vector<std::unique_ptr<Branch>> branches;
  std::size_t end = place;
  clock_place_.push_back(clock_ != nullptr ? clock_->add(making.branch + "branches") : 0);
  for (; end < plan_.forms.size() && plan_.forms[end] == nullptr; ++end)
    branches.push_back(std::make_unique<Branch>(plan_.branches.at(end), in_branch(making)));
  const bool ends = end == plan_.forms.size() && type != ItemType::image;
  auto fork = std::make_unique<Fork>(std::move(branches), type, ends);
  forks_.back() = fork.get();
  gadgets_.push_back(std::move(fork));
  return end - 1;
}

void Chain::start(const protocol::Header& header, Scan& scan) {
  steps_ = &scan.compute.cache<ImageSteps>();
  std::optional<protocol::Header> left;  // the header for gadgets behind branches
  for (std::size_t i = 0; i < gadgets_.size(); ++i) {
    const numerics::Progress::Stay here = stay_in(i);
    scan.compute.check_stop();  // a step: each may prepare much
    gadgets_[i]->start(left ? *left : header, scan);
    if (forks_[i] != nullptr) left = forks_[i]->left_of(left ? *left : header);
  }
}

void Chain::pause() {
  GadgetClock::Stay stay(clock_, clock_place_.front());
  for (std::size_t i = 0; i < gadgets_.size(); ++i) {
    if (i > 0) stay.go_on_at(clock_place_[i]);
    const numerics::Progress::Stay here = stay_in(i);
    gadgets_[i]->pause(next_[i]);
  }
}

void Chain::end(End how) {
  GadgetClock::Stay stay(clock_, clock_place_.front());
  for (std::size_t i = 0; i < gadgets_.size(); ++i) {
    if (i > 0) stay.go_on_at(clock_place_[i]);
    const numerics::Progress::Stay here = stay_in(i);
    gadgets_[i]->end(how, next_[i]);
  }
}

OfferResult Chain::offer(const protocol::Image& message) {
  return forks_.front() != nullptr ? forks_.front()->offer(message) : OfferResult{};
}

bool Chain::tap(const std::string& name, const Tap& on_item) {
  const auto named = std::find_if(plan_.gadgets.begin(), plan_.gadgets.end(),
                                  [&](const config::GadgetSpec& gadget) { return gadget.name == name; });
  if (name != config::kBranch && named != plan_.gadgets.end()) {
    taps_[static_cast<std::size_t>(named - plan_.gadgets.begin())] = on_item;
    return true;
  }
  return std::any_of(forks_.begin(), forks_.end(),
                     [&](Fork* fork) { return fork != nullptr && fork->tap(name, on_item); });
}

std::uint64_t Chain::frames() const {
  std::uint64_t frames = 0;
  for (const Fork* fork : forks_)
    if (fork != nullptr) frames += fork->frames();
  return frames;
}

}  // namespace echotrain
