#include "gadgets/maps/voxel_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/core/layout/sample_layout.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "gadgets/numerics/inverse/fit/geometric_mean.h"
#include "gadgets/numerics/mri/coils/coil_maps.h"
#include "gadgets/numerics/mri/images/pixels.h"
#include "gadgets/shared/incoming/meta_notes.h"
#include "protocol/data/sequence_values.h"

namespace echotrain {
namespace {

enum Series : std::uint16_t { kValue = 0, kDeviation = 3, kSecond = 4, kSecondDeviation = 5, kBefore = 6 };

constexpr int kBlock = 5;  // as coil_combine's

constexpr double kWeak = 0.1;  // of the brightest voxels, where nothing tells the noise

std::uint16_t FrameKey::*counter_named(std::string_view name) {
  if (name == "contrast") return &FrameKey::contrast;
  if (name == "set") return &FrameKey::set;
  if (name == "repetition") return &FrameKey::repetition;
  return &FrameKey::phase;
}

const std::optional<protocol::CounterLimit>& limit_of(const protocol::Encoding& encoding, std::string_view name) {
  if (name == "contrast") return encoding.contrast;
  if (name == "set") return encoding.set;
  if (name == "repetition") return encoding.repetition;
  return encoding.phase;
}

}  // namespace

std::vector<double> map_values(const std::vector<std::string>& texts) {
  std::vector<double> out;
  for (const std::string& text : texts) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < 0)
      throw std::invalid_argument("\"" + text + "\" is no number from 0 on");
    out.push_back(value);
  }
  return out;
}

std::vector<double> VoxelMap::values(const protocol::Header& header, std::string_view what, std::string_view user,
                                     std::string_view option) const {
  std::vector<double> out = map_values(common_.values);
  if (out.empty() && !what.empty()) out = protocol::sequence_values(header.xml, what);
  if (out.size() < 2 && common_.values.empty())
    if (std::vector<double> others = protocol::user_values(header.xml, user); others.size() > out.size()) out = others;
  if (out.size() < 2)
    throw ClientError(fmt::format(
        "{}: the header names {} values ({}user parameters {}) of the images, and a map needs two or more; say them by "
        "{}",
        name_, out.size(), what.empty() ? "" : fmt::format("sequenceParameters/{}, or ", what), user, option));
  return out;
}

std::string VoxelMap::counter_of(const protocol::Encoding& encoding) const {
  if (common_.over != "auto") return common_.over;
  if (plan_.told) return plan_.counter;
  for (const char* name : {plan_.counter.c_str(), "set", "contrast", "repetition", "phase"})
    if (const auto& limit = limit_of(encoding, name);
        limit && static_cast<std::size_t>(limit->maximum - limit->minimum) + 1 == plan_.at.size())
      return name;
  return plan_.counter;
}

void VoxelMap::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  plan_ = plan(header);
  constexpr std::size_t kMostImages = numerics::VoxelFit::kMostImages, kMostAveraged = 1024;
  const std::size_t images = plan_.at.size(), places = std::set(plan_.at.begin(), plan_.at.end()).size();
  if (const std::size_t most = plan_.average ? kMostAveraged : kMostImages; images > most)
    throw ClientError(fmt::format("{}: {} images of a slice are more than {}", name_, images, most));
  if (places > kMostImages)
    throw ClientError(fmt::format("{}: {} different values are more than {}", name_, places, kMostImages));
  for (const protocol::Encoding& encoding : header.encodings) {
    counters_.push_back(counter_of(encoding));
    const auto& limit = limit_of(encoding, counters_.back());
    first_value_.push_back(limit ? limit->minimum : std::uint16_t{0});
  }
}

/// Magnitudes, real numbers with a sign, or complex ones: a field is told by the latter only.
void VoxelMap::take_signal(const Frame& frame, numerics::VoxelFit& fit) const {
  using numerics::PixelType;
  const auto type = frame.source ? static_cast<PixelType>(frame.source->head.data_type) : PixelType::c64;
  const int kind = frame.source ? frame.source->head.image_type : 0;  // 0: not said
  const bool is_signed =
      type != PixelType::u16 && type != PixelType::u32 && kind != 0 && kind != ISMRMRD::ISMRMRD_IMTYPE_MAGNITUDE;
  fit.real = plan_.complex && (frame.notes.contains("psir_reference") || (is_signed && !numerics::is_complex(type)));
  fit.magnitude = !fit.real && !(plan_.complex && numerics::is_complex(type));
  fit.polarity = fit.magnitude && plan_.polarity;
  fit.curve.turning = fit.curve.turning && !fit.real && !fit.magnitude;
}

/// Makes pixels values, by what a client says of them. Real ones, as an intercept has no phase.
void VoxelMap::rescale(CoilImages& images) const {
  const Frame& frame = *images.frame;
  const auto slope = static_cast<float>(number_of(frame.notes, "RescaleSlope").value_or(1)),
             intercept = static_cast<float>(number_of(frame.notes, "RescaleIntercept").value_or(0));
  if (!frame.source || (slope == 1 && intercept == 0)) return;
  const bool real = !numerics::is_complex(static_cast<numerics::PixelType>(frame.source->head.data_type));
  Array<cfloat> values = scan_->compute.allocate<cfloat>(images.data.shape());
  numerics::scale(scan_->compute, images.data.cview(), real ? -slope : slope, values.view());
  if (real)
    numerics::invert(scan_->compute, values.cview(), {intercept, -std::numeric_limits<float>::infinity(), false},
                     values.view());
  images.data = std::move(values);
}

void VoxelMap::process(CoilImages&& images, const Emit<CoilImages>& emit) {
  const Frame& frame = *images.frame;
  if (has_own_unit(frame)) return scan_->info(name_ + ": g-factors and images in units of SNR are not used");
  if (frame.source && frame.source->head.image_type == ISMRMRD::ISMRMRD_IMTYPE_PHASE)
    return scan_->warn(name_ + ": phase images are not used; send complex images to have their phase, too");
  FrameKey key = frame.key;
  const std::size_t encoding = std::min<std::size_t>(key.encoding, counters_.empty() ? 0 : counters_.size() - 1);
  // The header of sent images may have no encoding.
  const std::string& without = common_.over == "auto" ? plan_.counter : common_.over;
  const std::string counter = counters_.empty() ? without : counters_[encoding];
  const std::uint16_t first = first_value_.empty() ? std::uint16_t{0} : first_value_[encoding];
  const std::uint16_t value = std::exchange(key.*counter_named(counter), std::uint16_t{0});
  if (value < first || value - first >= static_cast<int>(plan_.at.size()))
    return scan_->warn(fmt::format("{}: images of {} {} have no place in a list of {} values and are not used", name_,
                                   counter, value, plan_.at.size()));
  const std::size_t which = value - first;
  // A repetition that has begun tells that those before it remain incomplete.
  std::erase_if(open_, [&](const auto& each) {
    FrameKey other = each.first;
    const bool earlier = other.repetition < key.repetition;
    other.repetition = key.repetition;
    if (!earlier || other != key) return false;
    lost_ += each.second.which.size();
    return true;
  });
  Slice& slice = open_[key];
  if (std::find(slice.which.begin(), slice.which.end(), which) != slice.which.end())
    scan_->warn(
        fmt::format("{}: the image of {} {} has come again, and replaces the earlier one", name_, counter, value));
  rescale(images);
  add(slice, images, which);
  const std::size_t count = slice.which.size();
  const bool last = count == plan_.at.size(), again = common_.refit && !scan_->behind && count >= slice.next;
  if (last || again) fit(slice, last, emit);
  if (again) slice.next = count + 1 + count / 8;  // so that all fits take a few times as long as the last
  if (last) open_.erase(key);
}

/// Joins an image's coils, and adds it to its slice, or puts it where an earlier one of its place was.
void VoxelMap::add(Slice& slice, const CoilImages& images, std::size_t which) {
  numerics::Context& compute = scan_->compute;
  const numerics::Shape& n = images.data.shape();
  const numerics::Shape joined{1, n[1], n[2], n[3]};
  const std::int64_t voxels = joined.size(), coils = slice.coils ? slice.coils.shape()[0] : 1;
  if (slice.which.empty()) {
    slice.shape = joined;
    slice.stack = compute.allocate<cfloat>({static_cast<std::int64_t>(plan_.at.size()), voxels});
    if (n[0] > 1) {
      slice.coils = compute.allocate<cfloat>(n);
      numerics::adaptive_maps(compute, images.data.cview(), kBlock, slice.coils.view());
    }
  } else if (!(slice.shape == joined) || n[0] != coils) {
    throw ClientError(fmt::format("{}: a slice's images are {} of {} coils, and {}; they must be alike", name_,
                                  slice.shape.text(), coils, n.text()));
  }
  if (slice.which.empty())
    slice.noise = images.noise;  // a voxel's maps have length 1
  else if (std::abs(images.noise - slice.noise) > 1e-3 * slice.noise)
    slice.noise = 0;
  const auto at = std::find(slice.which.begin(), slice.which.end(), which);
  const auto place = slice.stack.view().part((at - slice.which.begin()) * voxels, {voxels});
  if (n[0] > 1)
    numerics::combine(compute, slice.coils.cview(), images.data.cview(), place.reshaped(joined));
  else
    compute.copy<cfloat>(images.data.view().reshaped({voxels}), place);
  if (at == slice.which.end()) slice.which.push_back(which);
  slice.frame = images.frame;
}

/// Returns the names of the numbers that tell images of different maps apart; empty where only slices do.
std::string VoxelMap::apart() const {
  std::string names;
  for (const auto& [name, number] :
       {std::pair("series", &FrameKey::series), std::pair("encoding", &FrameKey::encoding),
        std::pair("set", &FrameKey::set), std::pair("contrast", &FrameKey::contrast),
        std::pair("phase", &FrameKey::phase), std::pair("repetition", &FrameKey::repetition)})
    if (std::any_of(open_.begin(), open_.end(),
                    [&, n = number](const auto& each) { return each.first.*n != open_.begin()->first.*n; }))
      names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

void VoxelMap::finish(End how, const Emit<CoilImages>& emit) {
  if (how == End::complete) {
    const std::string names = apart();
    for (const auto& [key, slice] : open_) {
      scan_->warn(fmt::format("{}: a map is made of {} of {} images, as the others did not come{}", name_,
                              slice.which.size(), plan_.at.size(),
                              names.empty() ? "" : "; images that differ in " + names + " are of different maps"));
      fit(slice, true, emit);
    }
    if (lost_ > 0)
      scan_->warn(fmt::format("{}: {} images of repetitions that remained incomplete gave no map", name_, lost_));
  }
  open_.clear();
}

/// Fits the images that have come. Gives nothing where they are too few.
void VoxelMap::fit(const Slice& slice, bool last, const Emit<CoilImages>& emit) {
  numerics::Context& compute = scan_->compute;
  const std::int64_t voxels = slice.shape.size();
  numerics::VoxelFit f = plan_.fit;
  f.noise = common_.noise_sd > 0 ? common_.noise_sd : slice.noise;
  f.unbiased = f.noise > 0;  // by residuals the correction would be as uncertain as they are
  f.threshold = common_.threshold;
  f.most_error = common_.most_error;
  take_signal(*slice.frame, f);
  if (last && plan_.fit.curve.turning && !f.curve.turning)
    scan_->info(name_ + ": images without a phase tell no field; send complex ones");
  f.rician = f.rician && f.magnitude && f.noise > 0;
  Array<cfloat> means;
  numerics::DeviceView<const cfloat> stack = slice.stack.cview();
  if (plan_.average) {
    std::map<double, std::vector<std::int32_t>> alike;
    for (std::size_t i = 0; i < slice.which.size(); ++i)
      alike[plan_.at[slice.which[i]]].push_back(static_cast<std::int32_t>(i));
    means = compute.allocate<cfloat>({static_cast<std::int64_t>(alike.size()), voxels});
    for (const auto& [at, which] : alike) {
      numerics::geometric_mean(compute, slice.stack.cview(), which,
                               means.view().part(static_cast<std::int64_t>(f.at.size()) * voxels, {voxels}));
      f.at.push_back(at);
      f.weights.push_back(static_cast<double>(which.size()));
    }
    stack = means.cview();
  } else {
    for (const std::size_t which : slice.which) f.at.push_back(plan_.at[which]);
  }
  const std::size_t different = std::set(f.at.begin(), f.at.end()).size(), needed = f.curve.offset ? 3 : 2;
  if (f.freedom() < (last || f.noise > 0 ? 0 : 1) || different < needed) {
    if (last)
      scan_->warn(fmt::format("{}: {} images of {} different values are too few for a map, which needs {}", name_,
                              slice.which.size(), different, needed));
    return;
  }
  const bool deviation = f.noise > 0 || f.freedom() > 0;
  Array<float> floor;
  if (!deviation) {
    scan_->info(name_ +
                ": as many unknowns as images leave no residuals to tell the error by, and voxels below a tenth "
                "of the brightest are 0; say noise_sd");
    Array<float> sizes = compute.allocate<float>({static_cast<std::int64_t>(f.at.size()), voxels});
    numerics::component(compute, stack.part(0, sizes.shape()), numerics::Component::magnitude, kWeak, sizes.view());
    floor = compute.allocate<float>({1});
    numerics::quantile(compute, sizes.cview().reshaped({sizes.size()}), 0.99, floor.view());
    f.floor = floor.cview();
  }
  Array<float> maps = compute.allocate<float>({f.curve.turning ? 4 : 2, voxels});
  try {
    numerics::fit_voxels(compute, f, stack, maps.view());
  } catch (const std::invalid_argument& error) {
    throw ClientError(fmt::format("{}: {}", name_, error.what()));
  }
  const auto give = [&](std::int64_t map, const Quantity& quantity, std::string_view statistic, Series series) {
    emit(image_of(slice, maps.cview().part(map * voxels, {voxels}), quantity, statistic, series, f));
  };
  if (!last) return give(0, plan_.first, "value", kBefore);
  give(0, plan_.first, "value", kValue);
  if (deviation) give(1, plan_.first, "sd", kDeviation);
  if (!f.curve.turning) return;
  give(2, plan_.second, "value", kSecond);
  if (deviation) give(3, plan_.second, "sd", kSecondDeviation);
}

CoilImages VoxelMap::image_of(const Slice& slice, numerics::DeviceView<const float> map, const Quantity& quantity,
                              std::string_view statistic, std::uint16_t series, const numerics::VoxelFit& fit) const {
  numerics::Context& compute = scan_->compute;
  CoilImages out;
  out.data = compute.allocate<cfloat>(slice.shape);
  numerics::to_complex(compute, map, out.data.view().reshaped({map.size()}));
  if (quantity.factor != 1) {
    Array<cfloat> scaled = compute.allocate<cfloat>(slice.shape);
    numerics::scale(compute, out.data.cview(), static_cast<float>(quantity.factor), scaled.view());
    out.data = std::move(scaled);
  }
  const auto frame = std::make_shared<Frame>(*slice.frame);
  const std::size_t encoding = std::min<std::size_t>(frame->key.encoding, counters_.empty() ? 0 : counters_.size() - 1);
  frame->key.*counter_named(counters_.empty() ? plan_.counter : counters_[encoding]) = 0;
  if (frame->source && series != 0) {
    const auto source = std::make_shared<protocol::Image>(*frame->source);
    source->head.image_series_index = static_cast<std::uint16_t>(source->head.image_series_index + series);
    frame->source = source;
  } else if (!frame->source) {
    frame->key.series = static_cast<std::uint16_t>(frame->key.series + series);
  }
  auto& notes = frame->notes;
  // They are one image's, not those of what is made of all.
  for (const char* of_image :
       {"RescaleSlope", "RescaleIntercept", "ImageType", "EchoTime", "InversionTime", "FlipAngle"})
    notes.erase(of_image);
  const auto append = [&notes](const char* name, const char* between, const std::string& text) {
    std::string& note = notes[name];
    note += (note.empty() ? "" : between) + text;
  };
  if (slice.which.size() < plan_.at.size())
    append("ImageComments", "; ",
           fmt::format("incomplete: made of {} of {} images", slice.which.size(), plan_.at.size()));
  if (series == kBefore) append("SeriesDescriptionAdditional", "_", "incomplete");
  notes["DataRole"] = "Quantitative";
  notes["map_quantity"] = quantity.name;
  notes["map_unit"] = quantity.unit;
  notes["map_statistic"] = statistic;
  notes["map_images"] = fmt::format("{}/{}", slice.which.size(), plan_.at.size());
  notes["map_error"] = fit.noise > 0 ? "noise" : fit.freedom() > 0 ? "residuals" : "none";
  if (!(fit.noise > 0)) notes["map_freedom"] = std::to_string(fit.freedom());
  if (!quantity.role.empty() && statistic == "value") notes["role"] = quantity.role;
  add_step(*frame, name_);
  const bool value = statistic == "value";
  set_window(*frame, value ? quantity.center : quantity.width / 20, value ? quantity.width : quantity.width / 10);
  out.frame = frame;
  return out;
}

}  // namespace echotrain
