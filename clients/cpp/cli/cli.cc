#include "clients/cpp/cli/cli.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "clients/cpp/base/errors.h"
#include "clients/cpp/cli/declared.h"
#include "clients/cpp/images/compare.h"
#include "clients/cpp/images/export.h"
#include "clients/cpp/recon/recon.h"
#include "clients/cpp/recon/recon_stream.h"
#include "clients/cpp/scans/convert.h"
#include "clients/cpp/scans/info.h"
#include "clients/cpp/send/health.h"
#include "clients/cpp/send/replay.h"
#include "clients/cpp/send/send.h"
#include "clients/cpp/simulate/simulate.h"

namespace echotrain::client {
namespace {

// What was asked for: set by the subcommand that was given.
using Action = std::function<int()>;

struct Streams {
  std::ostream& out;
  std::ostream& err;
};

void refuse_overwriting(const std::filesystem::path& input, const std::filesystem::path& output) {
  std::error_code error;
  if (std::filesystem::equivalent(input, output, error)) {
    throw UsageError("-o " + output.string() + " is the input file, which would be lost: name another file");
  }
}

void add_truth(CLI::App* app, std::optional<std::string>& truth) {
  app->add_option_function<std::string>(
         "--truth", [&truth](const std::string& file) { truth = file; },
         "compare every image with the array 'truth' (of contrast or cardiac phase c > 0: 'truth_c') of FILE, or of "
         "the input")
      ->type_name("FILE")
      ->expected(0, 1);
}

void add_send(CLI::App& parent, Streams streams, Action& action, SendOptions& o) {
  CLI::App* app = parent.add_subcommand("send", "stream a file to a server and write the images that come back");
  app->add_option("input", o.input, "ISMRMRD file to send")->required()->type_name("IN.h5");
  app->add_option("-c,--config", o.config, "pipeline: a name known to the server, or a .yaml file here")
      ->required()
      ->type_name("NAME|FILE.yaml");
  app->add_option("-o,--output", o.output, "file for the images")->required()->type_name("OUT.h5");
  add_remote_options(*app, o.server);
  app->add_option("-g,--group", o.group, "group of the input file")->capture_default_str();
  app->add_option("--rate", o.rate, "readouts per second; 0 is as fast as possible")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app->add_option("--timeout", o.timeout_s,
                  "seconds to wait for a connection, or for anything to happen (default: 60, and no "
                  "limit once everything has been sent)")
      ->check(CLI::Range(0.001, 1e6));
  app->add_option("--png", o.png, "folder for pictures of the images")->type_name("DIR");
  add_truth(app, o.truth);
  app->add_option("--summary", o.summary, "also write the summary to FILE")->type_name("FILE");
  app->add_flag("--progress", o.progress, "show progress on stderr");
  app->add_flag(
      "--latency", o.latency,
      "print a histogram of the times from the last readout to the image, and the server's own parts of them");
  app->add_flag("--config-text", o.config_text, "send the pipeline's text instead of its name");
  app->footer(
      "Examples:\n"
      "  echotrain send scan.h5 -c radial_2d -o images.h5\n"
      "  echotrain send scan.h5 -c radial_2d -a recon.example -p 9003 --tls --ca ca.pem -o images.h5\n"
      "  echotrain send scan.h5 -c my_pipeline.yaml -a scanner -p 9002 -o images.h5 --rate 200 --progress\n"
      "  echotrain send scan.h5 -c radial_2d -o images.h5 --truth scan.h5 --png pictures --summary summary.txt\n"
      "  echotrain send scan.h5 -c radial_realtime -o images.h5 --rate 333 --latency");
  app->callback([&action, &o, streams] {
    action = [&o, streams] {
      refuse_overwriting(o.input, o.output);
      return send(o, streams.out, streams.err);
    };
  });
}

void add_replay(CLI::App& parent, Streams streams, Action& action, SendOptions& o) {
  CLI::App* app = parent.add_subcommand("replay", "send a raw capture to a server again");
  app->add_option("input", o.input, "stream file, as the server's raw captures are")->required()->type_name("IN.mrd");
  app->add_option("-c,--config", o.config,
                  "pipeline, in place of the one that the stream asks for: a name known to the server, or a .yaml file "
                  "here")
      ->type_name("NAME|FILE.yaml");
  app->add_option("-o,--output", o.output, "file for the images")->required()->type_name("OUT.h5");
  add_remote_options(*app, o.server);
  app->add_option("--rate", o.rate, "readouts per second; 0 is as fast as possible (streams hold no times)")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app->add_option("--timeout", o.timeout_s,
                  "seconds to wait for a connection, or for anything to happen (default: 60, and no "
                  "limit once everything has been sent)")
      ->check(CLI::Range(0.001, 1e6));
  app->add_option("--png", o.png, "folder for pictures of the images")->type_name("DIR");
  app->add_option("--summary", o.summary, "also write the summary to FILE")->type_name("FILE");
  app->add_flag("--progress", o.progress, "show progress on stderr");
  app->footer(
      "Examples:\n"
      "  echotrain replay 20260131T120000Z-s17-8c1f03d2.mrd -o images.h5\n"
      "  echotrain replay 20260131T120000Z-s17-8c1f03d2.mrd -c my_pipeline.yaml -o images.h5 --rate 200");
  app->callback([&action, &o, streams] {
    action = [&o, streams] {
      refuse_overwriting(o.input, o.output);
      return replay(o, streams.out, streams.err);
    };
  });
}

void add_convert(CLI::App& parent, Streams streams, Action& action, ConvertOptions& o) {
  CLI::App* app = parent.add_subcommand("convert", "make an ISMRMRD HDF5 file of a stream, or a stream of such a file");
  app->add_option("input", o.input, "HDF5 file, or stream file (a raw capture), or - for a stream on stdin")
      ->required()
      ->type_name("IN");
  app->add_option("output", o.output, "the other of the two; a stream may go to - (stdout)")
      ->required()
      ->type_name("OUT");
  app->add_option("-c,--config", o.config, "begin the stream with a pipeline: a name, or a .yaml file")
      ->type_name("NAME|FILE.yaml");
  app->add_option("-g,--group", o.group, "group of the HDF5 file")->capture_default_str();
  app->footer(
      "Examples:\n"
      "  echotrain convert 20260131T120000Z-s17-8c1f03d2.mrd scan.h5\n"
      "  echotrain convert scan.h5 scan.mrd -c radial_2d\n"
      "  echotrain convert scan.h5 - | echotrain recon - -c radial_2d | echotrain convert - images.h5");
  app->callback([&action, &o, streams] {
    action = [&o, streams] {
      refuse_overwriting(o.input, o.output);
      return convert(o, streams.out, streams.err);
    };
  });
}

// A stream on stdin is answered by one on stdout; what needs a file is refused.
int recon_pipe(const ReconOptions& o, Streams streams) {
  if (!(o.output.empty() || o.output == "-") || !o.save_after.empty() || o.truth || !o.png.empty())
    throw UsageError(
        "recon - writes a stream to stdout: leave out -o, --save-after, --truth and --png, or make a file "
        "of the stream first (echotrain convert)");
  return recon_stream(o, STDIN_FILENO, stdout, streams.err);
}

void add_recon_options(CLI::App& app, ReconOptions& o) {
  app.add_option("input", o.input, "ISMRMRD file, or - for a stream on stdin, answered by one on stdout")
      ->required()
      ->type_name("IN.h5|-");
  app.add_option("-c,--config", o.config, "pipeline: a shipped one's name, or a .yaml file (a stream may name its own)")
      ->type_name("NAME|FILE.yaml");
  app.add_option("-o,--output", o.output, "file for the images")->type_name("OUT.h5");
  app.add_option("--backend", o.backend, "auto, cpu or cuda (the pipeline's own choice goes first)")
      ->capture_default_str();
  app.add_option("--pipelines", o.pipelines, "one more folder of pipelines")->type_name("DIR")->take_all()->expected(1);
  app.add_option("--assets", o.assets, "folder of files that pipelines may name: coil maps, references")
      ->type_name("DIR");
  app.add_option("--save-after", o.save_after, "write what a gadget gave to FILE.h5 as arrays")
      ->type_name("GADGET FILE.h5");
  app.add_option("-g,--group", o.group, "group of the input file")->capture_default_str();
  add_truth(&app, o.truth);
  app.add_option("--png", o.png, "folder for pictures of the images")->type_name("DIR");
  app.add_option("--batch", o.batch, "readouts given to the pipeline at once")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
}

int do_recon(const ReconOptions& o, Streams streams) {
  if (o.input == "-") return recon_pipe(o, streams);
  if (o.config.empty()) throw UsageError("--config is required");
  if (o.output.empty()) throw UsageError("--output is required");
  refuse_overwriting(o.input, o.output);
  recon(o, streams.out, streams.err);
  return 0;
}

// Under mpirun every process would write the same output.
void refuse_to_be_one_of_several() {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (size != nullptr && std::string(size) != "1")
    throw UsageError(std::string("mpirun has started ") + size +
                     " of these, and each would do all of the work; start echotrain-ranks, whose ranks share it out "
                     "(docs/deploy.md)");
}

void add_recon(CLI::App& parent, Streams streams, Action& action, ReconOptions& o) {
  CLI::App* app =
      parent.add_subcommand("recon", "reconstruct a file, or a stream on stdin, in this process, without a server");
  add_recon_options(*app, o);
  app->footer(
      "Examples:\n"
      "  echotrain recon scan.h5 -c spiral_2d -o images.h5\n"
      "  echotrain recon scan.h5 -c my_pipeline.yaml -o images.h5 --backend cuda --save-after gridding grid.h5\n"
      "  echotrain recon scan.h5 -c radial_2d -o images.h5 --truth scan.h5 --png pictures\n"
      "  echotrain convert scan.h5 - | echotrain recon - -c radial_2d > images.mrd");
  app->callback([&action, &o, streams] {
    action = [&o, streams] {
      refuse_to_be_one_of_several();
      return do_recon(o, streams);
    };
  });
}

const char* const kUltrasound = "Ultrasound";

config::OptionTable<UltrasoundOptions> ultrasound_options() {
  using O = UltrasoundOptions;
  return config::OptionTable<O>()
      .integer("elements", &O::elements, 2, 1024, "of the linear array")
      .integer("angles", &O::angles, 1, 255, "plane waves per frame")
      .number("angle_span", &O::angle_span_deg, 0.1, 80, "from the first wave's angle to the last's [degrees]")
      .number("pitch_mm", &O::pitch_mm, 0.01, 10, "between elements")
      .number("center_mhz", &O::center_mhz, 0.1, 100, "of the pulse, whose bandwidth is half of it")
      .number("sampling_mhz", &O::sampling_mhz, 0.1, 1000, "of the traces; RF may be band-pass sampled")
      .number("sound_speed", &O::sound_m_per_s, 100, 10000, "[m/s]")
      .number("depth_mm", &O::depth_mm, 10, 1000, "where the image ends")
      .flag("iq", &O::iq, "traces demodulated at the centre frequency, not RF");
}

/// An option that the modality does not know is refused, not left unused. --phantom means another one by default.
void check_modality(const CLI::App& app, SimulateOptions& o) {
  const bool ultrasound = o.modality == "ultrasound";
  const std::set<std::string> of_both = {"--output", "--group", "--modality", "--phantom",  "--matrix",
                                         "--frames", "--noise", "--seed",     "--no-truth", "--help"};
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_single_name();
    if (option->count() > 0 && !of_both.contains("--" + name) && ultrasound != (option->get_group() == kUltrasound))
      throw UsageError(fmt::format("--{} means nothing for --modality {}", name, o.modality));
  }
  if (ultrasound && app.count("--phantom") == 0) o.phantom = "points";
}

config::OptionTable<SimulateOptions> scan_options() {
  using O = SimulateOptions;
  constexpr int kMost = 65535;
  return config::OptionTable<O>()
      .text("trajectory", &O::trajectory,
            "cartesian, radial, golden_radial, spiral, kooshball (3D), stack_of_stars or stack_of_spirals (3D)")
      .text(
          "phantom", &O::phantom,
          "shepp_logan (in 3D: ellipsoids_3d), ellipsoids_3d (Koay's 3D head) or blob (a Gaussian of amplitude 1); of "
          "ultrasound: points (the default there) or speckle")
      .integer("matrix", &O::matrix, 4, 4096, "pixels per axis")
      .integer("coils", &O::coils, 1, 1024, "receiver coils; one coil is 1 everywhere")
      .integer("readouts", &O::readouts, 1, kMost,
               "readouts per frame and slice or partition: lines, spokes or interleaves (default: enough)")
      .integer("samples", &O::samples, 1, kMost, "samples per readout (default: enough)")
      .integer("frames", &O::frames, 1, kMost, "frames (repetitions)")
      .integer("slices", &O::slices, 1, kMost, "slices, all of the same object")
      .integer("contrasts", &O::contrasts, 1, 64, "echoes of each readout: the same anatomy, other brightnesses")
      .integer("oversampling", &O::oversampling, 1, 8, "of Cartesian readouts")
      .integer("partitions", &O::partitions, 2, 4096,
               "of a stack; voxels are fov / partitions thick (default: a quarter of the matrix)")
      .flag("partitions_outermost", &O::partitions_outermost,
            "of a stack: all spokes of a partition, then the next (default: all partitions of a spoke)")
      .number("noise", &O::noise, 0, 1e12,
              "standard deviation of the real and imaginary part of a sample; a Cartesian image gets 1/matrix of it")
      .flag("noise_scan", &O::noise_scan, "noise readouts first; the coils' noise is correlated");
}

config::OptionTable<SimulateOptions> motion_options() {
  using O = SimulateOptions;
  return config::OptionTable<O>()
      .number("fov", &O::fov_mm, 1, 1e4, "field of view [mm]")
      .number("tr_ms", &O::tr_ms, 0.001, 1e5,
              "time between readouts [ms] (default: 5, or of a beating heart so that --phases take 0.9 of a beat)")
      .text("motion", &O::motion, "cardiac: a beating heart, one line per beat, and its ECG; instead of --phantom")
      .text("gating", &O::gating,
            "of a heart: prospective (each trigger starts the readouts of all phases, counted in idx.phase) or "
            "retrospective (readouts run on)")
      .integer("phases", &O::phases, 1, 1000, "of a heart: images per beat")
      .number("heart_rate", &O::heart_rate, 1, 2000, "beats per minute (a mouse: 500)")
      .number("jitter", &O::jitter, 0, 0.3, "standard deviation of the time between beats, as a share of it")
      .number("blob_sigma", &O::blob_sigma, 0.1, 1e3, "of the blob [pixels]");
}

void add_simulate(CLI::App& parent, Streams streams, Action& action, SimulateOptions& o) {
  CLI::App* app =
      parent.add_subcommand("simulate", "make a scan of a phantom: analytic k-space, or echoes of plane waves");
  app->add_option("-o,--output", o.output, "file to write")->required()->type_name("OUT.h5");
  app->add_option("-g,--group", o.group, "group in the file")->capture_default_str();
  app->add_option("--modality", o.modality, "mri or ultrasound (plane waves)")->capture_default_str();
  add_declared(*app, ultrasound_options(), o.ultrasound, kUltrasound);
  add_declared(*app, scan_options(), o);
  app->add_option("--seed", o.seed, "of the noise; same seed, same file")->capture_default_str();
  add_declared(*app, motion_options(), o);
  // Their help says what comes without them.
  for (const char* name : {"--readouts", "--samples", "--partitions", "--tr-ms"})
    app->get_option(name)->default_str("");
  app->add_flag_callback(
      "--no-truth", [&o] { o.truth = false; }, "leave out the array 'truth'");
  app->add_flag("--coil-truth", o.coil_truth, "also write the complex coil images as the array 'coil_truth'");
  app->footer(
      "Examples:\n"
      "  echotrain simulate -o scan.h5 --trajectory golden_radial --readouts 55 --frames 16 --noise 1\n"
      "  echotrain simulate -o scan.h5 --trajectory cartesian --matrix 192 --oversampling 2 --noise 1 --noise-scan\n"
      "  echotrain simulate -o scan.h5 --trajectory spiral --phantom blob --coils 1 --readouts 16\n"
      "  echotrain simulate -o scan.h5 --trajectory cartesian --motion cardiac --matrix 256 --readouts 192 --phases 13 "
      "--heart-rate 500 --tr-ms 7.9\n"
      "  echotrain simulate -o scan.h5 --trajectory kooshball --phantom ellipsoids_3d --contrasts 3 --coils 1 "
      "--readouts 1078 --samples 264\n"
      "  echotrain simulate -o scan.h5 --modality ultrasound --phantom speckle --matrix 512 --angles 11");
  app->callback([&action, &o, streams, app] {
    action = [&o, streams, app] {
      check_modality(*app, o);
      simulate(o, streams.out);
      return 0;
    };
  });
}

void add_compare(CLI::App& parent, Streams streams, Action& action, CompareOptions& o) {
  CLI::App* app = parent.add_subcommand("compare", "NRMSE, PSNR and best scale of one file's images against another's");
  app->add_option("a", o.a, "file under test")->required()->type_name("A.h5");
  app->add_option("b", o.b, "reference file")->required()->type_name("B.h5");
  app->add_option("--group-a", o.group_a, "group of A")->capture_default_str();
  app->add_option("--group-b", o.group_b, "group of B")->capture_default_str();
  app->add_option("--series-a", o.series_a, "image series of A (default: all, by name)");
  app->add_option("--series-b", o.series_b, "image series of B");
  app->add_option("--index-a", o.index_a, "one image of A; -1 is the last");
  app->add_option("--index-b", o.index_b, "one image of B; -1 is the last");
  app->add_flag("--magnitude", o.magnitude, "compare magnitudes");
  app->add_option("--scale", o.scale, "scale fitted to A before comparing: none, real or complex")
      ->capture_default_str();
  app->add_option("--max-nrmse", o.max_nrmse, "exit 1 above this")->check(CLI::Range(0.0, 1e12));
  app->footer(
      "Examples:\n"
      "  echotrain compare ours.h5 theirs.h5\n"
      "  echotrain compare ours.h5 theirs.h5 --index-a -1 --index-b 0 --scale real --max-nrmse 1e-5");
  app->callback([&action, &o, streams] { action = [&o, streams] { return compare(o, streams.out); }; });
}

void add_export(CLI::App& parent, Streams streams, Action& action, ExportOptions& o) {
  CLI::App* app = parent.add_subcommand("export", "write images as PNG pictures, GIF animations or NIfTI volumes");
  app->add_option("input", o.input, "ISMRMRD file with images")->required()->type_name("IN.h5");
  app->add_option("--png", o.png, "folder for pictures, one per image")->type_name("DIR");
  app->add_option("--gif", o.gif, "folder for animations, one per series")->type_name("DIR");
  app->add_option("--nifti", o.nifti, "folder for NIfTI-1 volumes, one per series")->type_name("DIR");
  app->add_option("--fps", o.fps, "pictures per second of animations; a GIF counts hundredths of a second")
      ->check(CLI::Range(0.1, 100.0))
      ->capture_default_str();
  app->add_option("-g,--group", o.group, "group of the file")->capture_default_str();
  app->add_option("--series", o.series, "one image series (default: all)");
  app->add_option("--window", o.window, "values shown as black and white")->expected(2)->type_name("LOW HIGH");
  app->footer(
      "Examples:\n"
      "  echotrain export images.h5 --png pictures\n"
      "  echotrain export cine.h5 --gif pictures --fps 15 --window 0 1.2\n"
      "  echotrain export volumes.h5 --nifti volumes");
  app->callback([&action, &o, streams] {
    action = [&o, streams] {
      export_images(o, streams.out);
      return 0;
    };
  });
}

void add_info(CLI::App& parent, Streams streams, Action& action, std::string& file) {
  CLI::App* app = parent.add_subcommand("info", "say what an ISMRMRD file holds");
  app->add_option("input", file, "ISMRMRD file")->required()->type_name("IN.h5");
  app->footer("Example:\n  echotrain info scan.h5");
  app->callback([&action, &file, streams] {
    action = [&file, streams] {
      info(file, streams.out);
      return 0;
    };
  });
}

void add_health(CLI::App& parent, Streams streams, Action& action, HealthOptions& o) {
  CLI::App* app =
      parent.add_subcommand("health", "ask a server's admin port whether it takes scans; exit 0 if it does");
  app->add_option("-a,--address", o.address, "host of the server")->capture_default_str();
  app->add_option("-p,--port", o.port, "its admin port")->check(CLI::Range(1, 65535))->capture_default_str();
  app->add_option("--path", o.path, "what to ask for: /readyz, /livez, /metrics or /sessions")->capture_default_str();
  app->add_option("--timeout", o.timeout_s, "seconds to wait")->check(CLI::Range(0.001, 1e6))->capture_default_str();
  app->footer(
      "Examples:\n"
      "  echotrain health\n"
      "  echotrain health -a recon.example --path /sessions");
  app->callback([&action, &o, streams] { action = [&o, streams] { return health(o, streams.out); }; });
}

int parse_and_do(CLI::App& app, int argc, const char* const* argv, Streams streams, const Action& action) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked_for_help) {
    return app.exit(asked_for_help, streams.out, streams.err);
  } catch (const CLI::ParseError& error) {
    streams.err << app.get_name() << ": " << error.what() << "\nRun with --help for what is possible.\n";
    return 2;
  }
  try {
    return action();
  } catch (const UsageError& error) {
    streams.err << app.get_name() << ": " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    streams.err << app.get_name() << ": " << error.what() << '\n';
    return 1;
  }
}

}  // namespace

int run(int argc, const char* const* argv, const std::string& version, const numerics::ResourceOptions& resources,
        std::ostream& out, std::ostream& err) {
  CLI::App app("Echotrain's command line: make, send, reconstruct and look at MRI scans (ISMRMRD HDF5 files).",
               "echotrain");
  app.set_version_flag("--version", "echotrain " + version);
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  echotrain simulate -o scan.h5 --trajectory golden_radial --frames 4\n"
      "  echotrain recon scan.h5 -c radial_2d -o images.h5 --truth scan.h5\n"
      "  echotrain send scan.h5 -c radial_2d -o images.h5        (needs a running echotrain-server)\n"
      "Each command has a --help of its own.");
  const Streams streams{out, err};
  Action action;
  SendOptions send_options;
  SendOptions replay_options;
  ConvertOptions convert_options;
  ReconOptions recon_options;
  recon_options.resources = resources;
  SimulateOptions simulate_options;
  CompareOptions compare_options;
  ExportOptions export_options;
  std::string info_file;
  HealthOptions health_options;
  add_send(app, streams, action, send_options);
  add_replay(app, streams, action, replay_options);
  add_convert(app, streams, action, convert_options);
  add_recon(app, streams, action, recon_options);
  add_simulate(app, streams, action, simulate_options);
  add_compare(app, streams, action, compare_options);
  add_export(app, streams, action, export_options);
  add_info(app, streams, action, info_file);
  add_health(app, streams, action, health_options);
  return parse_and_do(app, argc, argv, streams, action);
}

int run_ranks(int argc, const char* const* argv, const std::string& version, const numerics::ResourceOptions& resources,
              Followers* followers, std::ostream& out, std::ostream& err) {
  CLI::App app(
      "Reconstructs a file, or a stream on stdin, like `echotrain recon`, by the processes that MPI has started, on "
      "one "
      "machine or many. fhd with method: exact and pcg share out their work. Only the first process (rank 0) reads and "
      "writes files.",
      "echotrain-ranks");
  app.set_version_flag("--version", "echotrain-ranks " + version);
  ReconOptions options;
  options.followers = followers;
  options.resources = resources;
  add_recon_options(app, options);
  app.footer(
      "Examples:\n"
      "  mpirun -n 4 echotrain-ranks scan.h5 -c fhd_pcg_3d -o images.h5\n"
      "  mpirun --host node1,node2 --map-by ppr:1:node --bind-to none echotrain-ranks scan.h5 -c my_pipeline.yaml -o "
      "images.h5\n"
      "  mpirun -n 2 echotrain-ranks scan.h5 -c fhd_pcg_3d -o images.h5 --backend cuda        (a GPU for each)\n"
      "  echotrain convert scan.h5 - | mpirun -n 2 echotrain-ranks - -c fhd_pcg_3d > images.mrd");
  const Streams streams{out, err};
  return parse_and_do(app, argc, argv, streams, [&] { return do_recon(options, streams); });
}

}  // namespace echotrain::client
