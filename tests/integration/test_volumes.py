"""Volumes, images in viewers' formats, and `echotrain export`: through the server by pipeline name,
against float64 transforms, and read back by readers that this file writes from the formats' descriptions."""

import shutil
import struct

import h5py
import numpy as np
import pytest

import reference
import scans
import wire
from programs import measured, run_client, simulated_scan, variant


def simulate(path, *options):
    return simulated_scan(path, "--trajectory", "cartesian", *options)


def reordered(scan, path, order):
    """Writes `scan` with its readouts in another order."""
    shutil.copy(scan, path)
    with h5py.File(path, "r+") as file:
        file["dataset/data"][:] = file["dataset/data"][:][order]


def place(head, i, j, k):
    """Where voxel (i, j, k) lies [mm, LPS]: voxel floor(n/2) is at the position."""
    at = head["position"].astype(np.float64)
    for axis, index, n, fov in zip(("read_dir", "phase_dir", "slice_dir"), (i, j, k), head["matrix_size"],
                                   head["field_of_view"]):  # fmt: skip
        at = at + head[axis] * (index - int(n) // 2) * float(fov) / int(n)
    return at


def test_a_head_of_16_slices_is_one_volume(server, tmp_path):
    """Cuts of one head, 5 mm apart; each is its own plane of the volume, in order, also when acquired interleaved."""
    size = ("--matrix", 40, "--coils", 2, "--slices", 16, "--frames", 2, "--phantom", "ellipsoids_3d")
    scan = simulate(tmp_path / "scan.h5", *size)
    truth = scans.read_array(scan, "truth")
    assert truth.shape == (16, 40, 40)
    xml, heads, _, data = scans.read_acquisitions(scan)
    slices = [int(head["idx"]["slice"]) for head in heads[: 16 * 40 : 40]]
    assert slices == list(range(16))
    # Any two planes differ by far more than the tolerance, so that a plane in another's place is seen.
    assert min(reference.nrmse(truth[a], truth[b]) for a in range(16) for b in range(a)) > 1e-3
    interleaved = tmp_path / "interleaved.h5"
    order = [readout for frame in range(2) for first in (0, 1) for s in range(first, 16, 2)
             for readout in range((frame * 16 + s) * 40, (frame * 16 + s + 1) * 40)]  # fmt: skip
    reordered(scan, interleaved, order)
    for path in (scan, interleaved):
        result = server.send(path, "cartesian_3d", tmp_path / "images.h5")
        assert result.returncode == 0, result.stderr
        heads, images = scans.read_images(tmp_path / "images.h5")
        assert images.shape == (2, 1, 16, 40, 40)
        for volume in images[:, 0]:
            for plane, expected in zip(volume, truth):
                assert reference.nrmse(plane, expected) < 1e-5
        # Slices are 5 mm apart about the isocentre.
        assert float(heads[0]["field_of_view"][2]) == pytest.approx(80)
        for z in range(16):
            assert place(heads[1], 20, 20, z) == pytest.approx((0, 0, 5 * (z - 7.5)), abs=1e-4)
        (tmp_path / "images.h5").unlink()


def cartesian_3d_scan(kspace):
    """kspace: [coil, z, y, x]."""
    _, nz, ny, nx = kspace.shape
    messages = [
        wire.acquisition(kspace[:, z, y], None, 0, y, counter=z * ny + y, step2=z) for z in range(nz) for y in range(ny)
    ]
    return scans.Scan(scans.header_xml("cartesian", (nx, ny, nz), readouts=ny), messages)


@pytest.mark.parametrize("shape", [(2, 8, 12, 16), (1, 7, 9, 15)])
def test_a_3d_scan_is_its_3d_transform(server, tmp_path, shape):
    random = np.random.default_rng(1)
    kspace = random.standard_normal(shape) + 1j * random.standard_normal(shape)
    cartesian_3d_scan(kspace).save(tmp_path / "scan.h5")
    config = tmp_path / "coils.yaml"
    config.write_text(variant("cartesian_3d", ("{method: rss}", "{method: none}"),
                              ("component: magnitude", "component: complex")))  # fmt: skip
    result = server.send(tmp_path / "scan.h5", config, tmp_path / "images.h5")
    assert result.returncode == 0, result.stderr
    _, images = scans.read_images(tmp_path / "images.h5")
    axes = (1, 2, 3)
    want = np.fft.fftshift(np.fft.ifftn(np.fft.ifftshift(kspace, axes), axes=axes), axes)
    assert reference.nrmse(images[0], want) < 1e-5
    assert server.send(tmp_path / "scan.h5", "cartesian_3d", tmp_path / "rss.h5").returncode == 0
    assert reference.nrmse(scans.read_images(tmp_path / "rss.h5")[1][0, 0], reference.rss(want)) < 1e-5


def test_measured_slice_as_viewers_show_it(server, tmp_path):
    """cartesian_display on a measured phantom, against numpy: 16 bits, one scale, voxels where they were."""
    scan = measured("cartesian_flash_phantom/headcoil16.h5")
    assert server.send(scan, "cartesian_plain", tmp_path / "plain.h5").returncode == 0
    result = server.send(scan, "cartesian_display", tmp_path / "images.h5")
    assert result.returncode == 0, result.stderr
    (plain_head,), plain = scans.read_images(tmp_path / "plain.h5")
    (head,), image = scans.read_images(tmp_path / "images.h5")
    assert image.dtype == np.uint16
    plain, image = plain[0, 0, 0], image[0, 0, 0]
    ordered = np.sort(plain.ravel())
    factor = 1000 / ordered[round(0.995 * (ordered.size - 1))]
    n = plain.shape[0]
    random = np.random.default_rng(2)
    for j, i in random.integers(0, n, (200, 2)):  # the voxel at the same place
        at = place(head, i, j, 0) - plain_head["position"]
        step = [float(f) / int(m) for f, m in zip(plain_head["field_of_view"], plain_head["matrix_size"])]
        x = round(float(at @ plain_head["read_dir"]) / step[0]) + n // 2
        y = round(float(at @ plain_head["phase_dir"]) / step[1]) + n // 2
        assert abs(int(image[j, i]) - factor * float(plain[y, x])) <= 0.5 + 1e-3 * factor


def test_interpolated_measured_slice(server, tmp_path):
    """Twice the matrix by zero-filling is the transform of the measured k-space padded with zeros."""
    scan = measured("cartesian_flash_phantom/bodycoil2.h5")
    config = tmp_path / "fine.yaml"
    config.write_text(variant("cartesian_3d", ("- stack_slices", "- resize: {matrix_x: 256, matrix_y: 256, crop_y: 200}"),
                              ("{method: rss}", "{method: none}"), ("component: magnitude", "component: complex")))  # fmt: skip
    result = server.send(scan, config, tmp_path / "images.h5")
    assert result.returncode == 0, result.stderr
    (head,), images = scans.read_images(tmp_path / "images.h5")
    _, heads, _, data = scans.read_acquisitions(scan)
    kspace = np.zeros((2, 256, 256), np.complex128)
    for readout, line in zip(heads, data):
        if not int(readout["flags"]) & wire.NOISE:
            kspace[:, 64 + int(readout["idx"]["kspace_encode_step_1"]), 64:192] = line
    want = 4 * reference.centred_fft(kspace, 256)[:, 28:228]  # scaled by the points that were measured
    assert reference.nrmse(images[0, :, 0], want) < 1e-5
    assert head["field_of_view"][:2] == pytest.approx((256, 200), rel=1e-6)


# --- GIF89a ---------------------------------------------------------------------------------------------------------------


def unpack_codes(data, colour_bits):
    """The pixels of LZW data, by the specification's decoder."""
    clear, end = 1 << colour_bits, (1 << colour_bits) + 1
    pixels, at, width, table, previous = bytearray(), 0, colour_bits + 1, [], None
    bits = int.from_bytes(data, "little")
    while True:
        code = (bits >> at) & ((1 << width) - 1)
        at += width
        assert at <= 8 * len(data), "the codes end without an end code"
        if code == clear:
            table = [bytes([i]) for i in range(clear)] + [b"", b""]
            width, previous = colour_bits + 1, None
            continue
        if code == end:
            return bytes(pixels)
        if previous is None:
            entry = table[code]
        else:
            assert code <= len(table)
            entry = table[code] if code < len(table) else previous + previous[:1]
            if len(table) < 4096:
                table.append(previous + entry[:1])
        pixels += entry
        previous = entry
        if len(table) == 1 << width and width < 12:
            width += 1


def read_gif(path):
    """(frames [image, y, x], delays, repeats for ever)"""
    data = path.read_bytes()
    assert data[:6] == b"GIF89a"
    width, height, flags = struct.unpack("<HHB", data[6:11])
    assert flags & 0x80
    colours = 2 << (flags & 7)
    palette = np.frombuffer(data[13 : 13 + 3 * colours], np.uint8).reshape(colours, 3)
    assert np.array_equal(palette, np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1))
    at, frames, delays, forever = 13 + 3 * colours, [], [], False

    def blocks(at):
        content = b""
        while data[at]:
            content += data[at + 1 : at + 1 + data[at]]
            at += 1 + data[at]
        return content, at + 1

    while data[at] != 0x3B:
        if data[at] == 0x21:
            label = data[at + 1]
            content, at = blocks(at + 2)
            if label == 0xF9:
                delays.append(struct.unpack("<H", content[1:3])[0])
            else:
                forever = content == b"NETSCAPE2.0\x01\x00\x00"
        else:
            assert data[at] == 0x2C
            assert struct.unpack("<HHHHB", data[at + 1 : at + 10]) == (0, 0, width, height, 0)
            content, next_at = blocks(at + 11)
            frames.append(np.frombuffer(unpack_codes(content, data[at + 10]), np.uint8).reshape(height, width))
            at = next_at
    assert at == len(data) - 1
    return np.stack(frames), delays, forever


def test_a_cine_plays_as_a_gif(server, tmp_path):
    scan = simulate(tmp_path / "scan.h5", "--motion", "cardiac", "--matrix", 48, "--coils", 1, "--noise", 2)
    assert server.send(scan, "cartesian_cine", tmp_path / "images.h5").returncode == 0
    result = run_client("export", tmp_path / "images.h5", "--gif", tmp_path / "out", "--fps", 20, "--window", 0, 800)
    assert result.returncode == 0, result.stderr
    frames, delays, forever = read_gif(tmp_path / "out" / "image_1.gif")
    heads, images = scans.read_images(tmp_path / "images.h5")
    assert list(heads["phase"]) == list(range(13))
    want = np.floor(255 * np.clip(images[:, 0, 0] / np.float32(800), 0, 1) + 0.5)
    assert np.abs(frames - want).max() <= 1 and np.mean(frames != want) < 1e-3  # rounding of float32
    assert delays == [5] * 13 and forever


@pytest.mark.parametrize("kind", ["noise", "flat", "ramp"])
def test_gif_codes_of_every_kind_of_image(tmp_path, kind):
    """Full code tables, one long run, and all greys, on which the encoder's widths depend."""
    import h5py

    n = 300  # 90000 pixels of noise fill the table many times over
    random = np.random.default_rng(3)
    pixels = {"noise": random.integers(0, 256, (n, n)), "flat": np.full((n, n), 7),
              "ramp": np.arange(n * n).reshape(n, n) % 256}[kind].astype(np.float32)  # fmt: skip
    scan = simulate(tmp_path / "scan.h5", "--matrix", 16, "--coils", 1)
    assert run_client("recon", scan, "-c", "cartesian_plain", "-o", tmp_path / "images.h5").returncode == 0
    with h5py.File(tmp_path / "images.h5", "r+") as file:
        group = file["dataset/image_1"]
        head = group["header"][:]
        head["matrix_size"] = (n, n, 1)
        del group["data"]
        group["header"][:] = head
        group.create_dataset("data", data=pixels.reshape(1, 1, 1, n, n), maxshape=(None, 1, 1, n, n), chunks=True)
    result = run_client("export", tmp_path / "images.h5", "--gif", tmp_path, "--window", 0, 255)
    assert result.returncode == 0, result.stderr
    frames, _, _ = read_gif(tmp_path / "image_1.gif")
    assert np.array_equal(frames[0], pixels.astype(np.uint8))


# --- NIfTI-1 --------------------------------------------------------------------------------------------------------------


def read_nifti(path):
    """(voxels [t, z, y, x], affine 4 x 4, voxel sizes)"""
    data = path.read_bytes()
    assert struct.unpack("<i", data[:4])[0] == 348 and data[344:348] == b"n+1\0" and data[348:352] == b"\0\0\0\0"
    dim = struct.unpack("<8h", data[40:56])
    datatype, bits = struct.unpack("<2h", data[70:74])
    offset, slope, intercept = struct.unpack("<3f", data[108:120])
    assert (offset, slope, intercept) == (352, 1, 0) and data[123] == 2
    qform, sform = struct.unpack("<2h", data[252:256])
    assert (qform, sform) == (0, 1)
    affine = np.vstack([np.frombuffer(data[280:328], "<f4").reshape(3, 4), (0, 0, 0, 1)]).astype(np.float64)
    kind = {16: np.dtype("<f4"), 32: np.dtype("<c8")}[datatype]
    assert bits == 8 * kind.itemsize
    extents = dim[1 : 1 + dim[0]]
    voxels = np.frombuffer(data[352:], kind).reshape((*extents, 1)[:4][::-1])
    return voxels, affine, struct.unpack("<8f", data[76:108])[1:4]


def ras(lps):
    return np.array([-lps[0], -lps[1], lps[2]])


@pytest.mark.parametrize("config", ["cartesian_3d", "cartesian_plain"])
def test_slices_become_a_nifti_volume_in_place(server, tmp_path, config):
    """Stacked by the server or by export: the same voxels at the same places."""
    scan = simulate(tmp_path / "scan.h5", "--matrix", 24, "--coils", 1, "--slices", 5, "--frames", 3, "--noise", 1)
    assert server.send(scan, config, tmp_path / "images.h5").returncode == 0
    result = run_client("export", tmp_path / "images.h5", "--nifti", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    voxels, affine, sizes = read_nifti(tmp_path / "out" / "image_1.nii")
    heads, images = scans.read_images(tmp_path / "images.h5")
    assert voxels.shape == (3, 5, 24, 24)
    assert np.array_equal(voxels, images.reshape(3, 5, 24, 24))  # the simulator's slices come in order
    assert sizes == pytest.approx((256 / 24, 256 / 24, 5))
    volume = config == "cartesian_3d"
    for i, j, k in ((0, 0, 0), (23, 5, 4), (12, 12, 2)):
        lps = place(heads[0], i, j, k) if volume else place(heads[k], i, j, 0)
        assert (affine @ (i, j, k, 1))[:3] == pytest.approx(ras(lps), abs=1e-3)


def test_complex_oblique_nifti(tmp_path):
    """A tilted 3D scan with complex images: the affine is the header's geometry."""
    random = np.random.default_rng(5)
    kspace = random.standard_normal((1, 5, 6, 8)) + 1j * random.standard_normal((1, 5, 6, 8))
    turn, _ = np.linalg.qr(random.standard_normal((3, 3)))
    scan = cartesian_3d_scan(kspace)
    for i, message in enumerate(scan.messages):
        scan.messages[i] = wire.changed(message, position=(12, -34, 56), **dict(zip(wire.AXES, turn.T)))
    scan.save(tmp_path / "scan.h5")
    config = tmp_path / "complex.yaml"
    config.write_text(variant("cartesian_3d", ("{method: rss}", "{method: none}"),
                              ("component: magnitude", "component: complex")))  # fmt: skip
    assert run_client("recon", tmp_path / "scan.h5", "-c", config, "-o", tmp_path / "images.h5").returncode == 0
    assert run_client("export", tmp_path / "images.h5", "--nifti", tmp_path).returncode == 0
    voxels, affine, sizes = read_nifti(tmp_path / "image_1.nii")
    (head,), images = scans.read_images(tmp_path / "images.h5")
    assert np.array_equal(voxels[0], images[0, 0])
    assert sizes == pytest.approx((1, 1, 1), rel=1e-5)
    for index in ((0, 0, 0), (7, 2, 4), (4, 3, 2)):
        assert (affine @ (*index, 1))[:3] == pytest.approx(ras(place(head, *index)), abs=1e-3)


def test_export_says_what_it_cannot_do(tmp_path):
    scan = simulate(tmp_path / "scan.h5", "--matrix", 16, "--coils", 1)
    assert run_client("recon", scan, "-c", "cartesian_plain", "-o", tmp_path / "images.h5").returncode == 0
    result = run_client("export", tmp_path / "images.h5")
    assert result.returncode == 2 and "--gif DIR" in result.stderr
