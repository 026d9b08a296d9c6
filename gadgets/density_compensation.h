// Gathers one frame of non-Cartesian readouts and weights each sample by the k-space it stands for.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gadgets/gadget.h"

namespace echotrain {

/// Positions come from the data's trajectory, in the pipeline's `trajectory_unit`. Samples beyond 0.5005 cycles/pixel
/// on an axis are dropped with a warning; a scan in which most are is refused, naming the unit it is likely in.
/// Positions and weights are kept and reused by frames that repeat the trajectory.
class DensityCompensation final : public Gadget<Readouts, Samples> {
 public:
  struct Options {
    std::string method = "ramp";
    std::string normalize = "none";
  };
  static constexpr std::string_view kName = "density_compensation";
  static constexpr std::string_view kSummary =
      "Gathers a frame of non-Cartesian readouts and weights each sample by the k-space it stands for.";
  static Parameters<Options> parameters();

  explicit DensityCompensation(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Session& session) override;
  void process(Readouts&& readouts, const Emit<Samples>& emit) override;

 private:
  struct Space {
    int dims = 2;
    std::array<double, 3> to_cycles_per_pixel{1, 1, 1};
    std::array<double, 3> matrix{};
    std::array<double, 3> pixel_m{};
    std::array<double, 3> voxel_ratio{1, 1, 1};  // image voxel / encoded voxel
  };
  struct Buffer {
    std::vector<Readouts> batches;
    std::int64_t readouts = 0;
  };
  /// A trajectory met before.
  struct Known {
    std::uint16_t encoding = 0;
    std::shared_ptr<const SamplePositions> positions;
    std::uint64_t weights_digest = 0;  // of the weights that came with the data
    Array<float> weights;
  };

  Samples gather(const Buffer& buffer, const Space& space, const std::shared_ptr<Frame>& frame);
  Known weigh(std::vector<double> coordinates, std::vector<float> data_weights, std::uint16_t encoding,
              std::int64_t samples_per_readout);
  std::vector<bool> outside(const std::vector<double>& coordinates, const Space& space);
  static std::string likely_unit(double largest, const Space& space);

  Options options_;
  Session* session_ = nullptr;
  std::vector<Space> spaces_;
  std::map<std::uint64_t, Buffer> open_;
  std::vector<Known> known_;  // most recent first, bounded
  bool warned_ = false;       // of dropped samples
};

}  // namespace echotrain
