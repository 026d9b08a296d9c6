#include "gadgets/numerics/core/cuda/completion_poller.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace echotrain::numerics {

void CompletionPoller::add(std::shared_ptr<Source> source) {
  const std::scoped_lock lock(mutex_);
  auto sources = std::make_shared<Sources>(*sources_);
  sources->push_back(std::move(source));
  sources_ = std::move(sources);
}

void CompletionPoller::remove(const Source* source) noexcept {
  const std::scoped_lock lock(mutex_);
  try {
    auto sources = std::make_shared<Sources>();
    std::copy_if(sources_->begin(), sources_->end(), std::back_inserter(*sources),
                 [source](const auto& each) { return each.get() != source; });
    sources_ = std::move(sources);
  } catch (const std::bad_alloc&) {
    // The source stays: without work, it costs one look.
  }
}

// A function may end the last use of a context, whose source is then removed, so the lock must not be held here.
bool CompletionPoller::poll() noexcept {
  std::shared_ptr<const Sources> sources;
  {
    const std::scoped_lock lock(mutex_);
    sources = sources_;
  }
  bool more = false;
  for (const auto& source : *sources) more = source->poll() || more;
  return more;
}

}  // namespace echotrain::numerics
