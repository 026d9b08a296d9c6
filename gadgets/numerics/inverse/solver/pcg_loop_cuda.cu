// The loop of the conjugate gradients on CUDA: steps launched one by one, or a graph that ends itself.
#include <algorithm>
#include <functional>
#include <optional>
#include <stop_token>

#include "gadgets/numerics/core/cuda/programmatic_launch.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/resources.h"
#include "gadgets/numerics/inverse/solver/pcg_ops.h"

namespace echotrain::numerics::cuda {
namespace {

/// True if any item runs. Called by one block.
__device__ bool any_runs(const PcgState* states, std::int64_t batch) {
  int mine = 0;
  for (std::int64_t i = threadIdx.x; i < batch; i += blockDim.x) mine |= states[i].status == PcgState::running ? 1 : 0;
  return __syncthreads_or(mine) != 0;
}

/// The number of steps after which a loop checks whether to go on, which takes a good part of a short step. Steps
/// beyond the last one, and of items that have ended, change nothing.
constexpr int kStepsAtOnce = 4;

/// The number of voxels from which on a step takes the device longer than its launch takes the host: 64^3.
constexpr std::int64_t kEnoughVoxels = 1 << 18;

__global__ void look_kernel(const PcgState* states, std::int64_t batch, int* runs) {
  let_kernel_after_begin();
  wait_for_kernel_before();
  const bool any = any_runs(states, batch);
  if (threadIdx.x == 0) *runs = any ? 1 : 0;
}

/// Launches the steps one by one. The state at the end of a group of steps decides, while the next group runs, whether
/// to go on: the same for all members that iterate together.
void launch_steps(Context& context, const PcgArrays& a, int times, const std::function<void()>& step) {
  const cudaStream_t stream = stream_of(context);
  LaunchThrottle& pace = context.cache<LaunchThrottle>();
  const PcgState* const states = a.states;
  HostArray<int> runs = context.allocate_host<int>({2});
  for (int done = 0, group = 0; done < times; done += kStepsAtOnce, ++group) {
    for (int i = done; i < std::min(done + kStepsAtOnce, times); ++i) step();
    launch_programmatic("pcg_look", look_kernel, {.blocks = dim3(1), .threads = dim3(kThreads)}, stream, states,
                        a.batch, runs.data() + group % 2);
    pace.step(context);
    if (group > 0 && static_cast<const volatile int*>(runs.data())[1 - group % 2] == 0) break;
  }
}

#if CUDART_VERSION >= 12040

/// A flag that, once set, ends the loop after the current iteration. It lies in host memory, so that a launched graph
/// can be stopped.
using StopFlag = const volatile int*;

__global__ void first_kernel(int times, const PcgState* states, std::int64_t batch, int* left, StopFlag stop,
                             cudaGraphConditionalHandle more) {
  const bool runs = any_runs(states, batch);
  if (threadIdx.x != 0) return;
  *left = times;
  cudaGraphSetConditional(more, runs && *stop == 0 ? 1 : 0);
}

/// Decides on the next step, after `done` iterations.
__global__ void next_kernel(const PcgState* states, std::int64_t batch, int done, int* left, StopFlag stop,
                            cudaGraphConditionalHandle more) {
  const bool runs = any_runs(states, batch);
  if (threadIdx.x != 0) return;
  cudaGraphSetConditional(more, (*left -= done) > 0 && runs && *stop == 0 ? 1 : 0);
}

/// The graph, and the memory that only its kernels use. It may be destroyed while the graph runs, when an exception
/// ends the solver: the loop then ends after the current iteration, and graph and memory are released after it.
struct Recording {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  Array<int> left;
  HostArray<int> stop;
  std::optional<std::stop_callback<std::function<void()>>> on_stop;

  explicit Recording(Context& context) : left(context.allocate<int>({1})), stop(context.allocate_host<int>({1})) {
    int* flag = stop.data();
    *flag = 0;
    on_stop.emplace(context.stop_token(), [flag] { *static_cast<volatile int*>(flag) = 1; });
  }
  ~Recording() {
    on_stop.reset();  // it may not have been called, even if the stop was requested
    *static_cast<volatile int*>(stop.data()) = 1;
    if (executable != nullptr) cudaGraphExecDestroy(executable);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
};

cudaError_t add_loop(cudaGraph_t graph, cudaGraphNode_t after, cudaGraphConditionalHandle more, cudaGraph_t& body) {
  cudaGraphNodeParams parameters = {};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = more;
  parameters.conditional.type = cudaGraphCondTypeWhile;
  parameters.conditional.size = 1;
  cudaGraphNode_t node = nullptr;
#if CUDART_VERSION >= 13000
  const cudaError_t status = cudaGraphAddNode(&node, graph, &after, nullptr, 1, &parameters);
#else
  const cudaError_t status = cudaGraphAddNode(&node, graph, &after, 1, &parameters);
#endif
  if (status == cudaSuccess) body = parameters.conditional.phGraph_out[0];
  return status;
}

/// Records `work` on the stream into the graph. Returns false when that is impossible. Recording has always ended on
/// return, also when `work` throws.
template <class Work>
bool record(Context& context, cudaGraph_t graph, const Work& work) {
  const cudaStream_t stream = stream_of(context);
  const Context::Recording recording(context);
  if (cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed) != cudaSuccess)
    return false;
  cudaGraph_t same = nullptr;
  try {
    work();
  } catch (const DeviceLost&) {
    cudaStreamEndCapture(stream, &same);
    throw;
  } catch (const ResourceError&) {
    cudaStreamEndCapture(stream, &same);
    return false;
  } catch (...) {
    cudaStreamEndCapture(stream, &same);
    throw;
  }
  return cudaStreamEndCapture(stream, &same) == cudaSuccess;
}

/// Returns null where the driver or the work does not allow a graph.
std::shared_ptr<void> run_graph(Context& context, const PcgArrays& a, int times, const std::function<void()>& step) {
  const cudaStream_t stream = stream_of(context);
  auto recording = std::make_shared<Recording>(context);
  int *left = recording->left.data(), *stop = recording->stop.data();
  const int steps = std::min(kStepsAtOnce, times);
  cudaGraphConditionalHandle more = 0;
  cudaGraph_t body = nullptr;
  if (cudaGraphCreate(&recording->graph, 0) != cudaSuccess ||
      cudaGraphConditionalHandleCreate(&more, recording->graph, 0, 0) != cudaSuccess)
    return nullptr;
  if (!record(context, recording->graph,
              [&] { first_kernel<<<1, kThreads, 0, stream>>>(times, a.states, a.batch, left, stop, more); }))
    return nullptr;
  cudaGraphNode_t first = nullptr;
  std::size_t nodes = 1;
  if (cudaGraphGetNodes(recording->graph, &first, &nodes) != cudaSuccess || nodes != 1 ||
      add_loop(recording->graph, first, more, body) != cudaSuccess)
    return nullptr;
  if (!record(context, body, [&] {
        for (int i = 0; i < steps; ++i) step();
        next_kernel<<<1, kThreads, 0, stream>>>(a.states, a.batch, steps, left, stop, more);
      }))
    return nullptr;
  if (cudaGraphInstantiate(&recording->executable, recording->graph, 0) != cudaSuccess ||
      cudaGraphLaunch(recording->executable, stream) != cudaSuccess)
    return nullptr;
  return recording;
}

#else

std::shared_ptr<void> run_graph(Context&, const PcgArrays&, int, const std::function<void()>&) { return nullptr; }

#endif

}  // namespace

std::shared_ptr<void> pcg_loop(Context& context, const PcgArrays& a, int times, bool may_record,
                               const std::function<void()>& step) {
  if (times == 0) return nullptr;
  if (may_record && context.resources().options().graphs && a.batch * a.voxels < kEnoughVoxels) {
    // The device runs the first steps one by one, while the host makes the graph of the others.
    const int first = std::min(times, kStepsAtOnce);
    for (int i = 0; i < first; ++i) step();
    times -= first;
    if (times == 0) return nullptr;
    if (auto recording = run_graph(context, a, times, step)) return recording;
    cudaGetLastError();  // the error of work that could not be recorded
  }
  launch_steps(context, a, times, step);
  return nullptr;
}

}  // namespace echotrain::numerics::cuda
