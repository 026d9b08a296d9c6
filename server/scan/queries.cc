#include "server/scan/queries.h"

#include <fmt/format.h>
#include <ismrmrd/version.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "gadgets/numerics/core/context.h"
#include "gadgets/shared/store/calibration_store.h"
#include "gadgets/shared/store/noise_store.h"

namespace echotrain::server {

namespace {

/// Returns the record that the store has for this client.
template <class Store>
auto record_of(const std::string& measurement_id, numerics::Resources& resources, const QueryClient& asker) {
  Store& store = resources.get<Store>();
  return asker.device ? store.find({asker.owner, std::string(*asker.device), measurement_id})
                      : store.find_of_any_device(asker.owner, measurement_id);
}

double hours_since(std::int64_t unix_s) {
  return static_cast<double>(std::max<std::int64_t>(0, unix_seconds() - unix_s)) / 3600;
}

/// Says if the noise of this measurement is known, for clients that would otherwise send the noise scan again.
std::string answer_noise(const std::string& measurement_id, numerics::Resources& resources, const QueryClient& asker) {
  const auto record = record_of<NoiseStore>(measurement_id, resources, asker);
  if (!record) return "unknown";
  return fmt::format("known {} coils {} us {:.1f} h", record->coils, record->dwell_us,
                     hours_since(record->made_unix_s));
}

/// The matrix that was asked for last, as text: who asks again makes no work.
class LastMatrix {
 public:
  explicit LastMatrix(numerics::Resources& resources)
      : share_(std::make_shared<numerics::MemoryAccount>(resources.memory())) {}
  std::shared_ptr<const std::string> find(const std::shared_ptr<const NoiseRecord>& record) const {
    const std::scoped_lock lock(mutex_);
    return record == record_ ? text_ : nullptr;
  }
  void keep(std::shared_ptr<const NoiseRecord> record, std::shared_ptr<const std::string> text) {
    const std::scoped_lock lock(mutex_);
    record_ = std::move(record);
    text_ = std::move(text);
    share_.set(text_->capacity());
  }

 private:
  mutable std::mutex mutex_;
  numerics::MemoryShare share_;
  std::shared_ptr<const NoiseRecord> record_;
  std::shared_ptr<const std::string> text_;
};

constexpr std::size_t kLabelText = 64 + 7, kNumbersText = 2 * 13 + 2;  // at most, of a line; of a complex number

/// What the matrix takes at most as text.
std::uint64_t matrix_bytes(const NoiseRecord& record) {
  const auto coils = static_cast<std::uint64_t>(record.coils);
  return coils * kLabelText + coils * (coils + 1) / 2 * kNumbersText;
}

std::string matrix_text(const NoiseRecord& record) {
  const auto coils = static_cast<std::size_t>(record.coils);
  std::string out;
  out.reserve(matrix_bytes(record));
  for (std::size_t c = 0; c < coils; ++c)
    out += fmt::format("label {}\n", record.labels.empty() ? std::string() : record.labels[c]);
  for (std::size_t a = 0; a < coils; ++a) {
    for (std::size_t b = 0; b <= a; ++b) {
      const numerics::cdouble value = record.covariance[a * coils + b];
      out += fmt::format("{}{:.6g} {:.6g}", b == 0 ? "" : " ", value.real(), value.imag());
    }
    out += '\n';
  }
  return out;
}

constexpr std::uint64_t kCopiesOfMatrix = 3;  // the last one; an answer, as text and as it is sent

/// Covariance of the noise of this measurement, half of whose power is in the real part: docs/protocol.md has the form.
std::string answer_noise_matrix(const std::string& measurement_id, numerics::Resources& resources,
                                const QueryClient& asker) {
  const auto record = record_of<NoiseStore>(measurement_id, resources, asker);
  if (!record) return "unknown";
  if (asker.pay) asker.pay(kCopiesOfMatrix * matrix_bytes(*record));
  LastMatrix& last = resources.get<LastMatrix>();
  std::shared_ptr<const std::string> text = last.find(record);
  if (!text) {
    text = std::make_shared<const std::string>(matrix_text(*record));
    last.keep(record, text);
  }
  return fmt::format("coils {} samples {} us {} age_s {:.0f}\n", record->coils, record->samples, record->dwell_us,
                     hours_since(record->made_unix_s) * 3600) +
         *text;
}

/// Says if the reference lines of this measurement are known.
std::string answer_calibration(const std::string& measurement_id, numerics::Resources& resources,
                               const QueryClient& asker) {
  const auto record = record_of<CalibrationStore>(measurement_id, resources, asker);
  if (!record) return "unknown";
  return fmt::format("known {} coils {} lines {:.1f} h", record->coils, record->count(),
                     hours_since(record->made_unix_s));
}

}  // namespace

std::string_view version() { return ECHOTRAIN_VERSION; }

std::string answer_query(std::string_view name, const PipelineCatalogue& catalogue, numerics::Resources& resources,
                         const QueryClient& asker) {
  // Gadgetron's clients ask these to learn whom they talk to.
  if (name == "gadgetron::version") return fmt::format("Echotrain {} (speaks Gadgetron's protocol)", version());
  if (name == "gadgetron::build") return fmt::format("Echotrain {}", version());
  if (name == "gadgetron::info")
    return fmt::format("Echotrain {}\nISMRMRD {}.{}.{}\n{}", version(), ISMRMRD_VERSION_MAJOR, ISMRMRD_VERSION_MINOR,
                       ISMRMRD_VERSION_PATCH, numerics::describe(numerics::Backend::cpu, resources));
  if (name == "ismrmrd::version")
    return fmt::format("{}.{}.{}", ISMRMRD_VERSION_MAJOR, ISMRMRD_VERSION_MINOR, ISMRMRD_VERSION_PATCH);
  if (name == "echotrain::version") return std::string(version());
  if (name == "echotrain::pipelines") return catalogue.describe();
  constexpr std::string_view kNoise = "echotrain::noise/";
  if (name.starts_with(kNoise)) return answer_noise(std::string(name.substr(kNoise.size())), resources, asker);
  constexpr std::string_view kMatrix = "echotrain::noise_matrix/";
  if (name.starts_with(kMatrix)) return answer_noise_matrix(std::string(name.substr(kMatrix.size())), resources, asker);
  constexpr std::string_view kCalibration = "echotrain::calibration/";
  if (name.starts_with(kCalibration))
    return answer_calibration(std::string(name.substr(kCalibration.size())), resources, asker);
  return "Unknown query";
}

}  // namespace echotrain::server
