#include "clients/cpp/images/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <ostream>
#include <stdexcept>
#include <tuple>

#include "clients/cpp/base/image_pixels.h"
#include "clients/cpp/base/json_output.h"
#include "clients/cpp/base/usage_error.h"
#include "clients/cpp/images/dicom_export.h"
#include "clients/cpp/images/gif_writer.h"
#include "clients/cpp/images/nifti_writer.h"
#include "clients/cpp/images/png_writer.h"
#include "protocol/data/pixels.h"
#include "protocol/data/pluralized.h"
#include "protocol/dicom/dicom_file.h"
#include "protocol/files/dataset.h"
#include "protocol/nifti/nifti_series.h"

namespace echotrain::client {
namespace {

/// The images of one name in a file.
class Series {
 public:
  Series(const protocol::DatasetReader& reader, std::string name, Progress& progress)
      : reader_(reader), name_(std::move(name)), progress_(progress) {
    for (std::size_t i = 0; i < reader_.images(name_); ++i) heads_.push_back(reader_.image(name_, i).head);
  }
  const std::string& name() const { return name_; }
  const std::vector<protocol::ImageHeader>& heads() const { return heads_; }
  Pixels pixels(std::size_t image) const {
    progress_.show(image + 1, "images of " + name_);
    return read_pixels(reader_.image(name_, image));
  }

  /// Requires that all images have one size, as a file needs it.
  void require_one_size(const std::string& format) const {
    for (const auto& head : heads_)
      if (!std::equal(std::begin(head.matrix_size), std::end(head.matrix_size), std::begin(heads_[0].matrix_size)) ||
          +head.channels != +heads_[0].channels)
        throw std::runtime_error(
            fmt::format("series '{}' has images of several sizes; one {} cannot hold them", name_, format));
  }

 private:
  const protocol::DatasetReader& reader_;
  std::string name_;
  std::vector<protocol::ImageHeader> heads_;
  Progress& progress_;
};

std::string channel_suffix(std::size_t channels, std::size_t channel) {
  return channels > 1 ? fmt::format("_c{:02}", channel) : std::string();
}

std::vector<float> shown(const Pixels& pixels) {
  std::vector<float> values;
  values.reserve(pixels.values.size());
  for (const auto& v : pixels.values) values.push_back(static_cast<float>(pixels.is_complex ? std::abs(v) : v.real()));
  return values;
}

protocol::GreyWindow window_of(const Series& series, const std::optional<std::pair<double, double>>& wanted) {
  if (wanted) return {wanted->first, wanted->second};
  const protocol::PixelPart part = protocol::part_of(series.heads()[0].image_type);
  if (part == protocol::PixelPart::phase) return protocol::grey_window(part, 0);
  std::vector<float> magnitudes;
  for (std::size_t i = 0; i < series.heads().size(); ++i) {
    for (const float v : shown(series.pixels(i))) magnitudes.push_back(std::abs(v));
  }
  return protocol::grey_window(part, percentile(magnitudes, 100 * protocol::kShownShare));
}

std::size_t export_png(const Series& series, const protocol::GreyWindow& window, const std::filesystem::path& folder) {
  std::size_t written = 0;
  for (std::size_t i = 0; i < series.heads().size(); ++i) {
    const Pixels pixels = series.pixels(i);
    const auto grey = protocol::to_grey(shown(pixels), window);
    for (std::size_t plane = 0; plane < pixels.channels * pixels.z; ++plane) {
      std::string file = fmt::format("{}_{:03}", series.name(), i);
      file += channel_suffix(pixels.channels, plane / pixels.z);
      if (pixels.z > 1) file += fmt::format("_z{:03}", plane % pixels.z);
      const std::size_t size = pixels.y * pixels.x;
      write_png(folder / (file + ".png"), pixels.x, pixels.y, std::span(grey).subspan(plane * size, size));
      ++written;
    }
  }
  return written;
}

std::size_t export_gif(const Series& series, const protocol::GreyWindow& window, const std::filesystem::path& folder,
                       double fps) {
  series.require_one_size("GIF");
  const auto& heads = series.heads();
  std::vector<std::size_t> order(heads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto place = [&](std::size_t i) {
    const protocol::ImageHeader& h = heads[i];
    return std::tuple(+h.set, +h.contrast, +h.slice, +h.repetition, +h.phase);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
  const std::size_t channels = heads[0].channels, size = std::size_t{heads[0].matrix_size[0]} * heads[0].matrix_size[1];
  for (std::size_t channel = 0; channel < channels; ++channel) {
    GifWriter gif(folder / (series.name() + channel_suffix(channels, channel) + ".gif"), heads[0].matrix_size[0],
                  heads[0].matrix_size[1], static_cast<int>(std::lround(100 / fps)));
    for (const std::size_t i : order) {
      const Pixels pixels = series.pixels(i);
      const auto grey = protocol::to_grey(shown(pixels), window);
      for (std::size_t z = 0; z < pixels.z; ++z)
        gif.add(std::span(grey).subspan((channel * pixels.z + z) * size, size));
    }
    gif.finish();
  }
  return channels;
}

std::size_t export_nifti(const Series& series, const std::filesystem::path& folder) {
  const auto arrange = [&] {
    try {
      return protocol::nifti::arrange(series.heads());
    } catch (const std::runtime_error& error) {
      throw std::runtime_error(fmt::format("series '{}' {}", series.name(), error.what()));
    }
  };
  const protocol::nifti::Arrangement arrangement = arrange();
  const std::size_t channels = series.heads()[0].channels;
  NiftiVolume volume{arrangement.shape, {}};
  volume.shape.is_complex = series.pixels(0).is_complex;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    volume.values.clear();
    for (const auto& numbers : arrangement.volumes)
      for (const std::size_t number : numbers) {
        const Pixels pixels = series.pixels(number);
        const std::size_t size = pixels.z * pixels.y * pixels.x;
        for (std::size_t v = 0; v < size; ++v)
          volume.values.emplace_back(std::complex<float>(pixels.values[channel * size + v]));
      }
    write_nifti(folder / (series.name() + channel_suffix(channels, channel) + ".nii"), volume);
  }
  return channels;
}

}  // namespace

config::OptionTable<ExportOptions> export_options() {
  using O = ExportOptions;
  return config::OptionTable<O>()
      .path("input", &O::input, "IN.h5", "ISMRMRD file with images")
      .positional()
      .required()
      .path("png", &O::png, "DIR", "folder for pictures, one per image")
      .path("gif", &O::gif, "DIR", "folder for animations, one per series")
      .path("nifti", &O::nifti, "DIR", "folder for NIfTI-1 volumes, one per series")
      .path("dicom", &O::dicom, "DIR", "folder for DICOM files (MR Image Storage), one per plane")
      .flag("dicom_enhanced", &O::dicom_enhanced,
            "with --dicom: one multi-frame file per series (Enhanced MR Image Storage)")
      .flag("patient", &O::patient,
            "with --dicom: keep the patient's name, number and the like where the file's header has them")
      .number("fps", &O::fps, 0.1, 100, "pictures per second of animations; a GIF counts hundredths of a second")
      .text("group", &O::group, "group of the file")
      .letter('g')
      .text("series", &O::series, "one image series (default: all)")
      .pair("window", &O::window, "LOW HIGH", "values shown as black and white")
      .flag("json", &O::json, kJsonHelp)
      .flag("progress", &O::progress, "show progress on stderr (default: on a terminal)")
      .flag("no_progress", &O::no_progress, "show none");
}

void export_images(const ExportOptions& o, std::ostream& out, std::ostream& err) {
  if (o.window && !(o.window->first < o.window->second))
    throw UsageError("--window takes two values, the lower one first");
  if (o.png.empty() && o.gif.empty() && o.nifti.empty() && o.dicom.empty())
    throw UsageError("say what to write: --png DIR, --gif DIR, --nifti DIR or --dicom DIR");
  if (o.dicom_enhanced && o.dicom.empty()) throw UsageError("--dicom-enhanced is for --dicom DIR");
  if (o.patient && o.dicom.empty()) throw UsageError("--patient is for --dicom DIR");
  if (!o.dicom.empty() && !protocol::dicom::available())
    throw std::runtime_error(
        "--dicom: this program was built without DICOM: install DCMTK (Debian: libdcmtk-dev), then configure and build "
        "it again");
  const protocol::DatasetReader reader(o.input, o.group);
  std::vector<std::string> names = reader.image_series();
  if (!o.series.empty()) {
    if (std::find(names.begin(), names.end(), o.series) == names.end()) {
      throw std::runtime_error(
          fmt::format("{}: has no image series '{}'; it has: {}", o.input.string(), o.series, fmt::join(names, ", ")));
    }
    names = {o.series};
  }
  if (names.empty()) throw std::runtime_error(o.input.string() + ": holds no images");
  for (const auto& folder : {o.png, o.gif, o.nifti, o.dicom})
    if (!folder.empty()) std::filesystem::create_directories(folder);
  std::size_t pictures = 0, animations = 0, volumes = 0, instances = 0;
  Json document = json_document("export");
  document["series"] = Json::array();
  Progress progress(o.wanted(err), 0, err);
  for (const auto& name : names) {
    const Series series(reader, name, progress);
    if (series.heads().empty()) continue;
    Json window_shown;  // none of volumes
    if (!o.png.empty() || !o.gif.empty()) {
      const protocol::GreyWindow window = window_of(series, o.window);
      if (!o.png.empty()) pictures += export_png(series, window, o.png);
      if (!o.gif.empty()) animations += export_gif(series, window, o.gif, o.fps);
      window_shown = {window.low, window.high};
      progress.interrupt();
      if (!o.json)
        out << fmt::format("{}: {}, window {:g} .. {:g}\n", name, protocol::pluralized(series.heads().size(), "image"),
                           window.low, window.high);
    }
    document["series"].push_back({{"name", name}, {"images", series.heads().size()}, {"window", window_shown}});
    if (!o.nifti.empty()) volumes += export_nifti(series, o.nifti);
    if (!o.dicom.empty())
      instances += o.dicom_enhanced ? export_enhanced_dicom(reader, name, o.patient, o.dicom)
                                    : export_dicom(reader, name, o.patient, o.dicom);
  }
  struct Written {
    const char* kind;
    const char* noun;
    std::size_t count;
    const std::filesystem::path& folder;
  };
  progress.interrupt();
  document["written"] = Json::object();
  for (const Written& each :
       {Written{"png", "picture", pictures, o.png}, Written{"gif", "animation", animations, o.gif},
        Written{"nifti", "NIfTI file", volumes, o.nifti}, Written{"dicom", "DICOM file", instances, o.dicom}}) {
    if (each.folder.empty()) continue;
    document["written"][each.kind] = {{"files", each.count}, {"folder", each.folder.string()}};
    if (!o.json)
      out << fmt::format("{} written to {}\n", protocol::pluralized(each.count, each.noun), each.folder.string());
  }
  if (o.json) write_json(document, out);
}

}  // namespace echotrain::client
