#include "tests/seeds/seed_stone_images.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "clients/cpp/base/parallel.h"
#include "clients/cpp/simulate/ground_truth.h"
#include "clients/cpp/simulate/simulate.h"
#include "gadgets/engine/pipeline.h"
#include "gadgets/numerics/inverse/solver/pcg.h"
#include "gadgets/numerics/transforms/toeplitz/toeplitz.h"
#include "protocol/data/header.h"
#include "tests/support/bench_resources.h"

namespace echotrain::seed {
namespace {

using numerics::cfloat;
using numerics::Context;

constexpr double kNoise = 48;  // at 128^3: raises the gridded image's error by the seed's factor, 47 % / 42 %
constexpr double kNoiseMatrix = 128;
constexpr int kContrast = 1;
constexpr std::uint64_t kMemory = 64ull << 30;
std::string pipeline_of(const char* method) {
  return std::string(
             "echotrain: 1\nname: bench\ndescription: the seed's reconstruction\ntrajectory_unit: cycles_per_pixel\n"
             "pipeline:\n  - density_compensation: {method: none}\n  - fhd: {dimensions: 3, ") +
         method +
         "}\n  - pcg: {iterations: 60, tolerance: 0, prior: tikhonov, lambda: 1e-5}\n"
         "  - coil_combine: {method: rss}\n  - image: {component: magnitude, type: float}\n";
}

numerics::PcgOptions solver_options() {
  numerics::PcgOptions options;
  options.iterations = 60;
  options.tolerance = 0;
  options.lambda = 1e-5;
  return options;
}

std::vector<double> coordinates_of(const Samples<float>& samples) {
  std::vector<double> k;
  for (std::size_t m = 0; m < samples.kx.size(); ++m)
    for (const auto* axis : {&samples.kx, &samples.ky, &samples.kz}) k.push_back(static_cast<double>((*axis)[m]));
  return k;
}

client::ScanPath path_of(std::int64_t matrix, int readouts, int samples) {
  return {client::TrajectoryKind::kooshball, static_cast<int>(matrix), readouts, samples, 1};
}

std::vector<float> magnitude(Context& context, const numerics::Array<cfloat>& image) {
  const auto host = context.download<cfloat>(image.cview());
  std::vector<float> out;
  for (std::int64_t i = 0; i < host.size(); ++i) out.push_back(std::abs(host.data()[i]));
  return out;
}

}  // namespace

PhantomScan::PhantomScan(numerics::Backend backend, int matrix, int readouts, int samples)
    : matrix_(matrix), readouts_(readouts), samples_of_readout_(samples) {
  const auto path = path_of(matrix, readouts, samples);
  const auto phantom = client::Phantom::shepp_logan(3, matrix).echo(kContrast);
  const auto count = static_cast<std::size_t>(readouts) * static_cast<std::size_t>(samples);
  for (auto* values : {&clean_.kx, &clean_.ky, &clean_.kz, &clean_.re, &clean_.im}) values->resize(count);
  client::parallel_for(static_cast<std::size_t>(readouts), [&](std::size_t r) {
    const client::ReadoutPath readout = path.readout(static_cast<int>(r), 0);
    for (std::size_t s = 0; s < readout.positions.size(); ++s) {
      const std::size_t at = r * readout.positions.size() + s;
      const client::Vec3& k = readout.positions[s];
      clean_.kx[at] = static_cast<float>(k[0]);
      clean_.ky[at] = static_cast<float>(k[1]);
      clean_.kz[at] = static_cast<float>(k[2]);
      const client::cdouble value = phantom.kspace(k);
      clean_.re[at] = static_cast<float>(value.real());
      clean_.im[at] = static_cast<float>(value.imag());
    }
  });
  noisy_ = clean_;
  client::NoiseSource noise(1, kNoise * std::pow(matrix / kNoiseMatrix, 1.5), 1, false);
  for (std::size_t at = 0; at < count; ++at) {
    cfloat value(noisy_.re[at], noisy_.im[at]);
    noise.add({&value, 1});
    noisy_.re[at] = value.real();
    noisy_.im[at] = value.imag();
  }
  truth_ = client::GroundTruth(phantom, client::CoilSet(1, 3, matrix), path).root_sum_of_squares();

  context_ = std::make_unique<Context>(backend, bench_resources(), numerics::ContextOptions{.memory_budget = kMemory});
  const std::vector<double> k = coordinates_of(clean_);
  const numerics::Shape cube{matrix, matrix, matrix};
  auto q = context_->allocate<cfloat>({2 * matrix, 2 * matrix, 2 * matrix});
  numerics::point_spread(*context_, {k.data(), {clean_.size(), 3}}, {}, cube, numerics::VoxelBasis::delta, q.view());
  matrix_of_lags_ =
      std::make_unique<numerics::PlainNormal>(std::make_shared<numerics::ToeplitzOperator>(*context_, q.cview()));
  largest_eigenvalue_ = numerics::largest_eigenvalue(*context_, *matrix_of_lags_);
}

Fidelity PhantomScan::judge(const std::vector<float>& image) const {
  if (image.size() != truth_.size()) throw std::logic_error("an image of another size than the truth");
  double error = 0, power = 0, peak = 0;
  for (std::size_t i = 0; i < image.size(); ++i) {
    const auto is = static_cast<double>(image[i]), should = static_cast<double>(truth_[i]);
    error += (is - should) * (is - should);
    power += should * should;
    peak = std::max(peak, should);
  }
  return {100 * std::sqrt(error / power), 20 * std::log10(peak / std::sqrt(error / static_cast<double>(image.size())))};
}

Fidelity PhantomScan::solved(const std::vector<cfloat>& fhd) const {
  const numerics::Shape cube{matrix_, matrix_, matrix_};
  const auto b = context_->upload<cfloat>({fhd.data(), {1, matrix_, matrix_, matrix_}});
  auto x = context_->zeros<cfloat>(b.shape());
  numerics::PcgOptions options = solver_options();
  options.largest_eigenvalue = largest_eigenvalue_;
  numerics::pcg(*context_, *matrix_of_lags_, numerics::tikhonov(cube).get(), b.cview(), x.view(), options);
  return judge(magnitude(*context_, x));
}

Fidelity PhantomScan::gridded(bool noisy) const {
  const Samples<float>& samples = this->samples(noisy);
  const numerics::Shape cube{matrix_, matrix_, matrix_};
  const std::vector<double> k = coordinates_of(samples);
  std::vector<cfloat> weighted;
  for (std::size_t m = 0; m < samples.kx.size(); ++m) {
    const float power = samples.kx[m] * samples.kx[m] + samples.ky[m] * samples.ky[m] + samples.kz[m] * samples.kz[m];
    weighted.push_back(power * cfloat(samples.re[m], samples.im[m]));
  }
  const auto plan = numerics::NufftPlan::make(*context_, {k.data(), {samples.size(), 3}}, cube,
                                              numerics::options_for_accuracy(1e-4, cube));
  const auto d = context_->upload<cfloat>({weighted.data(), {samples.size(), 1}});
  auto out = context_->allocate<cfloat>({1, matrix_, matrix_, matrix_});
  plan->adjoint(*context_, d.view(), {}, out.view());
  std::vector<float> image = magnitude(*context_, out);
  double both = 0, power = 0;
  for (std::size_t i = 0; i < image.size(); ++i) {
    both += static_cast<double>(image[i]) * static_cast<double>(truth_[i]);
    power += static_cast<double>(image[i]) * static_cast<double>(image[i]);
  }
  for (float& value : image) value *= static_cast<float>(both / power);
  return judge(image);
}

struct PhantomScan::Product::Impl {
  Impl(const PhantomScan& of, numerics::Backend backend, const char* method)
      : scan(of),
        context(backend, bench_resources(), {.memory_budget = kMemory}),
        pipeline(PipelinePlan::check(config::read_pipeline(pipeline_of(method), "bench.yaml")), context,
                 {[this](protocol::Image&& image, const ImageTimes&) { last = std::move(image); },
                  [](protocol::Level, const std::string&) {}}) {
    client::SimulateOptions options;
    options.trajectory = "kooshball";
    options.phantom = "ellipsoids_3d";
    options.matrix = static_cast<int>(of.matrix_);
    options.coils = 1;
    const auto path = path_of(of.matrix_, of.readouts_, of.samples_of_readout_);
    const auto header = protocol::parse_header(client::simulated_header(options, path), {});
    if (!header) throw std::logic_error(header.error().message);
    pipeline.start(*header);
    for (const bool noisy : {false, true}) {
      auto& to = noisy ? readouts[1] : readouts[0];
      for (int r = 0; r < of.readouts_; ++r) to.push_back(readout(of.samples(noisy), r));
    }
  }

  protocol::Acquisition readout(const Samples<float>& samples, int r) const {
    const auto count = static_cast<std::size_t>(scan.samples_of_readout_), first = static_cast<std::size_t>(r) * count;
    std::vector<float> positions;
    std::vector<cfloat> data;
    for (std::size_t m = first; m < first + count; ++m) {
      for (const auto* axis : {&samples.kx, &samples.ky, &samples.kz}) positions.push_back((*axis)[m]);
      data.emplace_back(samples.re[m], samples.im[m]);
    }
    protocol::Acquisition out;
    out.head.version = 1;
    out.head.number_of_samples = static_cast<std::uint16_t>(count);
    out.head.active_channels = out.head.available_channels = 1;
    out.head.trajectory_dimensions = 3;
    out.head.read_dir[0] = out.head.phase_dir[1] = out.head.slice_dir[2] = 1;
    out.head.idx.kspace_encode_step_1 = static_cast<std::uint16_t>(r);
    if (r + 1 == scan.readouts_)
      out.head.flags =
          1ull << (ISMRMRD::ISMRMRD_ACQ_LAST_IN_SLICE - 1) | 1ull << (ISMRMRD::ISMRMRD_ACQ_LAST_IN_REPETITION - 1);
    out.trajectory = protocol::Payload::take(std::move(positions));
    out.data = protocol::Payload::take(std::move(data));
    return out;
  }

  const PhantomScan& scan;
  Context context;
  protocol::Image last;
  Pipeline pipeline;
  std::vector<protocol::Acquisition> readouts[2];
  std::uint16_t repetition = 0;
};

PhantomScan::Product::Product(const PhantomScan& scan, numerics::Backend backend, const char* method)
    : impl_(std::make_unique<Impl>(scan, backend, method)) {}
PhantomScan::Product::~Product() = default;

void PhantomScan::Product::run(bool noisy) {
  auto batch = impl_->readouts[noisy ? 1 : 0];
  for (auto& each : batch) each.head.idx.repetition = impl_->repetition;
  ++impl_->repetition;
  impl_->pipeline.push(std::move(batch));
  impl_->pipeline.wait();
}

Fidelity PhantomScan::Product::fidelity() const {
  std::vector<float> pixels(impl_->last.pixels.bytes.size() / sizeof(float));
  impl_->last.pixels.copy_to(pixels.data());
  return impl_->scan.judge(pixels);
}

}  // namespace echotrain::seed
