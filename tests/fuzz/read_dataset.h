// The dataset target reads everything in a file, up to a bound, as the client's commands do.
#pragma once

#include <algorithm>

#include "protocol/files/dataset.h"
#include "tests/fuzz/fuzz.h"

namespace echotrain::fuzz {

/// Only a DatasetError may say that something cannot be read.
template <class Read>
void attempt(Read read) {
  try {
    read();
  } catch (const protocol::DatasetError& error) {
    require(error.what()[0] != 0, "an error without a reason");
  }
}

inline void read_everything(const std::filesystem::path& path) {
  constexpr std::size_t kMost = 40;  // of each kind
  attempt([&] {
    for (const std::string& group : protocol::DatasetReader::groups(path)) {
      attempt([&] {
        const protocol::DatasetReader reader(path, group);
        (void)reader.header_xml();
        for (std::size_t i = 0; i < std::min(kMost, reader.acquisitions()); ++i)
          attempt([&] {
            const auto readout = reader.acquisition(i);
            require(readout.data.bytes.size() ==
                        std::size_t{8} * readout.head.number_of_samples * readout.head.active_channels,
                    "samples that the header does not announce");
          });
        for (std::size_t i = 0; i < std::min(kMost, reader.waveforms()); ++i)
          attempt([&] { (void)reader.waveform(i); });
        for (const std::string& series : reader.image_series())
          for (std::size_t i = 0; i < std::min(kMost, reader.images(series)); ++i)
            attempt([&] { (void)reader.image(series, i); });
      });
    }
  });
}

}  // namespace echotrain::fuzz
