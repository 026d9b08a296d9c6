"""Maps with a unit: what pydicom, dcm2niix and Orthanc read of their quantity, unit and values."""

import io
import urllib.request

import h5py
import numpy as np
import pytest

import dicom_files
import orthanc
import scans
from programs import Server, run_client, simulated_scan, variant

NX, NY = 24, 16
MAPS = {  # map_quantity, map_unit: the quantity and the unit in pydicom's tables of PS3.16, largest value
    ("T1", "ms"): ("T1", "Millisecond", 3000.0),
    ("T2", "ms"): ("T2", "Millisecond", 300.0),
    ("T2star", "ms"): ("T2Star", "Millisecond", 80.0),
    ("ADC", "mm2/s"): ("ApparentDiffusionCoefficient", "SquareMillimeterPerSecond", 3e-3),
    ("B0", "Hz"): ("FieldMapMRSignalIntensity", "Hertz", 200.0),
    ("B1", "1"): (None, "NoUnits", 1.4),
}


def values_of(quantity, largest):
    low = -largest if quantity == "B0" else 0.0
    return np.linspace(low, largest, NX * NY).astype(np.float32).reshape(NY, NX)


def map_image(values, quantity, unit, scale=None, statistic="value", **fields):
    """As the gadget `image` writes it: float, or integers with a rescale."""
    meta = {"DataRole": "Quantitative", "map_quantity": quantity, "map_unit": unit, "map_statistic": statistic,
            "WindowCenter": float(np.abs(values).max() / 2), "WindowWidth": float(np.abs(values).max())}  # fmt: skip
    pixels = values
    if scale:
        pixels = np.round(values * scale).astype(np.int16 if values.min() < 0 else np.uint16)
        meta |= {"RescaleSlope": f"{1 / scale:.9g}", "RescaleIntercept": 0}
    made = dicom_files.image(pixels, meta=meta, **fields)
    made.image_type = 3  # real: what a gadget of maps gives
    return made


def mapping_of(dataset):
    """The only item of Real World Value Mapping, of a single frame or of the first of several."""
    if "RealWorldValueMappingSequence" in dataset:
        (item,) = dataset.RealWorldValueMappingSequence
        return item
    (shared,) = dataset.SharedFunctionalGroupsSequence
    own = dataset.PerFrameFunctionalGroupsSequence[0]
    (item,) = (own if "RealWorldValueMappingSequence" in own else shared).RealWorldValueMappingSequence
    return item


def code_of(item):
    return item.CodeValue, item.CodingSchemeDesignator, item.CodeMeaning


def same_code(item, code):
    assert code_of(item) == (code.value, code.scheme_designator, code.meaning)


def check_meaning(mapping, quantity, unit, deviation=False):
    codes = pytest.importorskip("pydicom.sr.codedict").codes
    name, unit_name, _ = MAPS[quantity, unit]
    (told,) = mapping.MeasurementUnitsCodeSequence
    same_code(told, getattr(codes.UCUM, unit_name))
    definitions = list(mapping.get("QuantityDefinitionSequence", []))
    assert len(definitions) == (0 if name is None else 2 if deviation else 1)
    want = [] if name is None else [(codes.SCT.Quantity, getattr(codes.DCM, name))]
    for one, (concept, is_one) in zip(definitions, [*want, (codes.DCM.Derivation, codes.SCT.StandardDeviation)]):
        assert one.ValueType == "CODE"
        same_code(one.ConceptNameCodeSequence[0], concept)
        same_code(one.ConceptCodeSequence[0], is_one)


def real_values(dataset):
    mapping = mapping_of(dataset)
    stored = dataset.pixel_array.astype(float)
    assert stored.min() >= mapping.RealWorldValueFirstValueMapped
    assert stored.max() <= mapping.RealWorldValueLastValueMapped
    return stored * mapping.RealWorldValueSlope + mapping.RealWorldValueIntercept


@pytest.mark.parametrize("kind", ["float", "integers"])
@pytest.mark.parametrize(("quantity", "unit"), MAPS)
def test_maps_have_quantity_unit_and_values(tmp_path, quantity, unit, kind):
    largest = MAPS[quantity, unit][2]
    values = values_of(quantity, largest)
    scale = 30000 / largest if kind == "integers" else None
    path = dicom_files.save(tmp_path / "map.h5", [map_image(values, quantity, unit, scale)], dicom_files.header_xml())
    # Half a step of what is stored (a float's step is at most its largest magnitude / 16384, a power of two), and the
    # rounding of floats and of a slope of nine digits.
    bound = (0.5 / scale if scale else largest / 32767) + 3e-7 * largest
    for enhanced in ((), ("--dicom-enhanced",)):
        (one,) = dicom_files.export(path, tmp_path / "dicom", *enhanced)
        check_meaning(mapping_of(one), quantity, unit)
        got = real_values(one).reshape(NY, NX)
        assert np.abs(got - values).max() <= bound
        assert list(one.ImageType) == ["DERIVED", "PRIMARY", "R" if quantity == "B0" else "M", "QUANTITY"]
        assert one.ComplexImageComponent == ("REAL" if quantity == "B0" else "MAGNITUDE")
        nibabel = pytest.importorskip("nibabel")
        (converted,) = dicom_files.dcm2niix(tmp_path / "dicom", tmp_path / f"converted{len(enhanced)}")
        nifti = nibabel.load(converted).get_fdata()[:, ::-1].T.reshape(NY, NX)
        # dcm2niix writes the rescale as float, so a value is off by up to 2^-24 of it.
        assert np.abs(nifti - got).max() <= 1e-6 * largest
        window = one if not enhanced else one.SharedFunctionalGroupsSequence[0].FrameVOILUTSequence[0]
        assert [float(window.WindowCenter), float(window.WindowWidth)] == pytest.approx([largest / 2, largest])


def test_standard_deviations_say_so_and_plain_images_have_no_unit(tmp_path):
    values = values_of("T1", 50.0)
    images = [map_image(values, "T1", "ms", statistic="sd"), dicom_files.image(values)]
    for enhanced in ((), ("--dicom-enhanced",)):
        deviation, plain = (
            dicom_files.export(dicom_files.save(tmp_path / "map.h5", [one], dicom_files.header_xml()),
                               tmp_path / "dicom", *enhanced)[0]
            for one in images
        )  # fmt: skip
        check_meaning(mapping_of(deviation), "T1", "ms", deviation=True)
        assert (mapping_of(deviation).LUTLabel, mapping_of(deviation).LUTExplanation) == (
            "SD of T1", "standard deviation of T1")  # fmt: skip
        assert deviation.ImageType[3] == "STD_DEVIATION"
        assert "Real World" not in str(plain)


def test_signed_values_without_a_unit_stay_signed(tmp_path):
    """Images of PSIR: negative where the magnetisation is."""
    values = np.linspace(-0.7, 1.9, NX * NY).astype(np.float32).reshape(NY, NX)
    made = dicom_files.image(values)
    made.image_type = 3
    path = dicom_files.save(tmp_path / "psir.h5", [made], dicom_files.header_xml())
    (one,) = dicom_files.export(path, tmp_path / "dicom")
    assert one.PixelRepresentation == 1 and one.ComplexImageComponent == "REAL"
    got = one.pixel_array * float(one.RescaleSlope) + float(one.RescaleIntercept)
    assert np.abs(got - values).max() <= 1.9 / 32767
    nibabel = pytest.importorskip("nibabel")
    (converted,) = dicom_files.dcm2niix(tmp_path / "dicom", tmp_path / "converted")
    assert np.abs(nibabel.load(converted).get_fdata()[:, ::-1].T.reshape(NY, NX) - got).max() <= 1e-6


def test_orthanc_keeps_a_map(tmp_path):
    pydicom = pytest.importorskip("pydicom", reason="pydicom is not installed (./run setup test)")
    values = values_of("ADC", 3e-3)
    path = dicom_files.save(tmp_path / "map.h5", [map_image(values, "ADC", "mm2/s", 1e7)], dicom_files.header_xml())
    (sent,) = dicom_files.export(path, tmp_path / "dicom")
    pacs = orthanc.Orthanc(tmp_path / "orthanc")
    try:
        (file,) = (tmp_path / "dicom").glob("*.dcm")
        url = f"http://127.0.0.1:{pacs.http}/instances"
        urllib.request.urlopen(urllib.request.Request(url, file.read_bytes(), method="POST"), timeout=20).close()
        (kept,) = pacs.wait_for(1)
        got = pydicom.dcmread(io.BytesIO(pacs.file(kept)))
        check_meaning(mapping_of(got), "ADC", "mm2/s")
        np.testing.assert_array_equal(real_values(got), real_values(sent))
        assert np.abs(real_values(got).reshape(NY, NX) - values).max() <= 0.5e-7 * (1 + 1e-6)
    finally:
        pacs.stop()


VALUE, DEVIATION = 1, 7  # series of the complete map and of its standard deviation
MATRIX, SCALE = 64, 10


def from_a_scan(folder, scan, pacs, name, *changes):
    """Sends the scan to a server whose pipeline `name`, T1 by inversion recovery, sends its maps to Orthanc, too. Returns all of
    these as bytes, {series: datasets} of them, and {series: pixels} of the maps as the client got them."""
    pydicom = pytest.importorskip("pydicom", reason="pydicom is not installed (./run setup test)")
    if "built without DICOM" in run_client("export", "/nonexistent.h5", "--dicom", "/nonexistent").stderr:
        pytest.skip("the server was built without DICOM (./run setup test, then build again)")
    for each in ("pipelines", name):
        (folder / each).mkdir(exist_ok=True)
    text = variant("t1_ir", ("name: t1_ir", f"name: {name}"), ("pipeline:", "dicom: {send_to: pacs}\npipeline:"),
                   ("backend: auto", "backend: cpu"), *changes)  # fmt: skip
    (folder / "pipelines" / f"{name}.yaml").write_text(text)
    before = set(pacs.instances())
    server = Server(folder / name, "--pipelines", folder / "pipelines", "--dicom-spool", folder / name / "spool",
                    "--dicom-peers", pacs.peer())  # fmt: skip
    try:
        done = server.send(scan, name, folder / name / "images.h5")
        assert done.returncode == 0, done.stderr
        with h5py.File(folder / name / "images.h5") as file:
            every = {int(series.split("_")[1]): file["dataset"][series]["data"][:, 0, 0] for series in file["dataset"]
                     if series.startswith("image_")}  # fmt: skip
        new = set(pacs.wait_for(len(before) + sum(map(len, every.values())))) - before
    finally:
        server.stop()
    files = [pacs.file(one) for one in new]
    found = {}
    for one in (pydicom.dcmread(io.BytesIO(file)) for file in files):
        found.setdefault(int(one.SeriesNumber) % 1000, []).append(one)
    assert {series: len(of) for series, of in found.items()} == {series: len(of) for series, of in every.items()}
    return files, found, every


def test_a_scans_maps_arrive_in_orthanc_and_leave_as_nifti(tmp_path):
    """From readouts to a PACS and to NIfTI: T1 in ms and its standard deviation, as floats and as integers with a scale."""
    nibabel = pytest.importorskip("nibabel", reason="nibabel is not installed (./run setup test)")
    scan = simulated_scan(tmp_path / "scan.h5", "--trajectory", "cartesian", "--matrix", MATRIX, "--coils", 2, "--mapping",
                          "inversion_recovery", "--snr", 50)  # fmt: skip
    vials = np.asarray(scans.read_array(scan, "truth_t1"), float).reshape(MATRIX, MATRIX)
    pacs = orthanc.Orthanc(tmp_path / "orthanc")
    try:
        files, floats, maps = from_a_scan(tmp_path, scan, pacs, "t1_floats")
        _, integers, scaled = from_a_scan(tmp_path, scan, pacs, "t1_integers", ("component: real, type: float",
                                          f"component: real, type: int16, scale: {SCALE}"))  # fmt: skip
    finally:
        pacs.stop()
    for series, deviation in ((VALUE, False), (DEVIATION, True)):
        (truth,), (of_floats,), (of_integers,) = maps[series].astype(float), floats[series], integers[series]
        for one in (of_floats, of_integers):
            check_meaning(mapping_of(one), "T1", "ms", deviation=deviation)
        # Half a step of what is stored, and what decimal digits of the slope leave.
        step = mapping_of(of_floats).RealWorldValueSlope
        assert step <= truth.max() / 16383 and np.abs(real_values(of_floats) - truth).max() <= step / 2 + 1e-6 * truth.max()
        np.testing.assert_array_equal(of_integers.pixel_array, scaled[series][0])
        kept = np.minimum(truth, 32767 / SCALE)  # what int16 holds
        assert np.abs(real_values(of_integers) - kept).max() <= 0.5 / SCALE + 1e-6 * truth.max()

    folder = tmp_path / "files"
    folder.mkdir()
    for i, file in enumerate(files):
        (folder / f"{i}.dcm").write_bytes(file)
    converted = {}
    for path in dicom_files.dcm2niix(folder, tmp_path / "nifti"):
        converted[int(path.name.split("_")[0]) % 1000] = nibabel.load(path).get_fdata()
    for series in (VALUE, DEVIATION):
        values = converted[series].squeeze()[:, ::-1].T  # dcm2niix turns rows
        # dcm2niix writes the rescale as float.
        assert np.abs(values - real_values(floats[series][0])).max() <= 1e-6 * maps[series].max()
    t1 = converted[VALUE].squeeze()[:, ::-1].T
    seen = 0
    for value in np.unique(vials[(vials >= 200) & (vials <= 2000)]):
        where = (vials == value) & (t1 > 0)
        if where.sum() < 20:
            continue
        seen += 1
        # SNR 50 over some 40 voxels; the vial's edge has partial volumes, which a median leaves out.
        assert np.median(t1[where]) == pytest.approx(value, rel=0.03), value
    assert seen >= 5
