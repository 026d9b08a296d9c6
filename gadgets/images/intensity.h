// Intensity divides images by the receive field of their coils.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "gadgets/api/gadget.h"
#include "gadgets/shared/measurement.h"
#include "gadgets/shared/prescan/receive_field.h"
#include "gadgets/shared/prescan/receive_prescan.h"

namespace echotrain {

/// Divides images by their receive field, whose mean is 1 where there is signal: near the coils they get darker, far
/// from them brighter, and so does noise. Belongs behind the combination of the coils (root sum of squares, or maps of
/// unit power). A slice's first image fixes its field, for all contrasts, phases, repetitions and sets; a slice that
/// moves gets a new one. The first image with signal waits for the device, later ones do not.
///
/// prescan: the field is that of readouts of flag 29 by the array and by the body coil (gadgets/shared/prescan), of
/// this scan or of the one that its header names, of the same client and device; coils are matched by their labels, and
/// whitened as the scan's. n4: a field of the image alone (gadgets/numerics/mri/intensity/bias_field.h), of each slice
/// by itself. auto: the prescan, or else n4. A scan that is complete leaves its prescan for later ones that name it.
///
/// Images of other units (g-factor, SNR), and a client's phases, pass unchanged. Meta attributes: intensity_field
/// (prescan, prescan of another scan, n4 or none), intensity_spread (standard deviation of the field over its mean).
class Intensity final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    std::string method = "auto";
  };
  static constexpr std::string_view kName = "intensity";
  static constexpr std::string_view kSummary =
      "Divides images by their coils' receive field: that of a prescan, or one that is found in the image (N4).";
  static Parameters<Options> parameters();

  explicit Intensity(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;
  void finish(End how, const Emit<CoilImages>& emit) override;

 private:
  struct Field {
    protocol::AcquisitionHeader head{};  // where it holds
    Array<float> values;                 // [z, y, x]; empty: images pass unchanged
    std::string from = "none";
    double spread = 0;
  };
  using Slice = std::tuple<std::uint16_t, std::uint16_t, std::uint16_t>;  // encoding, slice, series of a client

  std::optional<Field> field_of(const CoilImages& images);
  bool from_prescan(const CoilImages& images, Field& field);
  bool from_image(const CoilImages& images, Field& field);
  void find_prescan();
  std::shared_ptr<const PrescanRecord> prescan_of_others();
  std::string use(const PrescanRecord& record, bool own);

  Options options_;
  Scan* scan_ = nullptr;
  FieldsOfView fields_of_view_;
  std::shared_ptr<PrescanLines> lines_;  // of this scan
  RecordKey measurement_;                // its key
  std::vector<std::string> dependencies_, labels_;
  std::optional<std::uint32_t> channels_;
  bool looked_ = false;
  std::string prescan_from_;
  std::optional<ReceiveField> prescan_;
  std::map<Slice, Field> fields_;
};

}  // namespace echotrain
