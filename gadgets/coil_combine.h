// Makes one image of all coils' images.
#pragma once

#include <string>

#include "gadgets/gadget.h"

namespace echotrain {

/// rss: root sum of squares (Roemer et al., MRM 16, 1990), which loses the phase. none: coil images stay as they are.
class CoilCombine final : public Gadget<CoilImages, CoilImages> {
 public:
  struct Options {
    std::string method = "rss";
  };
  static constexpr std::string_view kName = "coil_combine";
  static constexpr std::string_view kSummary = "Combines the coils' images into one.";
  static Parameters<Options> parameters();

  explicit CoilCombine(Options options) : options_(std::move(options)) {}
  void start(const protocol::Header& header, Session& session) override;
  void process(CoilImages&& images, const Emit<CoilImages>& emit) override;

 private:
  Options options_;
  Session* session_ = nullptr;
};

}  // namespace echotrain
