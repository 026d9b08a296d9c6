// PerPlane applies gadgets for 2D data to the planes of a stack.
#pragma once

#include <utility>

#include "gadgets/api/gadget.h"

namespace echotrain {

/// `G` for data of a stack; all planes share its work. G is made with its options and `true`, which tells it that its
/// data are 2D though the header's encoding is 3D. G must not hold items back for rest() or finish().
template <class G>
class PerPlane final : public Gadget<Planes<typename G::Input>, Planes<typename G::Output>> {
 public:
  using Options = typename G::Options;
  using In = typename G::Input;
  using Out = typename G::Output;
  static constexpr std::string_view kName = G::kName;
  static constexpr std::string_view kSummary = G::kSummary;
  static Parameters<Options> parameters() { return G::parameters(); }
  static Delivery delivery(const Options& options) { return delivery_of<G>(options); }

  explicit PerPlane(Options options) : gadget_(std::move(options), true) {}
  void start(const protocol::Header& header, Scan& scan) override { gadget_.start(header, scan); }
  void process(Planes<In>&& data, const Emit<Planes<Out>>& emit) override {
    const std::int64_t planes = data.planes;
    gadget_.process(std::move(data), [&](Out&& out) { emit({std::move(out), planes}); });
  }

 private:
  G gadget_;
};

}  // namespace echotrain
