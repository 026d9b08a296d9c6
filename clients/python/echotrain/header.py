"""The measurement header: what Echotrain reads of ISMRMRD's XML, made from sizes or read back from text."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ElementTree
from typing import Any, Mapping, Optional, Sequence, Union, cast
from xml.sax.saxutils import escape

from .errors import ScanError
from .layout import is_ismrmrd
from .units import check_fov

Sizes = tuple[int, int, int]
Lengths = tuple[float, float, float]

TRAJECTORIES = ("cartesian", "epi", "radial", "goldenangle", "spiral", "other")
LIMITS = (
    *("kspace_encoding_step_0", "kspace_encoding_step_1", "kspace_encoding_step_2", "average", "slice"),
    *("contrast", "phase", "repetition", "set", "segment"),
)


@dataclasses.dataclass(frozen=True)
class Header:
    """One encoding. Sizes are (x, y, z), x along the readout; `fov` is in mm.

    `recon_matrix` and `recon_fov` are the image's; they default to the encoding's. `limits` bounds counters:
    name -> (minimum, maximum, centre).
    """

    matrix: Sizes
    fov: Lengths
    recon_matrix: Optional[Sizes] = None
    recon_fov: Optional[Lengths] = None
    trajectory: str = "cartesian"
    limits: Mapping[str, tuple[int, int, int]] = dataclasses.field(default_factory=dict)
    coils: Optional[int] = None
    frequency_hz: int = 63_870_000
    acceleration: tuple[int, int] = (1, 1)  # of steps 1 and 2
    calibration: str = "embedded"  # where reference lines of an accelerated scan are

    def __post_init__(self) -> None:
        if self.trajectory not in TRAJECTORIES:
            raise ScanError(f"trajectory '{self.trajectory}' is not one of: {', '.join(TRAJECTORIES)}")
        for name in self.limits:
            if name not in LIMITS:
                raise ScanError(f"limits: '{name}' is not one of: {', '.join(LIMITS)}")
        for sizes in (self.matrix, self.fov, self.recon_matrix or self.matrix, self.recon_fov or self.fov):
            if len(sizes) != 3 or not all(size > 0 for size in sizes):
                raise ScanError(f"sizes are three positive numbers (x, y, z), not {sizes}")
        check_fov(self.fov)

    def xml(self) -> str:
        """As ISMRMRD XML."""

        def space(name: str, matrix: Sequence[int], fov: Sequence[float]) -> str:
            sizes = "".join(f"<{axis}>{int(n)}</{axis}>" for axis, n in zip("xyz", matrix))
            lengths = "".join(f"<{axis}>{float(length)!r}</{axis}>" for axis, length in zip("xyz", fov))
            return f"<{name}><matrixSize>{sizes}</matrixSize><fieldOfView_mm>{lengths}</fieldOfView_mm></{name}>"

        limits = "".join(
            f"<{name}><minimum>{low}</minimum><maximum>{high}</maximum><center>{center}</center></{name}>"
            for name in LIMITS
            if name in self.limits
            for low, high, center in [self.limits[name]]
        )
        system = "" if self.coils is None else f"<receiverChannels>{self.coils}</receiverChannels>"
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n<ismrmrdHeader xmlns="http://www.ismrm.org/ISMRMRD">'
            f"<acquisitionSystemInformation>{system}</acquisitionSystemInformation>"
            f"<experimentalConditions><H1resonanceFrequency_Hz>{self.frequency_hz}</H1resonanceFrequency_Hz>"
            f"</experimentalConditions><encoding>{space('encodedSpace', self.matrix, self.fov)}"
            f"{space('reconSpace', self.recon_matrix or self.matrix, self.recon_fov or self.fov)}"
            f"<encodingLimits>{limits}</encodingLimits><trajectory>{escape(self.trajectory)}</trajectory>"
            f"{self._parallel()}</encoding></ismrmrdHeader>\n"
        )

    def _parallel(self) -> str:
        if self.acceleration == (1, 1):
            return ""
        steps = "".join(
            f"<kspace_encoding_step_{i}>{n}</kspace_encoding_step_{i}>" for i, n in enumerate(self.acceleration, start=1)
        )
        return (
            f"<parallelImaging><accelerationFactor>{steps}</accelerationFactor>"
            f"<calibrationMode>{escape(self.calibration)}</calibrationMode></parallelImaging>"
        )

    @classmethod
    def parse(cls, xml: str) -> Header:
        """The first encoding of ISMRMRD XML. ScanError where it cannot be read."""
        root = parse_xml(xml, "the header")
        encoding = root.find("encoding")
        if encoding is None:
            raise ScanError("the header has no encoding")

        def triple(path: str) -> Lengths:
            texts = [encoding.findtext(f"{path}/{axis}") for axis in "xyz"]
            try:
                return cast(Lengths, tuple(float(text or "") for text in texts))
            except ValueError:
                raise ScanError(f"the header's {path} is not three numbers but {texts}") from None

        def sizes(path: str) -> Sizes:
            return cast(Sizes, tuple(int(value) for value in triple(path)))

        limits = {}
        for name in LIMITS:
            texts = [encoding.findtext(f"encodingLimits/{name}/{end}") for end in ("minimum", "maximum", "center")]
            if texts[1] is not None:
                low, high, center = (int(text or 0) for text in texts)
                limits[name] = (low, high, center)
        coils = root.findtext("acquisitionSystemInformation/receiverChannels")
        frequency = root.findtext("experimentalConditions/H1resonanceFrequency_Hz")
        steps = [encoding.findtext(f"parallelImaging/accelerationFactor/kspace_encoding_step_{i}") for i in (1, 2)]
        kind = (encoding.findtext("trajectory") or "cartesian").strip().lower()
        return cls(
            matrix=sizes("encodedSpace/matrixSize"),
            fov=triple("encodedSpace/fieldOfView_mm"),
            recon_matrix=sizes("reconSpace/matrixSize"),
            recon_fov=triple("reconSpace/fieldOfView_mm"),
            trajectory=kind if kind in TRAJECTORIES else "other",
            limits=limits,
            coils=int(coils) if coils else None,
            frequency_hz=int(float(frequency)) if frequency else 0,
            acceleration=(int(steps[0] or 1), int(steps[1] or 1)),
            calibration=(encoding.findtext("parallelImaging/calibrationMode") or "embedded").strip(),
        )


HeaderLike = Union[str, bytes, Header, Any]


def header_xml(header: HeaderLike) -> str:
    """The XML of a Header, an `ismrmrd.xsd` header, or of XML itself."""
    if isinstance(header, Header):
        return header.xml()
    if isinstance(header, bytes):
        return header.decode("utf-8")
    if isinstance(header, str):
        return header
    if is_ismrmrd(header):
        text = header.toXML()
        return text.decode("utf-8") if isinstance(text, bytes) else str(text)
    raise ScanError(f"a header is XML, an echotrain.Header or an ismrmrd.xsd header, not {type(header).__name__}")


def parse_xml(text: str, what: str) -> ElementTree.Element:
    """The root element, without namespaces. Refuses document types: they can make text grow without bound."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ScanError(f"{what} holds a document type, which is not read")
    try:
        root = ElementTree.fromstring(text.encode("utf-8"))
    except ElementTree.ParseError as error:
        raise ScanError(f"{what} is not XML: {error}") from None
    for element in root.iter():
        if isinstance(element.tag, str):
            element.tag = element.tag.rpartition("}")[2]
    return root
