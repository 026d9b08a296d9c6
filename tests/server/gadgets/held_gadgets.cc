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

class Dripping final : public Gadget<Image, Image> {
 public:
  struct Options {};
  static constexpr std::string_view kName = "dripping";
  static constexpr std::string_view kSummary = "Sends each image eight times, one in 0.6 s.";
  static Parameters<Options> parameters() { return {}; }
  explicit Dripping(Options /*options*/) {}
  void process(Image&& image, const Emit<Image>& emit) override {
    for (int i = 0; i < 8; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
      emit(Image(image));
    }
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
    all.add<Dripping>();
    return all;
  }();
  return registry;
}

}  // namespace echotrain::server
