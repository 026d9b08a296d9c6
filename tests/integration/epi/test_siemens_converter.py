"""EPI as siemens_to_ismrmrd's stylesheets describe it (github.com/ismrmrd/siemens_to_ismrmrd, parameter_maps), from a simulated
scanner: signals are those of blobs at the places where the gradient has brought k-space by each sample's time.

IsmrmrdParameterMap_Siemens.xsl, which it takes by itself, writes `cartesian`, the twofold oversampled matrix and field of view, whose
steps are less than samples on the gradient's flat part are apart, and the gradient's times. IsmrmrdParameterMap_Siemens_EPI.xsl writes
`epi` and the matrix without oversampling, and, where the gradient is sampled on its flat part alone, no times. Both say that there is one
segment, while the readouts of Siemens' EPI have that of their direction.
"""

import re

import numpy as np
import pytest

import ghosts
import reference
import scans
import wire
from programs import measured, plain_variant, run_client

N, FOV, SAMPLES = 80, 200.0, 160  # as ../shared/data's twix/epi.dat: 80 pixels of 2.5 mm, oversampled twice
RAMPED = dict(up=160, flat=240, down=160, delay=32)  # us
FLAT = dict(up=90, flat=496, down=90, delay=90)
DWELL, LATE = 3.1, 1.7  # us; LATE: the gradient comes later than the header says
REVERSE, PHASE_CORRECTION = 1 << 21, 1 << 23
PAIR = 0.4  # rad, of reversed lines

# x, y, sigma [mm], height. Of sigma 3.5 mm, exp(-2 pi^2 (3.5 / 5)^2) = 6e-5 of the spectrum lie beyond the matrix.
BLOBS = [(-60, -30, 12, 1.0), (10, 15, 20, 0.7), (45, -50, 3.5, 1.5), (-20, 60, 5, 1.2), (78, 30, 4, 1.0), (-80, 5, 4, 0.8)]
BESIDE = (125, -20, 6, 1.0)  # outside of the image, where oversampling still tells it from the image


def k_at(gradient, time):
    """Area of the gradient, of height 1, from its begin to `time` [us], by steps of 0.01 us."""
    up, flat, down = gradient["up"], gradient["flat"], gradient["down"]
    steps = np.arange(0, up + flat + down, 0.01) + 0.005
    height = np.interp(steps, [0, up, up + flat, up + flat + down], [0, 1, 1, 0])
    area = np.concatenate([[0], np.cumsum(height) * 0.01])
    return np.interp(time, np.arange(len(area)) * 0.01, area)


def signal(blobs, kx, ky):
    """The blobs' spectrum at kx [sample], ky [1/mm], per pixel."""
    out = np.zeros(len(kx), complex)
    for x, y, sigma, height in blobs:
        size = height * 2 * np.pi * sigma**2 / (FOV / N) ** 2
        out += size * np.exp(-2 * (np.pi * sigma) ** 2 * (kx**2 + ky**2) - 2j * np.pi * (kx * x + ky * y))
    return out


def truth(blobs):
    at = (np.arange(N) - N // 2) * FOV / N
    x, y = np.meshgrid(at, at)
    return sum(h * np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * s**2)) for a, b, s, h in blobs)


def description(gradient, times):
    """As both stylesheets write it."""
    longs = {"etl": N, "numberOfNavigators": 3}
    if times:
        longs |= {"rampUpTime": gradient["up"], "rampDownTime": gradient["down"], "flatTopTime": gradient["flat"],
                  "echoSpacing": 560, "acqDelayTime": gradient["delay"]}  # fmt: skip
    longs["numSamples"] = SAMPLES
    text = "".join(f"<userParameterLong><name>{n}</name><value>{v}</value></userParameterLong>" for n, v in longs.items())
    return (f"<trajectoryDescription><identifier>ConventionalEPI</identifier>{text}<userParameterDouble><name>dwellTime</name>"
            f"<value>{DWELL:.6f}</value></userParameterDouble><comment>Conventional 2D EPI sequence</comment>"
            "</trajectoryDescription>")  # fmt: skip


def header(stylesheet, gradient, times=True):
    wide = 2 if stylesheet == "default" else 1
    xml = scans.header_xml("cartesian" if wide == 2 else "epi", (wide * N, N, 1), (N, N, 1), N)
    for name, x in (("encodedSpace", wide), ("reconSpace", 1)):
        mm = f"<fieldOfView_mm><x>{x * FOV}</x><y>{FOV}</y><z>4</z></fieldOfView_mm>"
        xml = re.sub(rf"(<{name}>.*?)<fieldOfView_mm>.*?</fieldOfView_mm>", rf"\g<1>{mm}", xml)
    one = "<segment><minimum>0</minimum><maximum>0</maximum><center>0</center></segment>"
    xml = xml.replace("</encodingLimits>", one + "</encodingLimits>")
    return xml.replace("</trajectory>", "</trajectory>" + description(gradient, times))


def scan(blobs, xml, gradient):
    """Three navigators, + - +, and the lines in the order of time, + - + - ..."""
    times = gradient["delay"] + (np.arange(SAMPLES) + 0.5) * DWELL
    covered = k_at(gradient, gradient["delay"] + SAMPLES * DWELL) - k_at(gradient, gradient["delay"])
    half = k_at(gradient, 1e9) / 2
    kx = (k_at(gradient, times - LATE) - half) * N / FOV / covered  # samples cover what the matrix needs
    messages = []
    for number in range(3 + N):
        navigator, line = number < 3, max(number - 3, 0)
        backward = bool((number if navigator else line) % 2)
        ky = 0.0 if navigator else (line - N // 2) / FOV
        samples = signal(blobs, -kx if backward else kx, ky) * np.exp(1j * PAIR * backward)
        message = bytearray(wire.acquisition(samples[None], flags=REVERSE * backward | PHASE_CORRECTION * navigator,
                                             step1=N // 2 if navigator else line, center=SAMPLES // 2,
                                             sample_time_us=DWELL, counter=number))  # fmt: skip
        np.frombuffer(message, wire.ACQUISITION_HEAD, 1, 2)["idx"]["segment"] = backward
        messages.append(bytes(message))
    return scans.Scan(xml, messages)


def image_of(server, scan_file, folder, backend, text=""):
    config = folder / "epi.yaml"
    config.write_text(text or plain_variant("epi_2d", ("backend: auto", f"backend: {backend}")))
    done = server.send(scan_file, config, folder / "images.h5")
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr.lower(), done.stderr
    (image,) = scans.read_images(folder / "images.h5")[1]
    return np.asarray(image, float).squeeze()


@pytest.mark.parametrize(("stylesheet", "gradient", "times", "blobs"), [
    ("default", RAMPED, True, [*BLOBS, BESIDE]),
    ("default", FLAT, True, [*BLOBS, BESIDE]),
    ("EPI", RAMPED, True, BLOBS),
    ("EPI", FLAT, False, BLOBS),
], ids=["default", "default, flat", "EPI", "EPI, flat, no times"])  # fmt: skip
def test_each_stylesheet_gives_the_image(server, backend, tmp_path, stylesheet, gradient, times, blobs):
    made = scan(blobs, header(stylesheet, gradient, times), gradient)
    made.save(tmp_path / "scan.h5")
    image = image_of(server, tmp_path / "scan.h5", tmp_path, backend)
    # As lines that ramp_test.cc makes of a band-limited profile.
    error = reference.nrmse(image, truth(blobs[: len(BLOBS)]))
    print(f"{stylesheet}: {error:.2g}")
    assert error < 1e-3


def test_a_measured_scan_is_the_same_by_all_converters(server, backend, tmp_path):
    """Our converter's matrix is one whose steps the samples allow; siemens_to_ismrmrd's headers give its image."""
    done = run_client("convert", measured("twix/epi.dat"), tmp_path / "own.h5")
    assert done.returncode == 0, done.stderr
    own = image_of(server, tmp_path / "own.h5", tmp_path, backend)
    xml, heads, _, data = scans.read_acquisitions(tmp_path / "own.h5")
    assert int(heads["idx"]["segment"].max()) == 1
    for stylesheet in ("default", "EPI"):
        messages = []
        for head, samples in zip(heads, data):
            message = bytearray(wire.acquisition(samples))
            message[2:342] = head.tobytes()
            messages.append(bytes(message))
        scans.Scan(header(stylesheet, RAMPED), messages).save(tmp_path / "other.h5")
        other = image_of(server, tmp_path / "other.h5", tmp_path, backend)
        # The same samples explained by profiles of 315, 317 and 200 mm; the object has 190. What differs is noise: its sixtieth
        # part in `default`.
        error = reference.nrmse(other, own)
        print(f"{stylesheet}: {error:.2g}, ghost {ghosts.ghost_level(other):.3f}, own {ghosts.ghost_level(own):.3f}")
        assert error < 0.02
