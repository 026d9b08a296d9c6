#include "protocol/pulseq/pulseq_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "protocol/data/acquisition_check.h"
#include "protocol/data/header.h"
#include "protocol/data/layout.h"
#include "protocol/data/pluralized.h"
#include "protocol/pulseq/layout.h"

namespace echotrain::protocol::pulseq {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

bool is_noise(const AcquisitionHeader& head) { return readout_kind(head) == ReadoutKind::noise; }

std::optional<std::array<double, 3>> told_fov(const std::string& xml) {
  const auto header = parse_header(xml, {});
  if (!header || header->encodings.empty()) return std::nullopt;
  return header->encodings.front().recon.fov_mm;
}

void set_flag(AcquisitionHeader& head, int flag, bool to) {
  const std::uint64_t bit = acquisition_flag(flag);
  head.flags = to ? head.flags | bit : +head.flags & ~bit;
}

}  // namespace

struct PulseqReader::Impl {
  Impl(std::unique_ptr<ScanReader> scan, const std::filesystem::path& sequence)
      : file(std::move(scan)),
        kspace(read_sequence(sequence)),
        layout(layout_of(kspace, told_fov(file->header_xml()))) {
    const std::size_t readouts = file->acquisitions();
    own = readouts;
    if (!kspace.uses(Flag::noise)) {  // a scan with noise that was cut early may have as many readouts as events
      own = 0;
      for (std::size_t i = 0; i < readouts; ++i) own_of.push_back(is_noise(file->acquisition(i).head) ? kNone : own++);
    }
    find_plays();
    count_repetitions();
    header = header_with(file->header_xml(), kspace, layout, counts_plays ? plays : 1);
    const std::size_t index = index_of(0);
    check(0, index, file->acquisition(index).head);
  }

  /// Readouts of one play are all events; of several, those with the label ONCE = 1 come in the first only, with
  /// another one but 0 in the last only.
  void find_plays() {
    const std::size_t events = kspace.readouts();
    for (std::size_t event = 0; event < events; ++event) {
      const Plays when = kspace.labels(event).plays();
      if (when != Plays::last) first_play.push_back(event);
      if (when == Plays::each) each_play.push_back(event);
      if (when != Plays::first) last_play.push_back(event);
    }
    if (own > 0 && own <= events) return;
    const std::size_t ends = first_play.size() + last_play.size(), each = each_play.size();
    if (each > 0 && own >= ends && (own - ends) % each == 0) {
      plays = 2 + (own - ends) / each;
      return;
    }
    throw DatasetError(fmt::format("{}: has {}, but the scan has {}: this is not its sequence", kspace.sequence().name,
                                   pluralized(events, "ADC event"), pluralized(own, "readout")));
  }

  /// Each play is a repetition, unless the scan counts averages from play to play.
  void count_repetitions() {
    if (plays == 1) return;
    const auto average = [this](std::size_t number) { return +file->acquisition(index_of(number)).head.idx.average; };
    counts_plays = kspace.uses(Counter::average) || average(0) == average(first_play.size());
    std::size_t highest = 0;
    for (std::size_t event = 0; event < kspace.readouts(); ++event)
      highest = std::max(highest, static_cast<std::size_t>(kspace.labels(event).counter(Counter::repetition)));
    repetitions = highest + 1;
    if (counts_plays && repetitions * plays - 1 > 0xFFFF)
      throw DatasetError(fmt::format("{}: {}, played {} times: counters are 0 to 65535", kspace.sequence().name,
                                     pluralized(repetitions, "repetition"), plays));
  }

  /// The index in the file of the sequence's n-th readout.
  std::size_t index_of(std::size_t number) const {
    if (own_of.empty()) return number;
    return static_cast<std::size_t>(std::find(own_of.begin(), own_of.end(), number) - own_of.begin());
  }

  struct Played {
    std::size_t play = 0, event = 0;
  };
  Played played(std::size_t number) const {
    if (plays == 1) return {0, number};
    if (number < first_play.size()) return {0, first_play[number]};
    number -= first_play.size();
    const std::size_t between = (plays - 2) * each_play.size();
    if (number >= between) return {plays - 1, last_play[number - between]};
    return {1 + number / each_play.size(), each_play[number % each_play.size()]};
  }

  void check(std::size_t event, std::size_t index, const AcquisitionHeader& head) const {
    if (const std::size_t samples = kspace.adc(event).samples; samples != head.number_of_samples)
      throw DatasetError(fmt::format("{}: ADC event {} has {} samples, readout {} has {}: this is not its sequence",
                                     kspace.sequence().name, event, samples, index, +head.number_of_samples));
  }

  void describe(const Played& at, Acquisition& to) const {
    const std::size_t event = at.event;
    AcquisitionHeader& head = to.head;
    const Labels& labels = kspace.labels(event);
    const std::size_t center = layout.centers[event];
    head.sample_time_us = static_cast<float>(1e6 * kspace.adc(event).dwell_s);
    head.center_sample = static_cast<std::uint16_t>(center);
    std::uint16_t* const counters[] = {&head.idx.kspace_encode_step_1,
                                       &head.idx.kspace_encode_step_2,
                                       &head.idx.slice,
                                       &head.idx.repetition,
                                       &head.idx.set,
                                       &head.idx.contrast,
                                       &head.idx.average,
                                       &head.idx.phase,
                                       &head.idx.segment};
    for (std::size_t i = 0; i < std::size(counters); ++i)
      if (kspace.uses(static_cast<Counter>(i))) *counters[i] = static_cast<std::uint16_t>(labels.counters[i]);
    if (counts_plays)
      head.idx.repetition = static_cast<std::uint16_t>(at.play * repetitions +
                                                       static_cast<std::size_t>(labels.counter(Counter::repetition)));
    const Place middle = kspace.place(event, center);
    for (std::size_t which = 0; which < 2; ++which)
      if (layout.by_place[which] && !labels.has(Flag::noise))
        *counters[which] = static_cast<std::uint16_t>(std::max(0L, layout.count_of(middle, which)));

    const bool epi = layout.trajectory == Trajectory::epi;
    if (kspace.uses(Flag::reversed)) set_flag(head, ISMRMRD::ISMRMRD_ACQ_IS_REVERSE, labels.has(Flag::reversed));
    if (layout.reversed_by_place) {
      const std::size_t axis = layout.axes[0], last = kspace.adc(event).samples - 1;
      set_flag(head, ISMRMRD::ISMRMRD_ACQ_IS_REVERSE, kspace.place(event, last)[axis] < kspace.place(event, 0)[axis]);
    }
    if (kspace.uses(Flag::navigator))
      set_flag(head, epi ? ISMRMRD::ISMRMRD_ACQ_IS_PHASECORR_DATA : ISMRMRD::ISMRMRD_ACQ_IS_NAVIGATION_DATA,
               labels.has(Flag::navigator));
    if (kspace.uses(Flag::noise)) set_flag(head, ISMRMRD::ISMRMRD_ACQ_IS_NOISE_MEASUREMENT, labels.has(Flag::noise));
    if (kspace.uses(Flag::reference)) {
      const bool imaged = labels.has(Flag::imaged);
      set_flag(head, ISMRMRD::ISMRMRD_ACQ_IS_PARALLEL_CALIBRATION, labels.has(Flag::reference) && !imaged);
      set_flag(head, ISMRMRD::ISMRMRD_ACQ_IS_PARALLEL_CALIBRATION_AND_IMAGING, labels.has(Flag::reference) && imaged);
    }
    if (layout.dimensions == 0 || labels.has(Flag::noise)) return;
    std::vector<float> points;
    points.reserve(layout.dimensions * head.number_of_samples);
    for (const Place& each : kspace.places(event, 0, head.number_of_samples)) {
      const Place place = layout.in_pixels(each);
      for (std::size_t i = 0; i < layout.dimensions; ++i) points.push_back(static_cast<float>(place[i]));
    }
    head.trajectory_dimensions = static_cast<std::uint16_t>(layout.dimensions);
    to.trajectory = Payload::take(std::move(points));
  }

  std::unique_ptr<ScanReader> file;
  KSpace kspace;
  Layout layout;
  std::string header;
  std::size_t own = 0;              // readouts that are the sequence's
  std::vector<std::size_t> own_of;  // the number among these of each readout, kNone for other noise; empty: the same
  std::size_t plays = 1, repetitions = 1;  // the latter in each play
  bool counts_plays = false;
  std::vector<std::size_t> first_play, each_play, last_play;  // events of the first, a middle and the last play
};

PulseqReader::PulseqReader(std::unique_ptr<ScanReader> file, const std::filesystem::path& sequence)
    : impl_(std::make_unique<Impl>(std::move(file), sequence)) {}
PulseqReader::~PulseqReader() = default;

std::string PulseqReader::header_xml() const { return impl_->header; }
std::size_t PulseqReader::acquisitions() const { return impl_->file->acquisitions(); }

Acquisition PulseqReader::acquisition(std::size_t index) const {
  Acquisition out = impl_->file->acquisition(index);
  const std::size_t number = impl_->own_of.empty() ? index : impl_->own_of.at(index);
  if (number == kNone) return out;
  const auto at = impl_->played(number);
  impl_->check(at.event, index, out.head);
  impl_->describe(at, out);
  return out;
}

std::size_t PulseqReader::waveforms() const { return impl_->file->waveforms(); }
Waveform PulseqReader::waveform(std::size_t index) const { return impl_->file->waveform(index); }
std::vector<std::string> PulseqReader::image_series() const { return impl_->file->image_series(); }
std::size_t PulseqReader::images(const std::string& series) const { return impl_->file->images(series); }
Image PulseqReader::image(const std::string& series, std::size_t index) const {
  return impl_->file->image(series, index);
}

std::vector<std::string> PulseqReader::notes() const {
  const Layout& l = impl_->layout;
  const std::size_t events = impl_->kspace.readouts(), noise = impl_->file->acquisitions() - impl_->own;
  std::vector<std::string> out{fmt::format("{}, {}, matrix {} x {} x {}", to_string(l.trajectory),
                                           pluralized(events, "ADC event"), l.recon[0], l.recon[1], l.recon[2])};
  if (noise > 0) out.push_back(fmt::format("{} of noise beside it", pluralized(noise, "readout")));
  if (impl_->own < events)
    out.push_back(fmt::format("the scan ends early, after {}", pluralized(impl_->own, "readout")));
  if (impl_->plays > 1)
    out.push_back(fmt::format("played {} times, {}", impl_->plays,
                              impl_->counts_plays ? "each a repetition" : "which are the scan's averages"));
  if (l.by_place[0] || l.by_place[1]) out.emplace_back("lines without labels are counted by their place in k-space");
  return out;
}

}  // namespace echotrain::protocol::pulseq
