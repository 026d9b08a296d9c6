"""NIfTI-1 files, from the format's definition (nifti.nimh.nih.gov/nifti-1): 348 bytes of header, then voxels."""

from __future__ import annotations

import gzip
import os
import pathlib
from typing import Any, Dict, Iterable, List, Protocol, Tuple, Union

import numpy as np

from .errors import EchotrainError, StackError
from .layout import Array

_CODES = {"uint16": 512, "int16": 4, "uint32": 768, "int32": 8, "float32": 16, "float64": 64}
_CODES.update({"complex64": 32, "complex128": 1792})

_HEADER = np.dtype(
    [
        ("sizeof_hdr", "<i4"),
        ("unused", "V35"),
        ("dim_info", "u1"),
        ("dim", "<i2", 8),
        ("intent_p", "<f4", 3),
        ("intent_code", "<i2"),
        ("datatype", "<i2"),
        ("bitpix", "<i2"),
        ("slice_start", "<i2"),
        ("pixdim", "<f4", 8),
        ("vox_offset", "<f4"),
        ("scl_slope", "<f4"),
        ("scl_inter", "<f4"),
        ("slice_end", "<i2"),
        ("slice_code", "u1"),
        ("xyzt_units", "u1"),
        ("cal_max", "<f4"),
        ("cal_min", "<f4"),
        ("slice_duration", "<f4"),
        ("toffset", "<f4"),
        ("unused2", "V8"),
        ("descrip", "S80"),
        ("aux_file", "S24"),
        ("qform_code", "<i2"),
        ("sform_code", "<i2"),
        ("quatern", "<f4", 3),
        ("qoffset", "<f4", 3),
        ("srow", "<f4", (3, 4)),
        ("intent_name", "S16"),
        ("magic", "S4"),
    ]
)
assert _HEADER.itemsize == 348


class Placed(Protocol):
    """Pixels with a place in the patient: an Image, or what has the same two attributes."""

    data: Array  # [channel, z, y, x]

    @property
    def affine(self) -> Array:
        """4 x 4: voxel (x, y, z) -> mm in RAS."""


def volume(images: Iterable[Placed]) -> Tuple[Array, Array]:
    """Voxels [x, y, z, t, channel] in one space, and their affine (voxel -> mm, RAS).

    Images of one slice each that lie at different positions along their slice direction become z, in that order;
    images at the same position become t, in the order given. StackError where they differ in direction or size,
    or are not evenly spaced.
    """
    all_images = list(images)
    if not all_images:
        raise StackError("there are no images to write")
    first = all_images[0]
    for number, image in enumerate(all_images):
        same = image.data.shape == first.data.shape and np.allclose(
            image.affine[:3, :3], first.affine[:3, :3], atol=1e-4
        )
        if not same:
            raise StackError(
                f"image {number} differs from image 0 in size, voxel size or orientation; write it separately"
            )
    normal = first.affine[:3, 2] / np.linalg.norm(first.affine[:3, 2])
    places: Dict[float, List[Placed]] = {}
    for image in all_images:
        places.setdefault(round(float(image.affine[:3, 3] @ normal), 3), []).append(image)
    ordered = [places[place] for place in sorted(places)]
    if len({len(at_place) for at_place in ordered}) > 1:
        raise StackError(f"slices have different numbers of images: {[len(at_place) for at_place in ordered]}")
    if len(ordered) > 1 and first.data.shape[1] > 1:
        raise StackError("the images are volumes at different positions; write them separately")
    affine = ordered[0][0].affine
    if len(ordered) > 1:
        steps = np.diff([at_place[0].affine[:3, 3] for at_place in ordered], axis=0)
        if not np.allclose(steps, steps[0], atol=1e-2):
            raise StackError("the slices are not evenly spaced; write them separately")
        affine[:3, 2] = steps.mean(axis=0)
    # [slice, t, channel, z, y, x]; slice or z is 1.
    data = np.stack([np.stack([image.data for image in at_place]) for at_place in ordered])
    slices, times, channels, z, y, x = data.shape
    return data.transpose(5, 4, 0, 3, 1, 2).reshape(x, y, slices * z, times, channels), affine


def _rotation(affine: Array) -> Tuple[Array, float]:
    """The quaternion (b, c, d) of the rotation, and the sign of the z axis. Takes the nearest rotation."""
    directions = affine[:3, :3] / np.linalg.norm(affine[:3, :3], axis=0)
    left, _, right = np.linalg.svd(directions)
    rotation = left @ right
    sign = 1.0 if np.linalg.det(rotation) > 0 else -1.0
    rotation[:, 2] *= sign
    # The eigenvector of the largest eigenvalue is the quaternion (Bar-Itzhack, J. Guidance 23, 2000).
    r = rotation
    k = np.array(
        [
            [r[0, 0] + r[1, 1] + r[2, 2], r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]],
            [r[2, 1] - r[1, 2], r[0, 0] - r[1, 1] - r[2, 2], r[0, 1] + r[1, 0], r[0, 2] + r[2, 0]],
            [r[0, 2] - r[2, 0], r[0, 1] + r[1, 0], r[1, 1] - r[0, 0] - r[2, 2], r[1, 2] + r[2, 1]],
            [r[1, 0] - r[0, 1], r[0, 2] + r[2, 0], r[1, 2] + r[2, 1], r[2, 2] - r[0, 0] - r[1, 1]],
        ]
    )
    quaternion = np.linalg.eigh(k)[1][:, -1]
    return (quaternion if quaternion[0] >= 0 else -quaternion)[1:], sign


def nifti_bytes(images: Iterable[Placed]) -> bytes:
    """A whole .nii file."""
    data, affine = volume(images)
    kind = data.dtype.newbyteorder("<")
    quaternion, sign = _rotation(affine)
    head = np.zeros((), _HEADER)
    head["sizeof_hdr"] = 348
    head["dim"] = [5 if data.shape[4] > 1 else 4 if data.shape[3] > 1 else 3, *data.shape, 1, 1]
    head["datatype"], head["bitpix"] = _CODES[kind.name], 8 * kind.itemsize
    head["pixdim"] = [sign, *np.linalg.norm(affine[:3, :3], axis=0), 1, 1, 1, 1]
    head["vox_offset"], head["scl_slope"] = 352, 1
    head["xyzt_units"] = 2 + 8  # mm and s
    head["descrip"] = b"Echotrain"
    head["qform_code"] = head["sform_code"] = 1  # scanner's coordinates
    head["quatern"], head["qoffset"], head["srow"] = quaternion, affine[:3, 3], affine[:3]
    head["magic"] = b"n+1\0"
    return head.tobytes() + bytes(4) + np.asarray(data, kind).tobytes(order="F")


def save_nifti(images: Iterable[Placed], path: Union[str, os.PathLike[str]]) -> None:
    """Images as one NIfTI-1 file (.nii, .nii.gz), arranged as volume() says. Complex pixels stay complex."""
    target = pathlib.Path(path)
    if not target.name.endswith((".nii", ".nii.gz")):
        raise EchotrainError(f"'{target}' does not name a NIfTI file; end it with .nii or .nii.gz")
    content = nifti_bytes(images)
    target.write_bytes(gzip.compress(content) if target.name.endswith(".gz") else content)


def to_nibabel(images: Iterable[Placed]) -> Any:
    """As a `nibabel.Nifti1Image` (needs the package nibabel: pip install 'echotrain[nifti]')."""
    import nibabel.nifti1

    data, affine = volume(images)
    while data.ndim > 3 and data.shape[-1] == 1:
        data = data[..., 0]
    make: Any = nibabel.nifti1.Nifti1Image
    result = make(data, affine)
    result.header.set_xyzt_units("mm", "sec")
    return result
