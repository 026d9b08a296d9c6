"""Filter on readouts: a Hann window along each readout; one goes back for each that comes."""

import ismrmrd
import numpy as np


def process(connection, config, header):
    for readout in connection:
        if isinstance(readout, ismrmrd.Acquisition):
            readout.data[:] *= np.hanning(readout.number_of_samples + 1)[:-1].astype(np.float32)
            connection.send_acquisition(readout)
