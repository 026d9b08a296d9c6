#include "tests/server/gadgets/held_gadgets.h"

#include <utility>

#include "gadgets/api/gadget.h"

namespace echotrain::server {
namespace {

class Laborious final : public Gadget<Readouts, Readouts> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "laborious";
  static constexpr std::string_view kSummary = "Its parameters are read when the test lets them be.";
  static Parameters<Options> parameters() {
    text_gate().pass();
    return {};
  }
  explicit Laborious(Options /*options*/) {}
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override { emit(std::move(readouts)); }
};

class Slow final : public Gadget<Readouts, Readouts> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "slow";
  static constexpr std::string_view kSummary = "Passes readouts when the test lets it.";
  static Parameters<Options> parameters() { return {}; }
  explicit Slow(Options /*options*/) {}
  void process(Readouts&& readouts, const Emit<Readouts>& emit) override {
    tap().pass();
    emit(std::move(readouts));
  }
};

}  // namespace

TextGate& text_gate() {
  static TextGate gate;
  return gate;
}

Tap& tap() {
  static Tap tap;
  return tap;
}

const Registry& held_registry() {
  static const Registry registry = [] {
    Registry all = Registry::builtin();
    all.add<Laborious>();
    all.add<Slow>();
    return all;
  }();
  return registry;
}

}  // namespace echotrain::server
