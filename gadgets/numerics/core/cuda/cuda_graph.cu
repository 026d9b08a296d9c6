#include "gadgets/numerics/core/cuda/cuda_graph.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/resources.h"

namespace echotrain::numerics::cuda {
namespace {

struct WorkGraph {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  WorkGraph() = default;
  WorkGraph(const WorkGraph&) = delete;
  WorkGraph& operator=(const WorkGraph&) = delete;
  ~WorkGraph() {
    if (executable != nullptr) cudaGraphExecDestroy(executable);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
  }
};

/// Records `work`. The result has no executable where the driver or the work does not allow it.
std::shared_ptr<WorkGraph> record_work(Context& context, const std::function<void()>& work) {
  auto result = std::make_shared<WorkGraph>();
  const cudaStream_t stream = stream_of(context);
  {
    const Context::Recording recording(context);
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) != cudaSuccess) {
      cudaGetLastError();
      return result;
    }
    try {
      work();
    } catch (const DeviceLost&) {
      cudaStreamEndCapture(stream, &result->graph);
      throw;
    } catch (const ResourceError&) {
      cudaStreamEndCapture(stream, &result->graph);
      cudaGetLastError();
      return result;
    } catch (...) {
      cudaStreamEndCapture(stream, &result->graph);
      cudaGetLastError();
      throw;
    }
    if (cudaStreamEndCapture(stream, &result->graph) != cudaSuccess) {
      cudaGetLastError();
      return result;
    }
  }
  if (cudaGraphInstantiate(&result->executable, result->graph, 0) != cudaSuccess) {
    cudaGetLastError();
    result->executable = nullptr;
    return result;
  }
  // Uploads now what the first launch would upload otherwise. Its error does not matter.
  if (cudaGraphUpload(result->executable, stream) != cudaSuccess) cudaGetLastError();
  return result;
}

}  // namespace

void run_as_graph(Context& context, std::shared_ptr<void>& recorded, const char* what,
                  const std::function<void()>& work) {
  if (!context.resources().options().graphs) return work();
  if (!recorded) recorded = record_work(context, work);
  const auto* const graph = static_cast<const WorkGraph*>(recorded.get());
  if (graph->executable == nullptr) return work();
  check(cudaGraphLaunch(graph->executable, stream_of(context)), what);
}

}  // namespace echotrain::numerics::cuda
