"""gradient_unwarp through the TCP server: its field beside gradunwarp's reference, and its images beside those of the
PyPI package `gradunwarp` on a grid phantom."""

import argparse
import shutil

import numpy as np
import pytest

import chains
import reference
import scans
import wire
from programs import Server, ends_well, measured

N, VOXEL_MM = 64, 3.5
POSITION = "<measurementInformation><patientPosition>HFS</patientPosition></measurementInformation>"
HEADER = wire.header(
    scans.header_xml("cartesian", (N, N, N)).replace("<experimentalConditions>", POSITION + "<experimentalConditions>")
)
ORIGIN = "0.25 m = R0, lnorm = 4? A(1,0) = B(1,1) = A(1,1) = 0;\n"
# Made-up coils, up to 9 mm off within the volume; the second with its z coil alone.
COILS = {
    "all.grad": "1 A( 3, 0) -0.2 z\n2 A( 5, 0) 0.05 z\n3 A( 3, 1) -0.12 x\n4 A( 3, 3) 0.02 x\n5 A( 5, 1) 0.02 x\n"
    "6 B( 3, 1) -0.15 y\n7 B( 3, 3) -0.02 y\n8 B( 5, 3) 0.02 y\n",
    "z.grad": "1 A( 3, 0) -0.2 z\n2 A( 5, 0) 0.05 z\n",
}


@pytest.fixture(scope="module")
def assets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("assets")
    for name, lines in COILS.items():
        (folder / name).write_text(ORIGIN + lines)
    (folder / "broken.grad").write_text(ORIGIN + "1 A( 3, 0) -0.O9 z\n")
    return folder


@pytest.fixture(scope="module")
def served(tmp_path_factory, assets):
    yield from ends_well(Server(tmp_path_factory.mktemp("server"), "--assets", assets, "--backend", "cpu"))


def unwarped(server, pixels, coefficients, place=(0, 0, 0), voxel_mm=VOXEL_MM, more=""):
    """Images [z, y, x] whose x, y, z are the scanner's: of a patient on the back, head first, left, anterior, inferior.
    place: of voxel floor(n / 2), in the scanner [mm]."""
    x, y, z = place
    message = wire.image(
        pixels[None], position=(x, -y, -z), field_of_view=[voxel_mm * n for n in pixels.shape[::-1]],
        read_dir=(1, 0, 0), phase_dir=(0, -1, 0), slice_dir=(0, 0, -1), image_type=5, image_series_index=1,
    )  # fmt: skip
    config = chains.pipeline(
        f"gradient_unwarp: {{coefficients: {coefficients}{more}}}", "image: {component: complex}", keys="input: images"
    )
    reply = chains.through(server, config, HEADER, [message])
    assert len(reply.images) == 1
    return reply.images[0].pixels[0]


def test_the_field_is_gradunwarps_reference(tmp_path_factory):
    """The phase of a wave tells by how much its image has moved."""
    folder = tmp_path_factory.mktemp("reference")
    shutil.copy(measured("gradunwarp/gradunwarp_coeffs.grad"), folder / "reference.grad")
    truth = np.load(measured("gradunwarp/siemens_B_output.npz"))
    v = np.linspace(-300, 300, 60).astype("f4").astype(float)
    spacing, radius_mm, cycles = v[1] - v[0], 250, 0.01
    index = np.arange(60)
    checked = 0
    for server in ends_well(Server(folder, "--assets", folder, "--backend", "cpu")):
        for axis, name in enumerate(("bx", "by", "bz")):
            along = index.reshape([60 if 2 - a == axis else 1 for a in range(3)])  # [z, y, x]
            wave = np.broadcast_to(np.exp(2j * np.pi * cycles * along), (60, 60, 60)).astype("c8")
            place = (v[30] + 0.0001, v[30], v[30])
            image = unwarped(server, wave, "reference.grad", place, spacing, ", modulate: false")
            moved = np.angle(image * np.conj(wave)) / (2 * np.pi * cycles) * spacing / radius_mm
            expected = [truth[b].transpose(2, 0, 1) for b in ("bx", "by", "bz")]
            # Voxels whose signal lies so far within the volume that all eight neighbours do.
            at = np.stack(np.meshgrid(index, index, index, indexing="ij"))[::-1] + np.stack(expected) * radius_mm / spacing
            inside = np.all((at > 4) & (at < 55), axis=0) & (np.abs(image) > 0.5)
            checked += np.count_nonzero(inside)
            # Eight taps keep the phase of so slow a wave to 1e-4 rad and better, which is 7e-5 here.
            assert np.max(np.abs(moved - expected[axis])[inside]) < 1e-3, name
            assert np.max(np.abs(expected[axis])[inside]) > 0.1, name
    assert checked > 3 * 50_000


def grid_phantom():
    """Smooth lines, 8 voxels apart along each axis."""
    return sum(0.5 + 0.5 * np.cos(2 * np.pi * (a - N // 2) / 8) for a in np.mgrid[:N, :N, :N]).astype("f4")


def by_gradunwarp(folder, image, coefficients, points, jacobian):
    """The package's image [z, y, x], by cubic splines. It evaluates harmonics on a lattice of so many points over the
    volume, and looks them up on a lattice that is stretched by points / (points - 1): many points make that small."""
    pytest.importorskip("gradunwarp", reason="needs the package gradunwarp (pip install gradunwarp)")
    nib = pytest.importorskip("nibabel")
    from gradunwarp.core.gradient_unwarp import GradientUnwarpRunner

    affine = np.diag([-VOXEL_MM, VOXEL_MM, -VOXEL_MM, 1])  # left, anterior, inferior in RAS
    affine[:3, 3] = -(affine[:3, :3] @ np.full(3, N // 2))
    nib.save(nib.Nifti1Image(image.transpose(2, 1, 0), affine), folder / "in.nii")
    reach = N // 2 * VOXEL_MM / 1000
    runner = GradientUnwarpRunner(
        argparse.Namespace(
            infile=str(folder / "in.nii"), outfile=str(folder / "out.nii"), vendor="siemens", gradfile=str(coefficients),
            coeffile=None, warp=False, nojac=not jacobian, fovmin=str(-reach), fovmax=str(reach),
            numpoints=str(points), order="3", verbose=False,
        )
    )  # fmt: skip
    runner.run()
    return np.asarray(runner.unwarper.out, float).transpose(2, 1, 0)


def by_its_harmonics(image, coefficients):
    """The same by the package's harmonics at each voxel, without its lattice."""
    coeffs = pytest.importorskip("gradunwarp.core.coeffs")
    ndimage = pytest.importorskip("scipy.ndimage")
    from gradunwarp.core.unwarp_resample import eval_spherical_harmonics

    index = np.mgrid[:N, :N, :N].astype(float)  # z, y, x
    z, y, x = (index - N // 2) * VOXEL_MM
    moved, _ = eval_spherical_harmonics(coeffs.get_coefficients("siemens", str(coefficients)), "siemens", (x, y, z))
    return ndimage.map_coordinates(image, index + np.stack([moved.z, moved.y, moved.x]) / VOXEL_MM, order=3)


# Places of all coils; brightness with the z coil alone, since the package takes the derivatives of its lattice by the
# image's voxels, with x and y exchanged: they are right where both lattices are one and x and y do not move.
@pytest.mark.parametrize("coil, points, jacobian", [("all.grad", 100, False), ("z.grad", N + 1, True)])
def test_images_are_those_of_the_package(served, assets, tmp_path, monkeypatch, coil, points, jacobian):
    monkeypatch.chdir(tmp_path)  # the package writes a file where it runs
    phantom = grid_phantom()
    truth = by_gradunwarp(tmp_path, phantom, assets / coil, points, jacobian)
    ours = unwarped(served, phantom.astype("c8"), coil, more="" if jacobian else ", modulate: false").real
    within = (slice(4, -4),) * 3
    assert reference.nrmse(phantom[within], truth[within]) > 0.07
    assert reference.nrmse(ours[within], truth[within]) <= 0.01
    if not jacobian:
        # Splines and eight taps agree on lines of 8 voxels; the rest of the difference is the package's lattice.
        assert reference.nrmse(ours[within], by_its_harmonics(phantom, assets / coil)[within]) <= 1e-3


def test_a_broken_file_is_told_by_its_line(served):
    config = chains.pipeline("gradient_unwarp: {coefficients: broken.grad}", "image", keys="input: images")
    reply = wire.exchange(served.address, [config, HEADER, wire.close()])
    assert any("line 2 of the coefficients: the coefficient is no number" in text for text in reply.texts), reply.texts
