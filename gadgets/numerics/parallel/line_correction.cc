#include "gadgets/numerics/parallel/line_correction.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/parallel/line_correction_ops.h"

namespace echotrain::numerics {
namespace {

using CorrectionTerm = LineCorrections::Term;

template <class T>
Array<T> keep(Context& context, const std::vector<T>& values) {
  HostArray<T> host = context.allocate_host<T>({static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), host.data());
  return context.place<T>(host);
}

/// A point of an axis of the transform's grid as one of the encoded matrix, and back, round the grid's ends.
struct GridAxis {
  std::int64_t encoded, padded;
  std::int64_t to_encoded(std::int64_t i) const { return i - padded / 2 + encoded / 2; }
  std::int64_t source_of(std::int64_t i, std::int64_t step) const {
    return to_encoded(((i - step) % padded + padded) % padded);
  }
};

/// The terms of one row: (source of a kernel, acquired row) -> how often. A source of -1 stands for the row as it is.
using Balance = std::map<std::pair<std::int32_t, std::int32_t>, int>;

}  // namespace

LineCorrections plan_corrections(Context& context, const GrappaKernels& kernels, const HybridKernels& hybrid,
                                 const RowPlan& rows, const LineGeometry& geometry) {
  if (rows.nz != geometry.encoded[0] || rows.ny != geometry.encoded[1] || kernels.of_row.size() != rows.kind.size())
    throw std::invalid_argument(
        fmt::format("corrections: {} x {} rows are not those of {}", rows.nz, rows.ny, geometry.encoded.text()));
  const GridAxis ys{rows.ny, geometry.padded[1]}, zs{rows.nz, geometry.padded[0]};
  const auto number = [&](std::int64_t y, std::int64_t z) { return static_cast<std::int32_t>(z * rows.ny + y); };
  LineCorrections made;
  std::vector<std::int32_t> own, first{0};
  std::vector<CorrectionTerm> terms;
  for (std::int64_t pz = 0; pz < zs.padded; ++pz)
    for (std::int64_t py = 0; py < ys.padded; ++py) {
      const std::int64_t y = ys.to_encoded(py), z = zs.to_encoded(pz);
      const std::uint8_t kind = rows.at(y, z);
      Balance balance;
      // What it is to be.
      if (kind != RowPlan::missing)
        ++balance[{-1, number(y, z)}];
      else if (y >= 0 && y < rows.ny && z >= 0 && z < rows.nz &&
               kernels.of_row[static_cast<std::size_t>(number(y, z))] >= 0) {
        const auto k = static_cast<std::size_t>(kernels.of_row[static_cast<std::size_t>(number(y, z))]);
        for (std::size_t s = 0; s < kernels.kernels[k].sources.size(); ++s) {
          const RowStep& step = kernels.kernels[k].sources[s];
          ++balance[{static_cast<std::int32_t>(hybrid.first[k]) + static_cast<std::int32_t>(s),
                     number(y - step[0], z - step[1])}];
        }
      }
      // What unmixing takes it for.
      if (kind == RowPlan::on_lattice) --balance[{-1, number(y, z)}];
      for (std::int64_t of = 1; of < kernels.lattice.size(); ++of) {
        const auto k = static_cast<std::size_t>(of - 1);
        for (std::size_t s = 0; s < kernels.kernels[k].sources.size(); ++s) {
          const RowStep& step = kernels.kernels[k].sources[s];
          const std::int64_t from_y = ys.source_of(py, step[0]), from_z = zs.source_of(pz, step[1]);
          if (rows.at(from_y, from_z) == RowPlan::on_lattice)
            --balance[{static_cast<std::int32_t>(hybrid.first[k]) + static_cast<std::int32_t>(s),
                       number(from_y, from_z)}];
        }
      }
      std::int32_t as_it_is = -1;
      const std::size_t before = terms.size();
      for (const auto& [term, times] : balance) {
        if (times == 0) continue;
        if (term.first < 0)
          as_it_is = term.second;
        else
          terms.push_back({term.first, term.second, static_cast<float>(times)});
      }
      if (as_it_is < 0 && terms.size() == before) continue;
      made.rows.push_back(static_cast<std::int32_t>(pz * ys.padded + py));
      own.push_back(as_it_is);
      first.push_back(static_cast<std::int32_t>(terms.size()));
    }
  made.own = keep(context, own);
  made.first = keep(context, first);
  made.terms = keep(context, terms);
  return made;
}

void correct_lines(Context& context, const HybridKernels& hybrid, const LineCorrections& corrections,
                   DeviceView<const cfloat> half, DeviceView<cfloat> e) {
  const Shape &from = half.shape(), &to = e.shape();
  if (from.rank() != 3 || from[0] != hybrid.coils || from[2] != hybrid.columns ||
      !(to == Shape{hybrid.coils, corrections.count(), hybrid.columns}))
    throw std::invalid_argument(
        fmt::format("correct_lines: {} rows of {} coils and {} columns cannot be made of {} in {}", corrections.count(),
                    hybrid.coils, hybrid.columns, from.text(), to.text()));
  if (e.size() == 0) return;
  const CorrectionWork work{.kernels = hybrid.values.data(),
                            .sources = hybrid.sources(),
                            .coils = hybrid.coils,
                            .columns = hybrid.columns,
                            .rows = from[1],
                            .own = corrections.own.data(),
                            .first = corrections.first.data(),
                            .terms = corrections.terms.data(),
                            .count = corrections.count(),
                            .half = half.data(),
                            .to = e.data()};
  ECHOTRAIN_DISPATCH(context, correct_lines(context, work));
}

}  // namespace echotrain::numerics
