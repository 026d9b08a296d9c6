#include "clients/cpp/images/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <stdexcept>

#include "clients/cpp/base/image_pixels.h"
#include "clients/cpp/base/json_output.h"
#include "gadgets/numerics/core/reduce/reductions.h"
#include "protocol/files/dataset.h"

namespace echotrain::client {
namespace {

// The images of one file that are compared.
struct Selection {
  std::string series;
  std::vector<std::size_t> indices;
};

std::size_t resolve(long index, std::size_t count, const std::string& what) {
  const long place = index < 0 ? index + static_cast<long>(count) : index;
  if (place < 0 || place >= static_cast<long>(count)) {
    throw std::runtime_error(fmt::format("{}: there is no image {} (it has {})", what, index, count));
  }
  return static_cast<std::size_t>(place);
}

std::vector<Selection> select(const protocol::DatasetReader& reader, const std::filesystem::path& file,
                              const std::string& series, std::optional<long> index) {
  std::vector<std::string> names = reader.image_series();
  if (!series.empty()) {
    if (std::find(names.begin(), names.end(), series) == names.end()) {
      throw std::runtime_error(
          fmt::format("{}: has no image series '{}'; it has: {}", file.string(), series, fmt::join(names, ", ")));
    }
    names = {series};
  }
  if (names.empty()) throw std::runtime_error(file.string() + ": holds no images");
  std::vector<Selection> selections;
  for (const auto& name : names) {
    const std::size_t count = reader.images(name);
    Selection selection{name, {}};
    if (index) {
      selection.indices = {resolve(*index, count, file.string() + ", series " + name)};
    } else {
      for (std::size_t i = 0; i < count; ++i) selection.indices.push_back(i);
    }
    selections.push_back(std::move(selection));
  }
  return selections;
}

std::vector<std::complex<double>> values(const Pixels& pixels, bool magnitude) {
  if (!magnitude) return pixels.values;
  std::vector<std::complex<double>> result;
  for (const auto& v : pixels.values) result.emplace_back(std::abs(v));
  return result;
}

Json json_of(const Difference& d) {
  return {{"nrmse", d.nrmse}, {"psnr_db", d.psnr}, {"scale", {d.scale.real(), d.scale.imag()}}};
}

Json json_of(const std::string& series, std::size_t index) { return {{"series", series}, {"index", index}}; }

}  // namespace

Difference difference(const std::vector<std::complex<double>>& a, const std::vector<std::complex<double>>& b,
                      ScaleFit fit) {
  const auto n = static_cast<std::int64_t>(a.size());
  const numerics::HostView<const std::complex<double>> ours(a.data(), {n}), reference(b.data(), {n});
  numerics::ThreadPool here(1);
  Difference result;
  if (fit != ScaleFit::none) {
    const numerics::Comparison unscaled = numerics::on_host::compare(here, ours, reference);
    if (unscaled.power > 0)
      result.scale =
          (fit == ScaleFit::real ? std::complex<double>(unscaled.inner.real()) : unscaled.inner) / unscaled.power;
  }
  const numerics::Comparison scaled = numerics::on_host::compare(here, ours, reference, result.scale);
  result.nrmse = scaled.nrmse();
  result.psnr = scaled.psnr();
  return result;
}

config::OptionTable<CompareOptions> compare_options() {
  using O = CompareOptions;
  constexpr int kMost = 1'000'000'000;
  return config::OptionTable<O>()
      .path("a", &O::a, "A.h5", "file under test")
      .positional()
      .required()
      .path("b", &O::b, "B.h5", "reference file")
      .positional()
      .required()
      .text("group_a", &O::group_a, "group of A")
      .text("group_b", &O::group_b, "group of B")
      .text("series_a", &O::series_a, "image series of A (default: all, by name)")
      .text("series_b", &O::series_b, "image series of B")
      .integer("index_a", &O::index_a, -kMost, kMost, "one image of A; -1 is the last")
      .integer("index_b", &O::index_b, -kMost, kMost, "one image of B; -1 is the last")
      .flag("magnitude", &O::magnitude, "compare magnitudes")
      .choice_of<ScaleFit>("scale", &O::scale,
                           {{"none", ScaleFit::none}, {"real", ScaleFit::real}, {"complex", ScaleFit::complex}},
                           "scale fitted to A before comparing")
      .number("max_nrmse", &O::max_nrmse, 0, 1e12, "exit 1 above this")
      .flag("json", &O::json, kJsonHelp);
}

int compare(const CompareOptions& o, std::ostream& out) {
  const protocol::DatasetReader reader_a(o.a, o.group_a), reader_b(o.b, o.group_b);
  const auto selections_a = select(reader_a, o.a, o.series_a, o.index_a);
  const auto selections_b = select(reader_b, o.b, o.series_b, o.index_b);
  if (selections_a.size() != selections_b.size()) {
    throw std::runtime_error(fmt::format("{} has {} image series, {} has {}; choose with --series-a and --series-b",
                                         o.a.string(), selections_a.size(), o.b.string(), selections_b.size()));
  }
  // NaN must fail a limit too, hence the negation.
  const auto exceeds = [&o](double error) { return o.max_nrmse && !(error <= *o.max_nrmse); };
  bool failed = false;
  Json document = json_document("compare");
  document["pairs"] = Json::array();
  std::vector<std::complex<double>> all_a, all_b;
  for (std::size_t s = 0; s < selections_a.size(); ++s) {
    const Selection &a = selections_a[s], &b = selections_b[s];
    if (selections_a.size() > 1 && a.series != b.series) {
      throw std::runtime_error(
          fmt::format("image series '{}' is in one file only; choose with --series-a and --series-b", a.series));
    }
    if (a.indices.size() != b.indices.size()) {
      throw std::runtime_error(
          fmt::format("series {} has {} images, series {} has {}; choose one of each with --index-a and --index-b "
                      "(-1 is the last)",
                      a.series, a.indices.size(), b.series, b.indices.size()));
    }
    for (std::size_t i = 0; i < a.indices.size(); ++i) {
      const Pixels pixels_a = read_pixels(reader_a.image(a.series, a.indices[i]));
      const Pixels pixels_b = read_pixels(reader_b.image(b.series, b.indices[i]));
      if (pixels_a.size_text() != pixels_b.size_text()) {
        throw std::runtime_error(fmt::format("{} image {} is {}, {} image {} is {}: shapes must be equal", a.series,
                                             a.indices[i], pixels_a.size_text(), b.series, b.indices[i],
                                             pixels_b.size_text()));
      }
      const auto values_a = values(pixels_a, o.magnitude), values_b = values(pixels_b, o.magnitude);
      const Difference d = difference(values_a, values_b, o.scale);
      failed = failed || exceeds(d.nrmse);
      Json pair = json_of(d);
      pair["a"] = json_of(a.series, a.indices[i]);
      pair["b"] = json_of(b.series, b.indices[i]);
      document["pairs"].push_back(std::move(pair));
      if (!o.json)
        out << fmt::format("{}[{}] : {}[{}]  NRMSE {:.3e}  PSNR {:.2f} dB  scale {:.6g}{:+.6g}i\n", a.series,
                           a.indices[i], b.series, b.indices[i], d.nrmse, d.psnr, d.scale.real(), d.scale.imag());
      all_a.insert(all_a.end(), values_a.begin(), values_a.end());
      all_b.insert(all_b.end(), values_b.begin(), values_b.end());
    }
  }
  const Difference d = difference(all_a, all_b, o.scale);
  failed = failed || exceeds(d.nrmse);
  if (o.json) {
    document["overall"] = json_of(d);
    document["passed"] = !failed;
    write_json(document, out);
    return failed ? 1 : 0;
  }
  out << fmt::format("overall  NRMSE {:.3e}  PSNR {:.2f} dB  scale {:.6g}{:+.6g}i\n", d.nrmse, d.psnr, d.scale.real(),
                     d.scale.imag());
  if (failed) out << fmt::format("FAILED: NRMSE above {:g}\n", *o.max_nrmse);
  return failed ? 1 : 0;
}

}  // namespace echotrain::client
