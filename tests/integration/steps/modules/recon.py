"""Recon from readouts: a plain 2D Cartesian scan to root-sum-of-squares images."""

import ismrmrd
import numpy as np


def process(connection, config, header):
    matrix = header.encoding[0].encodedSpace.matrixSize
    lines = {}
    for readout in connection:
        if not isinstance(readout, ismrmrd.Acquisition) or readout.is_flag_set(ismrmrd.ACQ_IS_NOISE_MEASUREMENT):
            continue
        lines[readout.idx.kspace_encode_step_1] = readout
        if readout.is_flag_set(ismrmrd.ACQ_LAST_IN_SLICE):
            connection.send_image(image_of(lines, matrix))
            lines = {}


def image_of(lines, matrix):
    first = next(iter(lines.values()))
    kspace = np.zeros((first.active_channels, matrix.y, matrix.x), np.complex64)
    for step, readout in lines.items():
        kspace[:, step] = readout.data
    shifted = np.fft.ifft2(np.fft.ifftshift(kspace, axes=(1, 2)), axes=(1, 2))
    coils = np.fft.fftshift(shifted, axes=(1, 2))
    pixels = np.sqrt((np.abs(coils) ** 2).sum(axis=0)).astype(np.float32)
    image = ismrmrd.Image.from_array(pixels[np.newaxis, np.newaxis], acquisition=first, transpose=False)
    image.image_index, image.image_series_index = 1 + first.idx.repetition, 1
    return image
