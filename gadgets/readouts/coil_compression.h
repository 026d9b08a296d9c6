// CoilCompression replaces coils by fewer virtual coils, so that all later work costs less.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/mri/coils/compression.h"
#include "gadgets/numerics/transforms/fft/fft.h"

namespace echotrain {

/// Replaces the coils by the virtual coils that hold most of the signal, found in the middle of k-space: in calibration
/// readouts that come before a slice's first imaging readout, else in its first whole frame, with the calibration
/// readouts that came in its midst. Until the virtual coils of a slice are known, its readouts are held, so that only
/// its first frame waits. Data with no more coils than wanted pass unchanged. Noise should be whitened before; then it
/// stays white.
///
/// In:  Readouts [readout, coil, sample]; imaging and calibration readouts are compressed, other kinds pass by.
/// Out: Readouts [readout, virtual coil, sample]. Images note coils_received, coils_used and compression_energy.
///
/// The middle of k-space (calibration region) has `lines` rows of each phase encoding axis in Cartesian scans, all
/// readouts in others; of these readouts `lines` samples about the centre of the echo, but all samples of spirals and
/// the like. `geometric` transforms whole readouts, so it takes Cartesian ones of the encoded extent only.
///
/// Throws ClientError when the number of coils changes, when there is no signal, where `geometric` gets unsuitable
/// readouts, and where `from: calibration` finds no calibration readouts. Sources: Buehrer et al., MRM 57, 2007 (pca);
/// Zhang et al., MRM 69, 2013 (geometric).
class CoilCompression final : public Gadget<Readouts, Readouts> {
 public:
  struct Options {
    std::string method = "pca";
    std::int64_t channels = 0;
    double energy = 0.995;
    std::string from = "auto";
    std::int64_t lines = 24;
    std::string per = "slice";
  };
  static constexpr std::string_view kName = "coil_compression";
  static constexpr std::string_view kSummary =
      "Replaces many coils by fewer virtual ones that hold nearly all of the signal; noise should be whitened before.";
  static constexpr Delivery kDelivery = Delivery::windows;
  static Parameters<Options> parameters();

  explicit CoilCompression(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override;
  void finish(End how, const Emit<Readouts>& emit) override;

 private:
  /// The middle of an encoding space.
  struct Space {
    bool cartesian = false, whole_readouts = false;
    std::int64_t columns = 0;                                       // encoded
    std::int64_t first_1 = 0, last_1 = 0, first_2 = 0, last_2 = 0;  // encoding steps, inclusive
  };
  /// A slice, or the scan: the readouts that share one set of virtual coils.
  struct Group {
    std::vector<Readouts> held;
    std::int64_t calibration_readouts = 0;
    bool holds_imaging = false;
    Array<cfloat> matrix;  // [kept, coil] or [kept, coil, sample]; empty until known
    double energy = 0;
  };
  using Chosen = bool (CoilCompression::*)(const protocol::AcquisitionHeader&, protocol::ReadoutKind) const;

  bool geometric() const { return options_.method == "geometric"; }
  std::vector<Readouts> by_slice(Readouts&& readouts) const;
  void take(Group& group, Readouts&& readouts, const Emit<Readouts>& emit);
  bool is_central(const protocol::AcquisitionHeader& head, protocol::ReadoutKind kind) const;
  bool is_calibration(const protocol::AcquisitionHeader& head, protocol::ReadoutKind kind) const;
  bool is_any(const protocol::AcquisitionHeader& head, protocol::ReadoutKind kind) const;
  void learn(Group& group, const std::optional<std::uint64_t>& frame);
  bool add(const Group& group, const std::optional<std::uint64_t>& frame, Chosen chosen,
           numerics::DeviceView<numerics::cdouble> gram);
  void check_columns(const Readouts& readouts) const;
  Array<cfloat> transformed(const Array<cfloat>& data, numerics::Direction direction) const;
  Readouts compressed(const Group& group, Readouts&& readouts) const;
  void give(Group& group, const Emit<Readouts>& emit);

  Options options_;
  Scan* scan_ = nullptr;
  std::vector<Space> spaces_;
  std::int64_t coils_ = 0;            // number of incoming coils; 0: not known yet
  std::optional<std::int64_t> kept_;  // number of virtual coils, the same in all groups
  std::shared_ptr<bool> by_slice_;    // tells others that slices have virtual coils of their own
  std::map<std::uint16_t, Group> groups_;
};

}  // namespace echotrain
