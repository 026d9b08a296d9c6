// make_seeds FOLDER [FILE.h5...]: writes FOLDER/<target>/* from ISMRMRD files (parts of them as streams, their headers,
// and as MRD 2, the attributes of their images, the files themselves when small), from the shipped pipelines, from the
// table of the server's options, and from blocks compressed and raw data made here.
#include <fmt/format.h>
#include <zfp.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <span>

#include "config/server_options.h"
#include "protocol/files/dataset.h"
#include "protocol/mrd2/model.h"
#include "protocol/mrd2/mrd2_stream.h"
#include "protocol/wire/codec.h"
#include "tests/protocol/pulseq/sequence_text.h"
#include "tests/protocol/twix/twix_bytes.h"

namespace echotrain::fuzz {
namespace {

namespace fs = std::filesystem;
using protocol::Buffer;

constexpr std::size_t kMostBytes = 24 << 10;      // of a seed that is a stream [bytes]
constexpr std::size_t kLargestReadout = 8 << 10;  // that goes into a seed [bytes]
constexpr std::size_t kMostFileBytes = 64 << 10;  // of an HDF5 file that is a seed itself [bytes]

class Seeds {
 public:
  explicit Seeds(fs::path folder) : folder_(std::move(folder)) {}

  void add(const std::string& target, const std::string& name, std::span<const std::byte> bytes) const {
    fs::create_directories(folder_ / target);
    std::ofstream file(folder_ / target / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  void add(const std::string& target, const std::string& name, const std::string& text) const {
    add(target, name, std::as_bytes(std::span(text)));
  }

 private:
  fs::path folder_;
};

std::string read_file(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::vector<fs::path> pipeline_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(ECHOTRAIN_SOURCE_DIR) / "config/pipelines"))
    files.push_back(entry.path());
  return files;
}

// A scan as a client would send it, as far as it fits a seed. Every pipeline gets its own.
void add_scan(const Seeds& seeds, const protocol::DatasetReader& reader, const std::string& name) {
  const std::string xml = reader.header_xml();
  if (!xml.empty()) seeds.add("header", name + ".xml", xml);
  Buffer data;
  std::size_t readouts = 0;
  while (readouts < reader.acquisitions() && data.size() < kMostBytes) {
    const protocol::Acquisition readout = reader.acquisition(readouts++);
    if (readout.data.bytes.size() > kLargestReadout) break;
    encode(readout, data);
  }
  if (reader.waveforms() > 0) encode(reader.waveform(0), data);
  if (readouts == 0) return;
  const bool whole = readouts == reader.acquisitions();  // images are made of whole scans only
  for (const fs::path& pipeline : whole ? pipeline_files() : std::vector<fs::path>()) {
    const std::string by_name = pipeline.stem().string();
    for (const protocol::Message& config : {protocol::Message(protocol::ConfigFile{by_name}),
                                            protocol::Message(protocol::ConfigText{read_file(pipeline)})}) {
      Buffer stream;
      std::visit([&](const auto& content) { encode(content, stream); }, config);
      encode(protocol::HeaderText{xml}, stream);
      stream.insert(stream.end(), data.begin(), data.end());
      encode(protocol::Close{}, stream);
      seeds.add("session", fmt::format("{}_{}_{}", name, by_name, config.index()), stream);
    }
  }
  Buffer stream;
  encode(protocol::Query{1, "gadgetron::info"}, stream);
  encode(protocol::ConfigFile{"passthrough"}, stream);
  encode(protocol::HeaderText{xml}, stream);
  encode(protocol::Text{R"({"parameters": {"config": "cartesian_2d", "customconfig": ""}})"}, stream);
  stream.insert(stream.end(), data.begin(),
                data.begin() + static_cast<std::ptrdiff_t>(std::min(data.size(), kMostBytes / 8)));
  seeds.add("dialogue", name, stream);
  encode(protocol::Close{}, stream);
  for (const char* target : {"codec", "stream"}) seeds.add(target, name, stream);
}

/// A scan and its images as MRD 2, as far as they fit a seed: whole, and from behind the schema on, where the target
/// puts our own.
void add_mrd2(const Seeds& seeds, const protocol::DatasetReader& reader, const std::string& name) {
  const fs::path file = fs::temp_directory_path() / fmt::format("echotrain_seed_{}", name);
  {
    protocol::mrd2::Mrd2Writer writer(file);
    const auto add = [&](const protocol::Message& message) {
      if (!writer.write(message)) throw std::runtime_error("a message cannot be written as MRD 2");
    };
    if (!reader.header_xml().empty()) add(protocol::HeaderText{reader.header_xml()});
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < reader.acquisitions() && bytes < kMostBytes / 4; ++i) {
      const protocol::Acquisition readout = reader.acquisition(i);
      bytes += readout.data.bytes.size() + sizeof readout.head;
      if (readout.data.bytes.size() <= kLargestReadout) add(readout);
    }
    if (reader.waveforms() > 0) add(reader.waveform(0));
    for (const std::string& series : reader.image_series())
      if (const protocol::Image image = reader.image(series, 0); image.pixels.bytes.size() <= kMostBytes / 4)
        add(image);
    writer.finish();
  }
  const std::string stream = read_file(file);
  fs::remove(file);
  const std::string& schema = protocol::mrd2::model_text();
  seeds.add("mrd2", name, stream);
  seeds.add("mrd2", name + "_data", stream.substr(stream.find(schema) + schema.size()));
}

void add_images(const Seeds& seeds, const protocol::DatasetReader& reader, const std::string& name) {
  for (const std::string& series : reader.image_series()) {
    const protocol::Image image = reader.image(series, 0);
    if (image.pixels.bytes.size() > kMostBytes) continue;
    seeds.add("attributes", fmt::format("{}_{}", name, series), image.attributes);
    Buffer stream;
    encode(protocol::ConfigFile{"passthrough"}, stream);
    encode(protocol::HeaderText{"Dummy XML header"}, stream);
    encode(image, stream);
    encode(protocol::Close{}, stream);
    for (const char* target : {"codec", "stream", "session"})
      seeds.add(target, fmt::format("{}_{}", name, series), stream);
  }
}

template <class T>
void append(Buffer& out, T value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// The target's head, then a block of ZFP with `set` saying how well it keeps the numbers.
template <class Set>
Buffer zfp_block(std::uint16_t samples, std::uint8_t channels, Set set) {
  std::vector<float> values(std::size_t{2} * samples * channels);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(0.1f * static_cast<float>(i));
  zfp_field* field = zfp_field_2d(values.data(), zfp_type_float, std::size_t{2} * samples, channels);
  zfp_stream* stream = zfp_stream_open(nullptr);
  set(stream);
  std::vector<std::uint64_t> block(zfp_stream_maximum_size(stream, field) / 8 + 2);
  bitstream* bits = stream_open(block.data(), block.size() * 8);
  zfp_stream_set_bit_stream(stream, bits);
  zfp_write_header(stream, field, ZFP_HEADER_FULL);
  const std::size_t size = zfp_compress(stream, field);
  Buffer out;
  append(out, std::uint8_t{0});
  append(out, samples);
  append(out, channels);
  const auto bytes = std::as_bytes(std::span(block)).first(size);
  out.insert(out.end(), bytes.begin(), bytes.end());
  stream_close(bits);
  zfp_stream_close(stream);
  zfp_field_free(field);
  return out;
}

Buffer packed_block(std::uint16_t samples, std::uint8_t channels, std::uint8_t bits) {
  const std::uint64_t elements = std::uint64_t{2} * samples * channels;
  Buffer out;
  append(out, std::uint8_t{1});
  append(out, samples);
  append(out, channels);
  append(out, elements);
  append(out, 1000.0f);
  append(out, bits);
  for (std::uint64_t i = 0; i < (elements * bits + 7) / 8; ++i) append(out, static_cast<std::uint8_t>(37 * i));
  return out;
}

void add_blocks(const Seeds& seeds) {
  seeds.add("compression", "zfp_accuracy", zfp_block(64, 2, [](zfp_stream* s) { zfp_stream_set_accuracy(s, 1e-3); }));
  seeds.add("compression", "zfp_precision", zfp_block(33, 3, [](zfp_stream* s) { zfp_stream_set_precision(s, 12); }));
  seeds.add("compression", "zfp_rate",
            zfp_block(16, 5, [](zfp_stream* s) { zfp_stream_set_rate(s, 8, zfp_type_float, 2, 0); }));
  seeds.add("compression", "zfp_lossless", zfp_block(20, 1, [](zfp_stream* s) { zfp_stream_set_reversible(s); }));
  for (const int bits : {1, 7, 16, 31})
    seeds.add("compression", fmt::format("packed_{}", bits), packed_block(40, 2, static_cast<std::uint8_t>(bits)));
}

void add_configuration(const Seeds& seeds) {
  for (const fs::path& file : pipeline_files()) {
    const std::string text = read_file(file);
    seeds.add("yaml", file.stem().string(), text);
    const std::string frame = "\nframe: auto";
    for (const std::string rule : {"{until: last_in_slice}", "{readouts: 8}", "{readouts: 8, stride: 4}"}) {
      std::string other = text;
      if (const auto at = other.find(frame); at != std::string::npos)
        other.replace(at, frame.size(), "\nframe: " + rule);
      seeds.add("yaml", fmt::format("{}_{}", file.stem().string(), rule.size()), other);
    }
  }
  for (const auto& option : config::server_option_table().all()) {
    const std::string value = option.fallback.empty() ? "[a, b]" : option.fallback;
    seeds.add("options", option.name, fmt::format("# {}\n{}: {}\n", option.help, option.name, value));
  }
}

// Seeds for the target that makes files from numbers.
void add_numbers(const Seeds& seeds) {
  for (int i = 1; i <= 8; ++i) {
    Buffer bytes;
    for (int k = 0; k < 60 * i; ++k) append(bytes, static_cast<std::uint8_t>(k % (3 * i)));
    seeds.add("dataset", fmt::format("{}", i), bytes);
  }
}

// Seeds for the target that reads an input as choices: each shipped pipeline by name, and more and more changed.
void add_choices(const Seeds& seeds) {
  std::minstd_rand random(1);
  for (int i = 0; i < 4 * static_cast<int>(pipeline_files().size()); ++i) {
    Buffer bytes;
    append(bytes, static_cast<std::uint8_t>(i % 4));
    append(bytes, static_cast<std::uint8_t>(i / 4));
    for (int k = 0; k < 64 << i % 5; ++k) append(bytes, static_cast<std::uint8_t>(random() >> 8));
    seeds.add("semantic", fmt::format("{}", i), bytes);
  }
}

// A balancer that names a client (with something more behind the addresses), and one that speaks for itself.
void add_proxy_headers(const Seeds& seeds) {
  const std::string signature("\r\n\r\n\0\r\nQUIT\n", 12), more("\x05\x00\x04\x01\x02\x03\x04", 7);
  const std::string v4 = std::string("\xcb\x00\x71\x07\x0a\x00\x00\x01\xd4\x31\x23\x2a", 12) + more;
  const std::string v6 =
      std::string("\x20\x01\x0d\xb8", 4) + std::string(28, '\x01') + std::string("\x00\x50\x23\x2a", 4);
  seeds.add("proxy", "v4", signature + std::string("\x21\x11\x00\x13", 4) + v4);
  seeds.add("proxy", "v6", signature + std::string("\x21\x21\x00\x24", 4) + v6);
  seeds.add("proxy", "local", signature + std::string("\x20\x00\x00\x00", 4));
}

void add_file(const Seeds& seeds, const fs::path& path) {
  const std::string name = path.parent_path().filename().string() + "_" + path.stem().string();
  if (fs::file_size(path) <= kMostFileBytes) seeds.add("hdf5", name + ".h5", read_file(path));
  const protocol::DatasetReader reader(path);
  add_scan(seeds, reader, name);
  add_images(seeds, reader, name);
  add_mrd2(seeds, reader, name);
}

/// Measurements of raw data, behind the byte that says how the target cuts them: whole ones, and of several kinds.
void add_raw_data(const Seeds& seeds) {
  using namespace protocol::twix;
  protocol::twix::ScanHead head;
  head.samples = 8;
  head.channels = 2;
  head.center_sample = 4;
  std::string lines;
  for (const int bit :
       {kNoise, kNormalise, kPhaseCorrection, kReflect, kReference, kReferenceAndImage, kLastInMeasurement}) {
    head.mask = test::bit(bit);
    head.line = static_cast<std::uint16_t>(bit % 4);
    ++head.scan_counter;
    lines += test::readout(head);
  }
  const std::string protocol =
      test::ascconv("sFastImaging.lEPIFactor = 8\nsPat.lAccelFactPE = 2\nsPat.ucRefScanMode = 2\n");
  const std::string body = test::header(protocol) + test::other(kSyncData, 300) + lines + test::the_end();
  seeds.add("twix", "one", '\1' + body);
  seeds.add("twix", "lines", '\1' + test::header() + lines);
  seeds.add("twix", "two", '\2' + body + body);
  seeds.add("twix", "file", std::string(1, '\0') + test::raid({body, body}).substr(0, 8 + 3 * 152));
}

void add_sequences(const Seeds& seeds) {
  for (const int minor : {4, 5})
    seeds.add("pulseq", "lines_" + std::to_string(minor), protocol::pulseq::test::lines(minor));
  seeds.add(
      "pulseq", "turned",
      protocol::pulseq::test::with(protocol::pulseq::test::lines(5), "1 2 1 0\n2 1 1 0\n",
                                   "1 2 1 3\n2 1 1 0\n3 7 3 0\nextension ROTATIONS 7\n3 0.7071068 0 0 0.7071068\n"));
}

}  // namespace
}  // namespace echotrain::fuzz

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: make_seeds FOLDER [FILE.h5...]\n");
    return 2;
  }
  const echotrain::fuzz::Seeds seeds(argv[1]);
  echotrain::fuzz::add_blocks(seeds);
  echotrain::fuzz::add_configuration(seeds);
  echotrain::fuzz::add_numbers(seeds);
  echotrain::fuzz::add_choices(seeds);
  echotrain::fuzz::add_proxy_headers(seeds);
  echotrain::fuzz::add_raw_data(seeds);
  echotrain::fuzz::add_sequences(seeds);
  for (int i = 2; i < argc; ++i) {
    try {
      echotrain::fuzz::add_file(seeds, argv[i]);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s gives no seeds: %s\n", argv[i], error.what());
    }
  }
  return 0;
}
