// A record of MRD 2 becomes a readout, waveform or image of ISMRMRD, and the reverse.
#pragma once

#include <array>
#include <stdexcept>
#include <string_view>

#include "protocol/data/messages.h"
#include "protocol/mrd2/value.h"

namespace echotrain::protocol::mrd2 {

/// The names that yardl gives to pixels, in the order of ISMRMRD's data types 1 to 8.
inline constexpr std::array<std::string_view, 8> kPixelTypes{"uint16",  "int16",   "uint32",         "int32",
                                                             "float32", "float64", "complexfloat32", "complexfloat64"};

/// A value that ISMRMRD has no room for. The text says which, and what fits.
class DoesNotFit : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Records become messages. What a record lacks is 0; rows of data stay as they are, and the channels of `channelOrder`
/// become the channel mask. DoesNotFit for counters beyond 65535, more than 8 user values or 3 time stamps, arrays with
/// sides beyond 65535, trajectories of another length than the samples, and data that are not of the types of MRD 2.1.
Acquisition read_acquisition(const Value& record);
Waveform read_waveform(const Value& record);
/// Meta attributes become ismrmrdMeta text; numbers in the shortest form that reads back as the same.
Image read_image(const Value& record);

/// Messages become records of the model (model.h).
Value acquisition_record(const Acquisition& readout);
Value waveform_record(const Waveform& waveform);
/// Returns a record of the type that the pixels need. An image_type of 0 becomes magnitude, or complex where the pixels
/// are. `meta_lost` is set where the attributes are not ismrmrdMeta text, which MRD 2 has no place for.
Value image_record(const Image& image, bool& meta_lost);

}  // namespace echotrain::protocol::mrd2
