"""Peers of ours on a GPU, by ctypes: CUDA's runtime, cuFFT and cuFINUFFT's C interface. finufft_peer.py uses them."""

import ctypes
import glob
import importlib.util
import os
import pathlib
import time

import numpy as np

TO_DEVICE, TO_HOST = 1, 2  # cudaMemcpyKind
CUFFT_C2C, CUFFT_FORWARD, CUFFT_INVERSE = 0x29, -1, 1


def load(names):
    """The first library that can be loaded, and why not."""
    problem = "no such library"
    for name in names:
        try:
            return ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL), ""
        except OSError as error:
            problem = str(error)
    return None, problem


def in_cuda(name, versions):
    folders = glob.glob("/usr/local/cuda*/lib64") + glob.glob("/usr/local/cuda*/targets/*/lib")
    return [f"{name}.so.{v}" for v in versions] + [f"{f}/{name}.so.{v}" for v in versions for f in folders]


class Cuda:
    """Memory and synchronisation of the first device."""

    def __init__(self, library):
        self.library = library

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            raise RuntimeError(f"{name} failed with {status}")

    def allocate(self, size):
        pointer = ctypes.c_void_p()
        self.call("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def upload(self, array):
        array = np.ascontiguousarray(array)
        pointer = self.allocate(array.nbytes)
        self.call("cudaMemcpy", pointer, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), TO_DEVICE)
        return pointer

    def download(self, pointer, array):
        self.call("cudaMemcpy", ctypes.c_void_p(array.ctypes.data), pointer, ctypes.c_size_t(array.nbytes), TO_HOST)
        return array

    def free(self, pointer):
        self.call("cudaFree", pointer)

    def synchronize(self):
        self.call("cudaDeviceSynchronize")


def load_cuda():
    library, problem = load(in_cuda("libcudart", (13, 12)))
    if library is None:
        return None, problem
    count = ctypes.c_int()
    if library.cudaGetDeviceCount(ctypes.byref(count)) != 0 or count.value == 0:
        return None, "no GPU"
    return Cuda(library), ""


def load_cufft():
    return load(in_cuda("libcufft", (12, 11)))


def load_cufinufft():
    names = [os.environ["CUFINUFFT_LIBRARY"]] if "CUFINUFFT_LIBRARY" in os.environ else []
    package = importlib.util.find_spec("cufinufft")
    if package is not None:
        names += [str(path) for path in pathlib.Path(package.origin).parent.glob("libcufinufft*.so")]
    # The wheel is of CUDA 12 and finds its runtime and cuFFT among what is loaded already.
    load(in_cuda("libcudart", (12,)))
    load(in_cuda("libcufft", (11,)))
    return load(names)


class CufinufftOptions(ctypes.Structure):
    """cufinufft_opts of cuFINUFFT 2.5."""

    _fields_ = [("upsampfac", ctypes.c_double),
                *((name, ctypes.c_int) for name in (
                    "gpu_method", "gpu_sort", "gpu_binsizex", "gpu_binsizey", "gpu_binsizez", "gpu_obinsizex",
                    "gpu_obinsizey", "gpu_obinsizez", "gpu_maxsubprobsize", "gpu_kerevalmeth", "gpu_spreadinterponly",
                    "gpu_maxbatchsize", "gpu_device_id")),
                ("gpu_stream", ctypes.c_void_p), ("modeord", ctypes.c_int), ("gpu_np", ctypes.c_int),
                ("debug", ctypes.c_int)]  # fmt: skip


def cufinufft_peer(cuda, library):
    """The class of cuFINUFFT's plans, with the interface of finufft_peer.Finufft."""

    class Cufinufft:
        name, place, clock = "cufinufft", "cuda", staticmethod(time.perf_counter)
        upsampling = (1.25, 2.0)

        @staticmethod
        def choices(kind, dims, coils):
            """Options to try one after the other, each with the best of those before it; the first value is the default."""
            methods = (0, 1, 2, 3, 4) if kind == 1 and dims == 3 else (0, 1, 2, 3)
            batches = dict.fromkeys((0, 1, 2, 4, coils)) if coils > 1 else (0,)
            return {"gpu_method": methods, "gpu_maxbatchsize": tuple(batches), "gpu_maxsubprobsize": (1024, 256, 4096)}

        def __init__(self, positions, shape, coils, tolerance, kind, **options):
            self.coils, self.shape, self.kind, self.count = coils, shape, kind, positions[0].size
            self.plan, self.points, self.samples, self.images = None, [], None, None
            modes = (ctypes.c_int64 * 3)(*(list(shape[::-1]) + [1, 1])[:3])  # fastest axis first
            given = CufinufftOptions()
            library.cufinufft_default_opts(ctypes.byref(given))
            for name, value in options.items():
                setattr(given, name, value)
            plan = ctypes.c_void_p()
            self.check(library.cufinufftf_makeplan(kind, len(shape), modes, 1 if kind == 1 else -1, coils,
                                                   ctypes.c_float(tolerance), ctypes.byref(plan), ctypes.byref(given)))  # fmt: skip
            self.plan = plan
            self.points = [cuda.upload((2 * np.pi * axis).astype(np.float32)) for axis in positions]
            x, y, z = (self.points + [None])[:3]
            self.check(library.cufinufftf_setpts(self.plan, ctypes.c_int64(self.count), x, y, z, ctypes.c_int64(0),
                                                 None, None, None))  # fmt: skip
            self.samples = cuda.allocate(8 * coils * self.count)
            self.images = cuda.allocate(8 * coils * int(np.prod(shape)))

        def __del__(self):
            if self.plan:
                library.cufinufftf_destroy(self.plan)
            for pointer in (*self.points, self.samples, self.images):
                if pointer:
                    cuda.free(pointer)

        @staticmethod
        def check(status):
            if status > 1:  # 1 is a warning
                raise RuntimeError(f"cuFINUFFT failed with {status}")

        def set(self, values):
            values = np.ascontiguousarray(values, np.complex64)
            to = self.samples if self.kind == 1 else self.images
            cuda.call("cudaMemcpy", to, ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(values.nbytes), TO_DEVICE)
            self.run()

        def run(self):
            self.check(library.cufinufftf_execute(self.plan, self.samples, self.images))
            cuda.synchronize()

        def get(self):
            if self.kind == 1:
                return cuda.download(self.images, np.empty((self.coils, *self.shape), np.complex64))
            return cuda.download(self.samples, np.empty((self.coils, self.count), np.complex64))

    return Cufinufft


class PlainToeplitz:
    """What plain cuFFT takes at least for a Toeplitz step: a forward and an inverse complex transform of the whole doubled
    grid. Filling the grid, the product with Q and cutting it out again are left out, in the peer's favour."""

    IN_A_ROW = 10  # as ours is measured

    def __init__(self, cuda, library, n):
        self.cuda, self.library = cuda, library
        self.grid = cuda.upload(np.zeros((n, n, n), np.complex64))
        self.plan = ctypes.c_int()
        self.check(library.cufftPlan3d(ctypes.byref(self.plan), n, n, n, CUFFT_C2C))

    @staticmethod
    def check(status):
        if status != 0:
            raise RuntimeError(f"cuFFT failed with {status}")

    def run(self):
        for _ in range(self.IN_A_ROW):
            for direction in (CUFFT_FORWARD, CUFFT_INVERSE):
                self.check(self.library.cufftExecC2C(self.plan, self.grid, self.grid, direction))
        self.cuda.synchronize()
