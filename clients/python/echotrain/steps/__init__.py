"""Python functions on arrays as steps of a pipeline, and on files (docs/python-steps.md)."""

from .files import run_step
from .items import CoilImages, Frame, Images, Item, KSpace, NormalEquations, Readouts, Samples, StepError
from .step import step

__all__ = [
    "CoilImages",
    "Frame",
    "Images",
    "Item",
    "KSpace",
    "NormalEquations",
    "Readouts",
    "Samples",
    "StepError",
    "run_step",
    "step",
]
