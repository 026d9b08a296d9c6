"""The Python client from the sources, where it is not installed; and what its tests share."""

import os
import sys

import numpy as np

from programs import BIN, SOURCE, simulated_scan, variant

PACKAGE = SOURCE / "clients" / "python"
sys.path.insert(0, str(PACKAGE))

import echotrain  # noqa: E402,F401


def environment():
    """The environment for processes that import the client."""
    local = {"ECHOTRAIN_SERVER": str(BIN / "echotrain-server")}
    return {**os.environ, **local, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"}


def noise(*shape, seed=1):
    """Complex normal numbers."""
    return np.random.default_rng(seed).standard_normal((*shape, 2)).astype(np.float32).view(np.complex64)[..., 0]


def simulate(path, trajectory, *options):
    return simulated_scan(path, "--trajectory", trajectory, *options)


def settled(name):
    """A shipped pipeline's text whose images have the same bits in every run: on the CPU, gridded at the frame's
    end."""
    text = variant(name, ("backend: auto", "backend: cpu"))
    return text.replace("incremental: true", "incremental: false")


def pixels(images):
    return [image.data for image in images]
