#include "gadgets/engine/chain/gadget_clock.h"

namespace echotrain {

std::size_t GadgetClock::add(std::string name) {
  names_.push_back(std::move(name));
  spent_.emplace_back();
  return names_.size() - 1;
}

void GadgetClock::clear() {
  names_ = {"outside", "entrance", "exit"};
  spent_.assign(names_.size(), Time::duration());
  branches_ = 0;
  at_ = kOutside;
}

const FrameTimes& GadgetClock::cut(std::uint64_t images) {
  move_to(at_);
  ++last_.number;
  last_.images = images;
  last_.ms.assign(spent_.size(), 0);
  last_.whole_ms = 0;
  for (std::size_t i = 0; i < spent_.size(); ++i) {
    if (i != kOutside) last_.ms[i] = std::chrono::duration<double, std::milli>(spent_[i]).count();
    last_.whole_ms += last_.ms[i];
    spent_[i] = {};
  }
  return last_;
}

}  // namespace echotrain
