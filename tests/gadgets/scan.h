// A small scan tests gadgets: headers, readouts, and a pipeline that is run to its end.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstdint>
#include <functional>
#include <numbers>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gadgets/engine/pipeline.h"
#include "gadgets/numerics/core/team/team.h"
#include "protocol/data/acquisition_check.h"
#include "protocol/data/header.h"
#include "tests/support/expected_cuda.h"
#include "tests/support/resources.h"

namespace echotrain::testing {

using numerics::Backend;
using numerics::cdouble;
using numerics::cfloat;
using protocol::Acquisition;

/// ISMRMRD flag values of the readouts made here.
enum Flag {
  kFirstInSlice = 7,
  kLastInSlice = 8,
  kLastInRepetition = 14,
  kNoise = 19,
  kCalibration = 20,
  kCalibrationAndImaging = 21,
  kReverse = 22,
  kNavigator = 23,
  kLastInMeasurement = 25
};
inline void set_flag(Acquisition& readout, int value) { readout.head.flags = readout.head.flags | 1ull << (value - 1); }

/// The contents of a header; the field of view is 1 mm per voxel of the encoded matrix unless given.
struct HeaderSpec {
  std::array<int, 3> encoded{32, 32, 1};
  std::array<int, 3> recon{0, 0, 0};  ///< 0: as encoded
  std::array<double, 3> encoded_fov{0, 0, 0}, recon_fov{0, 0, 0};
  std::string trajectory = "cartesian";
  std::string limits;     ///< contents of encodingLimits
  std::string parallel;   ///< contents of parallelImaging
  std::string bandwidth;  ///< relativeReceiverNoiseBandwidth
};

inline std::string limit(const std::string& name, int minimum, int maximum, int center) {
  return fmt::format("<{0}><minimum>{1}</minimum><maximum>{2}</maximum><center>{3}</center></{0}>", name, minimum,
                     maximum, center);
}
inline std::string step_limit(int n) { return limit("kspace_encoding_step_1", 0, n - 1, n / 2); }

inline std::string encoding_xml(HeaderSpec spec) {
  for (std::size_t a = 0; a < 3; ++a) {
    if (spec.recon[a] == 0) spec.recon[a] = spec.encoded[a];
    if (spec.encoded_fov[a] == 0) spec.encoded_fov[a] = spec.encoded[a];
    if (spec.recon_fov[a] == 0) spec.recon_fov[a] = spec.encoded_fov[a];
  }
  const auto space = [](const char* name, const auto& n, const auto& fov) {
    return fmt::format(
        "<{0}><matrixSize><x>{1}</x><y>{2}</y><z>{3}</z></matrixSize><fieldOfView_mm><x>{4}</x><y>{5}</y><z>{6}</z>"
        "</fieldOfView_mm></{0}>",
        name, n[0], n[1], n[2], fov[0], fov[1], fov[2]);
  };
  return "<encoding>" + space("encodedSpace", spec.encoded, spec.encoded_fov) +
         space("reconSpace", spec.recon, spec.recon_fov) + "<encodingLimits>" + spec.limits + "</encodingLimits>" +
         "<trajectory>" + spec.trajectory + "</trajectory>" +
         (spec.parallel.empty() ? "" : "<parallelImaging>" + spec.parallel + "</parallelImaging>") + "</encoding>";
}

inline protocol::Header header(const std::vector<HeaderSpec>& specs) {
  std::string xml = "<ismrmrdHeader xmlns=\"http://www.ismrm.org/ISMRMRD\">";
  if (!specs[0].bandwidth.empty())
    xml += "<acquisitionSystemInformation><relativeReceiverNoiseBandwidth>" + specs[0].bandwidth +
           "</relativeReceiverNoiseBandwidth></acquisitionSystemInformation>";
  xml += "<experimentalConditions><H1resonanceFrequency_Hz>63870000</H1resonanceFrequency_Hz></experimentalConditions>";
  for (const auto& spec : specs) xml += encoding_xml(spec);
  const auto parsed = protocol::parse_header(xml + "</ismrmrdHeader>", {});
  if (!parsed) throw std::logic_error("the test's header is wrong: " + parsed.error().message);
  return *parsed;
}
inline protocol::Header header(const HeaderSpec& spec) { return header(std::vector{spec}); }

/// One readout; data: [channel, sample]; trajectory: [sample, dimension].
inline Acquisition readout(int channels, std::vector<cfloat> data, std::vector<float> trajectory = {}) {
  Acquisition out;
  const std::size_t samples = data.size() / static_cast<std::size_t>(channels);
  out.head.version = 1;
  out.head.active_channels = out.head.available_channels = static_cast<std::uint16_t>(channels);
  out.head.number_of_samples = static_cast<std::uint16_t>(samples);
  out.head.center_sample = static_cast<std::uint16_t>(samples / 2);
  out.head.trajectory_dimensions = static_cast<std::uint16_t>(samples == 0 ? 0 : trajectory.size() / samples);
  out.data = protocol::Payload::take(std::move(data));
  out.trajectory = protocol::Payload::take(std::move(trajectory));
  return out;
}

inline std::vector<cfloat> noise(std::size_t count, std::mt19937& random, double sigma = 1) {
  std::normal_distribution<double> normal(0, sigma);
  std::vector<cfloat> out(count);
  for (auto& v : out) v = {static_cast<float>(normal(random)), static_cast<float>(normal(random))};
  return out;
}

/// The whole output of a pipeline.
struct Outcome {
  std::vector<protocol::Image> images;
  std::vector<std::pair<protocol::Level, std::string>> texts;
  PipelineCounts counts;
  std::size_t skipped = 0;  ///< readouts that the protocol's check left out
  std::uint64_t device_to_host_bytes = 0;

  /// Counts the texts of `level` that hold `part`.
  int said(protocol::Level level, const std::string& part) const {
    return static_cast<int>(std::count_if(texts.begin(), texts.end(), [&](const auto& t) {
      return t.first == level && t.second.find(part) != std::string::npos;
    }));
  }
  int warned(const std::string& part) const { return said(protocol::Level::warning, part); }
};

/// A split of a scan into batches: the length of the next one, given the readouts left. All at once if empty.
using Split = std::function<std::size_t(std::size_t left)>;

struct RunOptions {
  Backend backend = Backend::cpu;
  Split split;
  End end = End::complete;
  std::string tap;
  std::function<void(const Item&, numerics::Context&)> on_item;
  std::vector<protocol::Image> images;  ///< sent before the readouts
  ReadAsset read_asset;
  std::vector<int> others;  ///< devices that work with the first one
  std::shared_ptr<numerics::Resources> resources = test_resources();
  std::optional<std::int64_t> waiting;  ///< readouts that wait behind each batch, where the scan comes by itself
};

inline std::string yaml(const std::string& gadgets, const std::string& keys = "") {
  return "echotrain: 1\nname: test\ndescription: A test\n" + keys + "pipeline:\n" + gadgets;
}

inline Outcome run(const std::string& text, const protocol::Header& measurement, std::vector<Acquisition> scan,
                   const RunOptions& options = {}) {
  Outcome out;
  numerics::Context compute(options.backend, options.resources);
  std::optional<numerics::Team> team;
  if (!options.others.empty()) team.emplace(compute, options.others, std::uint64_t{4} << 30);
  Pipeline pipeline(PipelinePlan::check(config::read_pipeline(text, "test.yaml")), compute,
                    {[&](protocol::Image&& image, const ImageTimes&) { out.images.push_back(std::move(image)); },
                     [&](protocol::Level level, const std::string& line) { out.texts.emplace_back(level, line); }},
                    options.read_asset, team ? &*team : nullptr);
  if (!options.tap.empty()) {
    EXPECT_TRUE(pipeline.tap(options.tap, [&](const Item& item) { options.on_item(item, compute); }));
  }
  pipeline.start(measurement);
  for (protocol::Image image : options.images) pipeline.push(std::move(image));
  protocol::AcquisitionCheck check(measurement);
  std::erase_if(scan, [&](const Acquisition& a) { return check.check(a) && ++out.skipped > 0; });
  for (auto at = scan.begin(); at != scan.end();) {
    const auto left = static_cast<std::size_t>(scan.end() - at);
    const auto n =
        static_cast<std::ptrdiff_t>(options.split ? std::clamp<std::size_t>(options.split(left), 1, left) : left);
    pipeline.push(std::vector<Acquisition>(std::make_move_iterator(at), std::make_move_iterator(at + n)),
                  options.waiting);
    at += n;
  }
  pipeline.finish(options.end);
  pipeline.wait();
  out.counts = pipeline.counts();
  out.device_to_host_bytes = compute.device_to_host_bytes();
  return out;
}

/// The text of the ClientError that `call` throws, or a note that it threw none.
template <class Call>
std::string client_error(Call&& call) {
  try {
    call();
  } catch (const ClientError& error) {
    return error.what();
  }
  return "(no ClientError)";
}

/// Pixels [channel, z, y, x] of an image.
template <class T>
std::vector<T> pixels(const protocol::Image& image) {
  std::vector<T> out(image.pixels.bytes.size() / sizeof(T));
  image.pixels.copy_to(out.data());
  return out;
}

/// Elements of an array, wherever it is.
template <class T>
std::vector<T> elements(numerics::Context& compute, const Array<T>& array) {
  const HostArray<T> host = compute.download<T>(array.view());
  return std::vector<T>(host.data(), host.data() + host.size());
}

/// Relative L2 distance.
template <class A, class B>
double nrmse(const std::vector<A>& values, const std::vector<B>& truth) {
  EXPECT_EQ(values.size(), truth.size());
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < std::min(values.size(), truth.size()); ++i) {
    error += std::norm(cdouble(values[i]) - cdouble(truth[i]));
    norm += std::norm(cdouble(truth[i]));
  }
  return std::sqrt(error / norm);
}

/// Suites whose parameter is the backend; those of tests/support/backends.h have it as a type.
class OnEachBackend : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (const std::string reason = missing_backend(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
  }
  RunOptions here() const { return {.backend = GetParam()}; }
};
#define ECHOTRAIN_ON_BACKENDS(suite)                                                                            \
  INSTANTIATE_TEST_SUITE_P(Backends, suite, ::testing::Values(numerics::Backend::cpu, numerics::Backend::cuda), \
                           [](const auto& param) { return std::string(numerics::to_string(param.param)); })

}  // namespace echotrain::testing
