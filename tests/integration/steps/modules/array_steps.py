"""Functions on arrays, and some that go wrong in the way that their config says."""

import fcntl
import mmap
import os
import signal
import time

import echotrain
import numpy as np
from echotrain import CoilImages, Images, KSpace, NormalEquations, Readouts, Samples


def same(item):
    return item


def copied(item):
    return np.array(item.data)


def twice(item):
    out = item.empty()
    np.multiply(item.data, 2, out=out)
    return out


def _sum(values, axis, n, first=None):
    """The transform of one axis, by direct sums in float64; `first`: how many voxels are kept about the centre."""
    kept = first or n
    k, r = (np.arange(n) - n // 2) / n, np.arange(kept) - kept // 2
    return np.moveaxis(np.tensordot(np.exp(2j * np.pi * np.outer(r, k)) / n, values, (1, axis)), 0, axis)


def _transform(kspace):
    assert kspace.padded == (1, *kspace.data.shape[2:])
    return _sum(_sum(kspace.data.astype(complex), 2, kspace.padded[1]), 3, kspace.padded[2], kspace.image[2])


@echotrain.step(takes=KSpace, gives=CoilImages)
def transform(kspace):
    return _transform(kspace).astype(np.complex64)


@echotrain.step(takes="KSpace", gives="Images")
def finished(kspace):
    assert kspace.lines.shape == kspace.data.shape[1:3] and kspace.lines.all()
    assert kspace.header.matrix[0] == kspace.data.shape[3] and "<ismrmrdHeader" in kspace.xml
    assert kspace.frame.readouts == kspace.data.shape[2] and kspace.frame.reference["active_channels"] == 2
    return Images(np.sqrt(np.sum(np.abs(_transform(kspace)) ** 2, axis=0, keepdims=True)), meta={"Of": ["a", "b"]})


@echotrain.step(takes=CoilImages, gives=Images)
def parts(images):
    return [images.data[:1], images.data.real[:1] - 1, None, np.abs(images.data[:1]).astype(float)]


def none_of_odd(images):
    return None if images.frame.repetition % 2 else images


@echotrain.step(takes=Samples, gives=CoilImages)
def adjoint(samples):
    """The sum of w d exp(2 pi i k r)."""
    _, ny, nx = samples.image
    x, y = np.arange(nx) - nx // 2, np.arange(ny) - ny // 2
    ex = np.exp(2j * np.pi * np.outer(samples.coordinates[:, 0], x))
    ey = np.exp(2j * np.pi * np.outer(samples.coordinates[:, 1], y))
    weighted = samples.data * samples.weights[:, None]
    return np.einsum("sc,sy,sx->cyx", weighted, ey, ex, optimize=True)[:, None].astype(np.complex64)


def half_weights(samples):
    return Samples(samples.data, weights=samples.weights / 2)


def invert(images):
    assert images.head["image_index"] > 0
    images.meta["Inverted"] = "yes"
    return Images(images.data.max() - images.data, head=images.head)


@echotrain.step(takes=Readouts, gives=Readouts)
def weighted_lines(readouts):
    """One channel, and lines with weights by their number."""
    assert readouts.kind == "imaging" and readouts.trajectory is None
    numbers = readouts.heads["idx"]["kspace_encode_step_1"]
    assert readouts.data.shape == (len(numbers), 2, readouts.heads["number_of_samples"][0])
    return readouts.data[:, 1:] * (1 + numbers[:, None, None])


def turned(readouts):
    """The trajectory turned by a quarter."""
    x, y = np.moveaxis(readouts.trajectory, -1, 0)
    return Readouts(readouts.data, trajectory=np.stack([-y, x], -1))


def no_readouts(readouts):
    return None


def more_readouts(readouts):
    return [readouts, readouts]


def known_maps(coils, n):
    at = np.arange(n) / n
    return np.stack([np.exp(1j * at[:, None] * c) * (0.5 + (at if c % 2 else 1 - at)) for c in range(coils)])[:, None]


@echotrain.step(takes=NormalEquations, gives=NormalEquations)
def set_maps(equations):
    assert equations.maps is None and equations.coils == len(equations.data) and equations.power > 0
    equations.maps = known_maps(equations.coils, equations.data.shape[-1])
    return equations


@echotrain.step(takes=NormalEquations, gives=CoilImages)
def right_side(equations):
    return equations.data / equations.maps.shape[0]


def tell_memory(images):
    """What a process can reach of the memory that it shares, as an image's attributes."""
    files = [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")]
    links = {os.readlink(file): int(os.path.basename(file)) for file in files if os.path.islink(file)}
    inputs, results = (next(links[link] for link in links if "echotrain_" + each in link) for each in ("inputs", "results"))
    size = os.fstat(inputs).st_size
    found = mmap.mmap(inputs, size, prot=mmap.PROT_READ)
    images.meta["Reached"] = str(found.find(b"a secret of another scan"))
    for name, reach in (
        ("Map", lambda: mmap.mmap(inputs, size)),
        ("Write", lambda: os.pwrite(inputs, b"x", 0)),
        ("Cut", lambda: os.truncate(inputs, 0)),
        ("CutResults", lambda: os.truncate(results, 0)),
        ("Reopened", lambda: mmap.mmap(os.open(f"/proc/self/fd/{inputs}", os.O_RDWR), size)),
        ("Unseal", lambda: fcntl.fcntl(results, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)),
    ):
        try:
            reach()
            images.meta[name] = "possible"
        except OSError as error:
            images.meta[name] = type(error).__name__
    return images


def own_arrays(images):
    """Where arrays lie that numpy makes, and that a process which is forked has its own."""
    found = images.data * np.float32(1)
    with open("/proc/self/maps") as maps:
        areas = [line.split()[0].split("-") for line in maps if "echotrain_results" in line]
    begin, end = (int(each, 16) for each in areas[0])
    images.meta["Lies"] = str(begin <= found.__array_interface__["data"][0] < end)
    before = found.copy()
    child = os.fork()
    if child == 0:
        made = [np.full(found.shape, 9, found.dtype) for _ in range(8)]
        same = np.array_equal(found, before) and all((each == 9).all() for each in made)
        found[:] = 7
        os._exit(0 if same else 1)
    made = [np.full(found.shape, 5, found.dtype) for _ in range(8)]
    images.meta["Child"] = str(os.waitpid(child, 0)[1])
    images.meta["Parent"] = str(np.array_equal(found, before) and all((each == 5).all() for each in made))
    return found


def changes(images):
    """Arrays that grow, and that are made of zeros, in memory that was used before."""
    for n in (2, 64, 4096, 100000):
        kept = [np.full(n, 3.0) for _ in range(3)]
        del kept[1]
        grown = np.arange(n, dtype=float)
        grown.resize(3 * n, refcheck=False)
        assert np.array_equal(grown[:n], np.arange(n)) and not grown[n:].any() and not np.zeros(2 * n).any()
    return images


def keep(images):
    """Holds every item's results, so that the memory of results becomes full."""
    keep.made.append(images.empty())
    keep.made[-1][:] = images.data
    return keep.made[-1]


keep.made = []


def wrong(item, config):
    print(f"process {os.getpid()} will {config}", flush=True)
    if config == "raise":
        raise ValueError("the phantom has no head")
    if config == "write":
        item.data[0] = 1
    if config == "exit":
        os._exit(7)
    if config == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if config == "hang":
        time.sleep(3600)
    if config == "spin":
        while True:
            pass
    if config == "flood":
        while True:
            os.write(1, b"more\n" * 4096)
    if config == "shape":
        return item.data[:, :, 1:]
    if config == "type":
        return item.data > 0
    if config == "item":
        return KSpace(item.data)
    if config == "garbage":
        os.write(3, b"\xff" * 4096)
    if config == "early":
        os.write(3, b"\4\0\0\0" + bytes(20))  # a result that holds nothing
    if config == "outside":
        entry = b"data".ljust(24, b"\0") + b"<c8".ljust(16, b"\0") + np.array([4, 1], "<u4").tobytes()
        entry += np.array([*item.data.shape, 0, 1 << 62], "<i8").tobytes()
        os.write(3, np.array([4, 1, 0, 0, 0, 0], "<u4").tobytes() + entry)
    if config == "earlier":
        entry = b"data".ljust(24, b"\0") + b"<c8".ljust(16, b"\0") + np.array([4, 0], "<u4").tobytes()
        entry += np.array([*item.data.shape, 0, 1 << 20], "<i8").tobytes()
        os.write(3, np.array([4, 1, 0, 0, 0, 0], "<u4").tobytes() + entry)
    if config == "memory":
        return np.ones(1 << 32)
    return item
