#include "clients/cpp/simulate/readout_writer.h"

#include <cmath>
#include <utility>

#include "clients/cpp/simulate/subject/heart.h"

namespace echotrain::client {
namespace {

constexpr int kNoiseReadouts = 32;
constexpr float kSampleTimeUs = 4;

}  // namespace

protocol::AcquisitionHeader ReadoutWriter::header(int trajectory_dims, double milliseconds) const {
  protocol::AcquisitionHeader head{};
  head.version = 1;
  head.measurement_uid = 1;
  head.scan_counter = counter_;
  head.acquisition_time_stamp = static_cast<std::uint32_t>(std::floor(milliseconds / kTickMs));
  head.number_of_samples = static_cast<std::uint16_t>(scan_.samples());
  head.available_channels = head.active_channels = static_cast<std::uint16_t>(options_.coils);
  for (int c = 0; c < options_.coils; ++c) head.channel_mask[c / 64] |= 1ull << (c % 64);
  head.trajectory_dimensions = static_cast<std::uint16_t>(trajectory_dims);
  head.sample_time_us = kSampleTimeUs;
  head.read_dir[0] = head.phase_dir[1] = head.slice_dir[2] = 1;
  return head;
}

void ReadoutWriter::write(const protocol::AcquisitionHeader& head, std::vector<float> trajectory, Samples data) {
  if (options_.noise > 0) noise_.add(data);
  protocol::Acquisition readout;
  readout.head = head;
  readout.trajectory = protocol::Payload::take(std::move(trajectory));
  readout.data = protocol::Payload::take(std::move(data));
  file_.append(readout);
  ++counter_;
  if (options_.shown != nullptr) options_.shown->show(counter_, "readouts");
}

void ReadoutWriter::noise_readouts(double sample_time_us) {
  for (int i = 0; i < kNoiseReadouts; ++i) {
    // Noise readouts take the time of imaging ones: all echoes of a readout come within one repetition time.
    protocol::AcquisitionHeader head = header(0, counter_ * repetition_time_ms(options_) / options_.contrasts);
    if (sample_time_us > 0) head.sample_time_us = static_cast<float>(sample_time_us);
    raise_flag(head, true, ISMRMRD::ISMRMRD_ACQ_IS_NOISE_MEASUREMENT);
    write(head, {}, Samples(static_cast<std::size_t>(options_.coils) * scan_.samples()));
  }
}

double slice_mm(const SimulateOptions& options, int slice) { return (slice - (options.slices - 1) / 2.0) * kSliceMm; }

void place_slice(protocol::AcquisitionHeader& head, const SimulateOptions& options, int slice) {
  head.idx.slice = static_cast<std::uint16_t>(slice);
  head.position[2] = static_cast<float>(slice_mm(options, slice));
}

}  // namespace echotrain::client
