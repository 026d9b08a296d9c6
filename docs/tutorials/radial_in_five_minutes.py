# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Radial in five minutes
#
# A notebook as text: `jupytext --to notebook radial_in_five_minutes.py`, or open it in an editor that knows cells (`# %%`).
# It needs `echotrain[view]` with a server's program, as the binary wheel has: `local=True` starts it.

# %%
import numpy as np
import echotrain

# %% [markdown]
# ## A scan
#
# Blobs, seen by four coils, along 201 spokes at golden angles. A blob's transform is known, so k-space is exact.

# %%
MATRIX, SPOKES, SAMPLES = 128, 201, 512

angles = np.pi * (np.sqrt(5) - 1) / 2 * np.arange(SPOKES)
along = (np.arange(SAMPLES) - SAMPLES // 2) / SAMPLES  # -0.5 to 0.5 cycles/pixel
trajectory = np.stack([np.outer(np.cos(angles), along), np.outer(np.sin(angles), along)], axis=-1)

BLOBS = [(0, 0, 14, 1.0), (20, -9, 5, 0.8), (-18, 12, 4, -0.6), (4, 24, 3, 0.5)]  # x, y, width, height
COILS = np.array([1, 0.7j, -0.5, 0.4 - 0.6j])[:, None, None]

kspace = sum(
    height * 2 * np.pi * width**2
    * np.exp(-2 * np.pi**2 * width**2 * (trajectory**2).sum(axis=-1) - 2j * np.pi * (trajectory @ [x, y]))
    for x, y, width, height in BLOBS
)  # fmt: skip
kspace = COILS * kspace  # [coil, spoke, sample]

# %%
scan = echotrain.from_array(kspace, trajectory, matrix=MATRIX, fov=256)
scan.plot()
scan

# %% [markdown]
# ## Its image
#
# The first call starts the server, later ones use it. In a notebook an image shows itself.

# %%
(image,) = echotrain.reconstruct(scan, pipeline="radial_2d", local=True)
image

# %% [markdown]
# ## Against the truth

# %%
row, column = np.mgrid[:MATRIX, :MATRIX] - MATRIX // 2
truth = sum(h * np.exp(-((column - x) ** 2 + (row - y) ** 2) / (2 * w**2)) for x, y, w, h in BLOBS)
truth = np.abs(truth) * np.sqrt((np.abs(COILS) ** 2).sum())
pixels = image.data[0, 0]
error = np.linalg.norm(pixels * (pixels * truth).sum() / (pixels**2).sum() - truth) / np.linalg.norm(truth)
print(f"relative error {error:.2e}")

# %% [markdown]
# ## Fewer spokes
#
# Frames of 34 spokes: gridding leaves streaks.

# %%
few = echotrain.from_array(kspace[:, :34], trajectory[:34], matrix=MATRIX, fov=256)
(streaked,) = echotrain.reconstruct(few, pipeline="radial_2d", local=True)
streaked

# %% [markdown]
# ## While it runs
#
# Spokes leave one by one, and frames come back meanwhile; the pipeline is yours: a copy of a shipped one, a mapping, or YAML.

# %%
frames = []
with echotrain.Client(local=True) as client:
    stack = kspace[None].repeat(3, axis=0)  # [repetition, coil, spoke, sample]
    for frame in client.reconstruct(stack, trajectory, "radial_2d", matrix=MATRIX, fov=256, rate=2000, progress=print):
        frames.append(frame)
frames

# %% [markdown]
# ## Mistakes
#
# Numbers in other units are warned of before they are sent.

# %%
_ = echotrain.from_array(kspace, trajectory * MATRIX, matrix=MATRIX, fov=0.256)

# %%
echotrain.save_nifti(frames, "radial.nii.gz")
