#include "gadgets/numerics/core/team/communicator.h"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stdexcept>

#include "gadgets/numerics/core/dispatch.h"

namespace echotrain::numerics {
namespace {

class Alone final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void sum(Context&, DeviceView<float>) override {}
  void abort() noexcept override {}
};

/// A barrier at which threads wait for each other.
class Meeting {
 public:
  explicit Meeting(int members) : members_(members), values_(static_cast<std::size_t>(members)) {}
  int members() const { return members_; }

  /// Waits for all members; until the next meeting, each can read the others' values.
  void bring(int rank, DeviceView<const float> values) {
    {
      const std::scoped_lock lock(mutex_);
      values_[static_cast<std::size_t>(rank)] = values;
    }
    meet();
  }
  /// Returns when all members have called it.
  void meet() {
    std::unique_lock lock(mutex_);
    const std::uint64_t round = round_;
    if (++here_ == members_) {
      here_ = 0;
      ++round_;
      all_here_.notify_all();
    }
    all_here_.wait(lock, [&] { return aborted_ || round_ != round; });
    if (aborted_) throw ResourceError("another device of this scan has failed");
  }
  DeviceView<const float> of(int rank) const { return values_[static_cast<std::size_t>(rank)]; }
  void abort() noexcept {
    const std::scoped_lock lock(mutex_);
    aborted_ = true;
    all_here_.notify_all();
  }

 private:
  const int members_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<DeviceView<const float>> values_;
  std::uint64_t round_ = 0;
  int here_ = 0;
  bool aborted_ = false;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return meeting_->members(); }
  void sum(Context& context, DeviceView<float> values) override {
    if (context.cuda()) throw std::invalid_argument("threads add up values in host memory only");
    meeting_->bring(rank_, values);
    std::vector<float> total(static_cast<std::size_t>(values.size()), 0.0f);
    for (int member = 0; member < size(); ++member) {
      const DeviceView<const float> part = meeting_->of(member);
      if (part.size() != values.size()) throw std::invalid_argument("members bring different numbers of values");
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += part.data()[i];
    }
    meeting_->meet();  // returns when all have read
    std::copy(total.begin(), total.end(), values.data());
  }
  void abort() noexcept override { meeting_->abort(); }

 private:
  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
};

}  // namespace

Communicator& alone() {
  static Alone communicator;
  return communicator;
}

std::vector<std::unique_ptr<Communicator>> connect_threads(int members) {
  const auto meeting = std::make_shared<Meeting>(members);
  std::vector<std::unique_ptr<Communicator>> ends;
  for (int rank = 0; rank < members; ++rank) ends.push_back(std::make_unique<ThreadCommunicator>(meeting, rank));
  return ends;
}

#if !ECHOTRAIN_HAS_CUDA || !ECHOTRAIN_HAS_NCCL

bool can_connect_devices(std::string* reason) {
  if (reason != nullptr)
    *reason = ECHOTRAIN_HAS_CUDA ? "this program was built without NCCL" : "this program was built without CUDA";
  return false;
}

std::vector<std::unique_ptr<Communicator>> connect_devices(const std::vector<int>&, Resources&) {
  std::string reason;
  can_connect_devices(&reason);
  throw ResourceError("GPUs cannot work together: " + reason);
}

#endif

}  // namespace echotrain::numerics
