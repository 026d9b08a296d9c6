#include "gadgets/numerics/core/team/ranks.h"

#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"

namespace echotrain::numerics {
namespace {

std::span<float> span_of(DeviceView<float> values) { return {values.data(), static_cast<std::size_t>(values.size())}; }

/// The communicator of a member whose data are in host memory, where `ranks` exchange.
class HostCommunicator final : public RankCommunicator {
 public:
  explicit HostCommunicator(Ranks& ranks) : ranks_(ranks) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  void sum(Context& context, DeviceView<float> values) override {
    require_host(context);
    ranks_.sum(span_of(values));
  }
  void require_same(Context& context, DeviceView<const float> values) override {
    require_host(context);
    const auto bytes = std::as_bytes(std::span(values.data(), static_cast<std::size_t>(values.size())));
    compare_with_first(ranks_, bytes);
  }
  void broadcast(Context& context, DeviceView<float> values, int from) override {
    require_host(context);
    ranks_.broadcast(std::as_writable_bytes(span_of(values)), from);
  }
  void broadcast(std::vector<std::byte>& bytes, int from) override { numerics::broadcast(ranks_, bytes, from); }
  void abort() noexcept override { aborted_ = true; }

 private:
  void require_host(const Context& context) const {
    if (context.cuda()) throw std::invalid_argument("these ranks exchange data in host memory only");
    if (aborted_) throw ResourceError("another rank of this scan has failed");
  }
  Ranks& ranks_;
  bool aborted_ = false;
};

}  // namespace

void broadcast(Ranks& ranks, std::vector<std::byte>& bytes, int from) {
  std::uint64_t size = bytes.size();
  ranks.broadcast(std::as_writable_bytes(std::span(&size, 1)), from);
  bytes.resize(size);
  if (size > 0) ranks.broadcast(bytes, from);
}

void compare_with_first(Ranks& ranks, std::span<const std::byte> own) {
  std::vector<std::byte> first(own.begin(), own.end());
  ranks.broadcast(first, 0);
  if (std::memcmp(first.data(), own.data(), own.size()) != 0)
    throw ResourceError(
        "this rank computes other numbers than rank 0, so they cannot work together; are their machines of one kind?");
}

std::unique_ptr<RankCommunicator> connect_ranks(Ranks& ranks, Context& context) {
  if (!context.cuda()) return std::make_unique<HostCommunicator>(ranks);
#if ECHOTRAIN_HAS_CUDA && ECHOTRAIN_HAS_NCCL
  return cuda::connect_ranks(ranks, context);
#else
  throw ResourceError("GPUs of several ranks cannot work together: this program was built without NCCL");
#endif
}

}  // namespace echotrain::numerics
