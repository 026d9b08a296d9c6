"""Cine of a beating heart through the server: frames by idx.phase, and by the ECG after the fact.

The truths are the analytic images of the simulator at the middle of each phase, and this file's own binning of the
file's readouts and ECG, transformed in float64.
"""

import h5py
import numpy as np
import pytest

import reference
import scans
import wire
from programs import plain_variant, run_client, simulated_scan, variant

PHASES = 13
MOUSE = ("--trajectory", "cartesian", "--motion", "cardiac", "--heart-rate", 500, "--tr-ms", 7.9, "--jitter", 0.03)
HUMAN = ("--trajectory", "cartesian", "--motion", "cardiac", "--gating", "retrospective", "--heart-rate", 66)


def truths(path):
    return [scans.read_array(path, "truth" + (f"_{p}" if p else "")) for p in range(PHASES)]


def read_ecg(path):
    """[(time stamp, samples [channel, sample])] of the file's waveforms."""
    with h5py.File(path) as file:
        rows = file["dataset/waveforms"][:]
    heads = rows["head"]
    return [(head, np.asarray(row).reshape(int(head["channels"]), -1)) for head, row in zip(heads, rows["data"])]


def waveform_message(head, samples):
    fields = np.zeros((), np.dtype([("version", "<u2"), ("pad", "V6"), ("flags", "<u8"), ("measurement_uid", "<u4"),
                                    ("scan_counter", "<u4"), ("time_stamp", "<u4"), ("number_of_samples", "<u2"),
                                    ("channels", "<u2"), ("sample_time_us", "<f4"), ("waveform_id", "<u2"),
                                    ("tail", "V2")]))  # fmt: skip
    for name in ("version", "flags", "measurement_uid", "scan_counter", "time_stamp", "number_of_samples", "channels",
                 "sample_time_us", "waveform_id"):  # fmt: skip
        fields[name] = head[name]
    return wire.WAVEFORM.to_bytes(2, "little") + fields.tobytes() + np.ascontiguousarray(samples, "<u4").tobytes()


def marked_triggers(ecg):
    """Times [ms] of the samples of channel 4 that are 1."""
    return np.concatenate([head["time_stamp"] * 2.5 + np.flatnonzero(values[4]) for head, values in ecg])


def chamber(image):
    """Bright pixels about the heart's centre: the left chamber's area."""
    n = image.shape[-1]
    y, x = np.mgrid[:n, :n] - n / 2
    near = np.hypot(x - 0.05 * n, y) < 0.2 * n
    return int(np.sum(image[near] > 0.8))


def correlation(a, b):
    a, b = np.asarray(a, float), np.asarray(b, float)
    return float(np.corrcoef(a, b)[0, 1])


def test_prospective_cine_is_the_heart(server, tmp_path):
    """A small form of the mouse heart of GPU Gems 2: 13 phases, one line of each per cycle."""
    scan = simulated_scan(tmp_path / "scan.h5", *MOUSE, "--matrix", 64, "--readouts", 48, "--coils", 1)
    _, heads, _, _ = scans.read_acquisitions(scan)
    assert len(heads) == 48 * PHASES  # interleaved: a cycle gives one line to each frame
    assert np.array_equal(heads["idx"]["phase"], np.tile(np.arange(PHASES), 48))
    assert np.array_equal(heads["idx"]["kspace_encode_step_1"], np.repeat(np.arange(48), PHASES))
    (tmp_path / "plain.yaml").write_text(plain_variant("cartesian_cine"))
    result = server.send(scan, tmp_path / "plain.yaml", tmp_path / "images.h5")
    assert result.returncode == 0, result.stderr
    heads, images = scans.read_images(tmp_path / "images.h5")
    assert images.shape == (PHASES, 1, 1, 64, 64)
    assert list(heads["phase"]) == list(range(PHASES))
    truth = truths(scan)
    for image, want in zip(images, truth):
        assert reference.nrmse(image[0, 0], want) < 0.03  # beats differ by 3 % in length: so does the phase
    areas = [chamber(image[0, 0]) for image in images]
    assert correlation(areas, [chamber(image) for image in truth]) > 0.99
    assert min(areas) < 0.5 * max(areas)


def test_prospective_frames_are_exact_transforms(server, pipelines, tmp_path):
    scan = simulated_scan(tmp_path / "scan.h5", *MOUSE, "--matrix", 33, "--coils", 2, "--noise", 3)
    _, heads, _, data = scans.read_acquisitions(scan)
    config = tmp_path / "coils.yaml"
    config.write_text(plain_variant("cartesian_cine", ("{method: rss}", "{method: none}"),
                              ("component: magnitude", "component: complex")))  # fmt: skip
    assert server.send(scan, config, tmp_path / "images.h5").returncode == 0
    heads_out, images = scans.read_images(tmp_path / "images.h5")
    for head, image in zip(heads_out, images):
        kspace = np.zeros((2, 33, 33), np.complex128)
        for readout, line in zip(heads, data):
            if readout["idx"]["phase"] == head["phase"]:
                kspace[:, readout["idx"]["kspace_encode_step_1"]] = line
        assert reference.nrmse(image[:, 0], reference.centred_fft(kspace, 33)) < 1e-5


def own_binning(heads, data, triggers, shape):
    """K-space [phase, coil, y, x] and counts [phase, y]: intervals in equal parts, repeated lines averaged."""
    kspace = np.zeros((PHASES, *shape), np.complex128)
    counts = np.zeros((PHASES, shape[1]), int)
    left_out = 0
    for head, line in zip(heads, data):
        time = head["acquisition_time_stamp"] * 2.5
        i = np.searchsorted(triggers, time, side="right") - 1
        if i < 0 or i + 1 >= len(triggers):
            left_out += 1
            continue
        phase = int(PHASES * (time - triggers[i]) / (triggers[i + 1] - triggers[i]))
        step = head["idx"]["kspace_encode_step_1"]
        kspace[phase, :, step] += line
        counts[phase, step] += 1
    return kspace / np.maximum(counts, 1)[:, None, :, None], counts, left_out


def ecg_variant(**parameters):
    changes = [("component: magnitude", "component: complex"), ("{method: rss}", "{method: none}")]
    for name, value in parameters.items():
        default = {"trigger_channel": -1, "fill": "linear", "lead": 0}[name]
        changes.append((f"{name}: {default}", f"{name}: {value}"))
    return plain_variant("cartesian_cine_ecg", *changes)


def test_retrospective_frames_are_the_readouts_of_each_phase(server, tmp_path):
    """Images agree with this file's own binning of the same readouts by the ECG's triggers."""
    scan = simulated_scan(tmp_path / "scan.h5", *HUMAN, "--matrix", 24, "--coils", 2, "--noise", 2, "--jitter", 0.1)
    _, heads, _, data = scans.read_acquisitions(scan)
    kspace, counts, left_out = own_binning(heads, data, marked_triggers(read_ecg(scan)), (2, 24, 24))
    assert left_out > 0 and counts.max() > 1 and counts.min() == 0  # all that the gadget has to deal with
    config = tmp_path / "ecg.yaml"
    config.write_text(ecg_variant(trigger_channel=4, fill="none"))
    assert server.send(scan, config, tmp_path / "images.h5").returncode == 0
    heads_out, images = scans.read_images(tmp_path / "images.h5")
    assert list(heads_out["phase"]) == list(range(PHASES))
    for image, want in zip(images, kspace):
        assert reference.nrmse(image[:, 0], reference.centred_fft(want, 24)) < 1e-5


@pytest.mark.parametrize("lead", [0, 2])
def test_r_waves_give_the_heart(server, tmp_path, lead):
    """No trigger channel: R waves, upright and inverted, and no lines missing."""
    scan = simulated_scan(tmp_path / "scan.h5", *HUMAN, "--matrix", 48, "--coils", 1)
    config = tmp_path / "ecg.yaml"
    config.write_text(ecg_variant(lead=lead))
    assert server.send(scan, config, tmp_path / "images.h5").returncode == 0
    _, images = scans.read_images(tmp_path / "images.h5")
    truth = truths(scan)
    for p, image in enumerate(images):
        errors = [reference.nrmse(abs(image[0, 0]), want) for want in truth]
        assert errors[p] < 0.03  # a phase is a thirteenth of a beat wide
        assert not 1 <= p <= 8 or np.argmin(errors) == p  # while the heart moves
    areas = [chamber(abs(image[0, 0])) for image in images]
    assert correlation(areas, [chamber(image) for image in truth]) > 0.99


FREE = ("--trajectory", "cartesian", "--motion", "cardiac", "--gating", "free", "--heart-rate", 66, "--jitter", 0.05, "--tr-ms", 4,
        "--matrix", 48, "--coils", 8)  # fmt: skip
LINES = {"one lattice": ("--calibration", 20), "moving lattice": ("--calibration-mode", "interleaved")}


def energy(images, truth):
    """The energy of the difference as a share of the truth's, up to one real factor of the series."""
    images, truth = np.array(images, float), np.array(truth)
    return reference.nrmse(images * reference.real_scale(images, truth), truth) ** 2


def images_by_phase(path):
    heads, images = scans.read_images(path)
    assert sorted(heads["phase"]) == list(range(PHASES))
    return np.abs(images[np.argsort(heads["phase"]), 0, 0])


@pytest.mark.parametrize("acceleration", [2, 3])
@pytest.mark.parametrize("lines", LINES)
def test_an_accelerated_heart_does_not_alias(server, tmp_path, lines, acceleration):
    """Three beats: some phases lack lines. 3 % were asked for. Without kernels the same lines have more."""
    scan = simulated_scan(tmp_path / "scan.h5", *FREE, "--sweeps", 14 * acceleration, "--acceleration", acceleration, *LINES[lines])
    text = plain_variant("cartesian_cine_ecg", completes=True)
    (tmp_path / "grappa.yaml").write_text(text.replace("otherwise: transform", "otherwise: refuse"))
    (tmp_path / "transform.yaml").write_text(text[: text.index("accelerated:")].replace("fill: linear", "fill: none"))
    found = {}
    for name in ("grappa", "transform"):
        result = server.send(scan, tmp_path / f"{name}.yaml", tmp_path / "images.h5")
        assert result.returncode == 0, result.stdout + result.stderr
        found[name] = energy(images_by_phase(tmp_path / "images.h5"), truths(scan))
    print(f"{lines}, R={acceleration}: {found}")
    assert found["grappa"] < 0.01
    assert found["transform"] > 0.03


def test_phases_that_the_sender_counts_share_the_lines_that_they_lack(server, tmp_path):
    """R = 2 and a third of all lines lost; that a phase lacks one, its neighbours in time make up for."""
    scan = simulated_scan(tmp_path / "scan.h5", *MOUSE, "--matrix", 48, "--coils", 8, "--acceleration", 2, "--calibration", 20)
    xml, heads, _, data = scans.read_acquisitions(scan)
    keep = np.random.default_rng(5).random(len(heads)) > 1 / 3
    readouts = [
        wire.ACQUISITION.to_bytes(2, "little") + head.tobytes() + np.ascontiguousarray(line).tobytes()
        for head, line, kept in zip(heads, data, keep) if kept
    ]  # fmt: skip
    text, found = plain_variant("cartesian_cine", completes=True), {}
    for fill in ("linear", "none"):
        pipeline = wire.config_text(text.replace("fill: linear", f"fill: {fill}"))
        reply = wire.exchange(server.address, [pipeline, wire.header(xml), *readouts, wire.close()])
        assert not reply.errors() and len(reply.images) == PHASES, reply.texts
        images = sorted(reply.images, key=lambda image: image.head["phase"])
        found[fill] = energy([np.abs(image.pixels[0, 0]) for image in images], truths(scan))
    print(found)
    assert found["linear"] < 0.01
    assert found["none"] > 0.03


def test_low_rank_is_better_than_grappa_where_noise_is_much(server, tmp_path):
    scan = simulated_scan(tmp_path / "scan.h5", *FREE, "--sweeps", 80, "--acceleration", 4, *LINES["moving lattice"], "--noise", 2)
    found = {}
    for name in ("cartesian_cine_ecg", "cartesian_cine_low_rank"):
        (tmp_path / "pipeline.yaml").write_text(plain_variant(name, completes=True))
        result = server.send(scan, tmp_path / "pipeline.yaml", tmp_path / "images.h5")
        assert result.returncode == 0, result.stdout + result.stderr
        found[name] = energy(images_by_phase(tmp_path / "images.h5"), truths(scan))
    print(found)
    assert found["cartesian_cine_low_rank"] < 0.7 * found["cartesian_cine_ecg"]


def test_without_gating_the_heart_is_a_blur(server, tmp_path):
    """The test above can fail: the same readouts averaged over the beat are far from every phase."""
    scan = simulated_scan(tmp_path / "scan.h5", *HUMAN, "--matrix", 48, "--coils", 1)
    config = tmp_path / "blur.yaml"
    config.write_text(variant("cartesian_plain", ("frame: auto", "frame: {until: last_in_repetition}")))
    assert server.send(scan, config, tmp_path / "images.h5").returncode == 0
    _, images = scans.read_images(tmp_path / "images.h5")
    errors = [reference.nrmse(images[0, 0, 0], want) for want in truths(scan)]
    assert min(errors) > 0.04 and max(errors) > 0.1


def test_the_pipelines_name_is_enough_and_slices_and_repetitions_stay_apart(server, tmp_path):
    options = ("--matrix", 16, "--coils", 1, "--slices", 2, "--frames", 2)
    scan = simulated_scan(tmp_path / "scan.h5", *HUMAN, *options)
    result = server.send(scan, "cartesian_cine_ecg", tmp_path / "images.h5")
    assert result.returncode == 0, result.stderr
    heads, images = scans.read_images(tmp_path / "images.h5")
    want = {(r, s, p) for r in range(2) for s in range(2) for p in range(PHASES)}
    assert {(int(h["repetition"]), int(h["slice"]), int(h["phase"])) for h in heads} == want and len(heads) == 52
    config = tmp_path / "config.yaml"  # 16 x 16 voxels of an object are not told from a field
    config.write_text(variant("cartesian_cine_ecg", ("intensity: {method: auto}", "intensity: {method: none}")))
    assert server.send(scan, config, tmp_path / "as_received.h5").returncode == 0
    for head, image in zip(*scans.read_images(tmp_path / "as_received.h5")):
        image, truth = image[0, 0].astype(float), truths(scan)[int(head["phase"])]
        assert reference.nrmse(image * reference.real_scale(image, truth), truth) < 0.06  # images are in the series' scale
    reconstructed = run_client("recon", scan, "-c", "cartesian_cine_ecg", "-o", tmp_path / "recon.h5")
    assert reconstructed.returncode == 0, reconstructed.stderr
    heads_2, images_2 = scans.read_images(tmp_path / "recon.h5")  # the ECG comes after the readouts there
    order = np.lexsort((heads["phase"], heads["slice"], heads["repetition"]))
    order_2 = np.lexsort((heads_2["phase"], heads_2["slice"], heads_2["repetition"]))
    assert np.array_equal(images[order], images_2[order_2])


def test_the_stream_may_hold_the_ecg_anywhere(server, tmp_path):
    """Waveforms before, among and after the readouts: the same images, bit for bit."""
    scan = simulated_scan(tmp_path / "scan.h5", *HUMAN, "--matrix", 16, "--coils", 1)
    xml, heads, _, data = scans.read_acquisitions(scan)
    ecg = [waveform_message(*each) for each in read_ecg(scan)]
    readouts = [
        wire.ACQUISITION.to_bytes(2, "little") + head.tobytes() + np.ascontiguousarray(line).tobytes()
        for head, line in zip(heads, data)
    ]
    mixed = [m for i, r in enumerate(readouts) for m in [r, *ecg[i : i + 1]]] + ecg[len(readouts) :]
    replies = []
    for messages in (ecg + readouts, mixed, readouts + ecg):
        stream = [wire.config_file("cartesian_cine_ecg"), wire.header(xml), *messages, wire.close()]
        reply = wire.exchange(server.address, stream)
        assert not reply.errors(), reply.texts
        replies.append([image.pixels for image in reply.images])
    assert len(replies[0]) == PHASES
    assert np.array_equal(replies[0], replies[1]) and np.array_equal(replies[0], replies[2])


def test_a_scan_without_an_ecg_is_told_so(server, tmp_path):
    scan = simulated_scan(tmp_path / "scan.h5", "--trajectory", "cartesian", "--matrix", 16, "--coils", 1)
    result = server.send(scan, "cartesian_cine_ecg", tmp_path / "images.h5")
    assert result.returncode != 0
    assert "came without one" in result.stdout + result.stderr
