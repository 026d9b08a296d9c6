"""A server whose allocations (a GPU's too), writes, accepts or fsyncs fail when a test says so (tests/support/faults.c)."""

import mmap
import os
import struct

import pytest

from programs import BIN, Server

LIBRARY = BIN / "libechotrain_faults.so"
FIELDS = ("seen", "first", "last", "size", "error", "fired")


class Kind:
    """One kind of call that can fail: a struct fault of the control file."""

    def __init__(self, control, offset):
        self.control, self.offset = control, offset

    def _place(self, name):
        return self.offset + 8 * FIELDS.index(name)

    def __getitem__(self, name):
        return struct.unpack_from("<q", self.control, self._place(name))[0]

    def _set(self, name, value):
        struct.pack_into("<q", self.control, self._place(name), value)

    def fail(self, first, count=1, size=0, error=0):
        """Makes `count` calls (0: none) fail from number `first` on; calls of at least `size` bytes count from now."""
        self._set("last", 0)
        for name, value in (("size", size), ("error", error), ("first", first), ("seen", 0), ("fired", 0)):
            self._set(name, value)
        self._set("last", first + count - 1)

    def stop(self):
        self._set("last", 0)

    def count(self, size=0):
        """Counts calls from now on; none fails."""
        self.fail(1, count=0, size=size)


class FaultyServer(Server):
    """Keeps no plans, so that its memory says whether sessions give back what they take."""

    def __init__(self, folder, *arguments):
        if not LIBRARY.exists():
            pytest.skip(f"{LIBRARY} is not built (sanitizers replace what it replaces)")
        path = folder / "faults"
        path.write_bytes(bytes(mmap.PAGESIZE))
        with open(path, "r+b") as file:
            self.control = mmap.mmap(file.fileno(), mmap.PAGESIZE)
        kinds = [Kind(self.control, 8 * len(FIELDS) * i) for i in range(7)]
        self.allocation, self.sending, self.accepting, self.device_allocation, self.pinned_allocation = kinds[:5]
        self.storing, self.syncing = kinds[5:]  # writes to files; fsync and fdatasync
        caches = {f"ECHOTRAIN_{name}_CACHE_MIB": "0" for name in ("PLAN", "OPERATOR", "DISK")}
        environment = {"LD_PRELOAD": str(LIBRARY), "ECHOTRAIN_FAULTS": str(path), **caches}
        super().__init__(folder, *arguments, environment=environment)

    def died(self):
        return self.process.poll() is not None
