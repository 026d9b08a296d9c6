#include "clients/cpp/recon/run_recon.h"

#include <unistd.h>

#include <cstdio>
#include <optional>

#include "clients/cpp/base/interruption.h"
#include "clients/cpp/base/overwriting.h"
#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/recon/recon.h"
#include "clients/cpp/recon/recon_stream.h"
#include "gadgets/numerics/core/numerics_errors.h"

namespace echotrain::client {
namespace {

// A stream on stdin is answered by one on stdout; what needs a file is refused.
int recon_pipe(const ReconOptions& o, std::ostream& err) {
  if (!(o.output.empty() || o.output == "-") || !o.save_after.empty() || o.truth || !o.png.empty() ||
      !o.choice.sequence.empty())
    throw UsageError(
        "recon - writes a stream to stdout: leave out -o, --save-after, --truth, --png and --seq, or make a "
        "file of the stream first (echotrain convert)");
  refuse_choice(o.input, o.choice);
  return recon_stream(o, STDIN_FILENO, stdout, err);
}

}  // namespace

int run_recon(const ReconOptions& o, std::ostream& out, std::ostream& err) {
  if (o.input == "-") return recon_pipe(o, err);
  if (o.config.empty()) throw UsageError("--config is required");
  if (o.output.empty()) throw UsageError("--output is required");
  refuse_overwriting(o.input, o.output);
  refuse_other_format(o.output);
  std::optional<Interruption> interruption;  // of several ranks, mpirun ends all
  if (o.followers == nullptr) interruption.emplace();
  try {
    recon(o, out, err);
  } catch (const numerics::Stopped&) {
    throw Interrupted("interrupted");
  }
  return 0;
}

}  // namespace echotrain::client
