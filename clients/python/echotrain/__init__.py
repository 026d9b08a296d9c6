"""Client of the Echotrain MRI reconstruction server: k-space in, images out, while the scan runs.

    import echotrain

    with echotrain.Client("host", 9002) as client:
        for image in client.reconstruct(kspace, trajectory, pipeline="spiral_2d", matrix=128, density=weights):
            print(image)

    images = echotrain.reconstruct("scan.h5", pipeline="radial_2d", progress=True)

Conventions: k-space [coil, line, sample] (ArrayReadouts has the rest), trajectories [line, sample, dimension] in
cycles/pixel in the order x, y, z, images [channel, z, y, x], sizes in headers (x, y, z). docs/python.md shows more.
"""

from .aio import AsyncClient
from .arrays import ArrayReadouts
from .cfl import from_bart, read_cfl, save_cfl, write_cfl
from .client import Client, reconstruct
from .link.detached import DetachedScan
from .errors import (
    ConnectionFailed,
    EchotrainError,
    NoImages,
    ProtocolError,
    ScanError,
    ScanWarning,
    ServerError,
    ServerTimeout,
    ServerWarning,
    StackError,
)
from .files import read_array
from .hdf5 import Hdf5Scan, ImageFile, read_images, write_images, write_scan
from .header import Header
from .image import Image
from .messages import Acquisition, Waveform
from .nifti import save_nifti, to_nibabel
from .progress import Progress
from .scan import Scan, from_array, make_scan
from .stack import stack
from .steps import CoilImages, Frame, Images, KSpace, NormalEquations, Readouts, Samples, StepError, run_step, step

__version__ = "0.2.0"  # of CMakeLists.txt: tests/test_version.py

__all__ = [
    "Acquisition",
    "ArrayReadouts",
    "AsyncClient",
    "Client",
    "CoilImages",
    "ConnectionFailed",
    "DetachedScan",
    "EchotrainError",
    "Frame",
    "Hdf5Scan",
    "Header",
    "Image",
    "ImageFile",
    "Images",
    "KSpace",
    "NoImages",
    "NormalEquations",
    "Progress",
    "ProtocolError",
    "Readouts",
    "Samples",
    "Scan",
    "ScanError",
    "ScanWarning",
    "ServerError",
    "ServerTimeout",
    "ServerWarning",
    "StackError",
    "StepError",
    "Waveform",
    "from_array",
    "from_bart",
    "make_scan",
    "read_array",
    "read_cfl",
    "read_images",
    "reconstruct",
    "run_step",
    "save_cfl",
    "save_nifti",
    "stack",
    "step",
    "to_nibabel",
    "write_cfl",
    "write_images",
    "write_scan",
]
