#include "gadgets/numerics/transforms/fft/fft.h"

#include <fmt/format.h>

#include <algorithm>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/transforms/fft/fft_ops.h"

namespace echotrain::numerics {
namespace {

// Bytes of padded items transformed at a time: enough to fill the machine, few compared with the data.
constexpr std::int64_t kTemporaryBytes = 64ll << 20;

void require(bool good, const char* operation, const std::string& problem) {
  if (!good) throw std::invalid_argument(fmt::format("{}: {}", operation, problem));
}

std::int64_t batch_of(const Shape& shape, int dims) {
  std::int64_t n = 1;
  for (std::size_t a = 0; a + static_cast<std::size_t>(dims) < shape.rank(); ++a) n *= shape[a];
  return n;
}

}  // namespace

std::int64_t fast_even_size(std::int64_t n) {
  for (n += n % 2;; n += 2) {
    std::int64_t rest = n;
    for (const std::int64_t factor : {2, 3, 5, 7})
      while (rest % factor == 0) rest /= factor;
    if (rest == 1) return n;
  }
}

void fft(Context& context, DeviceView<cfloat> data, int dims, Direction direction) {
  require(dims >= 1 && dims <= 3, "fft", "one to three axes can be transformed");
  require(data.shape().rank() >= static_cast<std::size_t>(dims), "fft",
          fmt::format("{} has no {} axes", data.shape().text(), dims));
  if (data.size() == 0) return;
  const Extents extents = last_axes(data.shape(), dims);
  for (auto e : extents) require(e <= INT32_MAX, "fft", "an axis is too long");
  ECHOTRAIN_DISPATCH(context, fft(context, data.data(), batch_of(data.shape(), dims), extents, dims, direction));
}

void centered_fft(Context& context, DeviceView<const cfloat> from, DeviceView<cfloat> to, const Shape& padded, int dims,
                  Direction direction, float scale) {
  require(dims >= 1 && dims <= 3, "centered_fft", "one to three axes can be transformed");
  const auto axes = static_cast<std::size_t>(dims);
  const Shape &f = from.shape(), &t = to.shape();
  require(f.rank() >= axes && t.rank() == f.rank() && padded.rank() == axes, "centered_fft",
          fmt::format("{}, {} and {} do not have matching axes", f.text(), t.text(), padded.text()));
  for (std::size_t a = 0; a + axes < f.rank(); ++a)
    require(f[a] == t[a], "centered_fft", fmt::format("the batches of {} and {} differ", f.text(), t.text()));
  const Extents from_e = last_axes(f, dims), to_e = last_axes(t, dims), padded_e = last_axes(padded, dims);
  for (std::size_t a = 0; a < 3; ++a) {
    require(to_e[a] <= padded_e[a], "centered_fft", fmt::format("{} is larger than {}", t.text(), padded.text()));
    require(padded_e[a] <= INT32_MAX, "centered_fft", "an axis is too long");
  }
  if (to.size() == 0) return;

  const Centred placing = centred(from_e, padded_e), cropping = centred(to_e, padded_e);
  const std::int64_t batch = batch_of(f, dims), item = volume(padded_e);
  std::int64_t chunk = std::clamp<std::int64_t>(kTemporaryBytes / (item * 8), 1, batch);
  if (!context.cuda()) chunk = std::min<std::int64_t>(batch, std::max<std::int64_t>(chunk / 4, 1));
  Array<cfloat> temporary = context.allocate<cfloat>({chunk, item});
  for (std::int64_t b = 0; b < batch; b += chunk) {
    const std::int64_t n = std::min(chunk, batch - b);
    const cfloat* source = from.data() + b * volume(from_e);
    cfloat* target = to.data() + b * volume(to_e);
    ECHOTRAIN_DISPATCH(context, place(context, source, temporary.data(), n, placing));
    ECHOTRAIN_DISPATCH(context, fft(context, temporary.data(), n, padded_e, dims, direction));
    ECHOTRAIN_DISPATCH(context, crop(context, temporary.data(), target, n, cropping, scale));
  }
}

}  // namespace echotrain::numerics
