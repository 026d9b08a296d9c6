"""echotrain-ranks: a scan by the processes that mpirun has started gives the images of one process, or ends in time."""

import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

import balanced
import scans
from programs import BIN, run_client, simulated_scan, variant

PROGRAM = BIN / "echotrain-ranks"
MPIRUN = shutil.which("mpirun")
pytestmark = [
    pytest.mark.skipif(MPIRUN is None, reason="no mpirun was found (./run setup ranks)"),
    pytest.mark.skipif(not PROGRAM.exists(), reason="this build has no echotrain-ranks: it was configured without MPI"),
]
ENVIRONMENT = {
    **os.environ,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "ECHOTRAIN_THREADS": "1",
}

EXACT = ("method: auto, accuracy: 1.2e-6", "method: exact")
COILS = (("coil_combine: {method: rss}", "coil_combine: {method: none}"), ("component: magnitude", "component: complex"))


def sense():
    return variant("cg_sense_2d", ("method: nufft, accuracy: 1e-4", "method: exact"), ("component: magnitude", "component: complex"),
                   ("iterations: 12, tolerance: 1e-4", "iterations: 40, tolerance: 1e-6"))  # fmt: skip


PIPELINES = {
    # Each coil is an image of its own: nothing is added up between ranks, and the bits are those of one process.
    "exact, each coil": (variant("fhd_pcg_2d", EXACT, *COILS, ("iterations: 60", "iterations: 10")), 0),
    "exact, 3D": (variant("fhd_pcg_3d", EXACT, *COILS, ("iterations: 60", "iterations: 5")), 0),
    "exact, all coils": (sense(), 1e-4),
    "not shared out": (variant("radial_2d"), 0),
}


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranks")
    made = {}
    for dims, options in {
        2: ("--trajectory", "golden_radial", "--matrix", 64, "--readouts", 55, "--frames", 2),
        3: ("--trajectory", "kooshball", "--phantom", "ellipsoids_3d", "--matrix", 32, "--readouts", 300, "--samples", 48),
    }.items():
        made[dims] = folder / f"scan{dims}.h5"
        simulated_scan(made[dims], "--coils", 5, "--noise", 0.01, "--no-truth", *options)
    return made


def command(ranks, *arguments):
    return [MPIRUN, "-n", str(ranks), str(PROGRAM), *(str(a) for a in arguments)]


def run_ranks(ranks, *arguments, **options):
    return subprocess.run(command(ranks, *arguments), capture_output=True, timeout=120, env=ENVIRONMENT, **options)


def images_of(path):
    return scans.read_images(path)[1]


@pytest.mark.parametrize("name", PIPELINES)
def test_images_are_those_of_one_process(scan, tmp_path, name):
    text, tolerance = PIPELINES[name]
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(text)
    source = scan[3 if "3D" in name else 2]
    one = tmp_path / "one.h5"
    result = run_client("recon", source, "-c", pipeline, "-o", one, "--backend", "cpu")
    assert result.returncode == 0, result.stderr
    truth = images_of(one)
    assert len(truth) == (1 if "3D" in name else 2)
    for ranks in (2, 4):
        output = tmp_path / f"{ranks}.h5"
        result = run_ranks(ranks, source, "-c", pipeline, "-o", output, "--backend", "cpu")
        assert result.returncode == 0, result.stderr.decode()
        assert f"{ranks} ranks".encode() in result.stdout
        images = images_of(output)
        assert len(images) == len(truth)
        for image, expected in zip(images, truth):
            if tolerance == 0:
                assert image.tobytes() == expected.tobytes()
            else:
                assert np.linalg.norm(image - expected) < tolerance * np.linalg.norm(expected)


def test_a_stream_is_answered_by_a_stream(scan, tmp_path):
    """stdin reaches rank 0 and its stdout comes through, as with `echotrain recon -`."""
    stream = subprocess.run([BIN / "echotrain", "convert", scan[2], "-", "-c", "fhd_pcg_2d"], capture_output=True, timeout=60)
    assert stream.returncode == 0, stream.stderr
    one = subprocess.run([BIN / "echotrain", "recon", "-", "--backend", "cpu"], input=stream.stdout, capture_output=True,
                         timeout=60, env=ENVIRONMENT)  # fmt: skip
    assert one.returncode == 0, one.stderr
    two = run_ranks(2, "-", "--backend", "cpu", input=stream.stdout)
    assert two.returncode == 0, two.stderr
    assert two.stdout == one.stdout


def test_what_cannot_be_done_is_said_once(scan, tmp_path):
    output = tmp_path / "out.h5"
    wrong = run_ranks(3, scan[3], "-c", "fhd_pcg_2d", "-o", output)
    assert wrong.returncode != 0
    assert wrong.stderr.count(b"2D data, but the header") == 1, wrong.stderr.decode()
    unknown = run_ranks(2, scan[2], "-c", "no_such_pipeline", "-o", output)
    assert unknown.returncode == 2
    assert unknown.stderr.count(b"no pipeline is called 'no_such_pipeline'") == 1
    assert not output.exists()


def test_recon_itself_is_not_started_by_mpirun(scan, tmp_path):
    result = subprocess.run([MPIRUN, "-n", "2", BIN / "echotrain", "recon", scan[2], "-c", "radial_2d", "-o", tmp_path / "x.h5"],
                            capture_output=True, timeout=60, env=ENVIRONMENT)  # fmt: skip
    assert result.returncode == 2
    assert b"start echotrain-ranks" in result.stderr


def children(pid):
    tasks = f"/proc/{pid}/task/{pid}/children"
    with open(tasks) as file:
        return [int(child) for child in file.read().split()]


def runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("rank", [0, 2])
def test_a_rank_that_is_killed_ends_the_scan(scan, tmp_path, rank):
    """mpirun ends the other ranks and names the one that died; no rank waits."""
    pipeline = tmp_path / "long.yaml"
    pipeline.write_text(sense().replace("iterations: 40, tolerance: 1e-6", "iterations: 10000, tolerance: 0"))
    output = tmp_path / "out.h5"
    process = subprocess.Popen(command(3, scan[2], "-c", pipeline, "-o", output, "--backend", "cpu"),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)  # fmt: skip
    try:
        end = time.monotonic() + 60
        while not output.exists():  # it is made when all have begun
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.05)
        ranks = {}
        for child in children(process.pid):
            with open(f"/proc/{child}/environ", "rb") as file:
                variables = dict(v.split(b"=", 1) for v in file.read().split(b"\0") if b"=" in v)
            ranks[int(variables[b"OMPI_COMM_WORLD_RANK"])] = child
        assert sorted(ranks) == [0, 1, 2]
        os.kill(ranks[rank], signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
        assert process.returncode != 0
        assert f"process rank {rank}".encode() in errors and b"signal 9" in errors, errors.decode()
        while any(runs(child) for child in ranks.values()):
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture
def two_machines(tmp_path):
    """Runs echotrain-ranks on two machines that only have a network in common; for mpirun, a script stands for ssh."""
    balanced.require(("ip", "unshare", "hostname"))
    network = balanced.Network(1)
    agent = tmp_path / "agent"
    agent.write_text(f'#!/bin/sh\nshift\nexec ip netns exec {network.space("s1")} unshare -u sh -c "hostname nodeb; $*"\n')
    agent.chmod(0o755)
    keepalive = [f for key, value in {"time": 4, "intvl": 1, "probes": 3}.items()
                 for f in ("--mca", f"oob_tcp_keepalive_{key}", value)]  # fmt: skip

    def command(*arguments):
        return network.command("lb", "unshare", "-u", "sh", "-c", 'hostname nodea; exec "$@"', "sh", MPIRUN,
                               "--host", f"{balanced.BACK}.1,{balanced.BACK}.11", "--map-by", "ppr:1:node", "--bind-to",
                               "none", "--mca", "plm_rsh_agent", agent, *keepalive, PROGRAM, *arguments)  # fmt: skip

    command.network = network
    yield command
    network.remove()


def test_two_machines(scan, tmp_path, two_machines):
    """Over TCP the images are the same; when the cable between machines is pulled, mpirun says so and ends the scan."""
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(variant("fhd_pcg_3d", EXACT, *COILS, ("iterations: 60", "iterations: 5")))
    one, two = tmp_path / "one.h5", tmp_path / "two.h5"
    result = run_client("recon", scan[3], "-c", pipeline, "-o", one, "--backend", "cpu")
    assert result.returncode == 0, result.stderr
    options = ("--backend", "cpu", "-c", pipeline, "-o")
    result = subprocess.run(two_machines(scan[3], *options, two), capture_output=True, timeout=120, env=ENVIRONMENT)
    assert result.returncode == 0, result.stderr.decode()
    assert images_of(two).tobytes() == images_of(one).tobytes()

    pipeline.write_text(sense().replace("iterations: 40, tolerance: 1e-6", "iterations: 10000, tolerance: 0"))
    two.unlink()
    process = subprocess.Popen(two_machines(scan[2], *options, two), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=ENVIRONMENT)  # fmt: skip
    try:
        balanced.wait_until(lambda: two.exists() or process.poll() is not None, "the scan to begin", 60)
        two_machines.network.set_link("s1", "down")
        _, errors = process.communicate(timeout=90)
        assert process.returncode != 0
        assert b"daemon" in errors, errors.decode()  # of mpirun, on the other machine
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
