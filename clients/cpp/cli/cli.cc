#include "clients/cpp/cli/cli.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <string>
#include <system_error>

#include "clients/cpp/base/errors.h"
#include "clients/cpp/images/compare.h"
#include "clients/cpp/images/export.h"
#include "clients/cpp/recon/recon.h"
#include "clients/cpp/recon/recon_stream.h"
#include "clients/cpp/scans/convert.h"
#include "clients/cpp/scans/info.h"
#include "clients/cpp/scans/noise.h"
#include "clients/cpp/scans/verify.h"
#include "clients/cpp/send/health.h"
#include "clients/cpp/send/replay.h"
#include "clients/cpp/send/send.h"
#include "clients/cpp/send/watch.h"
#include "clients/cpp/simulate/simulate.h"
#include "config/command_line.h"

namespace echotrain::client {
namespace {

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

void add_send(config::Command& program, Streams streams) {
  config::Command& command =
      program.add_command("send", "stream a file to a server and write the images that come back");
  command.examples(
      "Examples:\n"
      "  echotrain send scan.h5 -c radial_2d -o images.h5\n"
      "  echotrain send scan.h5 -c radial_2d -a recon.example -p 9003 --tls --ca ca.pem -o images.h5\n"
      "  echotrain send scan.h5 -c my_pipeline.yaml -a scanner -p 9002 -o images.h5 --rate 200 --progress\n"
      "  echotrain send scan.h5 -c radial_2d -o images.h5 --truth scan.h5 --png pictures --summary summary.txt\n"
      "  echotrain send scan.h5 -c radial_realtime -o images.h5 --rate 333 --latency");
  command.act([streams, given = command.add(send_options())] {
    const auto o = given.read();
    refuse_overwriting(o.input, o.output);
    return send(o, streams.out, streams.err);
  });
}

void add_replay(config::Command& program, Streams streams) {
  config::Command& command = program.add_command("replay", "send a raw capture to a server again");
  command.examples(
      "Examples:\n"
      "  echotrain replay 20260131T120000Z-s17-8c1f03d2.mrd -o images.h5\n"
      "  echotrain replay 20260131T120000Z-s17-8c1f03d2.mrd -c my_pipeline.yaml -o images.h5 --rate 200");
  command.act([streams, given = command.add(replay_options())] {
    const auto o = given.read();
    refuse_overwriting(o.input, o.output);
    return replay(o, streams.out, streams.err);
  });
}

void add_convert(config::Command& program, Streams streams) {
  config::Command& command = program.add_command(
      "convert", "make an ISMRMRD HDF5 file, a stream of messages or an MRD 2 stream of another of these");
  command.examples(
      "Examples:\n"
      "  echotrain convert 20260131T120000Z-s17-8c1f03d2.mrd scan.h5\n"
      "  echotrain convert scan.h5 scan.mrd -c radial_2d\n"
      "  echotrain convert scan.mrd2 scan.h5\n"
      "  echotrain convert images.h5 images.mrd2 --to mrd2\n"
      "  echotrain convert scan.h5 - | echotrain recon - -c radial_2d | echotrain convert - images.h5");
  command.act([streams, given = command.add(convert_options())] {
    const auto o = given.read();
    refuse_overwriting(o.input, o.output);
    return convert(o, streams.out, streams.err);
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

void add_recon(config::Command& program, const numerics::ResourceOptions& resources, Streams streams) {
  config::Command& command =
      program.add_command("recon", "reconstruct a file, or a stream on stdin, in this process, without a server");
  command.examples(
      "Examples:\n"
      "  echotrain recon scan.h5 -c spiral_2d -o images.h5\n"
      "  echotrain recon scan.h5 -c my_pipeline.yaml -o images.h5 --backend cuda --save-after gridding grid.h5\n"
      "  echotrain recon scan.h5 -c radial_2d -o images.h5 --truth scan.h5 --png pictures\n"
      "  echotrain convert scan.h5 - | echotrain recon - -c radial_2d > images.mrd");
  command.act([streams, resources, given = command.add(recon_options())] {
    ReconOptions o = given.read();
    o.resources = resources;
    refuse_to_be_one_of_several();
    return do_recon(o, streams);
  });
}

void add_simulate(config::Command& program, Streams streams) {
  config::Command& command =
      program.add_command("simulate", "make a scan of a phantom: analytic k-space, or echoes of plane waves");
  command.examples(
      "Examples:\n"
      "  echotrain simulate -o scan.h5 --trajectory golden_radial --readouts 55 --frames 16 --noise 1\n"
      "  echotrain simulate -o scan.h5 --trajectory cartesian --matrix 192 --oversampling 2 --noise 1 --noise-scan\n"
      "  echotrain simulate -o scan.h5 --trajectory spiral --phantom blob --coils 1 --readouts 16\n"
      "  echotrain simulate -o scan.h5 --trajectory cartesian --motion cardiac --matrix 256 --readouts 192 --phases 13 "
      "--heart-rate 500 --tr-ms 7.9\n"
      "  echotrain simulate -o scan.h5 --trajectory kooshball --phantom ellipsoids_3d --contrasts 3 --coils 1 "
      "--readouts 1078 --samples 264\n"
      "  echotrain simulate -o scan.h5 --modality ultrasound --phantom speckle --matrix 512 --angles 11");
  command.act([streams, given = command.add(simulate_options())] {
    simulate(read_simulate_options(given), streams.out);
    return 0;
  });
}

void add_compare(config::Command& program, Streams streams) {
  config::Command& command =
      program.add_command("compare", "NRMSE, PSNR and best scale of one file's images against another's");
  command.examples(
      "Examples:\n"
      "  echotrain compare ours.h5 theirs.h5\n"
      "  echotrain compare ours.h5 theirs.h5 --index-a -1 --index-b 0 --scale real --max-nrmse 1e-5");
  command.act([streams, given = command.add(compare_options())] { return compare(given.read(), streams.out); });
}

void add_export(config::Command& program, Streams streams) {
  config::Command& command =
      program.add_command("export", "write images as PNG pictures, GIF animations, NIfTI volumes or DICOM files");
  command.examples(
      "Examples:\n"
      "  echotrain export images.h5 --png pictures\n"
      "  echotrain export cine.h5 --gif pictures --fps 15 --window 0 1.2\n"
      "  echotrain export volumes.h5 --nifti volumes\n"
      "  echotrain export images.h5 --dicom dicom\n"
      "  echotrain export images.h5 --dicom dicom --dicom-enhanced");
  command.act([streams, given = command.add(export_options())] {
    export_images(given.read(), streams.out);
    return 0;
  });
}

void add_info(config::Command& program, Streams streams) {
  config::Command& command = program.add_command("info", "say what an ISMRMRD file holds");
  command.examples("Example:\n  echotrain info scan.h5");
  command.act([streams, given = command.add(info_options())] {
    info(given.read(), streams.out);
    return 0;
  });
}

void add_noise(config::Command& program, Streams streams) {
  config::Command& command = program.add_command(
      "noise", "noise of each coil, and coils whose noise is correlated: of a file, or as a server keeps it");
  command.examples(
      "Examples:\n"
      "  echotrain noise scan.h5\n"
      "  echotrain noise --server recon.example:9002 --id 66056_107201_107210_424");
  command.act([streams, given = command.add(noise_options())] {
    noise(given.read(), streams.out);
    return 0;
  });
}

void add_verify(config::Command& program, Streams streams) {
  config::Command& command = program.add_command(
      "verify",
      "check raw captures by their checksums; exit 0 if all are right, 1 if one is damaged or was not finished, 2 if "
      "one cannot be checked");
  command.examples(
      "Examples:\n"
      "  echotrain verify 20260131T120000Z-s17-8c1f03d2.mrd\n"
      "  echotrain verify /srv/captures/*.mrd");
  command.act(
      [streams, given = command.add(verify_options())] { return verify(given.read(), streams.out, streams.err); });
}

void add_health(config::Command& program, Streams streams) {
  config::Command& command =
      program.add_command("health", "ask a server's admin port whether it takes scans; exit 0 if it does");
  command.examples(
      "Examples:\n"
      "  echotrain health\n"
      "  echotrain health -a recon.example --path /sessions");
  command.act([streams, given = command.add(health_options())] { return health(given.read(), streams.out); });
}

void add_watch(config::Command& program, Streams streams) {
  config::Command& command =
      program.add_command("watch", "show a server's scans, delays and newest image in the terminal, until Ctrl-C");
  command.examples(
      "Examples:\n"
      "  echotrain watch\n"
      "  echotrain watch recon.example --token-file token --once");
  command.act([streams, given = command.add(watch_options())] {
    return watch(given.read(), streams.out, ::isatty(STDOUT_FILENO) != 0);
  });
}

int run_program(config::Command& program, const char* name, int argc, const char* const* argv, Streams streams) {
  try {
    return program.run(argc, argv, streams.out, streams.err);
  } catch (const UsageError& error) {
    streams.err << name << ": " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    streams.err << name << ": " << error.what() << '\n';
    return 1;
  }
}

}  // namespace

int run(int argc, const char* const* argv, const std::string& version, const numerics::ResourceOptions& resources,
        std::ostream& out, std::ostream& err) {
  config::Command program("echotrain",
                          "Echotrain's command line: make, send, reconstruct and look at MRI scans (ISMRMRD HDF5 "
                          "files).");
  program.version("echotrain " + version);
  program.examples(
      "Examples:\n"
      "  echotrain simulate -o scan.h5 --trajectory golden_radial --frames 4\n"
      "  echotrain recon scan.h5 -c radial_2d -o images.h5 --truth scan.h5\n"
      "  echotrain send scan.h5 -c radial_2d -o images.h5        (needs a running echotrain-server)\n"
      "Each command has a --help of its own.");
  const Streams streams{out, err};
  add_send(program, streams);
  add_replay(program, streams);
  add_convert(program, streams);
  add_recon(program, resources, streams);
  add_simulate(program, streams);
  add_compare(program, streams);
  add_export(program, streams);
  add_info(program, streams);
  add_noise(program, streams);
  add_verify(program, streams);
  add_health(program, streams);
  add_watch(program, streams);
  return run_program(program, "echotrain", argc, argv, streams);
}

int run_ranks(int argc, const char* const* argv, const std::string& version, const numerics::ResourceOptions& resources,
              Followers* followers, std::ostream& out, std::ostream& err) {
  config::Command program(
      "echotrain-ranks",
      "Reconstructs a file, or a stream on stdin, like `echotrain recon`, by the processes that MPI has started, on "
      "one machine or many. fhd with method: exact and pcg share out their work. Only the first process (rank 0) reads "
      "and writes files.");
  program.version("echotrain-ranks " + version);
  program.examples(
      "Examples:\n"
      "  mpirun -n 4 echotrain-ranks scan.h5 -c fhd_pcg_3d -o images.h5\n"
      "  mpirun --host node1,node2 --map-by ppr:1:node --bind-to none echotrain-ranks scan.h5 -c my_pipeline.yaml -o "
      "images.h5\n"
      "  mpirun -n 2 echotrain-ranks scan.h5 -c fhd_pcg_3d -o images.h5 --backend cuda        (a GPU for each)\n"
      "  echotrain convert scan.h5 - | mpirun -n 2 echotrain-ranks - -c fhd_pcg_3d > images.mrd");
  const Streams streams{out, err};
  program.act([&, given = program.add(recon_options())] {
    ReconOptions o = given.read();
    o.followers = followers;
    o.resources = resources;
    return do_recon(o, streams);
  });
  return run_program(program, "echotrain-ranks", argc, argv, streams);
}

}  // namespace echotrain::client
