#include "clients/cpp/images/image_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include "clients/cpp/images/png_writer.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "protocol/data/meta.h"
#include "protocol/data/pixels.h"

namespace echotrain::client {
namespace {

numerics::HostView<const float> view(const std::vector<float>& values) {
  return {values.data(), {static_cast<std::int64_t>(values.size())}};
}

}  // namespace

double nrmse(const std::vector<float>& values, const std::vector<float>& reference) {
  numerics::ThreadPool here(1);
  return numerics::on_host::compare(here, view(values), view(reference)).nrmse();
}

ImageReport::ImageReport(std::vector<StoredArray> truths, std::filesystem::path png_folder)
    : truths_(std::move(truths)), folder_(std::move(png_folder)) {
  if (!folder_.empty()) std::filesystem::create_directories(folder_);
}

float ImageReport::truth_peak() const {
  const std::vector<float>& values = truth_.values;
  numerics::ThreadPool here(1);
  return values.empty() ? 0 : numerics::on_host::extremes(here, view(values)).most;
}

ImageReport::Plane ImageReport::middle(const std::vector<float>& volume, std::size_t z, std::size_t y, std::size_t x) {
  const auto begin = volume.begin() + static_cast<std::ptrdiff_t>(z / 2 * y * x);
  return {y, x, std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(y * x))};
}

void ImageReport::add(const protocol::Image& image) {
  ++count_;
  if (truths_.empty() && folder_.empty()) return;
  const std::size_t number = image.head.contrast > 0 ? image.head.contrast : image.head.phase;
  const Pixels pixels = read_pixels(image);
  if (!truths_.empty()) choose_truth(truths_[number < truths_.size() ? number : 0], pixels, image.head.slice);
  std::vector<float> magnitude = combined_magnitude(pixels);
  // The gadget scale says what it multiplied by.
  const std::string factor = protocol::meta_value(image.attributes, "scale_factor");
  if (const double scale = std::strtod(factor.c_str(), nullptr); !truths_.empty() && std::isnormal(scale))
    for (float& value : magnitude) value = static_cast<float>(value / scale);
  last_ = middle(magnitude, pixels.z, pixels.y, pixels.x);
  if (!folder_.empty()) {
    const float high = !truths_.empty() ? truth_peak() : percentile(last_.values, 100 * protocol::kShownShare);
    write_png(folder_ / fmt::format("image_{:03}.png", count_), last_.width, last_.height,
              protocol::to_grey(last_.values, {0, high}));
  }
  if (!truths_.empty()) {
    std::vector<std::size_t> shape = {pixels.z, pixels.y, pixels.x};
    if (pixels.z == 1) shape.erase(shape.begin());
    if (shape != truth_.shape) {
      throw std::runtime_error(fmt::format("an image of [{}] cannot be compared with a truth of [{}]",
                                           fmt::join(shape, ", "), fmt::join(truth_.shape, ", ")));
    }
    if (truth_peak() > 0) errors_.push_back(nrmse(magnitude, truth_.values));
  }
}

void ImageReport::choose_truth(const StoredArray& truth, const Pixels& pixels, std::size_t slice) {
  const std::vector<std::size_t> slices = {truth.shape.empty() ? 0 : truth.shape[0], pixels.y, pixels.x};
  if (pixels.z != 1 || truth.shape != slices || slice >= slices[0]) {
    truth_ = truth;
    return;
  }
  const auto begin = truth.values.begin() + static_cast<std::ptrdiff_t>(slice * pixels.y * pixels.x);
  truth_ = {{pixels.y, pixels.x}, {begin, begin + static_cast<std::ptrdiff_t>(pixels.y * pixels.x)}};
}

void ImageReport::finish() {
  if (truths_.empty() || folder_.empty() || errors_.empty()) return;
  const std::size_t height = last_.height, width = last_.width, gap = 4;
  const Plane truth = middle(truth_.values, truth_.shape.size() == 3 ? truth_.shape[0] : 1, height, width);
  std::vector<float> difference(truth.values.size());
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] = 5 * std::abs(last_.values[i] - truth.values[i]);

  const std::size_t total = 3 * width + 2 * gap;
  std::vector<std::uint8_t> canvas(total * height, 255);
  std::size_t left = 0;
  for (const std::vector<float>* panel : {&std::as_const(last_.values), &truth.values, &std::as_const(difference)}) {
    const auto grey = protocol::to_grey(*panel, {0, truth_peak()});
    for (std::size_t y = 0; y < height; ++y) {
      std::copy_n(grey.begin() + static_cast<std::ptrdiff_t>(y * width), width,
                  canvas.begin() + static_cast<std::ptrdiff_t>(y * total + left));
    }
    left += width + gap;
  }
  write_png(folder_ / "compare.png", total, height, canvas);
}

std::optional<double> ImageReport::median_error() const {
  if (errors_.empty()) return std::nullopt;
  std::vector<double> sorted = errors_;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

}  // namespace echotrain::client
