"""Smooths coil images with a Gaussian, whose standard deviation the config names in voxels."""

import echotrain
from echotrain import CoilImages
from scipy.ndimage import gaussian_filter


@echotrain.step(takes=CoilImages, gives=CoilImages)
def smooth(images, config):
    smoothed = images.empty()
    sigma = config["sigma"]
    gaussian_filter(images.data, (0, 0, sigma, sigma), output=smoothed, mode="wrap")
    images.meta["Smoothed"] = str(sigma)
    return smoothed
