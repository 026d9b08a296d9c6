#include "gadgets/epi/forward_references.h"

#include <algorithm>

namespace echotrain {
namespace {

Readouts stretch_of(const Readouts& all, std::size_t begin, std::size_t end) {
  Readouts out = all;
  out.heads.assign(all.heads.begin() + static_cast<std::ptrdiff_t>(begin),
                   all.heads.begin() + static_cast<std::ptrdiff_t>(end));
  out.data = readouts_of(all.data, begin, end);
  return out;
}

}  // namespace

Array<cfloat> readouts_of(const Array<cfloat>& all, std::size_t begin, std::size_t end) {
  const numerics::Shape& shape = all.shape();
  auto* first = static_cast<cfloat*>(all.memory().get()) + static_cast<std::int64_t>(begin) * shape[1] * shape[2];
  return {std::shared_ptr<void>(all.memory(), first), {static_cast<std::int64_t>(end - begin), shape[1], shape[2]}};
}

void ForwardReferences::take(Readouts&& references, const std::vector<bool>& reversed, const Emit<Readouts>& emit) {
  const auto& heads = references.heads;
  for (std::size_t i = 0; i < heads.size(); ++i)
    if (!reversed[i]) forward_[slice_of(heads[i])].insert(heads[i].idx.kspace_encode_step_1);
  const auto alike = [&](std::size_t a, std::size_t b) {
    return reversed[a] == reversed[b] && slice_of(heads[a]) == slice_of(heads[b]);
  };
  for (std::size_t begin = 0, end = 0; begin < heads.size(); begin = end) {
    for (end = begin + 1; end < heads.size() && alike(begin, end);) ++end;
    Readouts stretch = stretch_of(references, begin, end);
    if (!reversed[begin]) {
      emit(std::move(stretch));
      continue;
    }
    kept_[heads[begin].idx.slice].push_back(std::move(stretch));
  }
}

void ForwardReferences::release(std::optional<std::uint16_t> slice, const Emit<Readouts>& emit) {
  while (!kept_.empty()) {
    const auto at = slice ? kept_.find(*slice) : kept_.begin();
    if (at == kept_.end()) return;
    const std::vector<Readouts> kept = std::move(at->second);
    kept_.erase(at);
    for (const Readouts& each : kept) {
      const std::set<std::uint16_t>& forward = forward_[slice_of(each.heads.front())];
      for (std::size_t i = 0; i < each.heads.size(); ++i)
        if (!forward.contains(each.heads[i].idx.kspace_encode_step_1)) emit(stretch_of(each, i, i + 1));
    }
  }
}

}  // namespace echotrain
