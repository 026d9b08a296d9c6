#include "gadgets/numerics/mri/parallel/line_correction.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <utility>

#include "gadgets/numerics/core/dispatch.h"
#include "gadgets/numerics/mri/parallel/parallel_ops.h"

namespace echotrain::numerics {
namespace {

template <class T>
Array<T> keep(Context& context, const std::vector<T>& values) {
  HostArray<T> host = context.allocate_host<T>({static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), host.data());
  return context.place<T>(host);
}

/// Maps a point of an axis of the transform's grid to one of the encoded matrix, and back, round the grid's ends.
struct GridAxis {
  std::int64_t encoded, padded;
  std::int64_t to_encoded(std::int64_t i) const { return i - padded / 2 + encoded / 2; }
  std::int64_t source_of(std::int64_t i, std::int64_t step) const {
    return to_encoded(((i - step) % padded + padded) % padded);
  }
};

/// The terms of one row: (source of a kernel, acquired row) -> count. A source of -1 stands for the row itself.
using Balance = std::map<std::pair<std::int32_t, std::int32_t>, int>;

/// A list of rows with their terms, in the order in which they are found.
class TermList {
 public:
  TermList(const GrappaKernels& kernels, const HybridKernels& hybrid, const RowPlan& rows)
      : kernels_(kernels), hybrid_(hybrid), rows_(rows) {
    if (kernels.of_row.size() != rows.kind.size() || static_cast<std::int64_t>(rows.kind.size()) != rows.ny * rows.nz)
      throw std::invalid_argument(
          fmt::format("corrections: {} x {} rows are not those of the kernels", rows.nz, rows.ny));
  }

  /// The terms that a row of the encoded matrix should have; none outside of it.
  Balance wanted(std::int64_t y, std::int64_t z) const {
    Balance balance;
    if (y < 0 || y >= rows_.ny || z < 0 || z >= rows_.nz) return balance;
    const std::int32_t kernel = kernels_.of_row[static_cast<std::size_t>(number(y, z))];
    if (rows_.at(y, z) != RowPlan::missing) {
      balance[{-1, number(y, z)}] = 1;
    } else if (kernel >= 0) {
      const auto& sources = kernels_.kernels[static_cast<std::size_t>(kernel)].sources;
      for (std::size_t s = 0; s < sources.size(); ++s)
        ++balance[{source(static_cast<std::size_t>(kernel), s), number(y - sources[s][0], z - sources[s][1])}];
    }
    return balance;
  }
  std::int32_t number(std::int64_t y, std::int64_t z) const { return static_cast<std::int32_t>(z * rows_.ny + y); }
  std::int32_t source(std::size_t kernel, std::size_t s) const {
    return static_cast<std::int32_t>(hybrid_.first[kernel]) + static_cast<std::int32_t>(s);
  }

  /// Adds the row of that number if any of its terms remain.
  void take(std::int64_t row, const Balance& balance) {
    std::int32_t as_it_is = -1;
    const std::size_t before = terms_.size();
    for (const auto& [term, times] : balance) {
      if (times == 0) continue;
      if (term.first < 0)
        as_it_is = term.second;
      else
        terms_.push_back({term.first, term.second, static_cast<float>(times)});
    }
    if (as_it_is < 0 && terms_.size() == before) return;
    taken_.push_back(static_cast<std::int32_t>(row));
    own_.push_back(as_it_is);
    first_.push_back(static_cast<std::int32_t>(terms_.size()));
  }
  LineCorrections made(Context& context) const {
    return {rows_.nz * rows_.ny, taken_, keep(context, own_), keep(context, first_), keep(context, terms_)};
  }

 private:
  const GrappaKernels& kernels_;
  const HybridKernels& hybrid_;
  const RowPlan& rows_;
  std::vector<std::int32_t> taken_, own_, first_{0};
  std::vector<LineCorrections::Term> terms_;
};

}  // namespace

LineCorrections plan_corrections(Context& context, const GrappaKernels& kernels, const HybridKernels& hybrid,
                                 const RowPlan& rows, const LineGeometry& geometry) {
  if (rows.nz != geometry.encoded[0] || rows.ny != geometry.encoded[1])
    throw std::invalid_argument(
        fmt::format("corrections: {} x {} rows are not those of {}", rows.nz, rows.ny, geometry.encoded.text()));
  const GridAxis ys{rows.ny, geometry.padded[1]}, zs{rows.nz, geometry.padded[0]};
  TermList list(kernels, hybrid, rows);
  for (std::int64_t pz = 0; pz < zs.padded; ++pz)
    for (std::int64_t py = 0; py < ys.padded; ++py) {
      context.check_stop();
      const std::int64_t y = ys.to_encoded(py), z = zs.to_encoded(pz);
      Balance balance = list.wanted(y, z);
      // Subtracts the terms that unmixing gives it.
      if (rows.at(y, z) == RowPlan::on_lattice) --balance[{-1, list.number(y, z)}];
      for (std::size_t k = 0; k + 1 < static_cast<std::size_t>(kernels.lattice.size()); ++k)
        for (std::size_t s = 0; s < kernels.kernels[k].sources.size(); ++s) {
          const RowStep& step = kernels.kernels[k].sources[s];
          const std::int64_t from_y = ys.source_of(py, step[0]), from_z = zs.source_of(pz, step[1]);
          if (rows.at(from_y, from_z) == RowPlan::on_lattice)
            --balance[{list.source(k, s), list.number(from_y, from_z)}];
        }
      list.take(pz * ys.padded + py, balance);
    }
  return list.made(context);
}

LineCorrections plan_filling(Context& context, const GrappaKernels& kernels, const HybridKernels& hybrid,
                             const RowPlan& rows) {
  TermList list(kernels, hybrid, rows);
  for (std::int64_t z = 0; z < rows.nz; ++z)
    for (std::int64_t y = 0; y < rows.ny; ++y) {
      context.check_stop();
      list.take(z * rows.ny + y, list.wanted(y, z));
    }
  return list.made(context);
}

void correct_lines(Context& context, const HybridKernels& hybrid, const LineCorrections& corrections,
                   DeviceView<const cfloat> half, DeviceView<cfloat> e) {
  const Shape &from = half.shape(), &to = e.shape();
  if (from.rank() != 3 || from[0] != hybrid.coils || from[1] != corrections.encoded_rows || from[2] != hybrid.columns ||
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
