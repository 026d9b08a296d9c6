#include "clients/cpp/recon/save_after.h"

#include <fmt/format.h>

#include <type_traits>

namespace echotrain::client {
namespace {

std::vector<std::size_t> extents(const numerics::Shape& shape) { return {shape.begin(), shape.end()}; }

}  // namespace

std::string ItemSaver::name(const std::shared_ptr<const Frame>& frame) const {
  return fmt::format("{}_{}", gadget_, frame ? frame->id : 0);
}

void ItemSaver::save(const Item& item) {
  std::visit(
      [this](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_base_of_v<Readouts, T> || std::is_base_of_v<Samples, T>) {
          save(value);
        } else if constexpr (std::is_same_v<T, KSpace> || std::is_same_v<T, Grid> ||
                             std::is_same_v<T, OversampledImages> || std::is_same_v<T, CoilImages>) {
          save_array(name(value.frame), value.data);
        }
      },
      item);
}

void ItemSaver::save_array(const std::string& name, const Array<cfloat>& data) {
  if (data.size() == 0) return;
  const HostArray<cfloat> host = context_.download<cfloat>(data.view());
  file_.array(name, extents(host.shape()), host.data());
  ++saved_;
}

void ItemSaver::save(const Samples& samples) {
  const std::string base = name(samples.frame);
  save_array(base + "_data", samples.data);
  if (samples.weights.size() > 0) {
    const HostArray<float> host = context_.download<float>(samples.weights.view());
    file_.array(base + "_weights", extents(host.shape()), host.data());
  }
  if (samples.positions) {
    const auto& coordinates = samples.positions->coordinates;
    const std::vector<float> values(coordinates.begin(), coordinates.end());
    const auto dims = static_cast<std::size_t>(samples.positions->dims);
    file_.array(base + "_coordinates", {values.size() / dims, dims}, values.data());
  }
}

void ItemSaver::save(const Readouts& readouts) {
  std::string base = name(readouts.frame);
  if (readouts.kind != protocol::ReadoutKind::imaging) base += fmt::format("_kind{}", static_cast<int>(readouts.kind));
  OpenReadouts& open = open_[base];
  const bool on_host = readouts.host_data.size() > 0;
  if (on_host || readouts.data.size() > 0) {
    const HostArray<cfloat> host = on_host ? readouts.host_data : context_.download<cfloat>(readouts.data.view());
    open.shape = host.shape();
    open.readouts += static_cast<std::size_t>(host.shape()[0]);
    open.data.insert(open.data.end(), host.data(), host.data() + host.size());
    if (readouts.trajectory.size() > 0) {
      open.trajectory_shape = readouts.trajectory.shape();
      open.trajectory.insert(open.trajectory.end(), readouts.trajectory.data(),
                             readouts.trajectory.data() + readouts.trajectory.size());
    }
  }
  if (!readouts.last) return;
  write(base, open);
  open_.erase(base);
}

void ItemSaver::write(const std::string& name, const OpenReadouts& open) {
  if (open.readouts == 0) return;
  std::vector<std::size_t> shape = extents(open.shape);
  shape[0] = open.readouts;
  file_.array(name + "_data", shape, open.data.data());
  if (!open.trajectory.empty()) {
    shape = extents(open.trajectory_shape);
    shape[0] = open.readouts;
    file_.array(name + "_trajectory", shape, open.trajectory.data());
  }
  ++saved_;
}

void ItemSaver::finish() {
  for (const auto& [name, open] : open_) write(name, open);
  open_.clear();
}

}  // namespace echotrain::client
