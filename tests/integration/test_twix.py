"""Siemens raw data (twix) beside two other readers of it, twixtools and pymapvbvd: samples bit by bit, heads, geometry, images.

The measured files have one measurement each; files of several are made by joining measurements under one directory."""

import re
import struct

import numpy as np
import pytest

import reference
import scans
from programs import measured, raw_coils, run_client

twixtools = pytest.importorskip("twixtools", reason="needs twixtools (pip install twixtools)")
mapvbvd = pytest.importorskip("mapvbvd", reason="needs pymapvbvd (pip install pymapvbvd)")

FILES = ("gre", "epi", "se_pulseq")
DIRECTORY, HEAD, CHANNEL = 10240, 192, 32
NOISE_BIT, PHASE_CORRECTION_BIT = 25, 21
BANDWIDTH = 0.793  # of the headers of Siemens scanners (docs/siemens.md)


def run_ok(*arguments):
    done = run_client(*arguments)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module", params=FILES)
def name(request):
    measured(f"twix/{request.param}.dat")
    return request.param


_read = {}


def read_by_twixtools(path):
    """The measurement and its readouts."""
    if path not in _read:
        found = twixtools.read_twix(str(path), verbose=False)[-1]
        _read[path] = found, [block for block in found["mdb"] if not block.is_flag_set("SYNCDATA")]
    return _read[path]


@pytest.fixture(scope="module")
def converted(name, tmp_path_factory):
    """(path of the .dat, xml, heads, samples by readout)."""
    path, out = measured(f"twix/{name}.dat"), tmp_path_factory.mktemp(name) / "scan.h5"
    run_ok("convert", path, out)
    xml, heads, _, data = scans.read_acquisitions(out)
    return path, xml, heads, data


def test_samples_and_heads_are_those_of_twixtools(converted):
    path, _, heads, data = converted
    _, blocks = read_by_twixtools(path)
    assert len(data) == len(blocks)
    counters = [int(head["scan_counter"]) for head in heads]
    assert counters == sorted(counters) and len(set(counters)) == len(counters)
    names = dict(kspace_encode_step_1="Lin", kspace_encode_step_2="Par", average="Ave", slice="Sli", contrast="Eco",
                 phase="Phs", repetition="Rep", set="Set", segment="Seg")  # fmt: skip
    for head, samples, block in zip(heads, data, blocks):
        mdh = block.mdh
        assert samples.tobytes() == np.ascontiguousarray(block.data).tobytes()
        for ours, theirs in names.items():
            assert head["idx"][ours] == getattr(mdh.Counter, theirs)
        assert head["scan_counter"] == mdh.ScanCounter
        assert head["acquisition_time_stamp"] == mdh.TimeStamp
        assert head["physiology_time_stamp"][0] == mdh.PMUTimeStamp
        assert head["center_sample"] == mdh.CenterCol
        assert (head["discard_pre"], head["discard_post"]) == (mdh.CutOff.Pre, mdh.CutOff.Post)
        for flag, theirs in ((19, "NOISEADJSCAN"), (22, "REFLECT"), (24, "PHASCOR"), (7, "FIRSTSCANINSLICE"),
                             (8, "LASTSCANINSLICE"), (25, "LASTSCANINMEAS"), (28, "RTFEEDBACK")):  # fmt: skip
            assert bool(int(head["flags"]) >> (flag - 1) & 1) == block.is_flag_set(theirs), theirs
        assert int(head["flags"]) >> 28 & 1 == 0  # no image line is taken for a prescan's


def test_samples_are_those_of_pymapvbvd(converted):
    path, _, heads, data = converted
    found = mapvbvd.mapVBVD(str(path), quiet=True)
    corrections = [bool(int(head["flags"]) >> 23 & 1) for head in heads]
    for kind, wanted in (("image", False), ("phasecor", True)):
        ours = [samples for samples, correction in zip(data, corrections) if correction == wanted]
        if not ours:
            continue
        of = getattr(found, kind)
        of.flagRemoveOS, of.flagRampSampRegrid, of.flagDisableReflect = False, False, True  # as it is in the file
        theirs = np.asarray(of.unsorted())  # [column, coil, readout]
        assert theirs.shape[2] == len(ours)
        for i, samples in enumerate(ours):
            assert np.array_equal(samples, theirs[:, :, i].T)  # it loses the sign of zeros


def numbers(xml, *path):
    """The x, y, z of an element."""
    for element in path:
        xml = re.search(rf"<{element}>(.*?)</{element}>", xml, re.S)[1]
    return [float(re.search(rf"<{axis}>(.*?)<", xml)[1]) for axis in "xyz"]


def test_matrix_field_of_view_and_place_are_those_of_both(converted):
    path, xml, heads, data = converted
    twix, blocks = read_by_twixtools(path)
    geometry = twix["geometry"][0]
    yaps = twix["hdr"]["MeasYaps"]
    image = mapvbvd.mapVBVD(str(path), quiet=True).image
    base, lines = int(yaps["sKSpace"]["lBaseResolution"]), int(yaps["sKSpace"]["lPhaseEncodingLines"])
    oversampling = data[0].shape[1] // base

    encoded, recon = numbers(xml, "encodedSpace", "matrixSize"), numbers(xml, "reconSpace", "matrixSize")
    assert [int(image.NCol), int(image.NLin), int(image.NPar)] == [oversampling * base, lines, 1]
    # EPI's samples lie on ramps of 160 us from 32 us on, and on 240 us between them: 393.6 of the gradient's area in 496 us.
    columns = 2 * int(160 * 393.6 / 496 / 2) if path.stem == "epi" else oversampling * base
    assert encoded == [columns, lines, 1]
    assert recon == [base, lines, 1]
    # twixtools takes every readout for oversampled twice.
    read_mm, phase_mm, thickness_mm = geometry.fov[0] / 2, geometry.fov[1], geometry.fov[2]
    assert numbers(xml, "encodedSpace", "fieldOfView_mm") == [columns * read_mm / base, phase_mm, thickness_mm]
    assert numbers(xml, "reconSpace", "fieldOfView_mm") == [read_mm, phase_mm, thickness_mm]

    to_patient = geometry.prs_to_pcs() @ geometry.rps_to_prs()  # columns: read, phase, slice
    for i, axis in enumerate(("read_dir", "phase_dir", "slice_dir")):
        for head in heads:
            np.testing.assert_allclose(head[axis], to_patient[:, i], atol=2e-6)  # float32
    np.testing.assert_allclose(np.abs(heads[0]["slice_dir"]), np.abs(geometry.normal), atol=2e-6)
    for head in heads:
        np.testing.assert_allclose(head["position"], geometry.offset, atol=1e-4)
    np.testing.assert_allclose(heads[-1]["position"], image.slicePos[-1, :3], atol=1e-4)
    assert f"<patientPosition>{geometry.patient_position}<" in xml
    te, tr = float(re.search("<TE>(.*?)<", xml)[1]), float(re.search("<TR>(.*?)<", xml)[1])
    assert (te, tr) == (float(yaps["alTE"][0]) / 1000, float(yaps["alTR"][0]) / 1000)
    labels = re.findall("<coilName>(.*?)<", xml)
    assert len(labels) == len(set(labels)) == data[0].shape[0]


def test_the_patient_stays_out_unless_asked_for(name, tmp_path):
    twix, _ = read_by_twixtools(measured(f"twix/{name}.dat"))
    weight = twix["hdr"]["Dicom"]["flUsedPatientWeight"]
    bytes_ = measured(f"twix/{name}.dat").read_bytes()
    dated = re.sub(rb'("PatientBirthDay">\s*\{\s*)"x{8}"', rb'\1"19700131"', bytes_)  # x-ed out in these files
    assert len(dated) == len(bytes_) and dated != bytes_
    path = tmp_path / "dated.dat"
    path.write_bytes(dated)
    for options, there in ((), False), (("--patient",), True):
        run_ok("convert", path, tmp_path / "scan.h5", *options)
        xml = scans.read_acquisitions(tmp_path / "scan.h5")[0]
        assert ("subjectInformation" in xml) == there
        assert (f"<patientWeight_kg>{weight:g}<" in xml) == there
        assert ("<patientName>xx" in xml) == there
        assert ("<patientBirthdate>1970-01-31<" in xml, "19700131" in xml) == (there, False)


@pytest.mark.parametrize("name", ["gre", "se_pulseq"])
def test_images_are_the_transform_of_the_samples(name, tmp_path):
    path = measured(f"twix/{name}.dat")
    (tmp_path / "coils.yaml").write_text(raw_coils("cartesian_plain"))
    run_ok("recon", path, "-c", tmp_path / "coils.yaml", "-o", tmp_path / "images.h5")
    _, pixels = scans.read_images(tmp_path / "images.h5")
    twix, blocks = read_by_twixtools(path)
    kspace = np.zeros((blocks[0].data.shape[0], len(blocks), blocks[0].data.shape[1]), np.complex64)
    for block in blocks:
        kspace[:, block.cLin] = block.data
    truth = reference.centred_fft(kspace, int(twix["hdr"]["MeasYaps"]["sKSpace"]["lBaseResolution"]))
    assert reference.nrmse(pixels[0][:, 0], truth) <= 1e-5  # a float32 transform


def test_epi_shows_the_phantom_of_the_gradient_echo(tmp_path):
    """The same slice by EPI: no ghost where the air beside the phantom is, and much the same picture."""
    run_ok("recon", measured("twix/gre.dat"), "-c", "cartesian_2d", "-o", tmp_path / "gre.h5")
    run_ok("recon", measured("twix/epi.dat"), "-c", "epi_2d", "-o", tmp_path / "epi.h5")
    gre = scans.read_images(tmp_path / "gre.h5")[1][0, 0, 0].reshape(80, 2, 80, 2).mean((1, 3))
    epi = scans.read_images(tmp_path / "epi.h5")[1]
    assert epi.shape == (1, 1, 1, 80, 80)
    assert np.corrcoef(gre.ravel(), epi.ravel())[0, 1] > 0.7


def body(path):
    """The measurement of a file of one, header and readouts."""
    bytes_ = path.read_bytes()
    begin, length = struct.unpack_from("<QQ", bytes_, 16)
    return bytes_[begin : begin + length]


def joined(path, *bodies):
    """A file of several measurements, with UIDs 101, 102, ..."""
    directory, rest = bytearray(DIRECTORY), b""
    struct.pack_into("<I", directory, 4, len(bodies))
    for i, each in enumerate(bodies):
        struct.pack_into("<IIQQ", directory, 8 + 152 * i, 101 + i, 1, DIRECTORY + len(rest), len(each))
        rest += each + bytes(-len(each) % 512)
    path.write_bytes(bytes(directory) + rest)
    return path


def as_noise(measurement, seed=5):
    """A measurement whose readouts are noise that its coils share; returns it and the samples [coil, sample]."""
    out = bytearray(measurement)
    (at,) = struct.unpack_from("<I", out, 0)
    random, all_samples = np.random.default_rng(seed), []
    while True:
        (mask,), (samples, channels) = struct.unpack_from("<Q", out, at + 40), struct.unpack_from("<HH", out, at + 48)
        if mask & 1:
            return bytes(out), np.concatenate(all_samples, axis=1)
        struct.pack_into("<Q", out, at + 40, 1 << NOISE_BIT)
        noise = random.standard_normal((channels, 2 * samples)).astype(np.float32).view(np.complex64)
        noise = ((np.eye(channels) + 0.4 * np.tri(channels)) @ noise).astype(np.complex64)
        for c in range(channels):
            begin = at + HEAD + c * (CHANNEL + 8 * samples) + CHANNEL
            out[begin : begin + 8 * samples] = noise[c].tobytes()
        all_samples.append(noise)
        at += HEAD + channels * (CHANNEL + 8 * samples)


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Noise, another scan and a scan in one file; the scan's whitened coil images."""
    noise, samples = as_noise(body(measured("twix/epi.dat")))
    path = joined(tmp_path_factory.mktemp("several") / "meas.dat", noise, body(measured("twix/epi.dat")),
                  body(measured("twix/gre.dat")))  # fmt: skip
    # 7680 us over the samples of a noise readout, cut to tenths; the gradient echo's 11.6 us.
    dwell_ratio = np.floor(76800 / 160) / 10 / 11.6
    whiten = reference.whitening(samples, dwell_ratio, BANDWIDTH)
    _, blocks = read_by_twixtools(measured("twix/gre.dat"))
    kspace = np.stack([block.data for block in blocks], axis=1)
    return path, reference.centred_fft(np.einsum("cd,dyx->cyx", whiten, kspace), 160)


def sessions(log):
    """The numbers of readouts of the scans that a log has."""
    return [int(n) for n in re.findall(r"summary: complete .* readouts=(\d+)", log)]


def whitened(folder):
    (folder / "whitened.yaml").write_text(
        "echotrain: 1\nname: whitened\ndescription: of a test\nbackend: cpu\npipeline:\n  - noise_adjust\n"
        "  - cartesian_kspace\n  - fft\n  - coil_combine: {method: none}\n  - image: {component: complex, type: float}\n"
    )
    return folder / "whitened.yaml"


def test_several_measurements_are_listed_and_chosen(several, tmp_path):
    path, _ = several
    listed = run_ok("info", path).stdout
    assert "Siemens raw data, 3 measurements" in listed
    assert [m for m in re.findall(r"(?m)^measurement (\d)", listed)] == ["1", "2", "3"]
    assert "noise: 83" in listed and "imaging: 160" in listed and "phase correction: 3" in listed
    found = twixtools.read_twix(str(path), verbose=False)
    for options, number in (((), 3), (("--measurement", 1), 1), (("--measurement", 2), 2)):
        run_ok("convert", path, tmp_path / "scan.h5", *options)
        xml, _, _, data = scans.read_acquisitions(tmp_path / "scan.h5")
        assert re.search(r"<measurementID>(.*?)<", xml)[1].endswith(f"_{100 + number}")
        blocks = found[number - 1]["mdb"]
        assert len(blocks) == len(data)
        assert all(ours.tobytes() == theirs.data.tobytes() for ours, theirs in zip(data, blocks))
    left_out = "left out, as the output holds one scan: measurement 1"
    assert left_out in run_ok("convert", path, tmp_path / "scan.h5").stdout
    assert "left out" not in run_ok("convert", path, tmp_path / "scan.h5", "--measurement", 1).stdout
    refused = run_client("convert", path, tmp_path / "no.h5", "--measurement", 4)
    assert refused.returncode == 1 and "has no measurement 4; it has 3" in refused.stderr
    assert not (tmp_path / "no.h5").exists()


def test_recon_whitens_by_the_noise_before_the_scan(several, tmp_path):
    path, truth = several
    done = run_ok("recon", path, "-c", whitened(tmp_path), "-o", tmp_path / "images.h5")
    assert "measurement 1 goes first: 83 readouts" in done.stderr
    assert reference.nrmse(scans.read_images(tmp_path / "images.h5")[1][0][:, 0], truth) <= 1e-5


def test_send_gives_noise_and_scan_connections_of_their_own(several, server, tmp_path):
    path, truth = several
    before = server.text()
    done = server.send(path, whitened(tmp_path), tmp_path / "images.h5")
    assert done.returncode == 0, done.stderr
    assert "measurement 1 goes first: 83 readouts" in done.stderr
    assert sessions(server.text()[len(before) :]) == [83, 160]
    assert reference.nrmse(scans.read_images(tmp_path / "images.h5")[1][0][:, 0], truth) <= 1e-5
    # A measurement that is asked for goes with what is before it, and no further.
    done = server.send(path, "epi_2d", tmp_path / "epi.h5", "--measurement", 2)
    assert done.returncode == 0, done.stderr
    assert "measurement 1 goes first" in done.stderr
    done = server.send(path, "epi_2d", tmp_path / "noise.h5", "--measurement", 1)
    assert done.returncode == 0 and "goes first" not in done.stderr, done.stderr


def test_noise_that_cannot_be_used_stops_no_scan(several, server, tmp_path):
    """A prescan without a field of view; and why noise is not usable is told with its measurement's name."""
    noise, _ = as_noise(body(measured("twix/epi.dat")))
    without = re.sub(rb"(asSlice\[0\]\.dThickness\s*=\s*)[\d.]+", lambda m: m[1] + b"0" * (len(m[0]) - len(m[1])), noise)
    assert without != noise
    at = struct.unpack_from("<I", without)[0]
    prescan = bytearray(without)
    struct.pack_into("<Q", prescan, at + 40, 1 << 35)  # a line for a receive field
    path = joined(tmp_path / "meas.dat", bytes(prescan), noise, body(measured("twix/gre.dat")))
    for done in (run_ok("recon", path, "-c", "cartesian_2d", "-o", tmp_path / "a.h5"),
                 server.send(path, "cartesian_2d", tmp_path / "b.h5")):  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert re.search(r"warning: .*meas.dat: measurement 1: the protocol's sSliceArray.*dThickness", done.stderr)
        assert "measurement 2 goes first: 83 readouts" in done.stderr
        assert re.search(r"(?i)measurement 2: (info:? |warning:? )", done.stderr), done.stderr


def test_a_stream_of_a_file_is_its_readouts(tmp_path):
    path = measured("twix/gre.dat")
    run_ok("convert", path, tmp_path / "scan.h5")
    run_ok("convert", path, tmp_path / "scan.mrd", "--to", "stream", "-c", "cartesian_2d")
    run_ok("convert", tmp_path / "scan.mrd", tmp_path / "back.h5")
    first, second = (scans.read_acquisitions(tmp_path / f) for f in ("scan.h5", "back.h5"))
    assert first[0] == second[0] and np.array_equal(first[1], second[1])
    assert all(np.array_equal(a, b) for a, b in zip(first[3], second[3]))


def test_what_is_no_such_file_is_said(tmp_path):
    scan = tmp_path / "scan.h5"
    run_ok("convert", measured("twix/gre.dat"), scan)
    refused = run_client("recon", scan, "-c", "cartesian_2d", "-o", tmp_path / "out.h5", "--measurement", 1)
    assert refused.returncode == 2 and "for raw data of Siemens scanners" in refused.stderr
    for stream in (tmp_path / "scan.mrd", tmp_path / "scan.mrd2"):
        run_ok("convert", scan, stream, "--to", "mrd2" if stream.suffix == ".mrd2" else "stream")
        commands = [("convert", stream, tmp_path / "again.h5")]
        if stream.suffix == ".mrd2":
            commands.append(("send", stream, "-c", "cartesian_2d", "-o", tmp_path / "out.h5"))
        for command in commands:
            for choice in (("--measurement", 1), ("--patient",)):
                refused = run_client(*command, *choice)
                assert refused.returncode == 2 and "for raw data of Siemens scanners" in refused.stderr
    vb = tmp_path / "vb.dat"
    vb.write_bytes(struct.pack("<II", 50000, 6) + b"Config\0" + bytes(50000))
    for command in (("info", vb), ("convert", vb, tmp_path / "out.h5"),
                    ("recon", vb, "-c", "cartesian_2d", "-o", tmp_path / "out.h5")):  # fmt: skip
        refused = run_client(*command)
        assert refused.returncode == 1 and "of VB, which is not read" in refused.stderr
