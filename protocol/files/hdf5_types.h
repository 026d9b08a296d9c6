// The HDF5 types are those of the ISMRMRD records as they lie in memory, with handles for HDF5's objects. HDF5 converts
// by member name, so these types read files of libismrmrd and of the Python package alike.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "protocol/data/messages.h"

namespace echotrain::protocol::hdf5 {

/// Closes an HDF5 identifier with the function that fits it.
class Handle {
 public:
  Handle() = default;
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  explicit operator bool() const { return id_ >= 0; }
  hid_t get() const { return id_; }

 private:
  hid_t id_ = -1;
  herr_t (*close_)(hid_t) = nullptr;
};

/// Hold one around every use of HDF5 and libismrmrd's files, neither of which is thread-safe. Also keeps HDF5 from
/// printing its errors.
class Lock {
 public:
  Lock();

 private:
  std::lock_guard<std::recursive_mutex> guard_;
};

struct AcquisitionRecord {
  AcquisitionHeader head;
  hvl_t trajectory;
  hvl_t data;
};
struct WaveformRecord {
  WaveformHeader head;
  hvl_t data;
};

Handle acquisition_type();   ///< AcquisitionRecord
Handle waveform_type();      ///< WaveformRecord
Handle image_header_type();  ///< ImageHeader
/// Returns a number, or a complex number whose two members have these names; an invalid handle if `data_type` is not
/// 1..8.
Handle pixel_type(std::uint16_t data_type, const std::string& real, const std::string& imaginary);

/// True if something exists at `path` ("a/b"), relative to `location`.
bool exists(hid_t location, const std::string& path);

}  // namespace echotrain::protocol::hdf5
