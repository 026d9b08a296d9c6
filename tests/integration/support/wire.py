"""The streaming protocol in plain Python, written from its description and not from the C++ code under test.

A scan to send is a list of byte strings (`b"".join` them for a file); a reply is parsed strictly: any byte that is not
part of a whole message, a missing CLOSE or anything after it is an error.
"""

import dataclasses
import ipaddress
import socket
import struct

import numpy as np

from connection import sending

CONFIG_FILE, CONFIG_TEXT, HEADER, CLOSE, TEXT, QUERY, RESPONSE = 1, 2, 3, 4, 5, 6, 7
ACQUISITION, IMAGE, WAVEFORM = 1008, 1022, 1026
NOISE, LAST_IN_SLICE, FIRST_IN_SLICE = 1 << 18, 1 << 7, 1 << 6

COUNTERS = np.dtype(
    [(name, "<u2") for name in ("kspace_encode_step_1", "kspace_encode_step_2", "average", "slice", "contrast")]
    + [(name, "<u2") for name in ("phase", "repetition", "set", "segment")]
    + [("user", "<u2", 8)]
)
# Packed, and with libismrmrd's names: its HDF5 files have the same layout.
ACQUISITION_HEAD = np.dtype(
    [("version", "<u2"), ("flags", "<u8"), ("measurement_uid", "<u4"), ("scan_counter", "<u4")]
    + [("acquisition_time_stamp", "<u4"), ("physiology_time_stamp", "<u4", 3), ("number_of_samples", "<u2")]
    + [("available_channels", "<u2"), ("active_channels", "<u2"), ("channel_mask", "<u8", 16), ("discard_pre", "<u2")]
    + [("discard_post", "<u2"), ("center_sample", "<u2"), ("encoding_space_ref", "<u2")]
    + [("trajectory_dimensions", "<u2"), ("sample_time_us", "<f4"), ("position", "<f4", 3), ("read_dir", "<f4", 3)]
    + [("phase_dir", "<f4", 3), ("slice_dir", "<f4", 3), ("patient_table_position", "<f4", 3), ("idx", COUNTERS)]
    + [("user_int", "<i4", 8), ("user_float", "<f4", 8)]
)
IMAGE_HEAD = np.dtype(
    [("version", "<u2"), ("data_type", "<u2"), ("flags", "<u8"), ("measurement_uid", "<u4"), ("matrix_size", "<u2", 3)]
    + [("field_of_view", "<f4", 3), ("channels", "<u2"), ("position", "<f4", 3), ("read_dir", "<f4", 3)]
    + [("phase_dir", "<f4", 3), ("slice_dir", "<f4", 3), ("patient_table_position", "<f4", 3), ("average", "<u2")]
    + [("slice", "<u2"), ("contrast", "<u2"), ("phase", "<u2"), ("repetition", "<u2"), ("set", "<u2")]
    + [("acquisition_time_stamp", "<u4"), ("physiology_time_stamp", "<u4", 3), ("image_type", "<u2")]
    + [("image_index", "<u2"), ("image_series_index", "<u2"), ("user_int", "<i4", 8), ("user_float", "<f4", 8)]
    + [("attribute_string_len", "<u4")]
)
assert ACQUISITION_HEAD.itemsize == 340 and ACQUISITION_HEAD.fields["idx"][1] == 242
assert IMAGE_HEAD.itemsize == 198 and IMAGE_HEAD.fields["image_series_index"][1] == 128
AXES = {"read_dir": (1, 0, 0), "phase_dir": (0, 1, 0), "slice_dir": (0, 0, 1)}
PIXELS = {1: "<u2", 2: "<i2", 3: "<u4", 4: "<i4", 5: "<f4", 6: "<f8", 7: "<c8", 8: "<c16"}


def config_file(name, padding=b"\0"):
    field = name.encode() + b"\0"
    return struct.pack("<H", CONFIG_FILE) + (field + padding * 1024)[:1024]


def _text(message_id, text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<HI", message_id, len(data)) + data


def config_text(text):
    return _text(CONFIG_TEXT, text)


def header(xml):
    return _text(HEADER, xml)


def text(content):
    return _text(TEXT, content)


def query(name, correlation=1):
    data = name.encode()
    return struct.pack("<HQQQ", QUERY, 0, correlation, len(data)) + data


def close():
    return struct.pack("<H", CLOSE)


def acquisition(data, trajectory=None, flags=0, step1=0, repetition=0, center=None, sample_time_us=4.0, counter=0,
                step2=0):  # fmt: skip
    """data: [channel, sample]; trajectory: [sample, dimension]."""
    data = np.ascontiguousarray(data, "<c8")
    channels, samples = data.shape
    head = np.zeros((), ACQUISITION_HEAD)
    head["version"], head["flags"], head["measurement_uid"], head["scan_counter"] = 1, flags, 1, counter
    head["number_of_samples"], head["center_sample"] = samples, samples // 2 if center is None else center
    head["available_channels"] = head["active_channels"] = channels
    head["sample_time_us"] = sample_time_us
    head["read_dir"], head["phase_dir"], head["slice_dir"] = AXES.values()
    head["idx"]["kspace_encode_step_1"], head["idx"]["repetition"] = step1, repetition
    head["idx"]["kspace_encode_step_2"] = step2
    points = b""
    if trajectory is not None:
        head["trajectory_dimensions"] = trajectory.shape[1]
        points = np.ascontiguousarray(trajectory, "<f4").tobytes()
    return struct.pack("<H", ACQUISITION) + head.tobytes() + points + data.tobytes()


def image(pixels, role="", attributes="", **fields):
    """pixels: [channel, z, y, x] of a type of PIXELS; `attributes`: their XML, or `role`, which is then the only one;
    `fields`: what of the head is not 0, or shall not be what it is by the pixels."""
    pixels = np.ascontiguousarray(pixels)
    if role:
        attributes = f"<ismrmrdMeta><meta><name>role</name><value>{role}</value></meta></ismrmrdMeta>"
    meta = attributes.encode()
    head = np.zeros((), IMAGE_HEAD)
    head["version"], head["channels"], head["attribute_string_len"] = 1, len(pixels), len(meta)
    head["data_type"] = next(number for number, kind in PIXELS.items() if pixels.dtype == kind)
    head["matrix_size"] = pixels.shape[:0:-1]
    for name, value in fields.items():
        head[name] = value
    return struct.pack("<H", IMAGE) + head.tobytes() + struct.pack("<Q", len(meta)) + meta + pixels.tobytes()


def image_of_package(made):
    """The message of an image of the package `ismrmrd`."""
    return struct.pack("<H", IMAGE) + made.to_bytes()


def head_of(message):
    """The head of a readout or an image, which can be written to where the message is a bytearray."""
    (number,) = struct.unpack_from("<H", message)
    return np.frombuffer(message, IMAGE_HEAD if number == IMAGE else ACQUISITION_HEAD, 1, 2)[0]


def changed(message, **fields):
    """A readout or an image with other fields of its head; those of `idx` go by their own names."""
    message = bytearray(message)
    head = head_of(message)
    for name, value in fields.items():
        (head if name in head.dtype.names else head["idx"])[name] = value
    return bytes(message)


@dataclasses.dataclass
class Image:
    head: np.void
    attributes: str
    pixels: np.ndarray  # [channel, z, y, x]


@dataclasses.dataclass
class Reply:
    images: list = dataclasses.field(repr=False)
    texts: list
    responses: list

    def errors(self):
        return self.said("ERROR")

    def said(self, level):
        return [t for t in self.texts if t.startswith(level)]


def parse(data):
    """A whole reply of the server."""
    reply = Reply([], [], [])
    at = 0

    def take(n):
        nonlocal at
        assert at + n <= len(data), f"the reply ends inside a message ({at + n - len(data)} bytes missing)"
        at += n
        return data[at - n : at]

    while True:
        (message_id,) = struct.unpack("<H", take(2))
        if message_id == CLOSE:
            assert at == len(data), f"{len(data) - at} bytes after CLOSE"
            return reply
        if message_id == TEXT:
            content = take(struct.unpack("<I", take(4))[0])
            assert content.endswith(b"\n\0"), "a TEXT ends with a newline and one NUL"
            reply.texts.append(content[:-2].decode("utf-8"))
        elif message_id == RESPONSE:
            correlation, n = struct.unpack("<QQ", take(16))
            reply.responses.append((correlation, take(n).decode("utf-8")))
        elif message_id == IMAGE:
            head = np.frombuffer(take(198), IMAGE_HEAD)[0]
            (n,) = struct.unpack("<Q", take(8))
            assert n == head["attribute_string_len"]
            attributes = take(n).decode("utf-8")
            x, y, z = (int(m) for m in head["matrix_size"])
            kind = np.dtype(PIXELS[int(head["data_type"])])
            shape = (int(head["channels"]), z, y, x)
            pixels = np.frombuffer(take(int(np.prod(shape)) * kind.itemsize), kind).reshape(shape)
            reply.images.append(Image(head, attributes, pixels))
        else:
            raise AssertionError(f"the server sent message id {message_id}")


# What a balancer says first, from haproxy.org/download/3.0/doc/proxy-protocol.txt.
PROXY_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def proxy_header(client, port=40000):
    family, ours = (0x21, "2001:db8::1") if ":" in client else (0x11, "10.0.0.1")
    addresses = ipaddress.ip_address(client).packed + ipaddress.ip_address(ours).packed
    rest = addresses + struct.pack(">HH", port, 9002) + struct.pack(">BH", 0x05, 3) + b"abc"  # and PP2_TYPE_UNIQUE_ID
    return PROXY_SIGNATURE + struct.pack(">BBH", 0x21, family, len(rest)) + rest


def exchange(address, messages, timeout_s=60, source="", before=b""):
    """Sends everything while reading; returns the reply up to the server's half-close. `source`: the address to connect
    from; `before`: bytes that go before the messages."""
    with socket.create_connection(address, timeout=timeout_s, source_address=(source, 0)) as connection:
        connection.sendall(before)
        with sending(connection, messages, timeout_s):
            received = b"".join(iter(lambda: connection.recv(1 << 20), b""))
        return parse(received)
