"""Bytes on the wire, against the protocol's reference vectors and the package ismrmrd's own serialisation."""

import struct

import numpy as np
import pytest

import echotrain
from echotrain import codec, layout


def decode(data):
    """Messages from bytes, given to the decoder piece by piece as it asks for them."""
    at, found = 0, []
    while at < len(data):
        decoder = codec.read_message()
        need = next(decoder)
        while True:
            assert need > 0
            piece = data[at : at + need]
            assert len(piece) == need, "the decoder asks for more bytes than there are"
            at += need
            try:
                need = decoder.send(piece)
            except StopIteration as done:
                found.append(done.value)
                break
    return found


def test_layouts():
    """Offsets of docs/protocol.md."""
    assert layout.ACQUISITION_TYPE.itemsize == 340
    for name, offset in {"flags": 2, "channel_mask": 40, "trajectory_dimensions": 176, "position": 182, "idx": 242,
                         "user_int": 276, "user_float": 308}.items():  # fmt: skip
        assert layout.ACQUISITION_TYPE.fields[name][1] == offset, name
    assert layout.COUNTERS_TYPE.fields["user"][1] == 260 - 242
    assert layout.IMAGE_TYPE.itemsize == 198
    for name, offset in {"flags": 4, "matrix_size": 16, "channels": 34, "average": 96, "image_type": 124,
                         "user_float": 162, "attribute_string_len": 194}.items():  # fmt: skip
        assert layout.IMAGE_TYPE.fields[name][1] == offset, name
    assert layout.WAVEFORM_TYPE.itemsize == 40
    assert [layout.WAVEFORM_TYPE.fields[n][1] for n in ("flags", "time_stamp", "waveform_id")] == [8, 24, 36]


def test_reference_vectors():
    assert codec.encode_close().hex() == "0400"
    assert codec.encode_name("x") == b"\x01\x00x" + bytes(1023)
    assert codec.encode_query("a", 5).hex() == "0600" + "00" * 8 + "05" + "00" * 7 + "01" + "00" * 7 + "61"
    answer = bytes.fromhex("0700" + "05" + "00" * 7 + "01" + "00" * 7 + "62")
    assert decode(answer + bytes.fromhex("0500030000006869000400")) == [
        codec.Response(5, "b"),
        codec.Text("INFO", "hi"),
        codec.Close(),
    ]
    data = np.zeros((2, 64), np.complex64)
    assert len(codec.encode(echotrain.Acquisition(data))) == 1366
    assert len(codec.encode(echotrain.Acquisition(data, np.zeros((64, 2))))) == 1878
    image = echotrain.Image(np.zeros((4, 8), np.float32), attributes="a" * 106)
    assert len(codec.encode(image)) == 442


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("WARNING  two  spaces\n", ("WARNING", "two  spaces")),
        ("ERROR    bad-data: no\n", ("ERROR", "bad-data: no")),
        ("Hello there", ("INFO", "Hello there")),
        ("", ("INFO", "")),
    ],
)
def test_levels_of_texts(line, expected):
    data = line.encode() + b"\0"
    assert decode(struct.pack("<HI", 5, len(data)) + data) == [codec.Text(*expected)]


def test_an_image_there_and_back():
    rng = np.random.default_rng(1)
    for kind in (np.uint16, np.int16, np.uint32, np.int32, np.float32, np.float64, np.complex64, np.complex128):
        pixels = (100 * rng.random((2, 3, 4, 5))).astype(kind)
        sent = echotrain.Image(pixels, slice=3, position=(1, 2, 3), user_int=range(8))
        sent.set_meta({"a <b>": "c & d", "list": ["1", "2"]})
        (got,) = decode(codec.encode(sent))
        np.testing.assert_array_equal(got.data, pixels)
        assert got.data.dtype == kind and got.data.flags.writeable
        assert (got.slice, list(got.position), list(got.head["user_int"])) == (3, [1, 2, 3], list(range(8)))
        assert got.meta == {"a <b>": "c & d", "list": ["1", "2"]}


def test_what_cannot_be_is_refused():
    image = codec.encode(echotrain.Image(np.zeros((4, 4), np.float32)))
    wrong_type = image[:4] + struct.pack("<H", 9) + image[6:]
    huge = image[:18] + struct.pack("<3H", 65535, 65535, 65535) + image[24:]
    for data, said in (
        (wrong_type, "data type 9"),
        (huge, "at most"),
        (image[:200] + struct.pack("<Q", 1 << 60), "at most"),
        (struct.pack("<HI", 5, 0xFFFFFFFF), "at most"),
        (struct.pack("<H", 1008), "1008"),
        (b"\x15\x03", "tls=True"),
        (b"HTTP", "HTTP"),
    ):
        with pytest.raises(echotrain.ProtocolError, match=said):
            decode(data)


def test_readouts_say_what_is_wrong():
    with pytest.raises(echotrain.ScanError, match=r"\[coil, sample\]"):
        echotrain.Acquisition(np.zeros(4))
    with pytest.raises(echotrain.ScanError, match=r"trajectory \[4, dimension\]"):
        echotrain.Acquisition(np.zeros((1, 4)), np.zeros((5, 2)))
    with pytest.raises(TypeError, match="'slize'"):
        echotrain.Acquisition(np.zeros((1, 4)), slize=3)


def make_readout():
    rng = np.random.default_rng(2)
    data = rng.standard_normal((3, 8, 2)).astype(np.float32).view(np.complex64)[..., 0]
    return echotrain.Acquisition(data, rng.random((8, 2)), flags=5 << 40, repetition=7, slice=2, position=(1, 2, 3),
                                 user_float=np.arange(8), scan_counter=9)  # fmt: skip


def test_readouts_of_the_package_ismrmrd():
    ismrmrd = pytest.importorskip("ismrmrd")
    ours = make_readout()
    theirs = ours.to_ismrmrd()
    assert (theirs.idx.repetition, theirs.idx.slice, theirs.flags) == (7, 2, 5 << 40)
    np.testing.assert_array_equal(theirs.data, ours.data)
    np.testing.assert_array_equal(theirs.traj, ours.trajectory)
    assert codec.encode(ours)[2:] == theirs.to_bytes()
    assert codec.encode(theirs) == codec.encode(ours)
    plain = ismrmrd.Acquisition.from_array(ours.data)
    assert codec.encode(plain)[2:] == plain.to_bytes()


def test_waveforms_and_images_of_the_package_ismrmrd():
    ismrmrd = pytest.importorskip("ismrmrd")
    wave = ismrmrd.Waveform.from_array(np.arange(12, dtype=np.uint32).reshape(2, 6), waveform_id=1024, time_stamp=77)
    assert codec.encode(wave)[2:] == wave.to_bytes()
    ours = echotrain.Image(np.arange(24, dtype=np.float32).reshape(2, 3, 4), repetition=4, read_dir=(0, 1, 0))
    ours.set_meta({"role": "map"})
    theirs = ours.to_ismrmrd()
    assert theirs.repetition == 4 and theirs.meta["role"] == "map" and tuple(theirs.read_dir) == (0, 1, 0)
    np.testing.assert_array_equal(theirs.data, ours.data)
    (back,) = decode(codec.encode(theirs))
    np.testing.assert_array_equal(back.data, ours.data)
    assert back.meta == {"role": "map"}
    with pytest.raises(echotrain.ScanError, match="EncodingCounters"):
        codec.encode(ismrmrd.EncodingCounters())


def test_headers_are_what_the_schema_says():
    xsd = pytest.importorskip("ismrmrd.xsd")
    ours = echotrain.Header((64, 32, 8), (256.5, 128, 40), (32, 32, 8), (128.25, 128, 40), "spiral",
                            {"slice": (0, 3, 1), "kspace_encoding_step_1": (0, 31, 16)}, coils=4)  # fmt: skip
    theirs = xsd.CreateFromDocument(ours.xml())
    encoding = theirs.encoding[0]
    assert (encoding.encodedSpace.matrixSize.x, encoding.reconSpace.matrixSize.x) == (64, 32)
    assert (encoding.encodedSpace.fieldOfView_mm.x, encoding.reconSpace.fieldOfView_mm.x) == (256.5, 128.25)
    assert encoding.encodingLimits.slice.maximum == 3 and encoding.encodingLimits.kspace_encoding_step_1.center == 16
    assert encoding.trajectory.value == "spiral" and theirs.acquisitionSystemInformation.receiverChannels == 4
    for text in (ours.xml(), xsd.ToXML(theirs)):
        assert echotrain.Header.parse(text) == ours


def test_headers_say_what_is_wrong():
    for xml, said in (
        ("nonsense", "not XML"),
        ("<ismrmrdHeader/>", "no encoding"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><a/>', "document type"),
        (echotrain.Header((4, 4, 1), (4, 4, 1)).xml().replace("<x>4</x>", "<x>four</x>"), "four"),
    ):
        with pytest.raises(echotrain.ScanError, match=said):
            echotrain.Header.parse(xml)
    for options, said in (({"trajectory": "rosette"}, "rosette"), ({"limits": {"slize": (0, 1, 0)}}, "slize"),
                          ({"recon_matrix": (0, 4, 1)}, "positive")):  # fmt: skip
        with pytest.raises(echotrain.ScanError, match=said):
            echotrain.Header((4, 4, 1), (4, 4, 1), **options)
