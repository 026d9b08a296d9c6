// Functions that write elements of a DICOM data set by DCMTK. Included only where there is DCMTK.
#pragma once

#include <dcmtk/config/osconfig.h>
#include <dcmtk/dcmdata/dctk.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace echotrain::protocol::dicom {

/// An item of a sequence: its elements as texts, and items of sequences within.
struct SequenceItem {
  struct Element {
    DcmTagKey tag;
    DcmEVR representation;
    std::string value;
  };
  DcmTagKey sequence;
  std::vector<Element> elements = {};
  std::vector<SequenceItem> items = {};

  bool operator==(const SequenceItem& other) const;
};

/// Sets elements with the value representations given here: the library's dictionary is a file of its own, which a
/// machine may lack. Throws DicomError where an element cannot be set.
class Elements {
 public:
  explicit Elements(DcmItem& item) : item_(item) {}

  void text(const DcmTagKey& tag, DcmEVR representation, const std::string& value);
  /// Sets the element only where there is something to say.
  void known(const DcmTagKey& tag, DcmEVR representation, const std::string& value);
  void decimals(const DcmTagKey& tag, std::span<const double> values);
  void decimal(const DcmTagKey& tag, double value) { decimals(tag, {&value, 1}); }
  void integer(const DcmTagKey& tag, std::int64_t value) { text(tag, EVR_IS, std::to_string(value)); }
  void unsigned_short(const DcmTagKey& tag, std::uint16_t value);
  void pixels(std::span<const std::uint16_t> values);
  /// Adds one more item of a sequence.
  Elements item(const DcmTagKey& sequence);
  void add(const SequenceItem& item);
  void empty_sequence(const DcmTagKey& sequence);

 private:
  DcmItem& item_;
};

/// Returns a file (PS3.10), explicit VR little endian. Throws DicomError when it cannot be written. Turns the library's
/// own log off.
std::string part_10_bytes(DcmFileFormat& file);

}  // namespace echotrain::protocol::dicom
