// A Step is a gadget whose work another program does.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "gadgets/api/gadget.h"
#include "gadgets/numerics/core/memory_budget.h"
#include "gadgets/numerics/core/resources.h"
#include "gadgets/steps/step_exchange.h"
#include "gadgets/steps/step_items.h"
#include "protocol/wire/slab_pool.h"

namespace echotrain {

/// `Kind` selects the program: its Options (with `gives` and `timeout_s`), and its start for a scan. Waveforms go to
/// the program and on along the chain. With RawBatch, which only a pipeline's first gadget takes, the program gets
/// every message as the client sent it, images too.
template <class Kind, class In, class Out>
class Step final : public Gadget<In, Out> {
 public:
  using Options = typename Kind::Options;
  static constexpr std::string_view kName = Kind::kName;
  static constexpr std::string_view kSummary = Kind::kSummary;
  static Parameters<Options> parameters() { return Kind::parameters(); }

  /// Throws std::invalid_argument when the options are wrong, or when they ask for other results than Out.
  explicit Step(Options options) : options_(std::move(options)) {
    Kind::check(options_);
    constexpr std::string_view kGives = std::is_same_v<Out, Image> ? "images" : "readouts";
    if (options_.gives != kGives)
      throw std::invalid_argument("gives: " + options_.gives + " is not possible here: of what it takes (" +
                                  std::string(to_string(item_type<In>)) + ") it can only give " + std::string(kGives));
  }

  void start(const protocol::Header& header, Scan& scan) override {
    compute_ = &scan.compute;
    memory_.emplace(scan.compute.account());
    lasting_ = Kind::memory(scan) + 2 * Peer::kQueueBytes;
    memory_->grow_to(lasting_);
    results_.start(header, scan);
    const ScanEnvironment& port = scan.compute.template cache<ScanEnvironment>();
    exchange_.start(
        scan, Kind::who(options_), Kind::timeout_s(options_, scan),
        Kind::open(options_, scan,
                   {port.wake, scan.compute.account(), scan.compute.resources().template share<protocol::SlabPool>()}));
    exchange_.give(Kind::greeting(options_, header, port.host_json), nullptr);
  }

  void process(In&& item, const Emit<Out>& emit) override {
    const auto on_result = to(emit);
    std::uint64_t waiting = lasting_;
    to_bytes(*compute_, item, [&](StepBytes&& bytes) {
      memory_->grow_to(waiting += bytes.head.size());
      pieces_.push_back(std::move(bytes));
    });
    results_.expect(std::move(item), emit);
    for (StepBytes& bytes : pieces_) exchange_.give(std::move(bytes), on_result);
    pieces_.clear();
    memory_->set(lasting_);
  }

  bool take_aside(Item& item, const Emit<Out>& emit) override {
    if (const auto* waveform = std::get_if<Waveform>(&item)) {
      exchange_.give(to_bytes(waveform->message), to(emit));
      return false;
    }
    if constexpr (std::is_same_v<In, RawBatch>) {
      if (const auto* image = std::get_if<Image>(&item)) {
        const auto on_result = to(emit);
        to_bytes(*compute_, *image, [&](StepBytes&& bytes) { exchange_.give(std::move(bytes), on_result); });
        return true;
      }
    }
    return false;
  }

  void rest(const Emit<Out>& emit) override { exchange_.collect(to(emit)); }

  void finish(End how, const Emit<Out>& emit) override {
    exchange_.finish(how, to(emit));
    if (how == End::complete) results_.finish();
    memory_->set(0);
  }

 private:
  StepExchange::OnResult to(const Emit<Out>& emit) {
    return [this, &emit](protocol::Message&& message) { results_.take(std::move(message), emit); };
  }

  const Options options_;
  numerics::Context* compute_ = nullptr;
  std::optional<numerics::MemoryShare> memory_;  // outlives what it pays for
  std::uint64_t lasting_ = 0;                    // memory of the program, for the whole scan [bytes]
  typename ResultsOf<Out>::Type results_;
  std::vector<StepBytes> pieces_;
  StepExchange exchange_;
};

}  // namespace echotrain
