"""Measured scans through the TCP server against float64 transforms, coil by coil, with no scale fit.

Tolerances: gridding with a Kaiser-Bessel kernel of width 5 on a 1.5 times oversampled grid is good to a few 1e-4, so
1e-3 holds with room; a float32 FFT is good to a few 1e-7, so 1e-5 does. GPU and CPU share the kernel: they differ by
float32 rounding alone.
"""

import h5py
import numpy as np
import pytest

import reference
import scans
import wire
from programs import measured, plain_variant, raw_coils, run_client, variant

CPU_IMAGES = {}


def reconstruct(make, case, backend):
    """make(backend); on the GPU also the CPU's images, unless they are known, and the distance of the two."""
    if backend == "cpu":
        if case not in CPU_IMAGES:
            CPU_IMAGES[case] = make("cpu")
        return CPU_IMAGES[case]
    images = make(backend)
    assert reference.nrmse(images, reconstruct(make, case, "cpu")) <= 1e-4
    return images


def check(images, truth, tolerance):
    """Every coil by itself."""
    assert len(images) == len(truth)
    for coil, (image, expected) in enumerate(zip(images, truth)):
        error = reference.nrmse(image, expected)
        assert error <= tolerance, f"coil {coil}: NRMSE {error:.2e}"


def one_image(reply):
    assert not reply.errors(), reply.errors()
    assert len(reply.images) == 1, reply.texts
    assert reply.images[0].pixels.dtype == np.complex64
    return reply.images[0].pixels


def send_scan(server, scan, pipeline, backend):
    """The coil images [coil, z, y, x] of a scan of one frame."""
    return one_image(wire.exchange(server.address, scan.stream(wire.config_text(raw_coils(pipeline, backend)))))


def send_file(server, path, pipeline, backend, folder):
    """The same of a file, sent by `echotrain send`."""
    config = folder / "pipeline.yaml"
    config.write_text(raw_coils(pipeline, backend))
    result = server.send(path, config, folder / "images.h5")
    assert result.returncode == 0, result.stderr
    heads, pixels = scans.read_images(folder / "images.h5")
    assert len(pixels) == 1
    assert heads[0]["image_type"] == 5
    return pixels[0]


@pytest.fixture(scope="module")
def spiral_truth():
    path = measured("spiral_phantom8/spiral_phantom8.h5")
    _, _, trajectory, data = scans.read_acquisitions(path)
    points = np.concatenate(trajectory).astype(np.float64)
    samples = np.concatenate([d.T for d in data])
    return path, reference.direct_sum_2d(points[:, :2], points[:, 2:] * samples, (256, 256))


def test_spiral(server, spiral_truth, backend, tmp_path):
    path, truth = spiral_truth
    images = reconstruct(lambda b: send_file(server, path, "spiral_2d", b, tmp_path), "spiral", backend)
    assert images.shape == (8, 1, 256, 256)
    check(images[:, 0], truth, 1e-3)


@pytest.mark.parametrize("step", [2, 3])
def test_coils_make_up_for_interleaves_left_out(server, backend, tmp_path, step):
    """Every 2nd and 3rd interleaf by cg_sense_2d is nearer to the full reconstruction than by gridding.

    The best common scale is taken out of both: the weights of a subset sum to a part of k-space, and coil maps have no
    scale of their own.
    """
    path = measured("spiral_phantom8/spiral_phantom8.h5")
    _, _, trajectory, data = scans.read_acquisitions(path)
    subset = scans.non_cartesian("spiral", (256, 256, 1), trajectory[::step], data[::step])
    subset.save(tmp_path / "subset.h5")

    def magnitude(scan, pipeline):
        config = tmp_path / "pipeline.yaml"
        config.write_text(variant(pipeline, ("backend: auto", f"backend: {backend}")))
        result = server.send(scan, config, tmp_path / "images.h5")
        assert result.returncode == 0, result.stderr
        return scans.read_images(tmp_path / "images.h5")[1][0][0, 0].astype(np.float64)

    full = magnitude(path, "spiral_2d")

    def error(image):
        return np.linalg.norm(full - image * np.vdot(image, full) / np.vdot(image, image)) / np.linalg.norm(full)

    gridded, solved = (error(magnitude(tmp_path / "subset.h5", name)) for name in ("spiral_2d", "cg_sense_2d"))
    assert solved < 0.8 * gridded, f"cg_sense_2d {solved:.3f}, gridding {gridded:.3f}"


def test_nufft_reference(server, backend):
    """Its image is sum dcf kdata exp(+2 pi i k.r), r = index - 64, first index along kcoord's first column: x. It is
    stored [x, y], so [y, x] is its transpose (the direct sum agrees with that to 4e-15)."""
    loadmat = pytest.importorskip("scipy.io").loadmat
    file = loadmat(measured("nufft_reference2d/spiral2d_phantom.mat"))
    truth = file["imagenudft"].T
    weighted = file["dcf"] * file["kdata"]
    assert reference.nrmse(reference.direct_sum_2d(file["kcoord"], weighted, (128, 128))[0], truth) < 1e-12
    trajectory = np.hstack([file["kcoord"], file["dcf"]])
    scan = scans.non_cartesian("spiral", (128, 128, 1), trajectory[None], file["kdata"].T[None])
    image = reconstruct(lambda b: send_scan(server, scan, "spiral_2d", b), "reference", backend)
    check(image[:, 0], truth[None], 1e-3)


@pytest.mark.parametrize(
    "name, recon_x",
    [
        ("cartesian_flash_phantom/headcoil16.h5", 128),
        ("cartesian_se_phantom32/se32.h5", 64),
        ("cartesian_gre_phantom2/gre2.h5", 160),  # 320 x 160, oversampled twice along the readout
    ],
)
def test_cartesian(server, backend, tmp_path, name, recon_x):
    path = measured(name)
    _, heads, _, data = scans.read_acquisitions(path)
    kspace = np.zeros((data[0].shape[0], len(data), data[0].shape[1]), np.complex128)
    for head, line in zip(heads, data):
        kspace[:, head["idx"]["kspace_encode_step_1"]] = line
    truth = reference.centred_fft(kspace, recon_x)
    images = reconstruct(lambda b: send_file(server, path, "cartesian_plain", b, tmp_path), name, backend)
    assert images.shape == (len(kspace), 1, *truth.shape[1:])
    check(images[:, 0], truth, 1e-5)


@pytest.fixture(scope="module")
def lung(tmp_path_factory):
    """Rays of the lung scan as an ISMRMRD scan, and the server's density weights for it."""
    with h5py.File(measured("radial3d_lung1/radial3d_lung.h5")) as file:
        trajectory = 2 * file["trajectory"][:]  # +-0.25 of its own matrix: +-0.5 of one of 64
        data = file["data"][:]
    folder = tmp_path_factory.mktemp("lung")
    scan = scans.non_cartesian("radial", (64, 64, 64), trajectory, data[:, None, :])
    scan.save(folder / "lung.h5")
    (folder / "pipeline.yaml").write_text(raw_coils("kooshball_3d"))
    result = run_client("recon", folder / "lung.h5", "-c", folder / "pipeline.yaml", "-o", folder / "images.h5",
                        "--save-after", "density_compensation", folder / "stage.h5")  # fmt: skip
    assert result.returncode == 0, result.stderr
    weights = scans.read_array(folder / "stage.h5", "density_compensation_0_weights").reshape(data.shape)
    return scan, trajectory, data, weights.astype(np.float64), folder


def test_lung_weights(lung):
    """Weights share out the ball that the rays sample. Its radius is the outermost sample's plus half a step; the five
    samples at k = 0 of every ray stand for the same point, so they weigh the same."""
    _, trajectory, _, weights, _ = lung
    radius = np.linalg.norm(trajectory.astype(np.float64), axis=2)
    edge = np.mean(radius[:, -1] + (radius[:, -1] - radius[:, -2]) / 2)
    assert weights.sum() == pytest.approx(4 / 3 * np.pi * edge**3, rel=0.01)
    centre = weights[radius == 0]
    assert centre.size == 5 * len(trajectory)
    assert centre.min() > 0
    np.testing.assert_allclose(centre, centre[0], rtol=1e-5)
    # All of them together stand for no more than the ball up to the next samples.
    assert centre.sum() <= 4 / 3 * np.pi * np.max(radius[:, 5]) ** 3 * 1.01
    # Away from the ends each weight is its share of the shell between the midpoints to its neighbours.
    middle = (radius[:, 1:] + radius[:, :-1]) / 2
    shell = 4 / 3 * np.pi * (middle[:, 1:] ** 3 - middle[:, :-1] ** 3) / len(radius)
    np.testing.assert_allclose(weights[:, 20:40], shell[:, 19:39], rtol=0.01)


@pytest.fixture(scope="module")
def lung_truth(lung):
    """The direct sum with the same weights on 256 of the 4096 lines along z, drawn at random."""
    _, trajectory, data, weights, _ = lung
    columns = np.divmod(np.random.default_rng(5).choice(64 * 64, 256, replace=False), 64)
    truth = reference.direct_sum_3d(trajectory.reshape(-1, 3), (weights * data).reshape(-1), 64, columns)
    return columns, truth


def test_lung(server, lung, lung_truth, backend):
    scan, _, _, _, folder = lung
    columns, truth = lung_truth
    image = reconstruct(lambda b: send_scan(server, scan, "kooshball_3d", b), "lung", backend)
    assert image.shape == (1, 64, 64, 64)
    check(image[:, :, columns[0], columns[1]], truth[None], 1e-3)
    if backend == "cpu":  # the same bits as without a server
        _, pixels = scans.read_images(folder / "images.h5")
        np.testing.assert_array_equal(image, pixels[0])


# --- partial Fourier -------------------------------------------------------------------------------------------------

PICTURE = "mchiew/pf_image.npy"  # complex, 96 x 96; the picture is the truth


def cut_scan(picture, axis, points):
    """The picture's k-space with only the last `points` lines (axis y) or samples of each line (axis x)."""
    ny, nx = picture.shape
    kspace = reference.spectrum(picture)
    first_y, first_x = (ny - points, 0) if axis == "y" else (0, nx - points)
    messages = [
        wire.acquisition(kspace[None, y, first_x:], None, wire.LAST_IN_SLICE * (y == ny - 1), y,
                         center=nx // 2 - first_x, counter=y)  # fmt: skip
        for y in range(first_y, ny)
    ]
    return scans.Scan(scans.header_xml("cartesian", (nx, ny, 1), readouts=ny), messages)


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("axis", ["x", "y"])
@pytest.mark.parametrize("eighths, asked", [(5, 0.84), (6, 0.89)])
def test_partial_fourier_comes_nearer_to_the_picture(tmp_path, place, axis, eighths, asked):
    """By the defaults of `partial_fourier`, before and after the transform: NRMSE of magnitudes, no factor, as a part
    of what zeros leave. Seen, 5/8 and 6/8: x 0.814 and 0.844, y 0.811 and 0.872 (zeros: x 0.109, 0.065; y 0.156,
    0.092). With 50 iterations none holds."""
    picture = np.load(measured(PICTURE))
    scan = tmp_path / "scan.h5"
    cut_scan(picture, axis, 96 * eighths // 8).save(scan)

    def error(gadget):
        fft = "  - fft: {direction: inverse}\n"
        config = tmp_path / "pipeline.yaml"
        chain = gadget + fft if place == "before" else fft + gadget
        config.write_text(variant("cartesian_plain", ("backend: auto", "backend: cpu"), (fft, chain)))
        result = run_client("recon", scan, "-c", config, "-o", tmp_path / "images.h5")
        assert result.returncode == 0, result.stderr
        _, pixels = scans.read_images(tmp_path / "images.h5")
        (tmp_path / "images.h5").unlink()
        return reference.nrmse(pixels[0, 0, 0], np.abs(picture))

    zeros, filled = error(""), error("  - partial_fourier\n")
    assert filled <= asked * zeros, f"{filled:.4f}, {filled / zeros:.3f} of {zeros:.4f}"


# --- parallel imaging --------------------------------------------------------------------------------------------------

CALIBRATION, CALIBRATION_AND_IMAGING = 1 << 19, 1 << 20


@pytest.mark.parametrize("for_images", [True, False], ids=["reference lines are image lines", "serve the maps alone"])
@pytest.mark.parametrize("step, most", [(2, 0.01), (3, 0.02)])
def test_brain_of_few_lines(tmp_path, step, most, for_images):
    """Every 2nd, every 3rd line of 96 and 24 reference lines, by `cartesian_sense`: NRMSE against the root sum of
    squares of all lines, no factor, where the image is not 0. Seen: 0.0076 and 0.0139; where the lines serve the maps alone, 0.0080 and
    0.0156."""
    xml, heads, _, data = scans.read_acquisitions(measured("mchiew/brain16.h5"))
    parallel = (
        f"<parallelImaging><accelerationFactor><kspace_encoding_step_1>{step}</kspace_encoding_step_1>"
        "<kspace_encoding_step_2>1</kspace_encoding_step_2></accelerationFactor>"
        "<calibrationMode>embedded</calibrationMode></parallelImaging></encoding>"
    )
    whole, messages = np.zeros((16, 96, 96), np.complex64), []
    for head, line in zip(heads, data):
        y = int(head["idx"]["kspace_encode_step_1"])
        whole[:, y] = line
        flags = wire.LAST_IN_SLICE * (y == 95 // step * step)
        if 36 <= y < 60:
            flags |= CALIBRATION_AND_IMAGING if for_images or y % step == 0 else CALIBRATION
        if y % step == 0 or 36 <= y < 60:
            messages.append(wire.acquisition(line, None, flags, y, counter=len(messages)))
    scans.Scan(xml.replace("</encoding>", parallel), messages).save(tmp_path / "scan.h5")
    (tmp_path / "sense.yaml").write_text(plain_variant("cartesian_sense"))
    result = run_client("recon", tmp_path / "scan.h5", "-c", tmp_path / "sense.yaml", "-o",
                        tmp_path / "images.h5", "--backend", "cpu")  # fmt: skip
    assert result.returncode == 0, result.stderr
    image = scans.read_images(tmp_path / "images.h5")[1][0, 0, 0]
    truth = np.linalg.norm(reference.centred_fft(whole, 96), axis=0)
    assert np.mean(image != 0) > 0.75
    assert reference.nrmse(image[image != 0], truth[image != 0]) <= most
