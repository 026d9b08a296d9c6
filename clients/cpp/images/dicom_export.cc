#include "clients/cpp/images/dicom_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "protocol/dicom/dicom_file.h"
#include "protocol/dicom/enhanced_file.h"
#include "protocol/dicom/plane_geometry.h"

namespace echotrain::client {
namespace {

using protocol::dicom::DicomError;

/// The key by which the images of a series are sorted.
struct SortKey {
  std::tuple<int, int, int, int, int> counters;
  double along_normal = 0;
  std::size_t number = 0;
  std::int64_t planes = 1;

  bool operator<(const SortKey& other) const {
    return std::tie(counters, along_normal, number) < std::tie(other.counters, other.along_normal, other.number);
  }
};

SortKey sort_key_of(const protocol::ImageHeader& head, std::size_t number) {
  const auto geometry = protocol::dicom::plane_geometry(head, 0);
  const auto& [r, c, p] = std::tie(geometry.row, geometry.column, geometry.position);
  const double along =
      (r[1] * c[2] - r[2] * c[1]) * p[0] + (r[2] * c[0] - r[0] * c[2]) * p[1] + (r[0] * c[1] - r[1] * c[0]) * p[2];
  return {{head.set, head.contrast, head.average, head.repetition, head.phase},
          along,
          number,
          std::max<std::int64_t>(1, head.matrix_size[2])};
}

void write_file(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.flush();
  if (!out) throw std::runtime_error("cannot write " + file.string());
}

/// Returns a digest of the given digest and an image's pixels.
std::string digest_with(const std::string& before, const protocol::Image& image) {
  return protocol::dicom::uid_of(
      before + std::string(reinterpret_cast<const char*>(image.pixels.bytes.data()), image.pixels.bytes.size()));
}

}  // namespace

std::size_t export_dicom(const protocol::DatasetReader& reader, const std::string& series, bool patient,
                         const std::filesystem::path& folder) {
  std::vector<SortKey> keys;
  std::string content;
  std::size_t number = 0;
  std::size_t written = 0;
  try {
    for (; number < reader.images(series); ++number) {
      const protocol::Image image = reader.image(series, number);
      keys.push_back(sort_key_of(image.head, number));
      content = digest_with(content, image);
    }
    std::sort(keys.begin(), keys.end());
    const auto study = protocol::dicom::read_study(reader.header_xml(), patient, content);
    std::int64_t instance = 1;
    for (const SortKey& key : keys) {
      number = key.number;
      const auto write = [&](protocol::dicom::Instance&& one) {
        write_file(folder / fmt::format("{}_{:03}{}.dcm", series, number, one.name), one.bytes);
        ++written;
      };
      protocol::dicom::to_dicom(reader.image(series, number), {study, content}, instance, write);
      instance += key.planes;
    }
  } catch (const DicomError& error) {
    throw std::runtime_error(fmt::format("series '{}', image {}: {}", series, number, error.what()));
  }
  return written;
}

std::size_t export_enhanced_dicom(const protocol::DatasetReader& reader, const std::string& series, bool patient,
                                  const std::filesystem::path& folder) {
  std::string content;
  std::size_t number = 0;
  std::size_t written = 0;
  try {
    for (std::size_t i = 0; i < reader.images(series); ++i) content = digest_with(content, reader.image(series, i));
    const auto study = protocol::dicom::read_study(reader.header_xml(), patient, content);
    protocol::dicom::EnhancedImages images({study, content});
    for (; number < reader.images(series); ++number) images.add(reader.image(series, number));
    images.finish([&](protocol::dicom::Instance&& one) {
      write_file(folder / fmt::format("{}{}.dcm", series, one.name), one.bytes);
      ++written;
    });
  } catch (const DicomError& error) {
    throw std::runtime_error(fmt::format("series '{}', image {}: {}", series, number, error.what()));
  }
  return written;
}

}  // namespace echotrain::client
