"""The files and folders in which the command line leaves images."""

from __future__ import annotations

import pathlib
from typing import Dict, List, Optional

import numpy as np

from ..cfl import save_cfl
from ..errors import EchotrainError
from ..hdf5 import ImageFile
from ..image import Image
from ..nifti import save_nifti
from ..stack import stack


class Output:
    """OUT.h5, OUT.npy, OUT.cfl, OUT.nii, OUT.nii.gz, or a folder of PNG files. Replaces an older file when the first
    image comes, not before."""

    def __init__(self, path: str, xml: str) -> None:
        self._path, self._xml = pathlib.Path(path), xml
        name = self._path.name.lower()
        endings = {".h5": "h5", ".hdf5": "h5", ".npy": "npy", ".cfl": "cfl", ".nii": "nii", ".nii.gz": "nii"}
        self._kind = next((kind for ending, kind in endings.items() if name.endswith(ending)), "png")
        if self._kind == "png" and self._path.suffix and not self._path.is_dir():
            raise EchotrainError(
                f"-o {path}: end it with .h5, .npy, .cfl, .nii or .nii.gz; the name of a folder for pictures has no ending"
            )
        self._file: Optional[ImageFile] = None
        self._kept: List[Image] = []
        self._counts: Dict[int, int] = {}
        self.images = 0

    def add(self, image: Image) -> None:
        self.images += 1
        if self._kind == "h5":
            if self._file is None:
                self._file = ImageFile(self._path, self._xml)
            self._file.append(image)
        elif self._kind == "png":
            self._path.mkdir(parents=True, exist_ok=True)
            number = self._counts[image.series] = self._counts.get(image.series, 0) + 1
            image.save_png(self._path / f"image_{image.series}_{number:04}.png")
        else:
            self._kept.append(image)

    def finish(self) -> None:
        """Writes what can be written only at the end, even if the scan was incomplete."""
        if self._file is not None:
            self._file.close()
        if self._kept and self._kind == "npy":
            np.save(self._path, stack(self._kept))
        elif self._kept and self._kind == "cfl":
            save_cfl(self._kept, self._path)
        elif self._kept:
            save_nifti(self._kept, self._path)
