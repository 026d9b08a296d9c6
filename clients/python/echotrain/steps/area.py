"""Memory that a step's process shares with the server."""

from __future__ import annotations

import collections
import ctypes
import mmap
import weakref
from typing import Any, Deque, Dict, List, Optional, Sequence, Tuple

import numpy as np

from ..layout import Array

ALIGNED = 64
_SET_HANDLER = 304  # PyDataMem_SetHandler among the functions of NumPy's C interface
_HANDLER_NAME = b"mem_handler"


class Inputs:
    """The server's arrays, which can only be read."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._map = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
        self._base = _address(np.frombuffer(self._map, np.uint8))
        self._size = size

    def array(self, place: int, kind: np.dtype[Any], count: int) -> Array:
        return np.frombuffer(self._map, kind, count, place)

    def place_of(self, array: Array) -> int:
        """-1 for other memory."""
        place = _address(array) - self._base
        return place if 0 <= place < self._size and place % ALIGNED == 0 else -1


class Results:
    """Arrays for the server. The memory of one is used again when neither this process nor the server holds it.

    `library`: a descriptor of the library by which NumPy makes its arrays here, while there is room; without one, only
    empty() does.
    """

    def __init__(self, descriptor: int, size: int, library: int = -1) -> None:
        self._map = mmap.mmap(descriptor, size)
        self._base = _address(np.frombuffer(self._map, np.uint8))
        self._size = size
        self._free: List[Tuple[int, int]] = [(0, size)]  # place, bytes; in order, with gaps between
        self._left: Deque[Tuple[int, int]] = collections.deque()  # by arrays that are gone
        self._held: Dict[int, List[Array]] = {}  # by the server
        self._library = _use_for_arrays(library, self._base, size)

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        """Ordinary memory where there is no room."""
        made = self.try_empty(shape, np.dtype(dtype))
        return np.empty(shape, dtype) if made is None else made

    def try_empty(self, shape: Sequence[int], kind: np.dtype[Any]) -> Optional[Array]:
        if self._library is not None:
            here = np.empty(shape, kind)
            return here if self.place_of(here) >= 0 else None
        shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
        count = 1
        for n in shape:
            count *= n
        size = max(1, -(-count * kind.itemsize // ALIGNED)) * ALIGNED
        place = self._take(size)
        if place is None:
            return None
        block: Any = (ctypes.c_char * size).from_buffer(self._map, place)
        weakref.finalize(block, self._left.append, (place, size))
        made: Array = np.frombuffer(block, kind, count).reshape(shape)
        return made

    def place_of(self, array: Array) -> int:
        """-1 for other memory."""
        place = _address(array) - self._base
        return place if 0 <= place <= self._size - array.nbytes and place % ALIGNED == 0 else -1

    def hold(self, place: int, array: Array) -> None:
        """Keeps the array until release(). The server may change it: it can no longer be written to here."""
        array.flags.writeable = False
        self._held.setdefault(place, []).append(array)

    def holds(self, array: Array) -> bool:
        """Whether the server has some of its memory already."""
        return any(np.may_share_memory(array, each) for held in self._held.values() for each in held)

    def release(self, place: int) -> None:
        held = self._held.get(place)
        if held:
            held.pop()
            if not held:
                del self._held[place]

    def _take(self, size: int) -> Optional[int]:
        if self._left:
            while self._left:
                self._free.append(self._left.popleft())
            self._free.sort()
            joined: List[Tuple[int, int]] = []
            for place, length in self._free:
                if joined and sum(joined[-1]) == place:
                    joined[-1] = (joined[-1][0], joined[-1][1] + length)
                else:
                    joined.append((place, length))
            self._free = joined
        for i, (place, length) in enumerate(self._free):
            if length >= size:
                self._free[i : i + 1] = [(place + size, length - size)] if length > size else []
                return place
        return None


def _use_for_arrays(library: int, base: int, size: int) -> Any:
    """Makes NumPy take memory of the area for arrays of this thread (gadgets/steps/arrays/numpy_memory.c).

    None where that is not possible: before NumPy 1.22, or where the system does not load the library.
    """
    if library < 0:
        return None
    try:
        loaded: Any = ctypes.CDLL(f"/proc/self/fd/{library}")
        core = __import__("numpy.core" if np.__version__.startswith("1.") else "numpy._core", fromlist=["_multiarray_umath"])
        api = core._multiarray_umath._ARRAY_API
        if np.lib.NumpyVersion(np.__version__) < "1.22.0":
            return None
    except (AttributeError, ImportError, OSError):
        return None
    python = ctypes.pythonapi
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    python.PyCapsule_New.restype = ctypes.py_object
    python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    loaded.echotrain_numpy_memory.restype = ctypes.c_void_p
    loaded.echotrain_numpy_memory.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    functions = ctypes.cast(python.PyCapsule_GetPointer(api, None), ctypes.POINTER(ctypes.c_void_p))
    set_handler = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(functions[_SET_HANDLER] or 0)
    handler = loaded.echotrain_numpy_memory(base, size)
    if not handler:
        return None
    set_handler(python.PyCapsule_New(handler, _HANDLER_NAME, None))
    return loaded


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
