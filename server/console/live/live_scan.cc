#include "server/console/live/live_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "gadgets/engine/pipeline.h"
#include "gadgets/numerics/core/context.h"
#include "gadgets/shared/program/scan_view.h"
#include "protocol/data/acquisition_check.h"
#include "protocol/data/meta.h"
#include "protocol/data/text.h"
#include "protocol/dicom/study.h"
#include "protocol/dicom/values.h"
#include "server/net/identity.h"

namespace echotrain::server {

namespace {
// The longest parts that are shown of a text that a client may have written.
constexpr std::size_t kMostText = 1024, kMostName = 200;
constexpr double kMs = 1e-3;
constexpr std::size_t kMostTimes = 64;  // of a sequence, by contrast

/// True if a text has a word, in small or large letters.
bool mentions(std::string_view text, std::string_view word) {
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b; };
  return std::search(text.begin(), text.end(), word.begin(), word.end(), same) != text.end();
}

std::string xml_text(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&')
      safe += "&amp;";
    else if (c == '<')
      safe += "&lt;";
    else
      safe += c;
  }
  return safe;
}

bool names_subject(std::string_view text) {
  return mentions(text, "patient") || mentions(text, "subject") || mentions(text, "birth");
}

/// Attributes without those whose name says that they are of the subject; none where the rest cannot be told apart.
std::string without_subject(const std::string& attributes) {
  std::string left;
  for (const auto& [name, value] : protocol::meta_values(attributes))
    if (!names_subject(name)) protocol::add_meta(left, xml_text(name), xml_text(value));
  return left;
}
}  // namespace

LiveScan::LiveScan(std::shared_ptr<const SessionStatus> status, std::shared_ptr<RecentImages> images,
                   RecentLatency& delays, bool subject, std::shared_ptr<ScanDiagnosis> why)
    : status_(std::move(status)),
      client_(counted_text(status_->peer)),
      images_(std::move(images)),
      delays_(delays),
      subject_(subject),
      diagnosis_(std::move(why)) {}

void LiveScan::begin(std::string_view pipeline, const ScanHeader& header, config::TrajectoryUnit unit,
                     std::string_view occasion) {
  protocol::dicom::Study study = protocol::dicom::make_study(header.study, subject_, "", occasion);
  for (std::vector<double>* times : {&study.tr_ms, &study.te_ms, &study.ti_ms, &study.flip_deg}) {
    times->resize(std::min(times->size(), kMostTimes));
    times->shrink_to_fit();
  }
  if (diagnosis_) diagnosis_->begin(pipeline, header, unit);
  KspacePicture picture(header, unit);
  const std::string key = fmt::format("session {} of {}", id(), began_.time_since_epoch().count());
  const std::scoped_lock lock(mutex_);
  begun_ = true;
  pipeline_ = protocol::printable(pipeline, kMostName);
  trajectory_ = header.encodings.empty() ? "" : protocol::to_string(header.encodings.front().trajectory);
  protocol_name_ = protocol::printable(study.protocol_name, kMostName);
  patient_name_ = protocol::printable(study.patient_name, kMostName);
  origin_ = std::make_shared<const ScanOrigin>(ScanOrigin{std::move(study), key});
  picture_.emplace(std::move(picture));
  announced_ = lines_announced(header);
  lines_ = images_made_ = 0;
}

// Lets those who look on see what the scan's thread and its gadgets do.
void LiveScan::watch(Pipeline& pipeline, numerics::Context& compute) {
  if (!diagnosis_) return;
  ScanDiagnosis& why = *diagnosis_;
  pipeline.watch({[&why](const FrameTimes& times, const std::vector<std::string>& names) { why.frame(times, names); },
                  [&why, &compute](const AnyGadget& gadget, const Item& item) { why.item(gadget, item, compute); }});
  compute.cache<ScanView>() = {
      [&why](const NoiseSeen& seen) { why.noise(seen); }, [&why] { return why.wants_coil_images(); },
      [&why, &compute](numerics::DeviceView<const numerics::cfloat> images) { why.coil_images(images, compute); }};
}

void LiveScan::readouts(const std::vector<protocol::Acquisition>& batch) {
  if (diagnosis_) diagnosis_->readouts(batch);
  const std::scoped_lock lock(mutex_);
  for (const protocol::Acquisition& readout : batch) {
    if (protocol::readout_kind(readout.head) != protocol::ReadoutKind::imaging) continue;
    ++lines_;
    if (picture_) picture_->add(readout);
  }
}

void LiveScan::image(const protocol::Image& image) {
  if (images_ && !subject_ && names_subject(image.attributes)) {
    protocol::Image nameless = image;
    nameless.attributes = without_subject(image.attributes);
    images_->add(status_->id, nameless, client_);
  } else if (images_) {
    images_->add(status_->id, image, client_);
  }
  const std::scoped_lock lock(mutex_);
  ++images_made_;
}

void LiveScan::sent(const ImageLatency& latency) {
  delays_.add(latency.until_sent());
  if (diagnosis_) diagnosis_->sent(latency);
}

void LiveScan::error(const protocol::Error& error) {
  const std::scoped_lock lock(mutex_);
  if (!error_) error_ = {error.code, protocol::printable(error.message, kMostText)};
}

void LiveScan::warning(std::string_view text) {
  const std::scoped_lock lock(mutex_);
  if (++warnings_said_ <= kMostWarnings) warnings_.push_back(protocol::printable(text, kMostText));
}

bool LiveScan::worth_telling() const {
  const std::scoped_lock lock(mutex_);
  return begun_ || (error_ && status_->bytes_in > 0);
}

bool LiveScan::begun() const {
  const std::scoped_lock lock(mutex_);
  return begun_;
}

std::shared_ptr<const ScanOrigin> LiveScan::origin() const {
  const std::scoped_lock lock(mutex_);
  return origin_;
}

nlohmann::ordered_json LiveScan::json(bool pictures) const {
  const auto ms_since = [now = Clock::now()](Clock::time_point then) {
    return std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(now - then).count());
  };
  const auto newest = images_ ? images_->newest(status_->id) : nullptr;
  nlohmann::ordered_json json{
      {"id", status_->id},
      {"state", to_string(status_->state)},
      {"peer", status_->peer},
      {"began", std::chrono::duration_cast<std::chrono::milliseconds>(began_.time_since_epoch()).count()},
      {"age_s", kMs * static_cast<double>(ms_since(status_->began))},
      {"idle_s", kMs * static_cast<double>(ms_since(status_->last_activity))},
      {"backend", status_->backend()},
      {"bytes_in", status_->bytes_in.load()},
      {"bytes_out", status_->bytes_out.load()},
      {"queue_bytes", status_->queues->used()},
      {"memory_bytes", status_->queues->held()},
      {"newest_image", newest ? newest->number : 0}};
  const std::scoped_lock lock(mutex_);
  json["pipeline"] = pipeline_;
  json["trajectory"] = trajectory_;
  json["protocol"] = protocol_name_;
  if (!patient_name_.empty()) json["patient"] = patient_name_;
  json["lines"] = lines_;
  json["lines_announced"] = announced_;
  json["images"] = images_made_;
  json["warnings"] = warnings_;
  json["warnings_said"] = warnings_said_;
  json["error"] = nullptr;
  if (error_) json["error"] = {{"code", error_->code}, {"text", error_->message}};
  if (pictures && picture_ && picture_->height() > 0)
    json["kspace"] = {{"width", picture_->width()},   {"height", picture_->height()}, {"lines", picture_->lines()},
                      {"filled", picture_->filled()}, {"cells", picture_->cells()},   {"path", picture_->path()}};
  return json;
}

}  // namespace echotrain::server
