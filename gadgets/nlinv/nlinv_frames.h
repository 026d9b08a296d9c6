// NlinvFrames solves the frames of a scan, each from the previous one: the common part of both forms of
// `nlinv_realtime` and of `nlinv_sms`.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "gadgets/api/gadget.h"
#include "gadgets/nlinv/nlinv_options.h"
#include "gadgets/numerics/inverse/nlinv/nlinv.h"

namespace echotrain {

/// Throws ClientError, before any data come, where frames of an image's extents [y, x], solved for in `solved`, are
/// impossible. instead: the alternative to suggest.
void check_nlinv_extents(std::string_view gadget, const numerics::Shape& image, const numerics::Shape& solved,
                         double field, std::string_view instead = "gridding or cg_sense_realtime");
/// The extents to solve for, [y, x]: an image's extents times `field`.
numerics::Shape nlinv_extents(const numerics::Shape& image, double field);

/// The result of a frame.
struct NlinvImages {
  Array<cfloat> images;  // [slice, 1, y, x]
  std::map<std::string, std::string> notes;
};

/// Keeps the solution at which the next frame of the same slice (and encoding, contrast, set) begins.
class NlinvFrames {
 public:
  /// gadget: its name, for errors; it must outlive this.
  NlinvFrames(std::string_view gadget, const NlinvRealtimeOptions& options) : gadget_(gadget), options_(options) {}
  void start(Scan& scan) { scan_ = &scan; }

  /// Solves for a frame and gives its image of `image` points, [y, x], the middle of the solution. Throws ClientError
  /// when the data are not finite, or when the number of coils or the matrix changes.
  CoilImages solve(const std::shared_ptr<const Frame>& frame, const numerics::NlinvFrame& equations,
                   const numerics::Shape& image);
  /// Solves for slices together. key: the frame's key.
  NlinvImages solve(const FrameKey& key, const numerics::NlinvFrame& equations, std::int64_t slices,
                    const numerics::Shape& image);

 private:
  struct Series {
    std::unique_ptr<numerics::Nlinv> nlinv;
    bool begun = false;                // the previous frame left a solution
    std::deque<Array<cfloat>> images;  // the last `median`, the newest at the end
  };
  Series& series_of(const FrameKey& key, std::int64_t slices, const numerics::Shape& images);
  Array<cfloat> over_time(Series& series, Array<cfloat> image);

  std::string_view gadget_;
  NlinvRealtimeOptions options_;
  Scan* scan_ = nullptr;
  std::map<FrameKey, Series> series_;
};

}  // namespace echotrain
