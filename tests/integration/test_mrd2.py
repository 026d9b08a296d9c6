"""MRD 2 streams of the package mrd-python, read and written by `echotrain convert` and sent by `echotrain send`."""

import datetime
import subprocess

import numpy as np
import pytest

import reference
import scans
from programs import BIN, run_client

mrd = pytest.importorskip("mrd", reason="needs mrd-python (pip install mrd-python)")
ismrmrd = pytest.importorskip("ismrmrd", reason="needs the package ismrmrd")

MATRIX, COILS = 32, 3
PIXELS = {
    "ImageUint16": np.uint16, "ImageInt16": np.int16, "ImageUint32": np.uint32, "ImageInt32": np.int32,
    "ImageFloat": np.float32, "ImageDouble": np.float64, "ImageComplexFloat": np.complex64,
    "ImageComplexDouble": np.complex128,
}  # fmt: skip


def run_ok(*arguments):
    done = run_client(*arguments)
    assert done.returncode == 0, done.stderr
    return done


def write(path, header, items):
    with mrd.BinaryMrdWriter(str(path)) as writer:
        writer.write_header(header)
        writer.write_data(iter(items))


def read(path):
    with mrd.BinaryMrdReader(str(path)) as reader:
        header = reader.read_header()
        return header, list(reader.read_data())


def random(shape, dtype, seed=1):
    rng = np.random.default_rng(seed)
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        values = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        values.flat[:2] = limits.min, limits.max
        return values
    values = rng.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def space(x, y, z=1):
    return mrd.EncodingSpaceType(matrix_size=mrd.MatrixSizeType(x=x, y=y, z=z),
                                 field_of_view_mm=mrd.FieldOfViewMm(x=1.5 * x, y=1.5 * y, z=5.0))  # fmt: skip


def full_header():
    """A header in which every record of the model says something."""
    limit = mrd.LimitType(minimum=0, maximum=MATRIX - 1, center=MATRIX // 2)
    limits = mrd.EncodingLimitsType(kspace_encoding_step_0=limit, kspace_encoding_step_1=limit, user_7=limit)
    numbers = dict(
        user_parameter_long=[mrd.UserParameterLongType(name="n", value=-(1 << 40))],
        user_parameter_double=[mrd.UserParameterDoubleType(name="d", value=0.1)],
        user_parameter_string=[mrd.UserParameterStringType(name="s", value="a <b> & ü")])  # fmt: skip
    parallel = mrd.ParallelImagingType(
        acceleration_factor=mrd.AccelerationFactorType(kspace_encoding_step_1=2, kspace_encoding_step_2=1),
        calibration_mode=mrd.CalibrationMode.EMBEDDED, interleaving_dimension=mrd.InterleavingDimension.REPETITION,
        multiband=mrd.MultibandType(spacing=[mrd.MultibandSpacingType(d_z=[1.5, 2.5])], delta_kz=0.5,
                                    multiband_factor=2, calibration=mrd.Calibration.FULL_3D, calibration_encoding=1))  # fmt: skip
    encoding = mrd.EncodingType(
        encoded_space=space(MATRIX, MATRIX), recon_space=space(MATRIX, MATRIX), encoding_limits=limits,
        trajectory=mrd.Trajectory.CARTESIAN, parallel_imaging=parallel, echo_train_length=4,
        trajectory_description=mrd.TrajectoryDescriptionType(identifier="id", comment="none", **numbers))  # fmt: skip
    measurement = mrd.MeasurementInformationType(
        measurement_id="45_7", series_date=datetime.date(2024, 2, 29),
        series_time=mrd.yardl_types.Time.from_components(13, 5, 7),
        patient_position=mrd.PatientPosition.F_FDR,
        relative_table_position=mrd.ThreeDimensionalFloat(x=1.25, y=0, z=-3.5),
        initial_series_number=3, protocol_name="p", sequence_name="q", series_description="d",
        frame_of_reference_uid="1.2",
        measurement_dependency=[mrd.MeasurementDependencyType(dependency_type="Noise", measurement_id="44_6")],
        referenced_image_sequence=mrd.ReferencedImageSequenceType(
            referenced_sop_instance_uid=["1.2.3", "1.2.4"]))  # fmt: skip
    diffusion = mrd.DiffusionType(gradient_direction=mrd.GradientDirectionType(rl=0, ap=1, fh=0), bvalue=1000)
    return mrd.Header(
        version=2, encoding=[encoding, encoding], measurement_information=measurement,
        experimental_conditions=mrd.ExperimentalConditionsType(h1resonance_frequency_hz=123_200_000),
        subject_information=mrd.SubjectInformationType(
            patient_name="Ünal", patient_weight_kg=70.25, patient_height_m=1.75, patient_id="x7",
            patient_birthdate=datetime.date(1969, 12, 30), patient_gender=mrd.PatientGender.F),
        study_information=mrd.StudyInformationType(
            study_date=datetime.date(2024, 2, 29), study_id="9", accession_number=77, study_description="s",
            referring_physician_name="r", study_instance_uid="1.2.5", body_part_examined="HEAD"),
        acquisition_system_information=mrd.AcquisitionSystemInformationType(
            system_vendor="v", system_model="m", system_field_strength_t=2.89362,
            relative_receiver_noise_bandwidth=0.79,
            receiver_channels=COILS, coil_label=[mrd.CoilLabelType(coil_number=1, coil_name="H1")],
            institution_name="i", station_name="t", device_id="e", device_serial_number="1"),
        sequence_parameters=mrd.SequenceParametersType(
            t_r=[8.6], t_e=[4.0, 6.5], t_i=[2.0], flip_angle_deg=[15.0], sequence_type="Flash", echo_spacing=[0.5],
            diffusion_dimension=mrd.DiffusionDimension.REPETITION, diffusion=[diffusion], diffusion_scheme="b"),
        user_parameters=mrd.UserParametersType(
            user_parameter_base64=[mrd.UserParameterBase64Type(name="b", value="QUJD")], **numbers),
        waveform_information=[
            mrd.WaveformInformationType(waveform_name="ECG1", waveform_type=mrd.WaveformType.TRIGGER)])  # fmt: skip


def acquisition(seed, trajectory=0, flags=0, **idx):
    """Every field has a value of its own; lists are as long as ISMRMRD's, since it knows no shorter ones."""
    out = mrd.Acquisition(data=random((COILS, 40), np.complex64, seed))
    out.head = mrd.AcquisitionHeader(
        flags=mrd.AcquisitionFlags(flags), measurement_uid=11, scan_counter=seed, acquisition_time_stamp=1000 + seed,
        physiology_time_stamp=[1, 2, 3], channel_order=[0, 2, 65], discard_pre=1, discard_post=2, center_sample=20,
        encoding_space_ref=1, sample_time_us=2.6, position=np.float32([1, 2, 3]), read_dir=np.float32([0, 1, 0]),
        phase_dir=np.float32([0, 0, 1]), slice_dir=np.float32([1, 0, 0]), patient_table_position=np.float32([4, 5, 6]),
        user_int=[1, -2, 3, 4, 5, 6, 7, -(1 << 31)], user_float=[0.5] * 8)  # fmt: skip
    counters = dict.fromkeys(("average", "slice", "contrast", "phase", "repetition", "set", "segment"), 0)
    out.head.idx = mrd.EncodingCounters(user=[8, 7, 6, 5, 4, 3, 2, 65535], kspace_encode_step_1=seed,
                                        kspace_encode_step_2=2, **(counters | idx))  # fmt: skip
    if trajectory:
        out.trajectory = random((trajectory, 40), np.float32, seed)
    return mrd.StreamItem.Acquisition(out)


def waveform():
    data = random((2, 50), np.uint32)
    return mrd.StreamItem.WaveformUint32(mrd.Waveform(
        flags=1 << 60, measurement_uid=11, scan_counter=2, time_stamp=1002, sample_time_us=2500, waveform_id=1, data=data))


def image(kind, series):
    head = mrd.ImageHeader(
        flags=mrd.ImageFlags.LAST_IN_SLICE, measurement_uid=11, field_of_view=np.float32([300, 200, 5]),
        position=np.float32([7, 8, 9]), col_dir=np.float32([0, 1, 0]), line_dir=np.float32([0, 0, 1]),
        slice_dir=np.float32([1, 0, 0]), patient_table_position=np.float32([1, 1, 1]), average=1, slice=2, contrast=3, phase=4,
        repetition=5, set=6, acquisition_time_stamp=1, physiology_time_stamp=[1, 2, 3], image_type=mrd.ImageType.REAL,
        image_index=9, image_series_index=series, user_int=[1] * 8, user_float=[0.25] * 8)  # fmt: skip
    meta = {"DataRole": [mrd.ImageMetaValue.String("Image"), mrd.ImageMetaValue.String("ü & <x>")],
            "Keep": [mrd.ImageMetaValue.String("")]}  # fmt: skip
    data = random((2, 1, 4, 5), PIXELS[kind], series)
    return getattr(mrd.StreamItem, kind)(mrd.Image(head=head, data=data, meta=meta))


def every_item():
    readouts = [acquisition(0, flags=1 << 18), acquisition(1, 2), waveform(), acquisition(2, 3, 1 << 7, repetition=65535)]
    return readouts + [image(kind, series) for series, kind in enumerate(PIXELS)]


def test_what_the_package_writes_comes_to_hdf5_and_back_unchanged(tmp_path):
    write(tmp_path / "a.mrd2", full_header(), every_item())
    header, items = read(tmp_path / "a.mrd2")  # with its numbers as float32
    done = run_ok("convert", tmp_path / "a.mrd2", tmp_path / "a.h5")
    assert "3 readouts, 1 waveform, 8 images" in done.stdout and "left out" not in done.stdout
    run_ok("convert", tmp_path / "a.h5", tmp_path / "b.mrd2", "--to", "mrd2")
    again, back = read(tmp_path / "b.mrd2")
    assert again == header
    assert len(back) == len(items)
    for got, sent in zip(back, items, strict=True):
        assert type(got) is type(sent) and got.value == sent.value


def test_hdf5_holds_what_the_stream_said(tmp_path):
    """By libismrmrd's own Python package, whose classes are made of the format's schema."""
    items = every_item()
    write(tmp_path / "a.mrd2", full_header(), items)
    run_ok("convert", tmp_path / "a.mrd2", tmp_path / "a.h5")
    dataset = ismrmrd.Dataset(str(tmp_path / "a.h5"), "dataset", False)
    header = ismrmrd.xsd.CreateFromDocument(dataset.read_xml_header())
    assert header.experimentalConditions.H1resonanceFrequency_Hz == 123_200_000
    assert header.subjectInformation.patientWeight_kg == 70.25
    assert str(header.subjectInformation.patientBirthdate) == "1969-12-30"
    assert header.measurementInformation.patientPosition.value == "FFDR"
    assert str(header.measurementInformation.seriesTime) == "13:05:07"
    assert header.measurementInformation.measurementDependency[0].measurementID == "44_6"
    assert [u for u in header.measurementInformation.referencedImageSequence.referencedSOPInstanceUID] == ["1.2.3", "1.2.4"]
    encoding = header.encoding[1]
    assert encoding.encodedSpace.matrixSize.x == MATRIX and encoding.encodedSpace.fieldOfView_mm.x == 1.5 * MATRIX
    assert encoding.encodingLimits.kspace_encoding_step_1.maximum == MATRIX - 1
    assert encoding.encodingLimits.user_7.center == MATRIX // 2
    assert encoding.trajectory.value == "cartesian"
    assert encoding.parallelImaging.accelerationFactor.kspace_encoding_step_1 == 2
    assert encoding.parallelImaging.calibrationMode.value == "embedded"
    assert encoding.parallelImaging.multiband.multiband_factor == 2
    assert header.sequenceParameters.TE == [4.0, 6.5] and header.sequenceParameters.flipAngle_deg == [15.0]
    assert header.sequenceParameters.echo_spacing == [0.5]
    assert header.userParameters.userParameterLong[0].value == -(1 << 40)
    assert header.waveformInformation[0].waveformType.value == "trigger"
    for number, item in enumerate([items[0], items[1], items[3]]):
        got, sent = dataset.read_acquisition(number), item.value
        np.testing.assert_array_equal(got.data, sent.data)
        assert got.flags == int(sent.head.flags) and got.scan_counter == sent.head.scan_counter
        assert got.idx.kspace_encode_step_1 == sent.head.idx.kspace_encode_step_1
        assert got.idx.repetition == sent.head.idx.repetition and got.idx.user[7] == 65535
        assert [i for i in range(1024) if got.isChannelActive(i)] == [0, 2, 65] and got.available_channels == 66
        assert list(got.user_int) == sent.head.user_int and got.sample_time_us == np.float32(2.6)
        assert list(got.position) == [1, 2, 3] and list(got.slice_dir) == [1, 0, 0]
        if sent.trajectory.size:
            np.testing.assert_array_equal(got.traj, sent.trajectory.T)
        else:
            assert got.trajectory_dimensions == 0
    np.testing.assert_array_equal(dataset.read_waveform(0).data, items[2].value.data)
    for series, item in enumerate(items[4:]):
        got, sent = dataset.read_image(f"image_{series}", 0), item.value
        assert got.data_type == series + 1
        np.testing.assert_array_equal(got.data, sent.data)
        assert list(got.read_dir) == list(sent.head.col_dir) and list(got.phase_dir) == list(sent.head.line_dir)
        assert got.image_type == ismrmrd.IMTYPE_REAL and got.set == 6
        assert got.meta["DataRole"] == ["Image", "ü & <x>"] and not got.meta["Keep"]
    dataset.close()


def test_numbers_in_meta_and_what_a_record_lacks(tmp_path):
    meta = {"EchoTime": [mrd.ImageMetaValue.Float64(0.1), mrd.ImageMetaValue.Int64(-7)]}
    one = mrd.Image(head=mrd.ImageHeader(image_type=mrd.ImageType.MAGNITUDE), data=random((1, 1, 2, 3), np.float32), meta=meta)
    bare = mrd.Acquisition(data=random((2, 8), np.complex64))
    bucket = mrd.StreamItem.AcquisitionBucket(mrd.AcquisitionBucket(data=[bare, bare]))
    write(tmp_path / "a.mrd2", None, [mrd.StreamItem.Acquisition(bare), bucket, mrd.StreamItem.ImageFloat(one)])
    done = run_ok("convert", tmp_path / "a.mrd2", tmp_path / "a.h5")
    assert "left out, as ISMRMRD has no place for it: AcquisitionBucket\n" in done.stdout
    dataset = ismrmrd.Dataset(str(tmp_path / "a.h5"), "dataset", False)
    assert dataset.read_image("image_0", 0).meta["EchoTime"] == ["0.1", "-7"]
    got = dataset.read_acquisition(0)
    np.testing.assert_array_equal(got.data, bare.data)
    assert got.scan_counter == 0 and got.isChannelActive(1) and not got.isChannelActive(2)
    dataset.close()


def scan_of(kspace):
    """A header and items of a Cartesian scan [coil, y, x], as the package's own phantom has them."""
    limits = mrd.EncodingLimitsType(kspace_encoding_step_1=mrd.LimitType(minimum=0, maximum=MATRIX - 1, center=MATRIX // 2))
    encoding = mrd.EncodingType(encoded_space=space(MATRIX, MATRIX), recon_space=space(MATRIX, MATRIX),
                                encoding_limits=limits, trajectory=mrd.Trajectory.CARTESIAN)  # fmt: skip
    header = mrd.Header(encoding=[encoding])
    items = []
    for y in range(MATRIX):
        line = mrd.Acquisition(data=np.ascontiguousarray(kspace[:, y]))
        line.head.idx.kspace_encode_step_1 = y
        line.head.center_sample = MATRIX // 2
        line.head.flags = mrd.AcquisitionFlags.LAST_IN_SLICE if y == MATRIX - 1 else mrd.AcquisitionFlags(0)
        items.append(mrd.StreamItem.Acquisition(line))
    return header, items


def test_a_stream_reconstructs_sent_or_piped(server, tmp_path):
    kspace = random((COILS, MATRIX, MATRIX), np.complex64)
    write(tmp_path / "scan.mrd2", *scan_of(kspace))
    truth = reference.rss(reference.centred_fft(kspace, MATRIX))
    run_ok("send", tmp_path / "scan.mrd2", "-c", "cartesian_plain", "-p", server.port, "-o", tmp_path / "sent.h5")
    _, pixels = scans.read_images(tmp_path / "sent.h5")
    assert reference.nrmse(pixels[0, 0, 0], truth) <= 1e-5
    program = BIN / "echotrain"
    chain = (f"'{program}' convert - - < '{tmp_path}/scan.mrd2' | '{program}' recon - -c cartesian_plain --backend cpu |"
             f" '{program}' convert - '{tmp_path}/images.mrd2' --to mrd2")  # fmt: skip
    done = subprocess.run(["bash", "-o", "pipefail", "-c", chain], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (got,) = (item.value for item in read(tmp_path / "images.mrd2")[1])
    assert got.head.image_type == mrd.ImageType.MAGNITUDE
    assert reference.nrmse(got.data[0, 0], truth) <= 1e-5


def test_cut_and_malformed_streams_are_told_with_the_byte(server, tmp_path):
    kspace = random((COILS, MATRIX, MATRIX), np.complex64)
    path, output = tmp_path / "scan.mrd2", tmp_path / "out.h5"
    write(path, *scan_of(kspace))
    whole = path.read_bytes()
    path.write_bytes(whole[:-1000])
    done = run_ok("convert", path, output)
    assert f"the stream ends here; everything before is in {output}" in done.stderr
    assert f"byte {len(whole) - 1000}: " in done.stderr
    assert len(scans.read_acquisitions(output)[1]) == MATRIX - 2
    output.write_bytes(b"precious")
    done = run_client("send", path, "-c", "cartesian_plain", "-p", server.port, "-o", output)
    assert done.returncode == 1 and "cannot be read as MRD 2" in done.stderr
    path.write_bytes(whole[:20] + b"x" + whole[21:])  # in the schema
    done = run_client("convert", path, output)
    assert done.returncode == 1 and "cannot be read as MRD 2: byte " in done.stderr
    assert output.read_bytes() == b"precious"
    begin = whole.index(kspace[:, 0].tobytes())
    path.write_bytes(whole[: begin - 4] + b"\xff" * 12 + whole[begin:])  # a claim of more than can be
    done = run_client("convert", path, output)
    assert done.returncode == 1 and "item 1, which begins at byte " in done.stderr
    assert run_client("convert", output, "-", "--to", "hdf5").returncode == 2
