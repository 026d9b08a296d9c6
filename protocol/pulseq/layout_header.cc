#include <fmt/format.h>

#include <algorithm>
#include <pugixml.hpp>
#include <sstream>

#include "protocol/data/xml_check.h"
#include "protocol/files/scan_reader.h"
#include "protocol/pulseq/layout.h"

namespace echotrain::protocol::pulseq {
namespace {

constexpr std::array<const char*, 9> kLimitNames{"kspace_encoding_step_1",
                                                 "kspace_encoding_step_2",
                                                 "slice",
                                                 "repetition",
                                                 "set",
                                                 "contrast",
                                                 "average",
                                                 "phase",
                                                 "segment"};

pugi::xml_node add(pugi::xml_node parent, const char* name) { return parent.append_child(name); }
template <class T>
void add(pugi::xml_node parent, const char* name, const T& value) {
  parent.append_child(name).text().set(fmt::format("{}", value).c_str());
}

void add_space(pugi::xml_node parent, const char* name, const std::array<long, 3>& matrix,
               const std::array<double, 3>& mm) {
  constexpr const char* kAxes[] = {"x", "y", "z"};
  pugi::xml_node space = add(parent, name), size = add(space, "matrixSize"), fov = add(space, "fieldOfView_mm");
  for (std::size_t i = 0; i < 3; ++i) add(size, kAxes[i], matrix[i]);
  for (std::size_t i = 0; i < 3; ++i) add(fov, kAxes[i], mm[i]);
}

/// What labels and places count is told anew; the limits of other counters stay.
void add_limits(pugi::xml_node parent, const pugi::xml_node& before, const KSpace& kspace, const Layout& layout,
                std::size_t plays) {
  pugi::xml_node limits = add(parent, "encodingLimits");
  for (std::size_t i = 0; i < kLimitNames.size(); ++i) {
    const bool by_place = i < 2 && layout.by_place[i];
    const bool is_repetition = static_cast<Counter>(i) == Counter::repetition;
    if (!kspace.uses(static_cast<Counter>(i)) && !by_place && !(is_repetition && plays > 1)) {
      if (const pugi::xml_node kept = before.child(kLimitNames[i])) limits.append_copy(kept);
      continue;
    }
    long highest = by_place ? layout.encoded[i + 1] - 1 : 0;
    for (std::size_t n = 0; n < kspace.readouts() && !by_place; ++n)
      highest = std::max(highest, long{kspace.labels(n).counters[i]});
    if (is_repetition && plays > 1) highest = static_cast<long>(plays) * (highest + 1) - 1;
    const bool centred = (i == 0 && layout.dimensions == 0) || (i == 0 && layout.trajectory == Trajectory::epi) ||
                         (i == 1 && layout.partitions);
    const long center = centred ? layout.center[i] : 0;
    pugi::xml_node limit = add(limits, kLimitNames[i]);
    add(limit, "minimum", 0);
    add(limit, "maximum", std::max(highest, center));
    add(limit, "center", center);
  }
}

}  // namespace

std::string header_with(const std::string& xml, const KSpace& kspace, const Layout& layout, std::size_t plays) {
  pugi::xml_document document;
  if (!xml.empty()) {
    if (const auto problem = xml_problem(xml, Limits{})) throw DatasetError("the scan's header: " + *problem);
    if (!document.load_buffer(xml.data(), xml.size(), pugi::parse_default, pugi::encoding_utf8))
      throw DatasetError("the scan's header is not XML");
  }
  pugi::xml_node root = document.child("ismrmrdHeader");
  if (!root) {
    root = document.append_child("ismrmrdHeader");
    root.append_attribute("xmlns").set_value("http://www.ismrm.org/ISMRMRD");
    add(add(root, "experimentalConditions"), "H1resonanceFrequency_Hz", 0);
  }
  const pugi::xml_node before = root.child("encoding");
  pugi::xml_node encoding = before ? root.insert_child_before("encoding", before) : add(root, "encoding");
  add_space(encoding, "encodedSpace", layout.encoded, layout.encoded_mm);
  add_space(encoding, "reconSpace", layout.recon, layout.recon_mm);
  add_limits(encoding, before.child("encodingLimits"), kspace, layout, plays);
  add(encoding, "trajectory", to_string(layout.trajectory));
  for (const char* kept : {"parallelImaging", "echoTrainLength"})
    if (const pugi::xml_node node = before.child(kept)) encoding.append_copy(node);
  if (before) root.remove_child(before);
  std::ostringstream out;
  document.save(out, "  ");
  return out.str();
}

}  // namespace echotrain::protocol::pulseq
