"""ISMRMRD headers and HDF5 files: read, written and turned into messages with h5py alone."""

import dataclasses
import struct

import h5py
import numpy as np

import wire


def header_xml(trajectory, encoded, recon=None, readouts=1, repetitions=1, system=""):
    """A minimal header; `encoded` and `recon` are (x, y, z) matrices of 1 mm voxels."""

    def space(name, matrix):
        def axes(of):
            return "".join(f"<{axis}>{of(n)}</{axis}>" for axis, n in zip("xyz", matrix))

        return (
            f"<{name}><matrixSize>{axes(int)}</matrixSize><fieldOfView_mm>{axes(float)}</fieldOfView_mm></{name}>"
        )

    def limit(name, n, center):
        return f"<{name}><minimum>0</minimum><maximum>{n - 1}</maximum><center>{center}</center></{name}>"

    return (
        '<?xml version="1.0" encoding="UTF-8"?><ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD">'
        f"<acquisitionSystemInformation>{system}</acquisitionSystemInformation>"
        "<experimentalConditions><H1resonanceFrequency_Hz>63500000</H1resonanceFrequency_Hz></experimentalConditions>"
        f"<encoding>{space('encodedSpace', encoded)}{space('reconSpace', recon or encoded)}<encodingLimits>"
        f"{limit('kspace_encoding_step_1', readouts, readouts // 2)}{limit('repetition', repetitions, 0)}"
        f"</encodingLimits><trajectory>{trajectory}</trajectory></encoding></ismrmrdHeader>"
    )


@dataclasses.dataclass
class Scan:
    """A header and the messages of its readouts."""

    xml: str
    messages: list = dataclasses.field(repr=False)

    def stream(self, config):
        return [config, wire.header(self.xml), *self.messages, wire.close()]

    def save(self, path):
        """Writes the scan as an ISMRMRD file, in libismrmrd's layout."""
        row = np.dtype(
            [
                ("head", wire.ACQUISITION_HEAD),
                ("traj", h5py.vlen_dtype(np.float32)),
                ("data", h5py.vlen_dtype(np.float32)),
            ]
        )
        rows = np.empty(len(self.messages), row)
        for i, message in enumerate(self.messages):
            head = wire.head_of(message)
            points = 4 * int(head["number_of_samples"]) * int(head["trajectory_dimensions"])
            rows[i]["head"] = head
            rows[i]["traj"] = np.frombuffer(message[342 : 342 + points], np.float32)
            rows[i]["data"] = np.frombuffer(message[342 + points :], np.float32)
        with h5py.File(path, "w") as file:
            group = file.create_group("dataset")
            group.create_dataset("xml", data=[self.xml], dtype=h5py.string_dtype())
            group.create_dataset("data", data=rows, maxshape=(None,))


def random_kspace(shape, seed):
    """Complex normal numbers."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


def cartesian(kspace, recon_x=None, **options):
    """kspace: [repetition, coil, y, x]."""
    repetitions, _, ny, nx = kspace.shape
    messages = []
    for repetition in range(repetitions):
        for y in range(ny):
            flags = wire.FIRST_IN_SLICE * (y == 0) | wire.LAST_IN_SLICE * (y == ny - 1)
            line = kspace[repetition, :, y]
            messages.append(wire.acquisition(line, None, flags, y, repetition, counter=len(messages), **options))
    xml = header_xml("cartesian", (nx, ny, 1), (recon_x or nx, ny, 1), ny, repetitions)
    return Scan(xml, messages)


def non_cartesian(kind, matrix, trajectory, data):
    """trajectory: [readout, sample, dimension]; data: [readout, coil, sample]."""
    count = len(data)
    messages = []
    for r in range(count):
        flags = wire.FIRST_IN_SLICE * (r == 0) | wire.LAST_IN_SLICE * (r == count - 1)
        messages.append(wire.acquisition(data[r], trajectory[r], flags, r, center=0, counter=r))
    return Scan(header_xml(kind, matrix, readouts=count), messages)


def read_acquisitions(path, group="dataset"):
    """(xml, heads, trajectories, data): per readout [sample, dimension] and [channel, sample]."""
    with h5py.File(path) as file:
        xml = file[group]["xml"][0]
        rows = file[group]["data"][:]
    heads = rows["head"]
    trajectories = [
        np.asarray(row).reshape(-1, max(1, int(head["trajectory_dimensions"])))
        for row, head in zip(rows["traj"], heads)
    ]
    data = [
        np.ascontiguousarray(row, np.float32).view(np.complex64).reshape(int(head["active_channels"]), -1)
        for row, head in zip(rows["data"], heads)
    ]
    return xml.decode() if isinstance(xml, bytes) else xml, heads, trajectories, data


def read_messages(path):
    """The header and the readouts of an ISMRMRD file as messages."""
    xml, heads, trajectories, data = read_acquisitions(path)
    readouts = (
        struct.pack("<H", wire.ACQUISITION) + head.tobytes() + points.astype("<f4").tobytes() + samples.tobytes()
        for head, points, samples in zip(heads, trajectories, data)
    )
    return [wire.header(xml), *readouts]


def read_images(path, series="image_1", group="dataset"):
    """(heads, pixels): pixels [image, channel, z, y, x]."""
    with h5py.File(path) as file:
        images = file[group][series]
        pixels = images["data"][:]
        heads = images["header"][:]
    if pixels.dtype.names:
        pixels = pixels[pixels.dtype.names[0]] + 1j * pixels[pixels.dtype.names[1]]
    return heads, pixels


def series_of(path, group="dataset"):
    """The names of the groups that hold images."""
    with h5py.File(path) as file:
        return [name for name, each in file[group].items() if name.startswith("image_") and "data" in each]


def read_array(path, name, group="dataset"):
    with h5py.File(path) as file:
        values = file[group][name][:]
    if values.dtype.names:
        values = values[values.dtype.names[0]] + 1j * values[values.dtype.names[1]]
    return values
