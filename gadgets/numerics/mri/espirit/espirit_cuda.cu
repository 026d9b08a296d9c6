#include <vector>

#include "gadgets/numerics/core/complex_cuda.cuh"
#include "gadgets/numerics/core/cuda_support.cuh"
#include "gadgets/numerics/core/dense/hermitian_batch_cuda.cuh"
#include "gadgets/numerics/core/dense/hermitian_projector_cuda.cuh"
#include "gadgets/numerics/mri/coils/coil_maps_ops.h"
#include "gadgets/numerics/mri/espirit/espirit_ops.h"

namespace echotrain::numerics::cuda {
namespace {

struct Box {
  std::int64_t z, y, x;
  explicit Box(const Extents& of) : z(of[0]), y(of[1]), x(of[2]) {}
};

/// Cuts the middle of k-space: [coil, sample]; values that are not finite count as 0.
__global__ void cut_kernel(const float2* kspace, Box n, Box first, Box extents, std::int64_t coils, float2* to) {
  const std::int64_t samples = extents.z * extents.y * extents.x;
  ECHOTRAIN_GRID_STRIDE(i, coils * samples) {
    const std::int64_t at = i % samples, x = first.x + at % extents.x, y = first.y + at / extents.x % extents.y,
                       z = first.z + at / extents.x / extents.y;
    const float2 v = kspace[((i / samples * n.z + z) * n.y + y) * n.x + x];
    to[i] = isfinite(v.x) && isfinite(v.y) ? v : make_float2(0.0f, 0.0f);
  }
}

/// The calibration matrix A, scaled: an element is the sample at the sum of its row's and its column's offset.
struct Matrix {
  const float2* data;
  const float* scale;
  const std::int32_t *of_row, *of_patch;
  __device__ double2 at(int row, int patch) const {
    const float2 v = data[of_row[row] + of_patch[patch]];
    return make_double2(static_cast<double>(v.x * *scale), static_cast<double>(v.y * *scale));
  }
};
struct ByRows {  // (i, k) -> A(i, k)
  Matrix a;
  __device__ double2 operator()(int i, int k) const { return a.at(i, k); }
};
struct ByRowsConjugated {
  Matrix a;
  __device__ double2 operator()(int i, int k) const { return conjugate(a.at(i, k)); }
};
struct ByPatches {  // (i, k) -> A(k, i)
  Matrix a;
  __device__ double2 operator()(int i, int k) const { return a.at(k, i); }
};
struct ByPatchesConjugated {
  Matrix a;
  __device__ double2 operator()(int i, int k) const { return conjugate(a.at(k, i)); }
};

struct PutHermitian {
  double2* to;
  int n;
  __device__ void operator()(int i, int j, double2 sum, bool mirrored) const {
    put_hermitian(to, n, i, j, sum, mirrored);
  }
};

/// The lower triangle of K S + share (1 - S), which is that of the system's matrix.
struct PutSystem {
  HermitianBatch::View system;
  const double2* projector;
  int n;
  double share;
  __device__ void operator()(int i, int j, double2 sum, bool) const {
    if (i < j) return;
    const double2 s = projector[static_cast<std::int64_t>(i) * n + j];
    system.at(0, i, j) = make_double2(sum.x + share * ((i == j ? 1.0 : 0.0) - s.x), i == j ? 0.0 : sum.y - share * s.y);
  }
};

/// Y = A S / root of `largest`: [patch, row], and as right-hand sides. One block of threads per tile.
__global__ void __launch_bounds__(kTileThreads)
    project_rows(Matrix a, const double2* projector, const double* largest, int rows, int patches, double2* y,
                 HermitianBatch::View system) {
  const int row = static_cast<int>(blockIdx.x) * kHermitianTile, patch = static_cast<int>(blockIdx.y) * kHermitianTile;
  ComplexTile<2> tile;
  tile.add([&](int i, int k) { return row + i < rows ? a.at(row + i, k) : make_double2(0.0, 0.0); },
           [&](int j, int k) {
             return patch + j < patches ? projector[static_cast<std::int64_t>(k) * patches + patch + j]
                                        : make_double2(0.0, 0.0);
           },
           patches);
  const double by = rsqrt(*largest);
  tile.each([&](int i, int j, double2 sum) {
    if (row + i >= rows || patch + j >= patches) return;
    const double2 value = make_double2(by * sum.x, by * sum.y);
    y[static_cast<std::int64_t>(patch + j) * rows + row + i] = value;
    system.at(0, system.columns + row + i, patch + j) = value;
  });
}

/// Fills the elements beyond the unknowns, as the caller of HermitianBatch must.
__global__ void fill_beyond(HermitianBatch::View system, int n) {
  ECHOTRAIN_GRID_STRIDE(i, system.columns * system.rows) {
    const std::int64_t column = i / system.rows, row = i % system.rows;
    if (column >= n || (row >= n && row < system.columns))
      system.at(0, row, column) = make_double2(row == column ? 1.0 : 0.0, 0.0);
  }
}

struct Solved {  // (i, k) -> X(i, k)
  HermitianBatch::View system;
  __device__ double2 operator()(int i, int k) const { return system.at(0, system.columns + i, k); }
};
struct RightSides {  // (j, k) -> conj(Y(j, k))
  const double2* y;
  int rows;
  __device__ double2 operator()(int j, int k) const { return conjugate(y[static_cast<std::int64_t>(k) * rows + j]); }
};

/// EspiritKernels::kernels of a projector [row, row].
__global__ void offsets_kernel(const double2* projector, int rows, int pairs, Box kernel, float2* to) {
  const int kz = static_cast<int>(kernel.z), ky = static_cast<int>(kernel.y), kx = static_cast<int>(kernel.x);
  const int ny = 2 * ky - 1, nx = 2 * kx - 1, span = (2 * kz - 1) * ny * nx, size = kz * ky * kx;
  ECHOTRAIN_GRID_STRIDE(i, static_cast<std::int64_t>(pairs) * span) {
    int a = 0, b = static_cast<int>(i / span);
    while (b > a) b -= ++a;
    const int at = static_cast<int>(i % span), dx = at % nx - kx + 1, dy = at / nx % ny - ky + 1,
              dz = at / nx / ny - kz + 1;
    double2 sum = make_double2(0.0, 0.0);
    for (int z = max(0, -dz); z < min(kz, kz - dz); ++z)
      for (int y = max(0, -dy); y < min(ky, ky - dy); ++y)
        for (int x = max(0, -dx); x < min(kx, kx - dx); ++x) {
          const int from = b * size + (z * ky + y) * kx + x, other = a * size + ((z + dz) * ky + y + dy) * kx + x + dx;
          const double2 p = projector[static_cast<std::int64_t>(other) * rows + from];
          sum = make_double2(sum.x + p.x, sum.y + p.y);
        }
    to[i] = make_float2(static_cast<float>(sum.x / size), static_cast<float>(sum.y / size));
  }
}

__global__ void planes_kernel(const float2* kernels, std::int64_t offsets, std::int64_t flat, std::int64_t pairs,
                              std::int64_t planes, std::int64_t first, std::int64_t n, float2* to) {
  ECHOTRAIN_GRID_STRIDE(i, pairs * planes * flat) {
    const std::int64_t at = i % flat, z = i / flat % planes, pair = i / flat / planes;
    float2 sum = make_float2(0.0f, 0.0f);
    for (std::int64_t d = 0; d < offsets; ++d) {
      double sine, cosine;
      sincospi(2 * static_cast<double>((d - offsets / 2) * (first + z - n / 2)) / static_cast<double>(n), &sine,
               &cosine);
      sum = sum + kernels[(pair * offsets + d) * flat + at] *
                      make_float2(static_cast<float>(cosine), static_cast<float>(sine));
    }
    to[i] = sum;
  }
}

/// Offsets of rows, then of patches, in the data.
Array<std::int32_t> offsets_of(Context& context, const EspiritCalibration& c) {
  HostArray<std::int32_t> offsets = context.allocate_host<std::int32_t>({c.rows() + c.patches()});
  std::int32_t* to = offsets.data();
  const auto add = [&](std::int64_t coils, const Extents& of) {
    for (std::int64_t coil = 0; coil < coils; ++coil)
      for (std::int64_t z = 0; z < of[0]; ++z)
        for (std::int64_t y = 0; y < of[1]; ++y)
          for (std::int64_t x = 0; x < of[2]; ++x)
            *to++ = static_cast<std::int32_t>(coil * c.samples() + (z * c.extents[1] + y) * c.extents[2] + x);
  };
  add(c.coils, c.kernel);
  add(1, c.fits());
  return context.place<std::int32_t>(offsets);
}

double2* on_device(Array<cdouble>& array) { return reinterpret_cast<double2*>(array.data()); }

/// P: [row, row].
Array<cdouble> patch_projector(Context& context, const EspiritCalibration& c, const Matrix& a) {
  const cudaStream_t stream = stream_of(context);
  const std::int64_t order = c.order(), all_rows = c.rows();
  const int n = static_cast<int>(order), rows = static_cast<int>(all_rows), patches = static_cast<int>(c.patches());
  Array<cdouble> gram = context.allocate<cdouble>({order, order});
  Array<double> largest = context.allocate<double>({1}), failed = context.zeros<double>({1});
  if (!c.by_patches()) {
    lower_product<<<hermitian_tiles(n), kTileThreads, 0, stream>>>(n, patches, ByRows{a}, ByRowsConjugated{a},
                                                                   PutHermitian{on_device(gram), n});
    check_launch("espirit_kernels");
    return hermitian_projector(context, gram.view(), c.share(), largest.data());
  }
  lower_product<<<hermitian_tiles(n), kTileThreads, 0, stream>>>(n, rows, ByPatchesConjugated{a}, ByPatches{a},
                                                                 PutHermitian{on_device(gram), n});
  check_launch("espirit_kernels");
  // With K = A^H A and its projector S: P = (A S) (K S + share (1 - S))^-1 (A S)^H.
  Array<cdouble> projector = hermitian_projector(context, gram.view(), c.share(), largest.data());
  HermitianBatch batch(context, {n}, all_rows);
  const HermitianBatch::View system = batch.view();
  fill_beyond<<<blocks_for(batch.size()), kThreads, 0, stream>>>(system, n);
  lower_product<<<hermitian_tiles(n), kTileThreads, 0, stream>>>(n, n, HermitianRow{on_device(gram), n},
                                                                 HermitianColumn{on_device(projector), n},
                                                                 PutSystem{system, on_device(projector), n, c.share()});
  Array<cdouble> y = context.allocate<cdouble>({order, all_rows});
  const auto tiles = [](int of) { return static_cast<unsigned>((of + kHermitianTile - 1) / kHermitianTile); };
  project_rows<<<dim3(tiles(rows), tiles(n)), kTileThreads, 0, stream>>>(a, on_device(projector), largest.data(), rows,
                                                                         n, on_device(y), system);
  check_launch("espirit_kernels");
  batch.solve(context, failed.data());  // it always can: no eigenvalue is below that share of the largest
  Array<cdouble> out = context.allocate<cdouble>({all_rows, all_rows});
  lower_product<<<hermitian_tiles(rows), kTileThreads, 0, stream>>>(
      rows, n, Solved{system}, RightSides{on_device(y), rows}, PutHermitian{on_device(out), rows});
  check_launch("espirit_kernels");
  return out;
}

}  // namespace

EspiritKernels espirit_kernels(Context& context, const EspiritCalibration& c) {
  const cudaStream_t stream = stream_of(context);
  const std::int64_t pairs = triangle_size(c.coils);
  const Extents span = c.span();
  Array<cfloat> data = context.allocate<cfloat>({c.coils, c.samples()});
  cut_kernel<<<blocks_for(data.size()), kThreads, 0, stream>>>(device_view(c.kspace.data()),
                                                               Box(last_axes(c.kspace.shape(), 3)), Box(c.first),
                                                               Box(c.extents), c.coils, device_view(data.data()));
  check_launch("espirit_kernels");
  const Array<float> scale = unit_scale(context, data.view());
  const Array<std::int32_t> offsets = offsets_of(context, c);
  EspiritKernels made{context.allocate<cfloat>({pairs, span[0], span[1], span[2]}),
                      virtual_coil(context, data.view(), scale.data())};
  Array<cdouble> projector =
      patch_projector(context, c, {device_view(data.data()), scale.data(), offsets.data(), offsets.data() + c.rows()});
  offsets_kernel<<<blocks_for(made.kernels.size()), kThreads, 0, stream>>>(
      on_device(projector), static_cast<int>(c.rows()), static_cast<int>(pairs), Box(c.kernel),
      device_view(made.kernels.data()));
  check_launch("espirit_kernels");
  return made;
}

void kernels_of_planes(Context& context, DeviceView<const cfloat> kernels, std::int64_t first, std::int64_t n,
                       DeviceView<cfloat> to) {
  planes_kernel<<<blocks_for(to.size()), kThreads, 0, stream_of(context)>>>(
      device_view(kernels.data()), kernels.shape()[1], kernels.shape()[2] * kernels.shape()[3], to.shape()[0],
      to.shape()[1], first, n, device_view(to.data()));
  check_launch("kernels_of_planes");
}

}  // namespace echotrain::numerics::cuda
