"""The commands of docs/python-steps.md, in a shell, in its order."""

import os
import re
import subprocess
import sys

import ismrmrd
from programs import ADDRESS, BIN, SOURCE


def commands():
    return re.findall(r"```bash\n(.*?)```", (SOURCE / "docs" / "python-steps.md").read_text(), re.DOTALL)


def test_the_document_leads_from_nothing_to_images(tmp_path):
    install, *others = commands()
    assert "venv/bin/pip install numpy ismrmrd" in install
    # In the place of an environment that would come over the network: the tests' own interpreter.
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    interpreter = tmp_path / "venv" / "bin" / "python"
    interpreter.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    interpreter.chmod(0o755)
    serve, send = others[-1].strip().splitlines()
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    for block in others[:-1]:
        done = subprocess.run(["bash", "-e", "-c", block], cwd=tmp_path, env=environment, capture_output=True,
                              text=True, timeout=120)  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert "all images are inverted" in done.stderr
    assert list((tmp_path / "pictures").iterdir())
    # The document's port may be taken here: any free one.
    assert serve.endswith(" &") and "--port 9002" in serve and "-p 9002" in send
    line = serve.removesuffix(" &").replace("--port 9002", "--port 0 --admin-port 0")
    log = tmp_path / "server.log"
    with open(log, "wb") as to:
        server = subprocess.Popen(["bash", "-c", f"exec {line}"], cwd=tmp_path, env=environment, stdout=to, stderr=to)
    try:
        while not (found := ADDRESS.search(log.read_text())):
            assert server.poll() is None, log.read_text()
        done = subprocess.run(["bash", "-c", send.replace("-p 9002", f"-p {found[2]}")], cwd=tmp_path, env=environment,
                              capture_output=True, text=True, timeout=120)  # fmt: skip
        assert done.returncode == 0, done.stderr
    finally:
        server.terminate()
        server.wait(30)
    images = []
    for name in ("images.h5", "sent.h5"):
        with ismrmrd.Dataset(str(tmp_path / name), create_if_needed=False) as file:
            images.append(file.read_image("image_1", 0).data.copy())
    assert images[0].shape == (1, 1, 128, 128) and images[0].min() == 0
    assert abs(images[0] - images[1]).max() <= 1e-6 * images[0].max()
