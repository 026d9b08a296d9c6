#include "tests/server/gadgets/failing_gadgets.h"

#include <stdexcept>

#include "gadgets/api/gadget.h"

namespace echotrain::server {
namespace {

class Broken final : public Gadget<RawBatch, Image> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "broken";
  static constexpr std::string_view kSummary = "Fails at its first readout.";
  static Parameters<Options> parameters() { return {}; }
  explicit Broken(Options /*options*/) {}
  void process(RawBatch&& /*batch*/, const Emit<Image>& /*emit*/) override {
    throw std::logic_error("the matrix is singular");
  }
};

class Hoarder final : public Gadget<RawBatch, Image> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "hoarder";
  static constexpr std::string_view kSummary = "Keeps 12 MiB from its first readout on.";
  static Parameters<Options> parameters() { return {}; }
  explicit Hoarder(Options /*options*/) {}
  void start(const protocol::Header& /*header*/, Scan& scan) override { scan_ = &scan; }
  void process(RawBatch&& /*batch*/, const Emit<Image>& /*emit*/) override {
    if (kept_.size() == 0) kept_ = scan_->compute.allocate<char>({kHoardedBytes});
  }

 private:
  Scan* scan_ = nullptr;
  numerics::Array<char> kept_;
};

class Killer final : public Gadget<RawBatch, Image> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "killer";
  static constexpr std::string_view kSummary = "Loses its device at the first readout.";
  static Parameters<Options> parameters() { return {}; }
  explicit Killer(Options /*options*/) {}
  void process(RawBatch&& /*batch*/, const Emit<Image>& /*emit*/) override {
    throw numerics::DeviceLost("CUDA: copying memory failed: an illegal memory access was encountered");
  }
};

class Failing final : public Gadget<RawBatch, Image> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "failing";
  static constexpr std::string_view kSummary = "Fails by its device at the first readout.";
  static Parameters<Options> parameters() { return {}; }
  explicit Failing(Options /*options*/) {}
  void process(RawBatch&& /*batch*/, const Emit<Image>& /*emit*/) override {
    throw numerics::DeviceFailed("CUDA: choosing the device failed: unknown error", 999);
  }
};

}  // namespace

const Registry& failing_registry() {
  static const Registry registry = [] {
    Registry all = Registry::builtin();
    all.add<Broken>();
    all.add<Hoarder>();
    all.add<Killer>();
    all.add<Failing>();
    return all;
  }();
  return registry;
}

}  // namespace echotrain::server
