"""Images that leave a scan go to DICOM peers: a real Orthanc, a dead one, a mute one, a full spool."""

import io
import json
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

import scans
import wire
from dicom_files import header_xml
from orthanc import DeadPeer, MutePeer, Orthanc, spooled, wait_until
from programs import Server, run_client, variant

FRAMES, COILS, MATRIX = 3, 2, 32
POSITION, VOXEL = (10.0, -20.0, 30.0), 1.0


@pytest.fixture(scope="module")
def scan(tmp_path_factory):
    kspace = scans.random_kspace((FRAMES, COILS, MATRIX, MATRIX), seed=22)
    path = tmp_path_factory.mktemp("scan") / "scan.h5"
    made = scans.cartesian(kspace)
    made.messages = [wire.changed(message, position=POSITION) for message in made.messages]
    begin = 'ISMRMRD">'
    about = header_xml("pacs-1").split(begin)[1].split("<acquisitionSystemInformation>")[0]
    made.xml = made.xml.replace(begin, begin + about)
    made.save(path)
    return path


@pytest.fixture(scope="module")
def pacs(tmp_path_factory):
    pacs = Orthanc(tmp_path_factory.mktemp("orthanc"))
    yield pacs
    pacs.stop()


def with_peers(folder, peers, *arguments):
    """A server whose pipeline `to_pacs` sends to `pacs`."""
    pipelines = folder / "pipelines"
    pipelines.mkdir(exist_ok=True)
    peer = ("pipeline:", "dicom: {send_to: pacs}\npipeline:")
    text = variant("cartesian_plain", peer, ("backend: auto", "backend: cpu"))
    (pipelines / "to_pacs.yaml").write_text(text.replace("name: cartesian_plain", "name: to_pacs"))
    log = folder / f"log{len(list(folder.glob('log*')))}"
    log.mkdir()
    given = [part for peer in peers for part in ("--dicom-peers", peer)]
    if not has_dicom():
        pytest.skip("the server was built without DICOM (./run setup test, then build again)")
    return Server(log, "--pipelines", pipelines, "--dicom-spool", folder / "spool", "--dicom-timeout-s", 5,
                  "--dicom-retry-s", 1, *given, *arguments)  # fmt: skip


_built = None


def has_dicom():
    """Whether the programs have DICOM: `export` says so without a file."""
    global _built
    if _built is None:
        done = run_client("export", "/nonexistent.h5", "--dicom", "/nonexistent")
        _built = "built without DICOM" not in done.stderr
    return _built


def page(server, path="/dicom"):
    try:
        with urllib.request.urlopen(f"http://{server.admin[0]}:{server.admin[1]}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def peer_of(server, name="pacs"):
    return next(one for one in json.loads(page(server)[1])["peers"] if one["name"] == name)


def send(server, scan, folder, pipeline="to_pacs"):
    done = server.send(scan, pipeline, folder / "images.h5")
    assert done.returncode == 0, done.stderr
    heads, pixels = scans.read_images(folder / "images.h5")
    assert len(pixels) == FRAMES
    return heads, pixels


def test_images_of_a_scan_arrive_in_orthanc_with_their_pixels_and_places(tmp_path, scan, pacs):
    pydicom = pytest.importorskip("pydicom", reason="pydicom is not installed (./run setup test)")
    before = set(pacs.instances())
    server = with_peers(tmp_path, [pacs.peer()])
    heads, pixels = send(server, scan, tmp_path)
    new = set(pacs.wait_for(len(before) + FRAMES)) - before
    assert len(new) == FRAMES
    got = sorted((pydicom.dcmread(io.BytesIO(pacs.file(one))) for one in new), key=lambda one: one.InstanceNumber)
    assert [int(one.InstanceNumber) for one in got] == [1, 2, 3]
    for one, image, head in zip(got, pixels, heads):
        values = one.pixel_array * float(one.RescaleSlope) + float(one.RescaleIntercept)
        assert np.abs(values - image[0, 0]).max() <= np.abs(image).max() / 32767
        corner = np.array(head["position"], float) - MATRIX // 2 * VOXEL * (
            np.array(head["read_dir"], float) + np.array(head["phase_dir"], float)
        )
        np.testing.assert_allclose(np.array(one.ImagePositionPatient, float), corner, atol=1e-4)
        np.testing.assert_allclose(corner, np.array(POSITION) - [16, 16, 0], atol=1e-4)
    tags = pacs.get(f"/instances/{next(iter(new))}/simplified-tags")
    assert tags["Modality"] == "MR" and tags["StudyDate"] == "20260131" and tags["PatientName"] == ""
    assert len({one.StudyInstanceUID for one in got}) == 1 == len({one.SeriesInstanceUID for one in got})
    # The same scan again: the same instances, so nothing is there twice.
    send(server, scan, tmp_path)
    wait_until(lambda: peer_of(server)["sent"] == 2 * FRAMES, "the second scan's images")
    assert len(pacs.instances()) == len(before) + FRAMES
    status, _ = page(server)
    known = peer_of(server)
    assert status == 200 and known["reachable"] and known["waiting_files"] == 0 and known["refused"] == 0
    assert run_client("health", "-p", server.admin[1], "--path", "/dicom").returncode == 0
    metrics = page(server, "/metrics")[1]
    assert f'echotrain_dicom_sent_total{{peer="pacs"}} {2 * FRAMES}' in metrics
    assert spooled(tmp_path / "spool") == []
    assert server.stop() == 0


def test_a_peer_that_takes_multi_frame_objects_gets_one_per_scan(tmp_path, scan, pacs):
    pydicom = pytest.importorskip("pydicom", reason="pydicom is not installed (./run setup test)")
    before = set(pacs.instances())
    server = with_peers(tmp_path, [pacs.peer() + "/enhanced"])
    _, pixels = send(server, scan, tmp_path)
    (new,) = set(pacs.wait_for(len(before) + 1)) - before
    one = pydicom.dcmread(io.BytesIO(pacs.file(new)))
    assert one.SOPClassUID == "1.2.840.10008.5.1.4.1.1.4.1" and one.NumberOfFrames == FRAMES
    values = one.pixel_array.astype(float)
    for frame, own, image in zip(values, one.PerFrameFunctionalGroupsSequence, pixels, strict=True):
        groups = own if "PixelValueTransformationSequence" in own else one.SharedFunctionalGroupsSequence[0]
        slope = float(groups.PixelValueTransformationSequence[0].RescaleSlope)
        assert np.abs(frame * slope - image[0, 0]).max() <= np.abs(image).max() / 32767
    wait_until(lambda: peer_of(server)["sent"] == 1, "the object's acknowledgement")
    assert server.stop() == 0
    assert len(pacs.instances()) == len(before) + 1


def test_send_to_gives_every_scan_to_a_peer_and_patient_fields_are_an_option(tmp_path, scan, pacs):
    server = with_peers(tmp_path, [pacs.peer()], "--dicom-send-to", "pacs", "--dicom-patient")
    before = set(pacs.instances())
    send(server, scan, tmp_path, "cartesian_plain")
    new = set(pacs.wait_for(len(before) + FRAMES)) - before
    tags = pacs.get(f"/instances/{next(iter(new))}/simplified-tags")
    assert tags["PatientName"] == "Doe^Jane" and tags["PatientID"] == "P-4711"
    assert tags["StudyInstanceUID"] == "1.2.826.0.1.42"
    assert server.stop() == 0


def test_a_dead_peer_holds_nothing_back_and_gets_its_images_after_a_restart(tmp_path, scan):
    """Nobody answers at first: the scan ends as ever, the images outlive the server, and the peer gets them later."""
    dead = DeadPeer()
    server = with_peers(tmp_path, [f"pacs=ORTHANC@127.0.0.1:{dead.port}"])
    send(server, scan, tmp_path)
    wait_until(lambda: len(spooled(tmp_path / "spool")) == FRAMES, "the spool's files")
    wait_until(lambda: peer_of(server)["reachable"] is False, "the peer's failure")
    assert page(server)[0] == 503 and page(server, "/readyz")[0] == 200
    done = run_client("health", "-p", server.admin[1], "--path", "/dicom")
    assert done.returncode == 1 and '"reachable": false' in done.stdout
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    assert len(spooled(tmp_path / "spool")) == FRAMES

    dead.stop()
    pacs = Orthanc(tmp_path / "orthanc", dead.port)
    try:
        again = with_peers(tmp_path, [pacs.peer()])
        again.wait_for(r"the spool holds 3 images for DICOM peer pacs")
        pacs.wait_for(FRAMES)
        wait_until(lambda: spooled(tmp_path / "spool") == [], "an empty spool")
        assert again.stop() == 0
    finally:
        pacs.stop()


def test_a_mute_peer_keeps_neither_scans_nor_another_peer_nor_the_servers_end_waiting(tmp_path, scan, pacs):
    mute = MutePeer()
    before = len(pacs.instances())
    server = with_peers(tmp_path, [pacs.peer(), f"mute=MUTE@127.0.0.1:{mute.port}"], "--dicom-send-to", "mute",
                        "--dicom-timeout-s", 600)  # fmt: skip
    send(server, scan, tmp_path)
    # Maybe an earlier test has sent the same instances already: the peer's counter tells.
    wait_until(lambda: peer_of(server)["sent"] == FRAMES, "the images at the peer that answers")
    assert len(pacs.instances()) >= before
    wait_until(lambda: len(spooled(tmp_path / "spool", "mute")) == FRAMES, "the mute peer's files")
    began = time.monotonic()
    assert server.stop() == 0
    # 600 s would be the peer's; the server interrupts what waits. (20 s are stop()'s own bound.)
    assert time.monotonic() - began < 20
    mute.stop()


def test_a_full_spool_drops_images_of_dicom_only_and_says_so(tmp_path, scan):
    dead = DeadPeer()
    server = with_peers(tmp_path, [f"pacs=ORTHANC@127.0.0.1:{dead.port}"], "--dicom-spool-mib", 1)
    big = tmp_path / "big.h5"
    rng = np.random.default_rng(23)
    kspace = rng.standard_normal((FRAMES, 1, 256, 512)).astype(np.complex64)  # 256 KiB each in DICOM: one is less than half
    scans.cartesian(kspace).save(big)
    done = server.send(big, "to_pacs", tmp_path / "images.h5")
    assert done.returncode == 0 and len(scans.read_images(tmp_path / "images.h5")[1]) == FRAMES, done.stderr
    why = "0 MiB of this client's images for it are in the spool, and what is left is for others (dicom.spool_mib)"
    # Which advice depends on how many images wait when the first one is refused: all three never fit into the client's part.
    advice = f"sent to DICOM peer pacs: {re.escape(why)}; (send the scan again|raise dicom.spool_mib)"
    assert re.search(advice, done.stderr), done.stderr
    server.wait_for(re.escape(f"an image is not sent to DICOM peer pacs: {why}"), timeout_s=60)
    wait_until(lambda: json.loads(page(server)[1])["dropped"] == 2, "two dropped images")
    assert len(spooled(tmp_path / "spool")) == 1
    assert server.stop() == 0
    dead.stop()


def test_a_file_that_a_peer_never_takes_lets_others_pass_and_is_put_aside(tmp_path, scan):
    """Orthanc may keep 1 MB: for an image of 2 MiB it has no room whatever comes, smaller ones push each other out."""
    pacs = Orthanc(tmp_path / "orthanc", MaximumStorageSize=1)
    server = with_peers(tmp_path, [pacs.peer()], "--dicom-tries", 3)
    rng = np.random.default_rng(24)
    scans.cartesian(rng.standard_normal((1, 1, 1024, 1024)).astype(np.complex64)).save(tmp_path / "big.h5")
    done = server.send(tmp_path / "big.h5", "to_pacs", tmp_path / "big_image.h5")
    assert done.returncode == 0, done.stderr
    wait_until(lambda: peer_of(server)["failing"] == 1, "the image that is not taken")
    assert "no room (status a7" in peer_of(server)["error"] and page(server)[0] == 503
    send(server, scan, tmp_path)
    wait_until(lambda: peer_of(server)["sent"] == FRAMES, "the images behind it")
    server.wait_for(r"DICOM peer pacs has not taken an image in 3 tries, which is put aside as 0+1-[0-9a-f]{8}\.dcm: .*no room",
                    timeout_s=60)  # fmt: skip
    wait_until(lambda: peer_of(server)["put_aside"] == 1, "the image that is put aside")
    (aside,) = spooled(tmp_path / "spool" / "pacs", "refused")
    assert aside.startswith("00000000000000000001-")
    assert spooled(tmp_path / "spool") == [] and peer_of(server)["failing"] == 0
    metrics = page(server, "/metrics")[1]
    assert 'echotrain_dicom_given_up_total{peer="pacs"} 1' in metrics
    assert 'echotrain_dicom_failing_files{peer="pacs"} 0' in metrics
    assert server.stop() == 0
    pacs.stop()


def test_a_peer_that_rejects_our_call_is_told_of(tmp_path, scan, pacs):
    server = with_peers(tmp_path, [f"pacs=WRONG@127.0.0.1:{pacs.dicom}"])
    send(server, scan, tmp_path)
    server.wait_for(r"peer pacs \(WRONG@127\.0\.0\.1:\d+\) cannot be reached or used: the association is rejected",
                    timeout_s=60)  # fmt: skip
    wait_until(lambda: len(spooled(tmp_path / "spool")) == FRAMES, "the spool's files")
    assert server.stop() == 0


def make_certificates(folder, root):
    """A root, and a certificate with its key for each side."""

    def openssl(*arguments):
        subprocess.run(["openssl", *(str(a) for a in arguments)], check=True, capture_output=True, timeout=60)

    key = ("-newkey", "rsa:2048", "-nodes", "-days", 2)
    openssl("req", "-x509", *key, "-subj", f"/CN={root}", "-keyout", folder / "root.key", "-out", folder / "root.pem")
    for name in ("pacs", "us"):
        openssl("req", *key, "-subj", f"/CN={name}", "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.csr")
        openssl("x509", "-req", "-in", folder / f"{name}.csr", "-CA", folder / "root.pem", "-CAkey",
                folder / "root.key", "-CAcreateserial", "-days", 2, "-out", folder / f"{name}.pem")  # fmt: skip


def test_images_go_over_tls_to_a_peer_that_a_root_vouches_for(tmp_path, scan):
    certificates, others = tmp_path / "certificates", tmp_path / "others"
    for folder in (certificates, others):
        folder.mkdir()
        make_certificates(folder, folder.name)
    pacs = Orthanc(tmp_path / "orthanc", DicomTlsEnabled=True, DicomTlsCertificate=str(certificates / "pacs.pem"),
                   DicomTlsPrivateKey=str(certificates / "pacs.key"), DicomTlsRemoteCertificateRequired=True,
                   DicomTlsTrustedCertificates=str(certificates / "root.pem"))  # fmt: skip
    try:
        def serve(root):
            return with_peers(tmp_path, [pacs.peer() + "/tls"], "--dicom-tls-ca", root, "--dicom-tls-certificate",
                              certificates / "us.pem", "--dicom-tls-key", certificates / "us.key")  # fmt: skip

        distrusts = serve(others / "root.pem")
        send(distrusts, scan, tmp_path)
        wait_until(lambda: peer_of(distrusts)["reachable"] is False, "the failure")
        assert "certificate verify failed" in peer_of(distrusts)["error"]
        assert distrusts.stop() == 0 and pacs.instances() == []
        server = serve(certificates / "root.pem")
        assert len(pacs.wait_for(FRAMES)) == FRAMES, "the spool has kept them"
        assert server.stop() == 0
    finally:
        pacs.stop()


def test_a_pipeline_that_names_an_unknown_peer_is_refused(tmp_path, scan, pacs):
    server = with_peers(tmp_path, [pacs.peer()])
    text = variant("cartesian_plain", ("pipeline:", "dicom: {send_to: [pacs, elsewhere]}\npipeline:"))
    (tmp_path / "mine.yaml").write_text(text)
    done = server.send(scan, tmp_path / "mine.yaml", tmp_path / "images.h5")
    assert done.returncode == 1
    assert "no DICOM peer 'elsewhere'; its option dicom.peers has: pacs" in done.stderr
    assert server.stop() == 0
