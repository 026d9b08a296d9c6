// The Communicator of one process's CUDA devices, by NCCL. NCCL's library is loaded when it is first needed, so that
// programs start on machines without it.
#include "gadgets/numerics/core/backends_built.h"

#if ECHOTRAIN_HAS_NCCL
#include <dlfcn.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/core/team/communicator.h"
#include "gadgets/numerics/core/team/ranks.h"

namespace echotrain::numerics {
namespace {

struct Nccl {
  decltype(&ncclCommInitAll) init_all = nullptr;
  decltype(&ncclGetUniqueId) unique_id = nullptr;
  decltype(&ncclCommInitRank) init_rank = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  std::string problem;

  static const Nccl& get() {
    static const Nccl nccl;
    return nccl;
  }
  void check(ncclResult_t status, const char* what) const {
    if (status != ncclSuccess) throw ResourceError(std::string("NCCL: ") + what + " failed: " + error_string(status));
  }

 private:
  Nccl() {
    void* library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);  // it stays until the process ends
    if (library == nullptr) {
      const char* error = dlerror();
      problem = std::string("NCCL cannot be loaded: ") + (error != nullptr ? error : "libnccl.so.2");
      return;
    }
    find(library, "ncclCommInitAll", init_all);
    find(library, "ncclGetUniqueId", unique_id);
    find(library, "ncclCommInitRank", init_rank);
    find(library, "ncclAllReduce", all_reduce);
    find(library, "ncclBroadcast", broadcast);
    find(library, "ncclCommAbort", abort);
    find(library, "ncclCommDestroy", destroy);
    find(library, "ncclGetErrorString", error_string);
  }
  template <class Function>
  void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) problem = std::string("libnccl.so.2 has no ") + name;
  }
};

/// A pool of connections that no team uses, by their devices.
class Spare {
 public:
  Spare() = default;
  ~Spare() {
    for (auto& [devices, connections] : kept_)
      for (auto& comms : connections)
        for (const ncclComm_t comm : comms) Nccl::get().destroy(comm);
  }
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;
  std::vector<ncclComm_t> take(const std::vector<int>& devices) {
    const std::scoped_lock lock(mutex_);
    auto& kept = kept_[devices];
    if (kept.empty()) return {};
    auto comms = std::move(kept.back());
    kept.pop_back();
    return comms;
  }
  void keep(const std::vector<int>& devices, std::vector<ncclComm_t> comms) {
    const std::scoped_lock lock(mutex_);
    kept_[devices].push_back(std::move(comms));
  }

 private:
  std::mutex mutex_;
  std::map<std::vector<int>, std::vector<std::vector<ncclComm_t>>> kept_;
};

/// The connection of one team. It is kept for another team when its last end is gone, unless it was aborted.
struct Connection {
  Connection(const std::vector<int>& of, std::shared_ptr<Spare> kept)
      : devices(of), ends(of.size()), spare(std::move(kept)) {}

  const std::vector<int> devices;
  std::vector<ncclComm_t> comms;
  std::vector<std::timed_mutex> ends;  ///< locks of the comms: NCCL allows one thread at a time
  std::atomic<bool> aborted = false;
  const std::shared_ptr<Spare> spare;

  ~Connection() {
    if (!aborted) spare->keep(devices, std::move(comms));
  }
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<Connection> connection, int rank)
      : connection_(std::move(connection)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(connection_->devices.size()); }
  void sum(Context& context, DeviceView<float> values) override {
    const cudaStream_t stream = cuda::stream_of(context);
    const std::scoped_lock lock(connection_->ends[static_cast<std::size_t>(rank_)]);
    if (connection_->aborted) throw ResourceError("another device of this scan has failed");
    const Nccl& nccl = Nccl::get();
    nccl.check(nccl.all_reduce(values.data(), values.data(), static_cast<std::size_t>(values.size()), ncclFloat,
                               ncclSum, connection_->comms[static_cast<std::size_t>(rank_)], stream),
               "adding up");
  }
  /// Calls enqueue work and return at once, but the first ones may wait for other members to connect; this ends the
  /// wait.
  void abort() noexcept override {
    if (connection_->aborted.exchange(true)) return;
    for (std::size_t rank = 0; rank < connection_->comms.size(); ++rank) {
      const std::unique_lock lock(connection_->ends[rank], std::chrono::seconds(2));
      Nccl::get().abort(connection_->comms[rank]);
    }
  }

 private:
  const std::shared_ptr<Connection> connection_;
  const int rank_;
};

/// The communicator of a member that is a process of its own. The connection lives until the process ends.
class NcclRank final : public RankCommunicator {
 public:
  NcclRank(Ranks& ranks, ncclComm_t comm) : ranks_(ranks), comm_(comm) {}
  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  void sum(Context& context, DeviceView<float> values) override {
    const cudaStream_t stream = stream_of(context);
    Nccl::get().check(Nccl::get().all_reduce(values.data(), values.data(), static_cast<std::size_t>(values.size()),
                                             ncclFloat, ncclSum, comm_, stream),
                      "adding up");
  }
  void broadcast(Context& context, DeviceView<float> values, int from) override {
    const cudaStream_t stream = stream_of(context);
    Nccl::get().check(Nccl::get().broadcast(values.data(), values.data(), static_cast<std::size_t>(values.size()),
                                            ncclFloat, from, comm_, stream),
                      "handing on");
  }
  void broadcast(std::vector<std::byte>& bytes, int from) override { numerics::broadcast(ranks_, bytes, from); }
  void require_same(Context& context, DeviceView<const float> values) override {
    const HostArray<float> host = context.download<float>(values);
    compare_with_first(ranks_, std::as_bytes(std::span(host.data(), static_cast<std::size_t>(host.size()))));
  }
  void abort() noexcept override {
    if (!std::exchange(aborted_, true)) Nccl::get().abort(comm_);
  }

 private:
  cudaStream_t stream_of(Context& context) const {
    if (aborted_) throw ResourceError("another rank of this scan has failed");
    return cuda::stream_of(context);
  }
  Ranks& ranks_;
  const ncclComm_t comm_;
  bool aborted_ = false;
};

/// Lets `device` access the memory of the other device's arrays.
void give_access(int device, int other) {
  int can = 0;
  if (cudaDeviceCanAccessPeer(&can, device, other) != cudaSuccess || can == 0) {
    cudaGetLastError();  // clears the error; copies go through the host
    return;
  }
  cudaMemPool_t pool = nullptr;
  cuda::check(cudaDeviceGetDefaultMemPool(&pool, other), "finding the memory pool");
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = device;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  cuda::check(cudaMemPoolSetAccess(pool, &access, 1), "sharing the memory pool");
}

}  // namespace

bool can_connect_devices(std::string* reason) {
  const Nccl& nccl = Nccl::get();
  if (reason != nullptr) *reason = nccl.problem;
  return nccl.problem.empty();
}

std::vector<std::unique_ptr<Communicator>> connect_devices(const std::vector<int>& devices, Resources& resources) {
  std::string reason;
  if (!can_connect_devices(&reason)) throw ResourceError("GPUs cannot work together: " + reason);
  auto connection = std::make_shared<Connection>(devices, resources.share<Spare>());
  connection->comms = connection->spare->take(devices);
  if (connection->comms.empty()) {
    for (const int device : devices)
      for (const int other : devices)
        if (device != other) give_access(device, other);
    std::vector<ncclComm_t> comms(devices.size());
    const ncclResult_t status = Nccl::get().init_all(comms.data(), static_cast<int>(devices.size()), devices.data());
    connection->aborted = status != ncclSuccess;
    Nccl::get().check(status, "connecting devices");
    connection->comms = std::move(comms);
  }
  std::vector<std::unique_ptr<Communicator>> ends;
  for (int rank = 0; rank < static_cast<int>(devices.size()); ++rank)
    ends.push_back(std::make_unique<NcclCommunicator>(connection, rank));
  return ends;
}

std::unique_ptr<RankCommunicator> cuda::connect_ranks(Ranks& ranks, Context& context) {
  std::string reason;
  if (!can_connect_devices(&reason)) throw ResourceError("GPUs of several ranks cannot work together: " + reason);
  const Nccl& nccl = Nccl::get();
  cuda::stream_of(context);  // sets the device, which NCCL uses
  ncclUniqueId id{};
  if (ranks.rank() == 0) nccl.check(nccl.unique_id(&id), "making an address");
  ranks.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
  ncclComm_t comm = nullptr;
  nccl.check(nccl.init_rank(&comm, ranks.size(), id, ranks.rank()), "connecting the ranks' devices");
  return std::make_unique<NcclRank>(ranks, comm);
}

}  // namespace echotrain::numerics
#endif
