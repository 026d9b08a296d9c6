"""python -m echotrain: send, view, convert, info, physiology and girf."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import warnings
from typing import Any, Dict, Optional, Sequence, Union

from . import __version__
from .arrays import DEFAULT_AXES, UNITS
from .cfl import is_cfl, read_cfl
from .client import Client
from .commands.girf import convert_girf
from .commands.output import Output
from .commands.physiology import convert as convert_physiology
from .commands.view import Viewer, can_show
from .errors import EchotrainError, ServerWarning
from .files import is_array_file
from .hdf5 import Hdf5Scan, read_images, write_scan
from .header import Header
from .plot import require_matplotlib
from .scan import from_array, make_scan

_EXAMPLES = """examples:
  python -m echotrain send scan.h5 -c radial_2d -o images.h5
  python -m echotrain send scan.h5 -c my_pipeline.yaml -o pictures/ -a recon.example -p 9003 --tls --ca ca.pem
  python -m echotrain send kspace.npy --trajectory spokes.npy --matrix 192 -c radial_2d -o images.npy
  python -m echotrain view scan.h5 -c radial_realtime --rate 200
  python -m echotrain convert kspace.mat scan.h5 --axes "line sample coil"
  python -m echotrain info scan.h5
  python -m echotrain info -a recon.example
  python -m echotrain physiology ticks.npy --readout-ms 3.8 -o beats.txt
  python -m echotrain girf measured.h5 -o assets/girf.h5 --highest-khz 20
"""


def _sizes(text: str) -> Union[float, Sequence[float]]:
    values = [float(part) for part in text.replace("x", ",").split(",")]
    return values[0] if len(values) == 1 else values


class _Port(argparse.Action):
    """A port; and, of `-p`, for one more release, a pipeline's name, which never begins with a digit."""

    def __call__(
        self, parser: argparse.ArgumentParser, given: argparse.Namespace, value: Any, flag: Optional[str] = None
    ) -> None:
        if value.isascii() and value.isdigit() and 0 < int(value) < 65536:
            given.port = int(value)
        elif flag == "-p" and not value[:1].isdigit() and hasattr(given, "pipeline"):
            given.pipeline = value
            print("warning: -p NAME is now -c NAME; from the next release on -p is only the port", file=sys.stderr)
        else:
            parser.error(f"argument {flag}: {value!r} is no port: give 1 to 65535")


def _add_server(parser: argparse.ArgumentParser, default_host: Optional[str]) -> None:
    server = parser.add_argument_group("server")
    server.add_argument("-a", "--address", "--host", dest="host", default=default_host,
                        help="its host (default: 127.0.0.1)")  # fmt: skip
    server.add_argument("-p", "--port", action=_Port, default=9002, help="its port (default: %(default)s)")
    server.add_argument("--tls", action="store_true", help="connect with TLS, to its TLS port")
    server.add_argument("--ca", metavar="FILE.pem", help="certificates to trust (default: those of this system)")
    server.add_argument("--cert", metavar="FILE.pem", help="our own certificate, for servers that want one")
    server.add_argument("--key", metavar="FILE.pem", help="its private key")
    server.add_argument(
        "--token-file", metavar="FILE", help="file with the token (or ECHOTRAIN_TOKEN in the environment)"
    )
    server.add_argument("--timeout", type=float, default=60.0, help="seconds to connect and to send (default: 60)")


def _add_scan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("scan", help="ISMRMRD file (.h5), BART pair (.cfl) or k-space array (.npy, .mat, .nii)")
    parser.add_argument("-c", "--config", "--pipeline", dest="pipeline", metavar="NAME|FILE.yaml",
                        help="pipeline: a name known to the server, or a .yaml file here")  # fmt: skip
    parser.add_argument("-g", "--group", default="dataset", help="group of an ISMRMRD file (default: %(default)s)")
    parser.add_argument("--rate", type=float, help="readouts per second (default: as fast as possible)")
    _add_arrays(parser)


def _add_arrays(parser: argparse.ArgumentParser) -> None:
    usual = "; ".join(" ".join(axes) for axes in DEFAULT_AXES.values())
    arrays = parser.add_argument_group("k-space arrays")
    arrays.add_argument(
        "--trajectory", metavar="FILE", help=".npy [line, sample, dimension], or BART's for a BART scan"
    )
    arrays.add_argument("--variable", metavar="NAME", help="array of a .mat file (default: its only complex one)")
    arrays.add_argument("--density", metavar="FILE", help=".npy [line, sample] of weights")
    arrays.add_argument("--noise", metavar="FILE", help=".npy [coil, sample] of noise")
    arrays.add_argument("--matrix", type=_sizes, metavar="N|X,Y[,Z]", help="size of the image in voxels")
    arrays.add_argument(
        "--fov", type=_sizes, metavar="MM|X,Y[,Z]", help="its field of view in mm (default: 1 mm voxels)"
    )
    arrays.add_argument("--axes", help=f"names of the array's axes (usually: {usual})")
    arrays.add_argument("--trajectory-unit", choices=UNITS, help="default: cycles_per_pixel; BART's: cycles_per_fov")
    arrays.add_argument("--trajectory-type", help="radial, goldenangle, spiral, other (default) or cartesian")
    arrays.add_argument(
        "--header", metavar="FILE.xml", help="ISMRMRD header in place of --matrix and --fov, or of the file's header"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m echotrain",
        description="Client of the Echotrain MRI reconstruction server.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"echotrain {__version__} (Python client)")
    commands = parser.add_subparsers(dest="command", required=True)

    send = commands.add_parser("send", help="send a scan and write the images that come back")
    recon = commands.add_parser("recon", help="what `send` was called before")
    for each in (send, recon):
        _add_scan(each)
        each.add_argument(
            "-o", "--output", required=True, help="OUT.h5, OUT.npy, OUT.cfl, OUT.nii[.gz], or a folder for PNG pictures"
        )
        each.add_argument("-q", "--quiet", action="store_true", help="no progress")
        _add_server(each, "127.0.0.1")

    view = commands.add_parser("view", help="send a scan and show the images while they come")
    _add_scan(view)
    view.add_argument("--snapshot", metavar="FILE.png", help="write what the window shows at the end, and exit")
    _add_server(view, "127.0.0.1")

    convert = commands.add_parser("convert", help="write an array as a scan, or a scan's images as other files")
    convert.add_argument("scan", help="k-space (.cfl, .npy, .mat, .nii), or an ISMRMRD file with images")
    convert.add_argument("output", help="OUT.h5 for k-space; for images also .cfl, .npy, .nii[.gz], or a folder for PNG")
    convert.add_argument("-g", "--group", default="dataset", help="group of an ISMRMRD file (default: %(default)s)")
    _add_arrays(convert)

    info = commands.add_parser(
        "info", help="show what an ISMRMRD file or a BART pair holds, or what a server says of itself"
    )
    info.add_argument("file", nargs="?", help="a file; without one, the server is asked")
    info.add_argument("-g", "--group", default="dataset", help="group of an ISMRMRD file (default: %(default)s)")
    _add_server(info, None)

    physiology = commands.add_parser(
        "physiology", help="write the R waves that stamps of readouts tell of, for `echotrain simulate --physiology`"
    )
    physiology.add_argument(
        "stamps", help=".npy of ticks since the R wave, [readout] or [frame, partition, spoke] of a stack of stars"
    )
    physiology.add_argument("-o", "--output", required=True, metavar="FILE", help="text to write")
    physiology.add_argument("--readout-ms", type=float, required=True, help="time from one readout to the next")
    physiology.add_argument("--tick-ms", type=float, default=2.5, help="unit of the stamps (default: %(default)s)")

    girf = commands.add_parser(
        "girf", help="write measured impulse responses of gradients as an asset for `trajectory_correction`"
    )
    girf.add_argument(
        "responses",
        help=".h5 with the arrays frequency_khz, girf_x, girf_y, girf_z, or a text with 7 numbers in a line: the "
        "frequency [kHz], and real and imaginary parts of X, Y, Z",
    )
    girf.add_argument("-o", "--output", required=True, metavar="OUT.h5", help="file to write")
    girf.add_argument("--highest-khz", type=float, default=float("inf"), help="leave out what lies beyond")
    return parser


def _client(given: argparse.Namespace) -> Client:
    token: Optional[str] = None
    if given.token_file:
        try:
            lines = pathlib.Path(given.token_file).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise EchotrainError(f"--token-file {given.token_file}: {error.strerror}") from None
        token = lines[0].strip() if lines else ""
        if not token:
            raise EchotrainError(f"--token-file {given.token_file}: its first line is empty")
    return Client(
        given.host or "127.0.0.1",
        given.port,
        tls=given.tls,
        ca=given.ca,
        cert=given.cert,
        key=given.key,
        token=token,
        timeout=given.timeout,
    )


def _scan_options(given: argparse.Namespace) -> Dict[str, Any]:
    names = ["trajectory", "density", "noise", "matrix", "fov", "axes", "trajectory_unit", "trajectory_type"]
    names += ["variable", "group"]
    options = {name: getattr(given, name) for name in names}
    if given.header:
        try:
            options["header"] = pathlib.Path(given.header).read_text(encoding="utf-8")
        except OSError as error:
            raise EchotrainError(f"--header {given.header}: {error.strerror}") from None
    return options


def _refuse_same(given: argparse.Namespace) -> None:
    if os.path.exists(given.output) and os.path.exists(given.scan) and os.path.samefile(given.output, given.scan):
        raise EchotrainError(f"{given.output}: this is the scan itself, which would be lost")


def _convert(given: argparse.Namespace) -> int:
    _refuse_same(given)
    if is_array_file(given.scan):
        if not given.output.endswith((".h5", ".hdf5")):
            raise EchotrainError(f"{given.output}: k-space becomes an ISMRMRD file: end it with .h5")
        options = _scan_options(given)
        scan = from_array(given.scan, options.pop("trajectory"), **options)
        print(f"{given.output}: {write_scan(given.output, scan)} readouts")
        return 0
    output = Output(given.output, "")
    for image in read_images(given.scan, given.group):
        output.add(image)
    output.finish()
    if not output.images:
        raise EchotrainError(f"{given.scan}: has no images; `echotrain convert` of the C++ client takes scans")
    print(f"{output.images} images in {given.output}")
    return 0


def _send(given: argparse.Namespace) -> int:
    if given.command == "recon":
        print("warning: this recon is now called send, and goes in the next release; `echotrain recon` of the C++ "
              "client needs no server", file=sys.stderr)  # fmt: skip
    _refuse_same(given)
    options = _scan_options(given)
    # Refuses a bad scan before the output is touched.
    scan = make_scan(given.scan, options.pop("trajectory"), **options)
    output = Output(given.output, scan.xml)
    with _client(given) as client:
        try:
            coming = client.reconstruct(
                scan, pipeline=given.pipeline, rate=given.rate, progress=not given.quiet, require_images=False
            )
            for image in coming:
                output.add(image)
        finally:
            output.finish()
    if not output.images:
        raise EchotrainError("the scan gave no image; nothing was written")
    print(f"{output.images} images in {given.output}")
    return 0


def _view(given: argparse.Namespace) -> int:
    pyplot = require_matplotlib()
    if not given.snapshot and not can_show(pyplot):
        raise EchotrainError(
            f"matplotlib has no windows here (its backend is {pyplot.get_backend()}); set MPLBACKEND, connect with a "
            "display, or give --snapshot FILE.png"
        )
    viewer = Viewer(f"Echotrain: {given.scan}")
    with _client(given) as client:
        options = _scan_options(given)
        trajectory = options.pop("trajectory")
        coming = client.reconstruct(
            given.scan,
            trajectory,
            given.pipeline,
            rate=given.rate,
            progress=lambda progress: viewer.update(),
            require_images=False,
            **options,
        )
        for image in coming:
            viewer.add(image)
            if not viewer.open:
                print("the window was closed; ending the scan")
                return 0
    viewer.update(at_once=True)
    print(f"{viewer.images} images")
    if given.snapshot:
        viewer.save(given.snapshot)
    elif viewer.images:
        viewer.wait()
    return 0


def _info(given: argparse.Namespace) -> int:
    if given.file is None:
        with _client(given) as client:
            version = client.query("echotrain::version")
            print(f"server {client.address}: Echotrain {version}; Python client {__version__}")
            print(client.query("echotrain::pipelines"))
        return 0
    if is_cfl(given.file):
        array = read_cfl(given.file)
        print(f"{given.file}: BART, {' x '.join(str(n) for n in array.shape)}")
        return 0
    scan = Hdf5Scan(given.file, given.group)
    print(f"{given.file}, group {given.group}: {scan.readouts} readouts, {scan.waveforms} waveforms")
    if scan.xml:
        header = Header.parse(scan.xml)
        for name, matrix, fov in (
            ("encoded", header.matrix, header.fov),
            ("image", header.recon_matrix or header.matrix, header.recon_fov or header.fov),
        ):
            voxels, lengths = (" x ".join(f"{size:g}" for size in sizes) for sizes in (matrix, fov))
            print(f"  {name}: {voxels} voxels, {lengths} mm")
        print(f"  trajectory: {header.trajectory}")
        for name, (low, high, _) in header.limits.items():
            print(f"  {name}: {low} to {high}")
    if scan.readouts:
        print(f"  first readout: {next(item for item in scan if hasattr(item, 'trajectory'))!r}"[:-1].replace("<", ""))
    for series, count in scan.series.items():
        print(f"  {series}: {count} images")
    return 0


def _physiology(given: argparse.Namespace) -> int:
    count = convert_physiology(given.stamps, given.output, given.readout_ms, given.tick_ms)
    print(f"{given.output}: {count} R waves")
    return 0


def _girf(given: argparse.Namespace) -> int:
    points = convert_girf(given.responses, given.output, given.highest_khz)
    print(f"{given.output}: responses at {points} frequencies")
    return 0


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    if not getattr(given, "pipeline", True):
        parser.error(f"{given.command}: give a pipeline: -c NAME or -c FILE.yaml")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ServerWarning)
            warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
            commands = {
                **{"send": _send, "recon": _send, "view": _view, "convert": _convert, "info": _info},
                **{"physiology": _physiology, "girf": _girf},
            }
            return commands[str(given.command)](given)
    except (EchotrainError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
