// The view "Diagnose" shows why the images of one scan are as they are.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/pipeline_spec.h"
#include "gadgets/api/items.h"
#include "gadgets/engine/chain/gadget_clock.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/shared/program/scan_view.h"
#include "protocol/data/header.h"
#include "protocol/data/messages.h"
#include "server/console/live/heart_intervals.h"
#include "server/console/live/trajectory_sample.h"
#include "server/metrics/latency.h"

namespace echotrain {
class AnyGadget;
namespace numerics {
class Context;
}
}  // namespace echotrain

namespace echotrain::server {

/// Keeps the facts of one scan within the one memory budget; leaves out what does not fit, and says so. Thread-safe; no
/// call waits for a viewer.
class ScanDiagnosis {
 public:
  static constexpr int kMostCoils = 256;               ///< of a covariance that is kept
  static constexpr std::size_t kMostPlaces = 64;       ///< gadgets whose times are kept
  static constexpr int kThumb = 64, kMostThumbs = 64;  ///< pixels of a coil's image along its longer side; coils

  ScanDiagnosis(std::uint64_t session, std::shared_ptr<numerics::MemoryBudget> budget);
  ~ScanDiagnosis();
  ScanDiagnosis(const ScanDiagnosis&) = delete;
  ScanDiagnosis& operator=(const ScanDiagnosis&) = delete;

  std::uint64_t session() const { return session_; }

  // Called by the scan's threads.
  void begin(std::string_view pipeline, const protocol::Header& header, config::TrajectoryUnit unit);
  void readouts(const std::vector<protocol::Acquisition>& batch);
  void frame(const FrameTimes& times, const std::vector<std::string>& names);
  void noise(const NoiseSeen& seen);
  /// Called with each item that a gadget is about to get: takes trajectories and coil images from it.
  void item(const AnyGadget& gadget, const Item& item, numerics::Context& compute);
  bool wants_coil_images() const { return coils_wanted_.load(std::memory_order_relaxed); }
  /// Takes coil images in the CPU's memory; images of a GPU are left out.
  void coil_images(numerics::DeviceView<const numerics::cfloat> images, numerics::Context& compute);
  void sent(const ImageLatency& latency);

  // Called by viewers.
  /// Asks for the coils' images of the next frame.
  void want_coil_images() { coils_wanted_ = true; }
  /// An object; null members: not in this scan, or not yet. `coils`: with the newest coil images.
  nlohmann::ordered_json json(bool coils) const;
  std::uint64_t bytes() const;
  /// Frees what can be had again only from another scan.
  std::uint64_t forget();

 private:
  struct Noise {
    int coils = 0;
    std::int64_t samples = 0;
    bool of_another_scan = false;
    std::vector<std::string> labels;
    std::vector<float> deviation;    // by coil, of the real part
    std::vector<float> correlation;  // [coil, coil], magnitude
  };
  struct Thumbs {
    std::uint64_t number = 0;
    int all = 0, coils = 0, width = 0, height = 0;  // all: coils that there are
    std::vector<std::uint8_t> pixels;               // [coil, y, x]
  };
  /// The state that viewers copy, so that they hold no lock while they make text of it.
  struct State {
    bool left_out = false, forgotten = false;
    std::string pipeline, trajectory_name;
    std::vector<std::string> places;
    std::vector<double> last_ms, all_ms;  // by place
    std::uint64_t frames = 0, images = 0, last_images = 0;
    double last_whole_ms = 0, all_whole_ms = 0;
    std::optional<ImageLatency> latency;
    std::shared_ptr<const Noise> noise;
    HeartIntervals heart;
    std::shared_ptr<const Thumbs> thumbs;
  };
  bool pay(std::uint64_t bytes);

  const std::uint64_t session_;
  const std::shared_ptr<numerics::MemoryBudget> budget_;
  std::atomic<bool> coils_wanted_ = false, coils_on_gpu_ = false;

  mutable std::mutex mutex_;
  std::uint64_t bytes_ = 0;  // that were taken from the budget
  std::array<double, 3> scale_{1, 1, 1};
  std::optional<TrajectorySample> trajectory_;
  State state_;
};

}  // namespace echotrain::server
