#include "gadgets/cartesian/reference_options.h"

namespace echotrain {

Parameters<ReferenceOptions> reference_parameters() {
  using Options = ReferenceOptions;
  using From = Options::From;
  return Parameters<Options>()
      .choice_of(
          "calibration", &Options::calibration,
          {{"auto", From::automatic},
           {"embedded", From::embedded},
           {"separate", From::separate},
           {"sliding", From::sliding},
           {"average", From::average},
           {"center", From::center},
           {"none", From::none}},
          "reference lines that go on with each k-space. embedded: those that each frame has (flags 20 and 21). "
          "separate: those of readouts for calibration alone (flag 20), never mixed with images' lines. sliding: the "
          "newest lines of frames that together have all of them (interleaved, TGRAPPA); the first frames wait "
          "for the last of these. average: the mean of all frames' until none is missing (hearts). center: the middle "
          "of the first frame, as far as it has no gap. auto: what the header says, and the middle "
          "where an accelerated scan has no reference lines")
      .integer("calibration_lines", &Options::calibration_lines, 8, 256,
               "extent of the middle of k-space that is kept of them, per axis")
      .unit("rows")
      .integer("refresh", &Options::refresh, 0, 65535,
               "sliding only: after how many frames the block is made anew of the newest lines; 0: never")
      .unit("frames")
      .flag("put_back", &Options::put_back,
            "whether embedded lines for calibration alone (flag 20 without 21) also fill their rows of the frame that "
            "they came with, in accelerated scans");
}

}  // namespace echotrain
