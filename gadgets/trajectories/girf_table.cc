#include "gadgets/trajectories/girf_table.h"

#include <fmt/format.h>

#include <string>

#include "gadgets/api/errors.h"

namespace echotrain {

numerics::Girf girf_table(Scan& scan) {
  const SideImages::Voxels& image = scan.side_images.find(kGirfRole, 0);
  const auto& shape = image.shape();
  if (shape[0] != 4 || shape[1] != 1 || shape[2] != 1)
    throw ClientError(
        fmt::format("trajectory_correction: the responses are an image of {} channels and {} x {} x {} voxels; 4 "
                    "channels (frequency in kHz, responses of X, Y, Z) of n x 1 x 1 voxels are read. "
                    "`python -m echotrain girf` writes such a file",
                    shape[0], shape[3], shape[2], shape[1]));
  const HostArray<cfloat> host = scan.compute.download<cfloat>(image.cview());
  const std::int64_t n = shape[3];
  numerics::Girf out;
  for (std::int64_t i = 0; i < n; ++i) {
    out.hz.push_back(1000.0 * static_cast<double>(host.data()[i].real()));
    for (std::size_t a = 0; a < 3; ++a)
      out.of_axis[a].emplace_back(host.data()[static_cast<std::int64_t>(a + 1) * n + i]);
  }
  if (const std::string problem = numerics::problem_of(out); !problem.empty())
    throw ClientError("trajectory_correction: the impulse responses cannot be used: " + problem);
  return out;
}

}  // namespace echotrain
