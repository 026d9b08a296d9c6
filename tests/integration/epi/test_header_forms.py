"""The ways in which headers and readouts say where EPI's samples lie, from the wire: images are the same.

As Siemens' converter writes it: whole microseconds in userParameterLong, dwellTime in userParameterDouble. As writers of
Pulseq scans and others do: all of them doubles, no dwellTime (the readouts' sample_time_us holds), names with prefixes of
the namespace. As converters give it that know the gradient itself (GE's and Philips' scans say no trapezoid): a trajectory
with each readout, and no description.
"""

import re

import h5py
import numpy as np
import pytest

import reference
import scans
from programs import run_client, variant

RAMP, FLAT, DELAY = 150, 100, 23  # us; DELAY is that of the header: 0.15 of the ramp, rounded
LATE = 3.4


def simulated(folder):
    path = folder / "scan.h5"
    made = run_client("simulate", "-o", path, "--trajectory", "epi", "--matrix", 64, "--coils", 4, "--ramp-us", RAMP,
                      "--flat-us", FLAT, "--gradient-delay-us", LATE, "--ghost", 0.2)  # fmt: skip
    assert made.returncode == 0, made.stderr
    return path


def area(time):
    """Under a trapezoid of height 1, by its pieces."""
    time = np.clip(np.asarray(time, float), 0, 2 * RAMP + FLAT)
    up, down = np.minimum(time, RAMP), np.maximum(time - RAMP - FLAT, 0)
    flat = np.clip(time - RAMP, 0, FLAT)
    return up**2 / (2 * RAMP) + flat + down - down**2 / (2 * RAMP)


def as_siemens(xml, rows):
    names = re.findall(r"<userParameterLong><name>(\w+)</name><value>\d+</value>", xml)
    assert {"rampUpTime", "rampDownTime", "flatTopTime", "acqDelayTime", "numSamples"} <= set(names)
    assert re.search(r"<userParameterDouble><name>dwellTime</name><value>\d+\.\d+</value>", xml)
    return xml, rows


def as_doubles(xml, rows):
    begin, end = xml.index("<trajectoryDescription>"), xml.index("</trajectoryDescription>")
    text = xml[begin:end].replace("userParameterLong", "userParameterDouble")
    text = re.sub(r"<value>(\d+)</value>", r"<value> \1.000e0 </value>", text)
    text = re.sub(r"<userParameterDouble><name>dwellTime</name>.*?</userParameterDouble>", "", text)
    text = re.sub(r"<(/?)(\w)", r"<\1m:\2", text) + "</m:trajectoryDescription>"
    whole = xml[:begin] + text + xml[end + len("</trajectoryDescription>") :]
    return whole.replace("<ismrmrdHeader ", '<ismrmrdHeader xmlns:m="http://www.ismrm.org/ISMRMRD" ', 1), rows


def as_trajectory(xml, rows):
    samples = int(rows["head"]["number_of_samples"][0])
    dwell = (2 * RAMP + FLAT - 2 * DELAY) / samples
    time = DELAY + (np.arange(samples) + 0.5) * dwell - LATE
    covered = area(2 * RAMP + FLAT - DELAY) - area(DELAY)
    kx = (area(time) - area(2 * RAMP + FLAT) / 2) / covered
    rows = rows.copy()
    for row in rows:
        sign = -1 if int(row["head"]["flags"]) & 1 << 21 else 1
        path = np.stack([sign * kx, np.zeros(samples)], 1)
        row["head"]["trajectory_dimensions"] = 2
        row["traj"] = path.astype(np.float32).ravel()
    return re.sub(r"<trajectoryDescription>.*?</trajectoryDescription>", "", xml, flags=re.DOTALL), rows


@pytest.mark.parametrize("form", [as_siemens, as_doubles, as_trajectory])
def test_each_form_gives_the_image(server, backend, tmp_path, form):
    scan, changed, config = simulated(tmp_path), tmp_path / "changed.h5", tmp_path / "epi.yaml"
    with h5py.File(scan) as source, h5py.File(changed, "w") as target:
        xml = source["dataset/xml"][0].decode()
        xml, rows = form(xml, source["dataset/data"][:])
        group = target.create_group("dataset")
        group.create_dataset("xml", data=[xml], dtype=h5py.string_dtype())
        group.create_dataset("data", data=rows, maxshape=(None,))
    config.write_text(variant("epi_2d", ("backend: auto", f"backend: {backend}"))
                      .replace("frame: auto", "trajectory_unit: cycles_per_pixel\nframe: auto"))  # fmt: skip
    result = server.send(changed, config, tmp_path / "images.h5")
    assert result.returncode == 0, result.stderr
    assert "warning" not in result.stderr.lower(), result.stderr
    (image,) = scans.read_images(tmp_path / "images.h5")[1]
    # What ramps leave: test_simulated_epi.py.
    assert reference.nrmse(image.squeeze(), scans.read_array(scan, "truth")) < 7e-4


@pytest.mark.parametrize("change, text", [
    (("<name>rampUpTime</name>", "<name>rampUp</name>"), "'ConventionalEPI' has no rampUpTime"),
    (("<name>numSamples</name><value>", "<name>numSamples</name><value>1"), "numSamples is 1"),
    (("<name>acqDelayTime</name><value>", "<name>acqDelayTime</name><value>4"), "the gradient ends at 400 us"),
])  # fmt: skip
def test_what_does_not_fit_is_told(server, backend, tmp_path, change, text):
    scan, changed, config = simulated(tmp_path), tmp_path / "changed.h5", tmp_path / "epi.yaml"
    with h5py.File(scan) as source, h5py.File(changed, "w") as target:
        xml = source["dataset/xml"][0].decode()
        assert change[0] in xml
        group = target.create_group("dataset")
        group.create_dataset("xml", data=[xml.replace(*change)], dtype=h5py.string_dtype())
        group.create_dataset("data", data=source["dataset/data"][:], maxshape=(None,))
    config.write_text(variant("epi_2d", ("backend: auto", f"backend: {backend}")))
    result = server.send(changed, config, tmp_path / "images.h5")
    assert result.returncode != 0 and text in result.stderr, result.stderr
