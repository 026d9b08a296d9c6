// The parameters of a measurement: what its header's texts say of the scan. Facts of the format: twixtools (MIT
// licence), twixprot.py.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace echotrain::protocol::twix {

/// Values by name. Those of the protocol (ASCCONV: "sKSpace.lBaseResolution", "alTE[0]") have their whole name; those
/// of the scanner's programs (XProtocol) the name of the map around them and their own: "YAPS.iPEFTLength". Only names
/// that the header of a scan is made of are kept.
class Parameters {
 public:
  /// Reads the buffers of a measurement's header: u32 bytes, u32 count, then names that end with 0, u32 length, text.
  /// Returns the reason where they are not that in `error`, and then nothing.
  static std::optional<Parameters> read(std::span<const std::byte> header, std::string& error);

  /// Returns the value of this number in a list; empty where there is none.
  std::string_view text(const std::string& name, std::size_t index = 0) const;
  /// Returns a finite number; hexadecimal ones of ASCCONV as well.
  std::optional<double> number(const std::string& name, std::size_t index = 0) const;
  /// Returns a whole number of at least `least`, at most 2^31.
  std::optional<long> whole(const std::string& name, long least = 0, std::size_t index = 0) const;
  /// Returns names that begin so, in their order.
  std::vector<std::string> names(std::string_view beginning) const;

  /// For the readers of the two languages.
  void add(std::string name, std::vector<std::string>&& values);

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

/// Reads the lines "name = value" between "### ASCCONV BEGIN" and "### ASCCONV END" into `to`.
void read_ascconv(std::string_view text, Parameters& to);
/// Reads XProtocol's nested parameters into `to`. What is nested too deep ends it.
void read_xprotocol(std::string_view text, Parameters& to);

}  // namespace echotrain::protocol::twix
