#include "protocol/dicom/dicom_built.h"

#if ECHOTRAIN_HAS_DCMTK

#include <dcmtk/dcmdata/dcostrmb.h>
#include <dcmtk/dcmdata/dcwcache.h>
#include <dcmtk/oflog/oflog.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "protocol/dicom/elements.h"
#include "protocol/dicom/values.h"

namespace echotrain::protocol::dicom {
namespace {

void check(const OFCondition& done, const DcmTagKey& tag) {
  if (done.bad())
    throw DicomError(fmt::format("DICOM element ({:04x},{:04x}): {}", tag.getGroup(), tag.getElement(), done.text()));
}

}  // namespace

bool SequenceItem::operator==(const SequenceItem& other) const {
  return sequence == other.sequence && items == other.items &&
         std::equal(elements.begin(), elements.end(), other.elements.begin(), other.elements.end(),
                    [](const Element& a, const Element& b) { return a.tag == b.tag && a.value == b.value; });
}

void Elements::text(const DcmTagKey& tag, DcmEVR representation, const std::string& value) {
  check(item_.putAndInsertString(DcmTag(tag, DcmVR(representation)), value.c_str()), tag);
}

void Elements::known(const DcmTagKey& tag, DcmEVR representation, const std::string& value) {
  if (!value.empty()) text(tag, representation, value);
}

void Elements::decimals(const DcmTagKey& tag, std::span<const double> values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(decimal_text(value));
  text(tag, EVR_DS, fmt::format("{}", fmt::join(texts, "\\")));
}

void Elements::unsigned_short(const DcmTagKey& tag, std::uint16_t value) {
  check(item_.putAndInsertUint16(DcmTag(tag, DcmVR(EVR_US)), value), tag);
}

void Elements::pixels(std::span<const std::uint16_t> values) {
  check(item_.putAndInsertUint16Array(DcmTag(DCM_PixelData, DcmVR(EVR_OW)), values.data(), values.size()),
        DCM_PixelData);
}

Elements Elements::item(const DcmTagKey& sequence) {
  constexpr long kAppend = -2;
  DcmItem* made = nullptr;
  check(item_.findOrCreateSequenceItem(DcmTag(sequence, DcmVR(EVR_SQ)), made, kAppend), sequence);
  return Elements(*made);
}

void Elements::add(const SequenceItem& added) {
  Elements to = item(added.sequence);
  for (const auto& [tag, representation, value] : added.elements) to.text(tag, representation, value);
  for (const SequenceItem& within : added.items) to.add(within);
}

void Elements::empty_sequence(const DcmTagKey& sequence) {
  check(item_.insertEmptyElement(DcmTag(sequence, DcmVR(EVR_SQ))), sequence);
}

std::string part_10_bytes(DcmFileFormat& file) {
  static const bool quiet = [] {  // the library's own log goes to stderr
    OFLog::configure(OFLogger::OFF_LOG_LEVEL);
    return true;
  }();
  static_cast<void>(quiet);
  constexpr std::size_t kMetaHeader = 4096;  // more than it takes
  std::string bytes(file.getDataset()->calcElementLength(EXS_LittleEndianExplicit, EET_ExplicitLength) + kMetaHeader,
                    '\0');
  DcmOutputBufferStream stream(bytes.data(), static_cast<offile_off_t>(bytes.size()));
  DcmWriteCache cache;
  file.transferInit();
  const OFCondition done = file.write(stream, EXS_LittleEndianExplicit, EET_ExplicitLength, &cache, EGL_recalcGL);
  file.transferEnd();
  if (done.bad()) throw DicomError(fmt::format("an instance cannot be written: {}", done.text()));
  void* begin = nullptr;
  offile_off_t length = 0;
  stream.flushBuffer(begin, length);
  bytes.resize(static_cast<std::size_t>(length));
  return bytes;
}

}  // namespace echotrain::protocol::dicom

#endif
