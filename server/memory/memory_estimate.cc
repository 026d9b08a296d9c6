#include "server/memory/memory_estimate.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include "config/branch_spec.h"
#include "gadgets/engine/chain/chain_plan.h"
#include "gadgets/shared/program/step_settings.h"

namespace echotrain::server {

namespace {

constexpr double kNumber = 8;           // bytes of a complex number
constexpr double kOfLine = 512;         // bytes of a readout's head while its frame is open
constexpr double kOfAnyScan = 2 << 20;  // bytes of gadgets and of messages

double voxels(const std::array<std::uint32_t, 3>& matrix) {
  return static_cast<double>(matrix[0]) * static_cast<double>(matrix[1]) * static_cast<double>(matrix[2]);
}

/// True if the chain itself has one of these gadgets.
bool has(const ChainPlan& chain, std::initializer_list<std::string_view> names) {
  return std::any_of(chain.gadgets.begin(), chain.gadgets.end(), [&](const config::GadgetSpec& gadget) {
    return std::find(names.begin(), names.end(), gadget.name) != names.end();
  });
}

/// The needs of a chain beside the data of a frame.
struct Extra {
  bool solves = false;  ///< convolutions on a doubled grid
  bool joins = false;   ///< weights or maps of all coils, and what they are made of
};

double numbers_of(const protocol::Encoding& encoding, double channels, const Extra& extra, bool on_device) {
  const double images = std::max(voxels(encoding.encoded.matrix), voxels(encoding.recon.matrix)) * channels;
  if (on_device) return images;
  const bool on_grid =
      encoding.trajectory == protocol::Trajectory::cartesian || encoding.trajectory == protocol::Trajectory::epi;
  const bool volume = encoding.encoded.matrix[2] > 1;
  const double doubled = extra.solves ? 4 * voxels(encoding.encoded.matrix) * (volume ? 8 : 4) : 0;
  return ((on_grid ? 3 : 6) + (extra.joins ? 2 : 0)) * images + doubled;
}

/// Returns the complex numbers that a chain and its branches take.
double numbers_of(const protocol::Header& header, const ChainPlan& chain, bool on_device) {
  const Extra extra{has(chain, {"fhd", "pcg"}), has(chain, {"grappa", "sense", "encoding"})};
  const double channels = header.receiver_channels.value_or(8);
  double numbers = 0, images = 0;
  for (const protocol::Encoding& encoding : header.encodings) {
    numbers = std::max(numbers, numbers_of(encoding, channels, extra, on_device));
    images = std::max(images, numbers_of(encoding, channels, {}, true));
  }
  for (const auto& [place, branch] : chain.branches) {
    const ItemType begin = branch.chain->types.front();
    const bool makes_images = begin != ItemType::coil_images && begin != ItemType::image;
    numbers += makes_images ? numbers_of(header, *branch.chain, on_device) : images;
  }
  return numbers;
}

}  // namespace

std::uint64_t memory_estimate(const protocol::Header& header, const PipelinePlan& plan, numerics::Backend backend) {
  const bool on_device = backend == numerics::Backend::cuda;
  const double numbers = numbers_of(header, plan.chain_for(header).chain(), on_device);
  double lines = 0;
  for (const protocol::Encoding& encoding : header.encodings)
    lines = std::max(lines, static_cast<double>(encoding.encoded.matrix[1]) * encoding.encoded.matrix[2]);
  const double bytes = kOfAnyScan + 8 * static_cast<double>(header.xml.size()) + kOfLine * lines + kNumber * numbers;
  return static_cast<std::uint64_t>(std::min(bytes, 1e18));
}

namespace {
constexpr std::int64_t kSessionMib = 8192;
constexpr std::int64_t kStepQueuesMib = 32;  // both queues of gadgets/steps/peer.h
std::uint64_t bytes_of(std::int64_t mib) { return static_cast<std::uint64_t>(mib) << 20; }

/// The memory of a `python` step beside its process: both areas of arrays, or both queues of messages.
std::int64_t beside_process_mib(const config::Node& parameters) {
  const auto given = [&](const char* name) { return parameters.get(name).kind() != config::Node::Kind::null; };
  if (!given("takes") || parameters.get("takes").as_string() == "messages") return kStepQueuesMib;
  return 2 * (given("shared_mib") ? parameters.get("shared_mib").as_int() : kSharedMib);
}
}  // namespace

std::uint64_t step_memory(const protocol::Header& header, const PipelinePlan& plan,
                          const config::ServerOptions& options) {
  std::int64_t mib = 0;
  for (const config::GadgetSpec& gadget : config::gadgets_in(plan.chain_for(header).spec().gadgets)) {
    if (gadget.name == "python") mib += options.steps.python_memory_mib + beside_process_mib(gadget.parameters);
    if (gadget.name == "mrd_server") mib += kStepQueuesMib;
  }
  return bytes_of(mib);
}

std::uint64_t session_memory(const config::ServerOptions& options, const numerics::MemoryBudget& budget) {
  if (options.session_memory_mib > 0) return std::min(bytes_of(options.session_memory_mib), budget.bound());
  return std::min(bytes_of(kSessionMib), budget.bound() / 2);
}

std::uint64_t device_memory(const config::ServerOptions& options) {
  if (options.device_memory_mib > 0) return bytes_of(options.device_memory_mib);
  return bytes_of(options.session_memory_mib > 0 ? options.session_memory_mib : kSessionMib);
}

}  // namespace echotrain::server
