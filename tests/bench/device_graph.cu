#include <algorithm>
#include <memory>

#include "gadgets/numerics/core/cuda_support.cuh"
#include "tests/bench/device_graph.h"

namespace echotrain::bench {
namespace {

using numerics::Context;
using numerics::cuda::check;
using numerics::cuda::Event;
using numerics::cuda::stream_of;

struct Graph {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  ~Graph() {
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  }
};

}  // namespace

double device_seconds_of(const std::vector<Context*>& contexts, const std::function<void()>& work) {
  constexpr int kWarmUp = 5, kRuns = 41;
  std::vector<std::unique_ptr<Context::KeepMemory>> repeated;
  for (Context* context : contexts) repeated.push_back(std::make_unique<Context::KeepMemory>(*context));
  work();
  for (Context* context : contexts) context->synchronize();

  const cudaStream_t first = stream_of(*contexts[0]);
  Graph graph;
  Event fork;
  std::vector<std::unique_ptr<Event>> joins;
  check(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed), "recording");
  check(cudaEventRecord(fork.get(), first), "recording");
  for (std::size_t i = 1; i < contexts.size(); ++i)
    check(cudaStreamWaitEvent(stream_of(*contexts[i]), fork.get()), "recording");
  work();
  for (std::size_t i = 1; i < contexts.size(); ++i) {
    joins.push_back(std::make_unique<Event>());
    check(cudaEventRecord(joins.back()->get(), stream_of(*contexts[i])), "recording");
    check(cudaStreamWaitEvent(first, joins.back()->get()), "recording");
  }
  check(cudaStreamEndCapture(first, &graph.graph), "recording");
  check(cudaGraphInstantiate(&graph.executable, graph.graph, 0), "making a graph");
  check(cudaEventCreate(&graph.begin), "making an event");
  check(cudaEventCreate(&graph.end), "making an event");
  std::vector<double> seconds;
  for (int i = -kWarmUp; i < kRuns; ++i) {
    check(cudaEventRecord(graph.begin, first), "recording an event");
    check(cudaGraphLaunch(graph.executable, first), "running a graph");
    check(cudaEventRecord(graph.end, first), "recording an event");
    check(cudaEventSynchronize(graph.end), "waiting");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, graph.begin, graph.end), "reading the time");
    if (i >= 0) seconds.push_back(static_cast<double>(milliseconds) / 1e3);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace echotrain::bench
