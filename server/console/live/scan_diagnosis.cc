#include "server/console/live/scan_diagnosis.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "gadgets/api/any_gadget.h"
#include "gadgets/shared/measurement.h"
#include "protocol/data/text.h"

namespace echotrain::server {

namespace {

constexpr std::size_t kMostLabel = 64, kMostPipeline = 200;
constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Enough digits for a picture, so that the text stays short.
double rounded(double value, double digits = 1e4) { return std::round(value * digits) / digits; }

std::string base64(const std::vector<std::uint8_t>& bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t j = 0; j < 3; ++j) three = three << 8 | (i + j < bytes.size() ? bytes[i + j] : 0U);
    for (std::size_t j = 0; j < 4; ++j) text += i + j <= bytes.size() ? kBase64[three >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

}  // namespace

ScanDiagnosis::ScanDiagnosis(std::uint64_t session, std::shared_ptr<numerics::MemoryBudget> budget)
    : session_(session), budget_(std::move(budget)) {}

ScanDiagnosis::~ScanDiagnosis() { budget_->give(bytes_); }

/// Takes memory that is free; never what others could have. With mutex_ held.
bool ScanDiagnosis::pay(std::uint64_t bytes) {
  if (!budget_->take_if_it_fits(bytes)) {
    state_.left_out = true;
    return false;
  }
  bytes_ += bytes;
  return true;
}

void ScanDiagnosis::begin(std::string_view pipeline, const protocol::Header& header, config::TrajectoryUnit unit) {
  forget();  // a session may run one scan after another
  const std::scoped_lock lock(mutex_);
  state_.forgotten = false;
  coils_on_gpu_ = false;
  state_.pipeline = protocol::printable(pipeline, kMostPipeline);
  state_.trajectory_name = header.encodings.empty() ? "" : protocol::to_string(header.encodings.front().trajectory);
  if (!header.encodings.empty()) scale_ = to_cycles_per_pixel(header.encodings.front(), unit);
}

void ScanDiagnosis::readouts(const std::vector<protocol::Acquisition>& batch) {
  const std::scoped_lock lock(mutex_);
  for (const protocol::Acquisition& readout : batch)
    if (protocol::readout_kind(readout.head) == protocol::ReadoutKind::imaging) state_.heart.add(readout.head);
}

void ScanDiagnosis::frame(const FrameTimes& times, const std::vector<std::string>& names) {
  const std::scoped_lock lock(mutex_);
  if (state_.forgotten) return;
  const std::size_t places = std::min(names.size() - 1, kMostPlaces);  // without who called
  if (state_.places.size() != places) {
    std::uint64_t bytes = 0;
    for (std::size_t i = 1; i <= places; ++i) bytes += sizeof(std::string) + names[i].size() + 2 * sizeof(double);
    if (!pay(bytes)) return;
    state_.places.assign(names.begin() + 1, names.begin() + 1 + static_cast<std::ptrdiff_t>(places));
    state_.all_ms.assign(places, 0);
    state_.last_ms.assign(places, 0);
  }
  ++state_.frames;
  state_.images += times.images;
  state_.last_images = times.images;
  state_.last_whole_ms = times.whole_ms;
  state_.all_whole_ms += times.whole_ms;
  for (std::size_t i = 0; i < places; ++i) {
    state_.last_ms[i] = times.ms[i + 1];
    state_.all_ms[i] += times.ms[i + 1];
  }
}

void ScanDiagnosis::noise(const NoiseSeen& seen) {
  const std::scoped_lock lock(mutex_);
  if (state_.forgotten) return;
  const Noise* const before = state_.noise.get();
  if (before != nullptr && before->coils == seen.coils && before->samples == seen.samples &&
      before->of_another_scan == seen.of_another_scan)
    return;  // a matrix for another dwell time
  const auto coils = static_cast<std::size_t>(seen.coils);
  const auto bytes_for = [](std::size_t n) {
    return n * n * sizeof(float) + n * (sizeof(float) + sizeof(std::string) + kMostLabel) + sizeof(Noise);
  };
  const bool fits = seen.coils > 0 && seen.coils <= kMostCoils && seen.covariance.size() == coils * coils;
  if (before != nullptr) {
    bytes_ -= bytes_for(static_cast<std::size_t>(before->coils));
    budget_->give(bytes_for(static_cast<std::size_t>(before->coils)));
    state_.noise.reset();
  }
  if (!fits) state_.left_out = true;
  if (!fits || !pay(bytes_for(coils))) return;
  Noise noise;
  noise.coils = seen.coils;
  noise.samples = seen.samples;
  noise.of_another_scan = seen.of_another_scan;
  if (seen.labels.size() == coils)
    for (const std::string& label : seen.labels) noise.labels.push_back(protocol::printable(label, kMostLabel));
  const auto variance = [&](std::size_t coil) { return seen.covariance[coil * coils + coil].real(); };
  for (std::size_t a = 0; a < coils; ++a) {
    noise.deviation.push_back(static_cast<float>(std::sqrt(variance(a) / 2)));  // half of the power is in the real part
    for (std::size_t b = 0; b < coils; ++b)
      noise.correlation.push_back(
          static_cast<float>(std::abs(seen.covariance[a * coils + b]) / std::sqrt(variance(a) * variance(b))));
  }
  state_.noise = std::make_shared<const Noise>(std::move(noise));
}

void ScanDiagnosis::item(const AnyGadget& gadget, const Item& item, numerics::Context& compute) {
  if (gadget.gives() == gadget.takes()) {
    const auto* images = std::get_if<CoilImages>(&item);
    if (images != nullptr && wants_coil_images()) coil_images(images->data.cview(), compute);
    return;
  }
  // Where readouts become something else, their trajectory is the one that is used.
  const Readouts* readouts = std::get_if<Readouts>(&item);
  if (readouts == nullptr) readouts = std::get_if<PlaneReadouts>(&item);
  if (readouts == nullptr || readouts->kind != protocol::ReadoutKind::imaging) return;
  const std::scoped_lock lock(mutex_);
  if (state_.forgotten) return;
  if (!trajectory_) {
    if (!readouts->trajectory || !pay(TrajectorySample::kBytes)) return;
    trajectory_.emplace(scale_);
  }
  trajectory_->add(*readouts);
}

void ScanDiagnosis::coil_images(numerics::DeviceView<const numerics::cfloat> images, numerics::Context& compute) {
  const auto& shape = images.shape();                                   // [coil, z, y, x]
  if (shape.rank() != 4 || shape[0] < 2 || images.size() == 0) return;  // what was joined already
  if (compute.cuda()) {
    coils_on_gpu_ = true;
    return;
  }
  if (!coils_wanted_.exchange(false)) return;
  Thumbs thumbs;
  const std::int64_t most = std::max(shape[2], shape[3]),
                     step = std::max<std::int64_t>(1, (most + kThumb - 1) / kThumb);
  thumbs.all = static_cast<int>(shape[0]);
  thumbs.coils = std::min(thumbs.all, kMostThumbs);
  thumbs.height = static_cast<int>(shape[2] / step);
  thumbs.width = static_cast<int>(shape[3] / step);
  if (thumbs.height == 0 || thumbs.width == 0) return;
  // Pixels that are picked, not means: this is the scan's thread.
  std::vector<float> values;
  for (std::int64_t c = 0; c < thumbs.coils; ++c) {
    const numerics::cfloat* const plane = images.data() + (c * shape[1] + shape[1] / 2) * shape[2] * shape[3];
    for (std::int64_t y = 0; y < thumbs.height; ++y)
      for (std::int64_t x = 0; x < thumbs.width; ++x)
        values.push_back(std::abs(plane[(y * step + step / 2) * shape[3] + x * step + step / 2]));
  }
  const float largest = *std::max_element(values.begin(), values.end());
  const float scale = largest > 0 && std::isfinite(largest) ? 255 / largest : 0;
  for (const float value : values)
    thumbs.pixels.push_back(
        static_cast<std::uint8_t>(std::clamp(std::isfinite(value) ? value * scale : 0, 0.0f, 255.0f)));
  const std::scoped_lock lock(mutex_);
  if (state_.forgotten) return;
  const std::uint64_t before = state_.thumbs ? state_.thumbs->pixels.size() : 0, now = thumbs.pixels.size();
  if (now > before && !pay(now - before)) return;
  if (now < before) {
    budget_->give(before - now);
    bytes_ -= before - now;
  }
  thumbs.number = state_.thumbs ? state_.thumbs->number + 1 : 1;
  state_.thumbs = std::make_shared<const Thumbs>(std::move(thumbs));
}

void ScanDiagnosis::sent(const ImageLatency& latency) {
  const std::scoped_lock lock(mutex_);
  state_.latency = latency;
}

nlohmann::ordered_json ScanDiagnosis::json(bool coils) const {
  using Json = nlohmann::ordered_json;
  State now;
  TrajectorySample::Shown shown;
  {
    const std::scoped_lock lock(mutex_);
    now = state_;
    if (trajectory_) shown = trajectory_->shown();
  }
  Json json{{"scan", session_},          {"pipeline", now.pipeline}, {"trajectory_name", now.trajectory_name},
            {"times", nullptr},          {"noise", nullptr},         {"trajectory", nullptr},
            {"heart", nullptr},          {"coils", nullptr},         {"left_out", now.left_out},
            {"forgotten", now.forgotten}};
  if (now.frames > 0) {
    Json places = Json::array();
    for (std::size_t i = 0; i < now.places.size(); ++i)
      places.push_back({{"name", now.places[i]},
                        {"last_ms", rounded(now.last_ms[i])},
                        {"mean_ms", rounded(now.all_ms[i] / static_cast<double>(now.frames))}});
    // In the order in which an image passes them: the entrance, the gadgets, the exit.
    if (places.size() > GadgetClock::kExit) std::rotate(places.begin() + 1, places.begin() + 2, places.end());
    json["times"] = {{"frames", now.frames},
                     {"images", now.images},
                     {"last_images", now.last_images},
                     {"last_ms", rounded(now.last_whole_ms)},
                     {"mean_ms", rounded(now.all_whole_ms / static_cast<double>(now.frames))},
                     {"gadgets", std::move(places)}};
    json["times"]["latency"] = nullptr;
    if (now.latency)
      json["times"]["latency"] = {{"queue_ms", rounded(now.latency->queue)},
                                  {"compute_ms", rounded(now.latency->compute)},
                                  {"copy_ms", rounded(now.latency->copy)},
                                  {"send_ms", rounded(now.latency->send)}};
  }
  if (now.noise) {
    const auto n = static_cast<std::size_t>(now.noise->coils);
    Json rows = Json::array(), deviations = Json::array();
    for (std::size_t a = 0; a < n; ++a) {
      Json row = Json::array();
      for (std::size_t b = 0; b < n; ++b) row.push_back(rounded(now.noise->correlation[a * n + b], 1e3));
      rows.push_back(std::move(row));
      deviations.push_back(now.noise->deviation[a]);
    }
    json["noise"] = {
        {"coils", now.noise->coils},   {"samples", now.noise->samples}, {"of_another_scan", now.noise->of_another_scan},
        {"labels", now.noise->labels}, {"std", std::move(deviations)},  {"correlation", std::move(rows)}};
  }
  if (shown.axes > 0) {
    const std::size_t size = TrajectorySample::kPoints * shown.axes;
    Json readouts = Json::array();
    for (std::size_t r = 0; r + size <= shown.points.size(); r += size) {
      Json points = Json::array();
      for (std::size_t i = 0; i < size; ++i) points.push_back(rounded(shown.points[r + i]));
      readouts.push_back(std::move(points));
    }
    json["trajectory"] = {{"axes", shown.axes}, {"every", shown.every}, {"readouts", std::move(readouts)}};
  }
  if (now.heart.beats() > 1) json["heart"] = {{"beats", now.heart.beats()}, {"rr_ms", now.heart.intervals()}};
  if (now.thumbs) {
    json["coils"] = {{"number", now.thumbs->number},
                     {"all", now.thumbs->all},
                     {"coils", now.thumbs->coils},
                     {"width", now.thumbs->width},
                     {"height", now.thumbs->height}};
    if (coils) json["coils"]["pixels"] = base64(now.thumbs->pixels);
  }
  json["coils_on_gpu"] = coils_on_gpu_.load();
  return json;
}

std::uint64_t ScanDiagnosis::bytes() const {
  const std::scoped_lock lock(mutex_);
  return bytes_;
}

std::uint64_t ScanDiagnosis::forget() {
  const std::scoped_lock lock(mutex_);
  const std::string pipeline = std::move(state_.pipeline), trajectory = std::move(state_.trajectory_name);
  state_ = {};
  state_.pipeline = pipeline;
  state_.trajectory_name = trajectory;
  state_.forgotten = true;
  trajectory_.reset();
  budget_->give(bytes_);
  return std::exchange(bytes_, 0);
}

}  // namespace echotrain::server
