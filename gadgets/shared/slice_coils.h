// SliceCoils tells the gadgets of one scan whether slices have virtual coils of their own.
#pragma once

#include <memory>
#include <vector>

#include "gadgets/api/scan.h"

namespace echotrain {

/// Gadgets of this scan that give each slice virtual coils of its own, so that lines of several slices have no coils in
/// common. A gadget announces that in its start(), and sets the returned flag once it does so; later gadgets ask in
/// theirs.
class SliceCoils {
 public:
  static std::shared_ptr<bool> announce(Scan& scan) {
    auto& here = of(scan);
    return here.emplace_back(std::make_shared<bool>(false));
  }
  static std::vector<std::shared_ptr<bool>> announced(Scan& scan) { return of(scan); }

 private:
  static std::vector<std::shared_ptr<bool>>& of(Scan& scan) {
    auto& here = scan.compute.cache<SliceCoils>();
    if (here.scan_ != &scan) here.set_.clear();  // a context may outlive a scan
    here.scan_ = &scan;
    return here.set_;
  }

  const Scan* scan_ = nullptr;
  std::vector<std::shared_ptr<bool>> set_;
};

}  // namespace echotrain
