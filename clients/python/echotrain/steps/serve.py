"""A step's side of its conversation with the server (gadgets/steps/arrays/array_link.h)."""

from __future__ import annotations

import copy
import os
import socket
import struct
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..errors import ScanError
from ..header import Header
from ..image import Image, Meta
from ..layout import ACQUISITION_TYPE, IMAGE_TYPE, Array
from .area import Inputs, Results
from .items import ITEMS, READOUT_KINDS, Frame, Images, Item, NormalEquations, Readouts, Samples, StepError
from .step import call, pair_of, with_config

GREETING, ITEM, END, RESULT, DONE = 1, 2, 3, 4, 5
IN_INPUTS, IN_RESULTS, AT_END = 0, 1, 2
HEAD, ENTRY = struct.Struct("<IIIIQ"), struct.Struct("<24s16sII5qQ")
VERSION = "2"
SMALL = 4096  # bytes of an array that goes through the socket faster
BETWEEN = "\x1f"  # of several values of one attribute


class Message(NamedTuple):
    kind: int
    arrays: Dict[str, Array]
    facts: Dict[str, str]


class Link:
    def __init__(self, stream: socket.socket, inputs: Inputs, results: Results) -> None:
        self._stream, self._inputs, self._results = stream, inputs, results
        self._room = memoryview(bytearray(1 << 16))
        self._begin = self._end = 0
        self._parts: List[Any] = []  # of results that wait for more

    def receive(self) -> Message:
        kind, count, released, size, _ = HEAD.unpack(self._take(HEAD.size))
        entries = [ENTRY.unpack(self._take(ENTRY.size)) for _ in range(count)]
        for (place,) in struct.iter_unpack("<Q", self._take(8 * released)):
            self._results.release(place)
        texts = str(self._take(size), "utf-8", "replace").split("\0")
        arrays = {}
        for name, dtype, rank, where, *extents, place in entries:
            shape = extents[:rank]
            kind_of = np.dtype(dtype.rstrip(b"\0").decode())
            elements = 1
            for n in shape:
                elements *= n
            if where == IN_INPUTS:
                array = self._inputs.array(place, kind_of, elements)
            else:
                array = np.frombuffer(self._take(elements * kind_of.itemsize), kind_of).copy()
                array.flags.writeable = False
            arrays[name.rstrip(b"\0").decode()] = array.reshape(shape)
        return Message(kind, arrays, dict(zip(texts[::2], texts[1::2])))

    def add(self, kind: int, arrays: Dict[str, Array], facts: Dict[str, str]) -> None:
        """A message, which flush() sends."""
        entries, ends, end_bytes = b"", [], 0
        for name, given in arrays.items():
            array = np.ascontiguousarray(given)
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            where, place = self._placed(array)
            if where == AT_END:
                place = end_bytes
                end_bytes += array.nbytes
                ends.append(array.tobytes())
            extents = (*array.shape, *[0] * (5 - array.ndim))
            entries += ENTRY.pack(name.encode(), array.dtype.str.encode(), array.ndim, where, *extents, place)
        text = "".join(f"{name}\0{value}\0" for name, value in facts.items()).encode("utf-8", "replace")
        self._parts += [HEAD.pack(kind, len(arrays), 0, len(text), end_bytes) + entries + text, *ends]

    def flush(self) -> None:
        small = b""
        for part in self._parts:
            if len(part) < SMALL:
                small += bytes(part)
                continue
            if small:
                self._stream.sendall(small)
                small = b""
            self._stream.sendall(part)
        if small:
            self._stream.sendall(small)
        self._parts = []

    def _placed(self, array: Array) -> Tuple[int, int]:
        """Where the server finds the array, which this may copy."""
        if array.nbytes < SMALL:
            return AT_END, 0
        place = self._inputs.place_of(array)
        if place >= 0:
            return IN_INPUTS, place
        place = self._results.place_of(array)
        if place < 0 or self._results.holds(array):
            made = self._results.try_empty(array.shape, array.dtype)
            if made is None:
                return AT_END, 0
            np.copyto(made, array)
            array, place = made, self._results.place_of(made)
        self._results.hold(place, array)
        return IN_RESULTS, place

    def _take(self, n: int) -> memoryview:
        """The next n bytes, until the next call."""
        if n > len(self._room):
            larger = memoryview(bytearray(n))
            have = self._end - self._begin
            larger[:have] = self._room[self._begin : self._end]
            self._room, self._begin, self._end = larger, 0, have
        if self._begin + n > len(self._room):
            rest = bytes(self._room[self._begin : self._end])
            self._room[: len(rest)] = rest
            self._begin, self._end = 0, len(rest)
        while self._end - self._begin < n:
            got = self._stream.recv_into(self._room[self._end :])
            if got == 0:
                os._exit(1)  # the scan has broken off, and nobody waits for results
            self._end += got
        view = self._room[self._begin : self._begin + n]
        self._begin += n
        if self._begin == self._end:
            self._begin = self._end = 0
        return view


class _Scan:
    """What all items of a scan have in common."""

    def __init__(self, xml: str, results: Results) -> None:
        self.xml, self.results = xml, results
        self.header: Optional[Header] = None
        try:
            self.header = Header.parse(xml)
        except ScanError:
            pass


def item_of(message: Message, takes: str, scan: _Scan) -> Item:
    arrays, facts = message.arrays, message.facts
    common: Dict[str, Any] = {"header": scan.header, "xml": scan.xml, "_empty": scan.results.empty}
    if "id" in facts:
        counters = {name: int(facts[name]) for name in Frame.__dataclass_fields__ if name != "reference"}
        common["frame"] = Frame(**counters, reference=arrays["reference"].view(ACQUISITION_TYPE)[0])
    if takes == "Images":
        head = arrays["head"].view(IMAGE_TYPE)[0:1].copy().reshape(())
        meta = Image(np.zeros(1, np.float32), attributes=facts.get("attributes", "")).meta
        return Images(arrays["data"], meta=meta, head=head, **common)
    if takes == "Readouts":
        flags = {name: facts[name] == "1" for name in ("first", "last")}
        heads = arrays["heads"].view(ACQUISITION_TYPE)
        common.update(flags, kind=READOUT_KINDS[int(facts["kind"])], trajectory=arrays.get("trajectory"))
        return Readouts(arrays["data"], heads=heads, **common)
    if takes == "NormalEquations":
        common.update(power=float(arrays["power"][0]), weight=float(facts["weight"]), maps=arrays.get("maps"))
        common.update({name: int(facts[name]) for name in ("coils", "sets")})
    common["meta"] = {
        name[5:]: value.split(BETWEEN) if BETWEEN in value else value
        for name, value in facts.items()
        if name.startswith("meta.")
    }
    for name in ("padded", "image"):
        if name in facts:
            common[name] = tuple(int(n) for n in facts[name].split(","))
    more: Dict[str, Any] = {name: array for name, array in arrays.items() if name in ("lines", "weights", "coordinates")}
    return ITEMS[takes](arrays["data"], **common, **more)


def _described(
    result: Item, takes: str, before: Optional[Meta], came: Dict[str, Array]
) -> Tuple[Dict[str, Array], Dict[str, str]]:
    arrays, facts = {"data": result.data}, {}
    if isinstance(result, Samples) and result.weights is not None:
        arrays["weights"] = result.weights
    if isinstance(result, Readouts) and result.trajectory is not None:
        arrays["trajectory"] = result.trajectory
    if isinstance(result, NormalEquations) and result.maps is not None and result.maps is not came.get("maps"):
        arrays["maps"] = result.maps
    if isinstance(result, Images) and result.head is not None:
        arrays["head"] = np.frombuffer(np.asarray(result.head, IMAGE_TYPE).tobytes(), np.uint8)
    if result.meta is not None and result.meta != before:
        if takes == "Images":
            carrier = Image(np.zeros(1, np.float32))
            carrier.set_meta(result.meta)
            facts["attributes"] = carrier.attributes
        else:
            facts["meta"] = ""
            for name, value in result.meta.items():
                facts["meta." + name] = BETWEEN.join(map(str, value)) if isinstance(value, list) else str(value)
    return arrays, facts


def serve(
    stream: socket.socket,
    files: Sequence[int],
    function: Callable[..., Any],
    takes: str,
    gives: str,
    config: Any,
) -> None:
    """Calls the function with each item of a scan.

    `files`: the memory of inputs and of results, and the library that takes NumPy's arrays from the latter.
    """
    inputs = Inputs(files[0], os.fstat(files[0]).st_size)
    results = Results(files[1], os.fstat(files[1]).st_size, files[2])
    link = Link(stream, inputs, results)
    greeting = link.receive()
    if greeting.kind != GREETING or greeting.facts.get("version") != VERSION:
        raise StepError(
            f"the server speaks version {greeting.facts.get('version')} of steps of arrays, this package {VERSION}: "
            "install clients/python of the server's own version"
        )
    said = pair_of(function)
    if said is not None and said != (ITEMS[takes], ITEMS[gives]):
        raise StepError(
            f"the step takes {said[0].__name__} and gives {said[1].__name__}, but the pipeline says takes: {takes}, "
            f"gives: {gives}"
        )
    step = with_config(function, config)
    scan = _Scan(greeting.facts.get("header", ""), results)
    while True:
        message = link.receive()
        if message.kind == END:
            return
        item = item_of(message, takes, scan)
        before = copy.deepcopy(item.meta or {})
        for result in call(step, item, ITEMS[gives]):
            link.add(RESULT, *_described(result, takes, before, message.arrays))
            del result
        link.add(DONE, {}, {})
        link.flush()
        del item, message
