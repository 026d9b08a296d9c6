// ExternalCalibration keeps reference lines for later scans, and gives a scan those of an earlier one.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/shared/measurement.h"
#include "gadgets/shared/store/calibration_store.h"

namespace echotrain {

/// Keeps the reference lines (flags 20, 21) of Cartesian scans with a measurement ID for later scans, when the scan is
/// complete, and gives an accelerated scan those of the scan that its header names, where its calibrationMode is
/// external, or separate and no such line has come: as calibration readouts before the first readout for such an image,
/// as if they had been sent with it. Lines are kept as received, so this gadget belongs before all that change
/// channels: these whiten or compress the lines like the scan's own data. Whitening may come before: it is taken back
/// from lines that are kept, and done to those that are given. Lines of EPI that are turned, but still count as read
/// backwards (flag 22, for slice_grappa), are not kept.
///
/// For each encoding space, slice, contrast and set, the lines of the first phase and repetition are kept. They serve
/// encoding spaces of the same field of view; rows and samples go to the same place of k-space in another matrix, or
/// are left out. Coils are matched by their labels (coil_labels.h). A dependency of any type but noise may name the
/// scan; among several, the last known one counts. Several ranks neither keep nor use lines of other scans.
///
/// If no lines fit, a warning tells why, and the scan goes on without them, or is refused (`require_calibration`). A
/// scan whose slices lie elsewhere than the lines (position, directions, table) is refused, because its coil
/// sensitivities differ. Images made with them note calibration_from "store" and calibration_age_s.
class ExternalCalibration final : public Gadget<Readouts, Readouts> {
 public:
  struct Options {
    bool keep = true;
    bool require_calibration = false;
  };
  static constexpr std::string_view kName = "external_calibration";
  static constexpr std::string_view kSummary =
      "Keeps reference lines for later scans, and gives accelerated scans whose calibration is external those of the "
      "scan that their header names.";
  static constexpr Delivery kDelivery = Delivery::windows;
  static Parameters<Options> parameters();

  explicit ExternalCalibration(Options options) : options_(options) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override;
  void finish(End how, const Emit<Readouts>& emit) override;

 private:
  enum class Mode { own, separate, external };  // the source of a space's reference lines
  struct Space : StoredSpace {
    bool cartesian = false;
    Mode mode = Mode::own;
  };
  struct Kept {
    std::vector<protocol::AcquisitionHeader> heads;
    HostArray<cfloat> data;  // [readout, coil, sample]
    /// [coil, coil], by which they were whitened; empty: they were not. Shared by lines that are alike.
    std::shared_ptr<const std::vector<cfloat>> whitening;
  };
  using Owner =
      std::tuple<std::uint16_t, std::uint16_t, std::uint16_t, std::uint16_t>;  // encoding, slice, contrast, set

  bool has_store() const;
  CalibrationStore& store() const;
  void keep(const Readouts& readouts);
  bool is_wanted(const protocol::AcquisitionHeader& head);
  const std::vector<cfloat>& whitening(std::int64_t coils) const;
  CalibrationRecord record() const;
  void look_up(Mode mode, int coils, const Emit<Readouts>& emit);
  std::optional<std::size_t> space_for(const StoredSpace& theirs) const;
  std::vector<Readouts> lines_for(const CalibrationRecord& record, int coils, std::string& why_not);
  std::optional<protocol::AcquisitionHeader> moved(protocol::AcquisitionHeader head, const StoredSpace& from) const;
  void go_without(const std::string& why);
  void check_place(const protocol::AcquisitionHeader& head);

  Options options_;
  Scan* scan_ = nullptr;
  RecordKey measurement_;  // this scan's key
  std::vector<std::string> dependencies_, labels_;
  std::vector<Space> spaces_;  // per encoding
  bool turned_ = false;        // EPI's lines were turned before they come here
  bool whitened_ = false;      // readouts may have been whitened before they come here
  bool looked_up_ = false, has_own_lines_ = false;
  std::int64_t used_unix_s_ = 0;  // time of the used lines' measurement; 0: none are used
  std::string used_id_;           // ID of the measurement that brought them
  /// One line of each of their slices, until an image of the slice comes.
  std::map<std::uint16_t, protocol::AcquisitionHeader> places_;
  std::vector<Kept> kept_;
  std::uint64_t kept_bytes_ = 0;
  int kept_coils_ = 0;
  bool too_many_ = false;
  std::map<Owner, std::pair<std::uint16_t, std::uint16_t>> owners_;  // phase, repetition
};

}  // namespace echotrain
