#!/usr/bin/env python3
"""Packs an image of Echotrain for a Siemens scanner's OpenRecon: a zip with the saved image and a PDF.

    docker/openrecon/package.py [--image echotrain:cpu] [--engine docker] [-o FOLDER]

The image gets the label that OpenRecon reads (base64 of label.json) and a pipeline called `openrecon`, the name that the
scanner asks for; which one it really is can be chosen at the scanner (parameter `config`) and else is the label's default.
The files are called OpenRecon_VENDOR_NAME_VVERSION, as in the label. Needs Python 3.8 and docker, podman or buildah.
"""

import argparse
import base64
import json
import pathlib
import re
import shlex
import subprocess
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
PIPELINES = HERE.parents[1] / "config" / "pipelines"
LABEL = "com.siemens-healthineers.magneticresonance.openrecon.metadata:1.1.0"


def versioned(value, version):
    """The label with the version wherever it says 0.0.0."""
    if isinstance(value, dict):
        return {key: versioned(each, version) for key, each in value.items()}
    return value.replace("0.0.0", version) if isinstance(value, str) else value


def make_label(version, gpu):
    label = json.loads((HERE / "label.json").read_text())
    label["general"] = versioned(label["general"], version)
    for value in label["parameters"][0]["values"]:
        if not (PIPELINES / f"{value['id']}.yaml").exists():
            raise SystemExit(f"label.json offers the pipeline {value['id']}, which is not in {PIPELINES}")
    if gpu:
        # One is taken where there is one.
        label["reconstruction"].update(can_use_gpu=True, min_required_gpu_memory=4096)
    return label


def make_pdf(lines):
    """A page of text: PDF 1.4 with one of the fonts that every reader has."""
    shown = b"\n".join(b"(" + re.sub(r"([()\\])", r"\\\1", line).encode("latin-1", "replace") + b") Tj T*" for line in lines)
    content = b"BT /F1 10 Tf 14 TL 60 780 Td\n" + shown + b"\nET"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R "
        b"/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
    ]
    pdf, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(pdf))
        pdf += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return pdf + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1, table, len(objects) + 1, len(pdf))  # fmt: skip


def documentation(label):
    general, choice = label["general"], label["parameters"][0]
    return [
        f"{general['name']['en']} {general['version']}",
        "",
        general["information"]["en"],
        general["regulatory_information"]["safety_advices"],
        "",
        f"{choice['label']['en']}: {choice['information']['en']}.",
        *(f"    {value['name']['en']}: {value['id']}" for value in choice["values"]),
        "",
        "Raw data go to the container as ISMRMRD over TCP port 9002; images come back the same way.",
        "The container's log, and the messages that it sends, say what was refused and why.",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", default="echotrain:cpu", help="made by docker/Dockerfile")
    parser.add_argument("--engine", default="docker", help="docker, podman or buildah, with options")
    parser.add_argument("--version", help="of the package, as 1.2.3 (default: the image's)")
    parser.add_argument("--gpu", action="store_true", help="the image is of the target cuda")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("."), help="folder for the zip")
    arguments = parser.parse_args()
    engine = shlex.split(arguments.engine)
    buildah = "buildah" in engine[0]

    version = arguments.version
    if not version:
        asked = ["inspect", "--type", "image", arguments.image] if buildah else ["image", "inspect", arguments.image]
        about = json.loads(subprocess.run([*engine, *asked], check=True, capture_output=True, text=True).stdout)
        config = about["Docker"]["config"] if buildah else about[0]["Config"]
        version = config["Labels"]["org.opencontainers.image.version"]
    label = make_label(version, arguments.gpu)
    general, default = label["general"], label["parameters"][0]["default"]
    name = f"OpenRecon_{general['vendor']}_{general['name']['en']}_V{general['version']}"
    tag = f"OpenRecon_{general['vendor']}_{general['name']['en']}:V{general['version']}".lower()

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        pipeline = (PIPELINES / f"{default}.yaml").read_text()
        pipeline = re.sub(r"(?m)^aliases:.*\n", "", pipeline)
        (folder / "openrecon.yaml").write_text(re.sub(r"(?m)^name:.*$", "name: openrecon", pipeline))
        encoded = base64.b64encode(json.dumps(label, indent=2).encode()).decode()
        (folder / "Dockerfile").write_text(
            f"FROM {arguments.image}\n"
            "COPY openrecon.yaml /usr/share/echotrain/openrecon/openrecon.yaml\n"
            f'LABEL "{LABEL}"="{encoded}"\n'
            'CMD ["--options", "/etc/echotrain/echotrain.yaml", "--pipelines", "/usr/share/echotrain/openrecon"]\n')
        build = ["build", "--isolation", "chroot", "--format", "docker", "--pull=never"] if buildah else ["build"]
        subprocess.run([*engine, *build, "-t", tag, "-f", str(folder / "Dockerfile"), str(folder)], check=True)
        saved = folder / f"{name}.tar"
        save = ["push", tag, f"docker-archive:{saved}:{tag}"] if buildah else ["save", "-o", str(saved), tag]
        subprocess.run([*engine, *save], check=True)
        (folder / f"{name}.pdf").write_bytes(make_pdf(documentation(label)))
        arguments.output.mkdir(parents=True, exist_ok=True)
        package = arguments.output / f"{name}.zip"
        with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in (saved, folder / f"{name}.pdf"):
                archive.write(file, file.name)
    print(f"{package}: {package.stat().st_size >> 20} MB")


if __name__ == "__main__":
    main()
