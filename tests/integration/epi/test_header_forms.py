"""The ways in which headers and readouts say where EPI's samples lie, from the wire: images are the same.

As Siemens' converter writes it: whole microseconds in userParameterLong, dwellTime in userParameterDouble. As GE's does
(github.com/ismrmrd/ge_to_ismrmrd, src/config/epi.xsl and epiRT.xsl): the same names, a dwellTime of 2 us whatever the scan,
which epiRT.xsl writes as <value><value>2</value></value>, readouts without sample_time_us; without ramp sampling, none of the
gradient's times, and readouts that may be shorter than the matrix. As writers of Pulseq scans and others do: all of them
doubles, no dwellTime (the readouts' sample_time_us holds), names with prefixes of the namespace. As who knows the gradient
itself gives it: a trajectory with each readout, and no description. Philips' converter (github.com/ismrmrd/
philips_to_ismrmrd) writes `cartesian` for each scan, no flags of direction and no phase-correction lines, so that its EPI has
to be given that way.
"""

import re

import h5py
import numpy as np
import pytest

import reference
import scans
from programs import plain_variant, simulated_scan

RAMP, FLAT, DELAY = 150, 100, 23  # us; DELAY is that of the header: 0.15 of the ramp, rounded
LATE = 3.4
GE_RAMP, GE_FLAT, GE_DELAY, GE_SAMPLES = 60, 84, 9, 93  # us; samples of 2 us, as GE's converter says of all scans


def simulated(folder, ramp=RAMP, flat=FLAT, late=LATE):
    return simulated_scan(folder / "scan.h5", "--trajectory", "epi", "--matrix", 64, "--coils", 4, "--ramp-us", ramp,
                          "--flat-us", flat, "--gradient-delay-us", late, "--ghost", 0.2)  # fmt: skip


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


def ge_description(*times):
    """As epi.xsl writes it: etl, numberOfNavigators, the gradient's times if there are ramps, numSamples, dwellTime."""
    longs = [("etl", 64), ("numberOfNavigators", 3), *times]
    text = "".join(f"<userParameterLong><name>{n}</name><value>\n  {v}\n</value></userParameterLong>" for n, v in longs)
    return ("<trajectoryDescription><identifier>ConventionalEPI</identifier>" + text + "<userParameterDouble>"
            "<name>dwellTime</name><value>2.0</value></userParameterDouble></trajectoryDescription>")  # fmt: skip


def with_description(xml, text):
    assert "<trajectoryDescription>" in xml
    return re.sub(r"<trajectoryDescription>.*?</trajectoryDescription>", text, xml, flags=re.DOTALL)


def as_ge(xml, rows):
    assert rows["head"]["number_of_samples"][0] == GE_SAMPLES
    rows = rows.copy()
    rows["head"]["sample_time_us"] = 0
    times = [("rampUpTime", GE_RAMP), ("rampDownTime", GE_RAMP), ("flatTopTime", GE_FLAT), ("acqDelayTime", GE_DELAY)]
    return with_description(xml, ge_description(*times, ("numSamples", GE_SAMPLES))), rows


def as_ge_real_time(xml, rows):
    xml, rows = as_ge(xml, rows)
    return xml.replace("<value>2.0</value>", "<value>\n <value>2</value>\n</value>"), rows


def write_as(form, scan, changed):
    with h5py.File(scan) as source, h5py.File(changed, "w") as target:
        xml, rows = form(source["dataset/xml"][0].decode(), source["dataset/data"][:])
        group = target.create_group("dataset")
        group.create_dataset("xml", data=[xml], dtype=h5py.string_dtype())
        group.create_dataset("data", data=rows, maxshape=(None,))


@pytest.mark.parametrize("form", [as_siemens, as_ge, as_ge_real_time, as_doubles, as_trajectory])
def test_each_form_gives_the_image(server, backend, tmp_path, form):
    gradient = (GE_RAMP, GE_FLAT, 1.7) if form in (as_ge, as_ge_real_time) else ()
    scan, changed, config = simulated(tmp_path, *gradient), tmp_path / "changed.h5", tmp_path / "epi.yaml"
    write_as(form, scan, changed)
    config.write_text(plain_variant("epi_2d", ("backend: auto", f"backend: {backend}"))
                      .replace("frame: auto", "trajectory_unit: cycles_per_pixel\nframe: auto"))  # fmt: skip
    result = server.send(changed, config, tmp_path / "images.h5")
    assert result.returncode == 0, result.stderr
    assert "warning" not in result.stderr.lower(), result.stderr
    (image,) = scans.read_images(tmp_path / "images.h5")[1]
    # What ramps leave: test_simulated_epi.py.
    assert reference.nrmse(image.squeeze(), scans.read_array(scan, "truth")) < 7e-4


@pytest.mark.parametrize("kept", [64, 48])
def test_ge_without_ramp_sampling(server, backend, tmp_path, kept):
    """Regular readouts of as many samples as the matrix has points, or fewer: GE's matrix is that of the transform."""
    scan, changed, config = tmp_path / "scan.h5", tmp_path / "changed.h5", tmp_path / "epi.yaml"
    simulated_scan(scan, "--trajectory", "epi", "--matrix", 64, "--coils", 4, "--ghost", 0.2, "--phantom", "blob")

    def form(xml, rows):
        rows = rows.copy()
        for row in rows:
            samples = np.asarray(row["data"]).view(np.complex64).reshape(4, 64)
            row["data"] = samples[:, 32 - kept // 2 : 32 + kept // 2].copy().ravel().view(np.float32)
        rows["head"]["number_of_samples"] = kept
        rows["head"]["center_sample"] = kept // 2
        rows["head"]["sample_time_us"] = 0
        text = ge_description(("numSamples", kept))
        return (with_description(xml, text) if "<trajectoryDescription>" in xml
                else xml.replace("</trajectory>", "</trajectory>" + text)), rows  # fmt: skip

    write_as(form, scan, changed)
    config.write_text(plain_variant("epi_2d", ("backend: auto", f"backend: {backend}")))
    result = server.send(changed, config, tmp_path / "images.h5")
    assert result.returncode == 0, result.stderr
    assert "warning" not in result.stderr.lower(), result.stderr
    (image,) = scans.read_images(tmp_path / "images.h5")[1]
    # Beyond 24 of 64 steps, a Gaussian of 2 pixels has exp(-2 pi^2 2^2 (24/64)^2) = 2e-5 of its spectrum.
    assert reference.nrmse(image.squeeze(), scans.read_array(scan, "truth")) < 1e-4



@pytest.mark.parametrize("change, text", [
    (("<name>rampUpTime</name>", "<name>rampUp</name>"), "'ConventionalEPI' has no rampUpTime"),
    (("<name>numSamples</name><value>", "<name>numSamples</name><value>1"), "numSamples is 1"),
    (("<name>acqDelayTime</name><value>", "<name>acqDelayTime</name><value>4"), "the gradient ends at 400 us"),
    # Without ramps, as GE writes it, but samples that are more than the matrix has points.
    ((r"<userParameterLong><name>(ramp|flat|acq)\w+</name><value>\d+</value></userParameterLong>", ""),
     "without ramps, its numSamples, "),
])  # fmt: skip
def test_what_does_not_fit_is_told(server, backend, tmp_path, change, text):
    scan, changed, config = simulated(tmp_path), tmp_path / "changed.h5", tmp_path / "epi.yaml"
    with h5py.File(scan) as source, h5py.File(changed, "w") as target:
        xml = source["dataset/xml"][0].decode()
        assert re.search(change[0], xml)
        group = target.create_group("dataset")
        group.create_dataset("xml", data=[re.sub(change[0], change[1], xml)], dtype=h5py.string_dtype())
        group.create_dataset("data", data=source["dataset/data"][:], maxshape=(None,))
    config.write_text(plain_variant("epi_2d", ("backend: auto", f"backend: {backend}")))
    result = server.send(changed, config, tmp_path / "images.h5")
    assert result.returncode != 0 and text in result.stderr, result.stderr
