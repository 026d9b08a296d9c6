// OverKSpace makes a gadget of images out of a gadget of k-space.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "gadgets/api/gadget.h"
#include "gadgets/images/kspace/acquired_extent.h"

namespace echotrain {

/// A change of k-space [coil, z, y, x] in place; it returns its notes for the image's meta attributes.
using KSpaceChange = std::function<std::map<std::string, std::string>(numerics::DeviceView<cfloat>)>;
/// Transforms images to k-space, changes that, and transforms it back.
CoilImages changed(numerics::Context& compute, const CoilImages& images, const KSpaceChange& change);

/// The form for images of G, a gadget of k-space. G::change_of(images, extent) returns an optional KSpaceChange;
/// without one the images pass unchanged.
template <class G>
class OverKSpace final : public Gadget<CoilImages, CoilImages> {
 public:
  using Options = typename G::Options;
  static constexpr std::string_view kName = G::kName;
  static constexpr std::string_view kSummary = G::kSummary;
  static Parameters<Options> parameters() { return G::parameters(); }

  /// Throws what G's constructor throws.
  explicit OverKSpace(Options options) : gadget_(std::move(options)) {}
  void start(const protocol::Header& header, Scan& scan) override {
    scan_ = &scan;
    extent_ = AcquiredExtent(header);
    gadget_.start(header, scan);
  }
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override {
    const std::optional<KSpaceChange> change = gadget_.change_of(images, extent_);
    emit(change ? changed(scan_->compute, images, *change) : std::move(images));
  }

 private:
  G gadget_;
  AcquiredExtent extent_;
  Scan* scan_ = nullptr;
};

}  // namespace echotrain
