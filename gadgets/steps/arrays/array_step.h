// An ArrayStep is a gadget whose work a Python function does on arrays.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/steps/arrays/array_items.h"
#include "gadgets/steps/python.h"

namespace echotrain {

/// Gives the function one item at a time, and passes on what it makes of it: one item, several or none, of the same
/// frame; of readouts, which come in batches, one for each that are not empty. Side items pass by. `Finish`: the gadget
/// that makes messages of images (`image`), where In is no message.
template <class In, class Out, class Finish = void>
class ArrayStep final : public Gadget<In, Out> {
 public:
  using Options = Python::Options;
  static constexpr std::string_view kName = Python::kName;
  static constexpr std::string_view kSummary = Python::kSummary;
  static Parameters<Options> parameters() { return Python::parameters(); }

  /// Throws std::invalid_argument when the options are wrong, or ask for other items.
  explicit ArrayStep(Options options) : options_(std::move(options)) {
    Python::check(options_);
    Python::check_arrays(options_, kArrayItem<In>, kArrayItem<Out>);
  }

  void start(const protocol::Header& header, Scan& scan) override {
    memory_.emplace(scan.compute.account());
    memory_->grow_to(Python::memory(scan));
    area_ = std::make_shared<SharedArea>(static_cast<std::size_t>(options_.shared_mib) << 20, scan.compute.account());
    scan.compute.template cache<LentMemory>().lend(area_);
    items_.emplace(scan, header, area_);
    const OwnDescriptor library = numpy_library();
    link_ = std::make_unique<ArrayLink>(
        scan, Python::who(options_), Python::timeout_s(options_, scan),
        start_module(Python::settings(scan), Python::start_of(options_, scan),
                     {area_->inputs(), area_->results(), library.get()}, {options_.takes, options_.gives}),
        area_, ArrayMessage{{}, {{"version", kArraysVersion}, {"header", header.xml}}});
    if constexpr (kFinishes) {
      finish_.emplace(typename Finish::Options{});
      finish_->start(header, scan);
    }
  }

  void process(In&& item, const Emit<Out>& emit) override {
    int results = 0;
    if constexpr (std::is_same_v<In, Readouts>)
      if (item.heads.empty()) return emit(std::move(item));
    link_->exchange(items_->of(item), [&](ArrayMessage&& result) {
      if (std::is_same_v<Out, Readouts> && ++results > 1) link_->fail(kOneOfReadouts);
      if constexpr (kFinishes) {
        auto part = numerics::Component::complex;
        const CoilImages images = checked([&] { return items_->images(result, item, &part); });
        finish_->give(images, part, emit);
      } else if constexpr (std::is_same_v<Out, CoilImages>) {
        emit(checked([&] { return items_->images(result, item, nullptr); }));
      } else {
        emit(checked([&] { return items_->result(result, item); }));
      }
    });
    if (std::is_same_v<Out, Readouts> && results == 0) link_->fail(kOneOfReadouts);
  }

  void finish(End how, const Emit<Out>& /*emit*/) override {
    if (how == End::complete) link_->finish();
    link_.reset();
    memory_->set(0);
  }

 private:
  static constexpr bool kFinishes = !std::is_void_v<Finish>;
  static constexpr const char* kOneOfReadouts = "must give Readouts back once for each that it takes";

  template <class Make>
  auto checked(const Make& make) {
    try {
      return make();
    } catch (const WrongArrays& error) {
      link_->fail(error.what());
    }
  }

  const Options options_;
  std::optional<numerics::MemoryShare> memory_;  // of the process; outlives it
  std::shared_ptr<SharedArea> area_;
  std::optional<ItemArrays> items_;
  std::unique_ptr<ArrayLink> link_;
  std::conditional_t<kFinishes, std::optional<Finish>, std::monostate> finish_;
};

}  // namespace echotrain
