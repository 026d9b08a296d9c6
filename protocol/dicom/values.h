// A value is a text, number, date or UID as DICOM writes it (PS3.5, 6.2 and 9).
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace echotrain::protocol::dicom {

/// The error for what cannot be told in DICOM, or for a program that was built without it. The text says what and why.
class DicomError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Returns a decimal string (DS) of at most 16 characters: exact where they suffice, otherwise of nine digits. 0 for
/// what is not finite.
std::string decimal_text(double value);

/// Returns `text` without what DICOM gives a meaning (the backslash, control characters) and without blanks around it,
/// cut to `most` characters of UTF-8.
std::string plain_text(std::string_view text, std::size_t most = 64);

/// Returns "2026-01-31" as DA ("20260131"); empty for what is no date.
std::string date_text(std::string_view text);
/// Returns "13:05:07.25", with or without a zone, as TM ("130507.25"); empty for what is no time.
std::string time_text(std::string_view text);

/// True if `text` is a UID: at most 64 digits and dots, no empty or zero-padded component.
bool is_uid(std::string_view text);

/// Returns the UID that stands for `name`, always the same: "2.25." and the decimal number of a UUID of version 5 (RFC
/// 4122 4.3, SHA-1 of a namespace of our own and `name`), as PS3.5 B.2 allows.
std::string uid_of(std::string_view name);

/// Returns the Series Number of series `index` of scan number `scan`, where `behind` tells apart the series that are
/// made of one: 1000 scan + index mod 1000 + 10^7 (index / 1000 + 10 behind). No two are equal for scans up to 9999,
/// indices up to 9999 and `behind` up to 20; beyond, it is one of 2.1 * 10^9 and more, a digest of the series' UID.
std::int64_t series_number(std::int64_t scan, std::uint16_t index, std::int64_t behind, std::string_view uid);

}  // namespace echotrain::protocol::dicom
