#include "gadgets/readouts/channels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "gadgets/numerics/mri/coils/compression.h"

namespace echotrain {
namespace {

using protocol::ReadoutKind;

/// The words of "3, Body1".
std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> words;
  std::size_t at = 0;
  while ((at = text.find_first_not_of(", ", at)) != std::string::npos) {
    const std::size_t end = std::min(text.find_first_of(", ", at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

double middle_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Parameters<Channels::Options> Channels::parameters() {
  return Parameters<Options>()
      .flag("drop_dead", &Options::drop_dead, "leave out channels without a signal")
      .number("dead_below", &Options::dead_below, 0, 1, "what is dead: root mean square, relative to the median's")
      .text("drop", &Options::drop, "numbers (from 0) or labels of channels to leave out: \"3, Body1\"");
}

void Channels::start(const protocol::Header& header, Scan& scan) {
  scan_ = &scan;
  const auto& labels = header.coil_labels;
  for (const std::string& word : names_in(options_.drop)) {
    std::uint16_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error == std::errc{} && end == word.data() + word.size()) {
      named_.insert(number);
      continue;
    }
    const auto label = std::find(labels.begin(), labels.end(), word);
    if (label == labels.end())
      throw ClientError(
          fmt::format("channels: drop names '{}', which is neither a number nor a label of a channel", word));
    named_.insert(label - labels.begin());
  }
}

void Channels::process(Readouts&& readouts, const Emit<Readouts>& emit) {
  const bool decides = readouts.kind == ReadoutKind::imaging || readouts.kind == ReadoutKind::noise ||
                       readouts.kind == ReadoutKind::calibration;
  if (!readouts.heads.empty()) {
    const std::int64_t come = readouts.heads.front().active_channels;
    if (channels_ == 0 && decides) decide(readouts);
    if (decides && come != channels_)
      throw ClientError(fmt::format("channels: readouts have {} channels, but those before had {}", come, channels_));
    if (come == channels_ && static_cast<std::int64_t>(kept_.size()) < channels_) {
      const auto kept = static_cast<std::int64_t>(kept_.size());
      if (readouts.data) {
        const auto& shape = readouts.data.shape();
        Array<cfloat> to = scan_->compute.allocate<cfloat>({shape[0], kept, shape[2]});
        numerics::compress(scan_->compute, selection_.cview(), readouts.data.cview(), to.view());
        readouts.data = std::move(to);
      }
      if (readouts.host_data) {
        const auto& shape = readouts.host_data.shape();
        HostArray<cfloat> to = scan_->compute.allocate_host<cfloat>({shape[0], kept, shape[2]});
        for (std::int64_t i = 0; i < shape[0]; ++i)
          for (std::int64_t k = 0; k < kept; ++k)
            std::copy_n(readouts.host_data.data() + (i * channels_ + kept_[static_cast<std::size_t>(k)]) * shape[2],
                        shape[2], to.data() + (i * kept + k) * shape[2]);
        readouts.host_data = std::move(to);
      }
      for (auto& head : readouts.heads) head.active_channels = static_cast<std::uint16_t>(kept);
    }
  }
  if (readouts.frame && !left_out_.empty())
    readouts.frame = with_notes(*readouts.frame, {{"channels_left_out", left_out_}});
  emit(std::move(readouts));
}

/// The mean power of each channel in the first readout only, so that it does not depend on the batches.
std::vector<double> Channels::powers(const Readouts& readouts) const {
  const std::int64_t samples = readouts.heads.front().number_of_samples;
  const numerics::Shape shape{channels_, samples};
  const HostArray<cfloat> first =
      readouts.data ? scan_->compute.download<cfloat>(readouts.data.cview().part(0, shape)) : readouts.host_data;
  std::vector<double> out(static_cast<std::size_t>(channels_));
  for (std::int64_t c = 0; c < channels_; ++c)
    for (std::int64_t s = 0; s < samples; ++s)
      out[static_cast<std::size_t>(c)] += std::norm(numerics::cdouble(first.data()[c * samples + s]));
  return out;
}

void Channels::decide(const Readouts& readouts) {
  channels_ = readouts.heads.front().active_channels;
  std::set<std::int64_t> out;
  for (const std::int64_t c : named_) {
    if (c >= channels_)
      throw ClientError(fmt::format("channels: drop names channel {}, but readouts have {}", c, channels_));
    out.insert(c);
  }
  if (options_.drop_dead) {
    const std::vector<double> power = powers(readouts);
    const double least = options_.dead_below * options_.dead_below * middle_of(power);
    for (std::int64_t c = 0; c < channels_; ++c)
      if (power[static_cast<std::size_t>(c)] < least && out.insert(c).second)
        scan_->warn(fmt::format("channels: channel {} is dead and is left out", c));
  }
  for (std::int64_t c = 0; c < channels_; ++c)
    if (!out.contains(c)) kept_.push_back(c);
  if (kept_.empty()) throw ClientError(fmt::format("channels: none of {} channels is left", channels_));
  left_out_ = fmt::format("{}", fmt::join(out, " "));
  if (out.empty()) return;
  std::vector<cfloat> selection(kept_.size() * static_cast<std::size_t>(channels_));
  for (std::size_t k = 0; k < kept_.size(); ++k)
    selection[k * static_cast<std::size_t>(channels_) + static_cast<std::size_t>(kept_[k])] = 1;
  selection_ = scan_->compute.upload<cfloat>({selection.data(), {static_cast<std::int64_t>(kept_.size()), channels_}});
}

}  // namespace echotrain
