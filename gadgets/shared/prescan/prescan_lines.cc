#include "gadgets/shared/prescan/prescan_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "gadgets/shared/place.h"
#include "protocol/data/layout.h"

namespace echotrain {
namespace {

constexpr std::uint64_t kPrescan = protocol::acquisition_flag(29), kReverse = protocol::acquisition_flag(22);

/// The points that are kept of an axis.
std::int64_t kept_points(std::int64_t matrix, double encoded_mm, double recon_mm) {
  constexpr double kPoints = 32, kMost = 64;
  const double wanted = std::clamp(kPoints * encoded_mm / recon_mm, 1.0, kMost);
  return std::min<std::int64_t>(matrix, 2 * std::llround(wanted / 2));
}

/// The index of an encoding step among the points that are kept of an axis; -1: it is not kept.
std::int64_t index_of(std::int64_t step, const std::optional<protocol::CounterLimit>& limit, std::int64_t matrix,
                      std::int64_t kept) {
  const std::int64_t center = limit && limit->center > 0 ? limit->center : matrix / 2;
  const std::int64_t index = step - (kept > 1 ? center : step) + kept / 2;
  return index >= 0 && index < kept ? index : -1;
}

/// The bytes of a volume's k-space and counts of lines.
std::uint64_t bytes_of(const numerics::Extents& n, int coils) {
  return static_cast<std::uint64_t>(numerics::volume(n)) * static_cast<std::uint64_t>(coils) *
             sizeof(numerics::cfloat) +
         static_cast<std::uint64_t>(n[0] * n[1]) * sizeof(std::uint32_t);
}

/// The share of a volume's rows that came. An ellipse in y and z is 0.785.
double share_of(const std::vector<std::uint32_t>& lines) {
  return 1 - static_cast<double>(std::count(lines.begin(), lines.end(), 0u)) / static_cast<double>(lines.size());
}

}  // namespace

bool PrescanLines::take(const protocol::Acquisition& readout, const protocol::Encoding& encoding) {
  const protocol::AcquisitionHeader& head = readout.head;
  if ((head.flags & kPrescan) == 0) return false;
  ++taken_;
  if (encoding.trajectory != protocol::Trajectory::cartesian || (head.flags & kReverse) != 0) return true;
  const std::array<std::uint32_t, 3>& matrix = encoding.encoded.matrix;
  numerics::Extents n{};
  for (std::size_t a = 0; a < 3; ++a)
    n[2 - a] = matrix[a] > 1 ? kept_points(matrix[a], encoding.encoded.fov_mm[a], encoding.recon.fov_mm[a]) : 1;
  const std::int64_t y = index_of(head.idx.kspace_encode_step_1, encoding.kspace_encoding_step_1, matrix[1], n[1]),
                     z = index_of(head.idx.kspace_encode_step_2, encoding.kspace_encoding_step_2, matrix[2], n[0]);
  if (y < 0 || z < 0) return true;

  const auto idx = head.idx;
  Slices* const slices = slices_of({head.active_channels, head.encoding_space_ref, idx.contrast, idx.set});
  if (slices == nullptr) return true;
  const bool fresh = !slices->contains(idx.slice);
  if (fresh) {
    const std::uint64_t size = bytes_of(n, head.active_channels);
    full_ = full_ || bytes_ + size > kMostBytes;
    if (full_) return true;
    bytes_ += size;
  }
  Volume& volume = (*slices)[idx.slice];
  if (fresh) {
    volume.head = head;
    volume.fov_mm = encoding.encoded.fov_mm;
    volume.coils = head.active_channels;
    volume.n = n;
    volume.kspace.resize(static_cast<std::size_t>(volume.coils * numerics::volume(n)));
    volume.lines.resize(static_cast<std::size_t>(n[0] * n[1]));
  } else if (!differences_of_place(volume.head, head).empty()) {
    return true;
  }
  ++volume.lines[static_cast<std::size_t>(z * n[1] + y)];
  const std::int64_t samples = head.number_of_samples, shift = n[2] / 2 - head.center_sample;
  samples_.resize(static_cast<std::size_t>(volume.coils * samples));
  readout.data.copy_to(samples_.data());
  for (std::int64_t c = 0; c < volume.coils; ++c)
    for (std::int64_t s = std::max<std::int64_t>(head.discard_pre, -shift);
         s < std::min<std::int64_t>(samples - head.discard_post, n[2] - shift); ++s)
      volume.kspace[static_cast<std::size_t>(((c * n[0] + z) * n[1] + y) * n[2] + s + shift)] +=
          samples_[static_cast<std::size_t>(c * samples + s)];
  return true;
}

/// The slices of these coils; null: they are neither the array nor the body coil, or come again with higher counters.
PrescanLines::Slices* PrescanLines::slices_of(const Coils& coils) {
  if (const auto known = coils_.find(coils); known != coils_.end()) return &known->second;
  const auto channels = [](const auto& entry) { return std::get<0>(entry.first); };
  const std::uint16_t own = std::get<0>(coils);
  const auto same = std::find_if(coils_.begin(), coils_.end(), [&](const auto& e) { return channels(e) == own; });
  if (same != coils_.end()) {
    if (same->first < coils) return nullptr;
    forget(same);
  } else if (coils_.size() == 2) {
    const bool fewest = own < channels(*coils_.begin());
    if (!fewest && own < channels(*coils_.rbegin())) return nullptr;
    forget(fewest ? coils_.begin() : std::prev(coils_.end()));
  }
  return &coils_[coils];
}

void PrescanLines::forget(std::map<Coils, Slices>::iterator coils) {
  for (const auto& slice : coils->second) bytes_ -= bytes_of(slice.second.n, slice.second.coils);
  coils_.erase(coils);
}

std::shared_ptr<const PrescanRecord> PrescanLines::record(const std::vector<std::string>& labels,
                                                          std::string& why_not) const {
  constexpr double kEnough = 0.75;  // of the rows
  if (coils_.empty()) {
    why_not = "has no Cartesian lines within its matrix";
    return nullptr;
  }
  if (std::get<0>(coils_.begin()->first) == std::get<0>(coils_.rbegin()->first)) {
    why_not = "has no readouts of two coils with different numbers of channels, the array and the body coil";
    return nullptr;
  }
  const auto& [body_coils, bodies] = *coils_.begin();
  const auto& [array_coils, arrays] = *coils_.rbegin();
  auto out = std::make_shared<PrescanRecord>();
  if (labels.size() == std::get<0>(array_coils)) out->labels = labels;
  out->made_unix_s = unix_seconds();
  if (full_) {
    why_not = fmt::format("has more places than {} MiB hold", kMostBytes >> 20);
    return nullptr;
  }
  why_not = "has no place that both the array and the body coil have seen on the same grid";
  for (const auto& [slice, array] : arrays) {
    const auto body = bodies.find(slice);
    if (body == bodies.end() || body->second.n != array.n || body->second.fov_mm != array.fov_mm) continue;
    if (share_of(array.lines) < kEnough || share_of(body->second.lines) < kEnough) {
      why_not = "leaves out lines";
      continue;
    }
    PrescanRecord::Place& place = out->places.emplace_back(PrescanRecord::Place{array, body->second});
    const auto mean = [](PrescanVolume& of, const std::vector<std::uint32_t>& lines) {
      for (std::size_t v = 0; v < of.kspace.size(); ++v)
        of.kspace[v] /=
            static_cast<float>(std::max<std::uint32_t>(1, lines[v / static_cast<std::size_t>(of.n[2]) % lines.size()]));
    };
    mean(place.array, array.lines);
    mean(place.body, body->second.lines);
  }
  return out->places.empty() ? nullptr : out;
}

}  // namespace echotrain
