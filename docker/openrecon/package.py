#!/usr/bin/env python3
"""Packs an image of Echotrain for a Siemens scanner's OpenRecon: a zip with the saved image and a PDF.

    docker/openrecon/package.py [PIPELINE...] [--image echotrain:cpu] [--engine docker] [-o FOLDER]
    docker/openrecon/package.py images_denoise --context FOLDER      without an engine: what the image is built from

The first pipeline is the one that runs unless another one is chosen at the scanner. The label that OpenRecon reads is
what `echotrain-server --openrecon-label PIPELINE...` prints, with the parameters that the pipelines expose and their
ranges, and with the entries of label.json in place of its own: put your manufacturer there. The image gets the label,
the pipelines that are not shipped, and one called `openrecon`, the name that the scanner asks for. The files are called
OpenRecon_VENDOR_NAME_VVERSION, as in the label. Needs Python 3.8 and docker, podman or buildah. docs/openrecon.md
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
ROOT = HERE.parents[1]
SHIPPED = ROOT / "config" / "pipelines"
LABEL = "com.siemens-healthineers.magneticresonance.openrecon.metadata:1.1.0"
RAW = ("cartesian_display", "cartesian_2d", "cartesian_3d", "cartesian_sense", "cg_sense_2d", "radial_2d", "spiral_2d")


def merged(into, changes):
    """`into` with the values of `changes`, map by map (RFC 7386 without removals)."""
    if not isinstance(into, dict) or not isinstance(changes, dict):
        return changes
    return {**into, **{key: merged(into.get(key), value) for key, value in changes.items()}}


def versioned(value, old, new):
    """The label's general part with the package's version wherever it has the program's."""
    if isinstance(value, dict):
        return {key: versioned(each, old, new) for key, each in value.items()}
    return re.sub(rf"(^|_){re.escape(old)}$", rf"\g<1>{new}", value) if isinstance(value, str) else value


def make_label(server, pipelines, folders, changes, version=None, gpu=False):
    """`server`: the program's command; `folders`: of pipelines that are not shipped."""
    command = [*server, *(f"--pipelines={folder}" for folder in folders)]
    command += [f"--openrecon-label={pipeline}" for pipeline in pipelines]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"no label: {done.stderr.strip()}")
    label = json.loads(done.stdout)
    if version:
        label["general"] = versioned(label["general"], label["general"]["version"], version)
    label = merged(label, changes)
    if gpu:
        # One is taken where there is one.
        label["reconstruction"].update(can_use_gpu=True, min_required_gpu_memory=4096)
    return label


def package_name(label):
    general = label["general"]
    return f"OpenRecon_{general['vendor']}_{general['name']['en']}_V{general['version']}"


def find_pipeline(name, folders):
    for folder in [*reversed(folders), SHIPPED]:
        if (folder / f"{name}.yaml").exists():
            return folder / f"{name}.yaml"
    raise SystemExit(f"there is no {name}.yaml in {', '.join(str(each) for each in [*folders, SHIPPED])}")


def write_context(folder, image, label, pipelines, folders):
    """What the image is built from: Dockerfile, label.json, pipelines/, and the PDF."""
    own = folder / "pipelines"
    own.mkdir(parents=True, exist_ok=True)
    for name in pipelines:
        file = find_pipeline(name, folders)
        if file.parent != SHIPPED:
            (own / file.name).write_text(file.read_text())
    first = re.sub(r"(?m)^aliases:.*\n", "", find_pipeline(pipelines[0], folders).read_text())
    (own / "openrecon.yaml").write_text(re.sub(r"(?m)^name:.*$", "name: openrecon", first))
    text = json.dumps(label, indent=2)
    (folder / "label.json").write_text(text + "\n")
    (folder / "Dockerfile").write_text(
        f"FROM {image}\n"
        "COPY pipelines /usr/share/echotrain/openrecon\n"
        f'LABEL "{LABEL}"="{base64.b64encode(text.encode()).decode()}"\n'
        'CMD ["--options", "/etc/echotrain/echotrain.yaml", "--pipelines", "/usr/share/echotrain/openrecon"]\n')
    (folder / f"{package_name(label)}.pdf").write_bytes(make_pdf(documentation(label)))


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


def allowed(parameter):
    if parameter["type"] == "choice":
        return ", ".join(value["id"] for value in parameter["values"])
    if parameter["type"] in ("int", "double"):
        unit = f" {parameter['unit']['en']}" if "unit" in parameter else ""
        return f"{parameter['minimum']} to {parameter['maximum']}{unit}"
    return "true or false" if parameter["type"] == "boolean" else "text"


def documentation(label):
    general = label["general"]
    choice, *others = label["parameters"]
    what = "Images" if label["reconstruction"]["emitter"] == "image" else "Raw data"
    lines = [
        f"{general['name']['en']} {general['version']}",
        "",
        general["information"]["en"],
        general["regulatory_information"]["safety_advices"],
        "",
        f"{choice['label']['en']}: {choice['information']['en']}.",
        *(f"    {value['id']}: {value['name']['en']}" for value in choice["values"]),
    ]
    for each in others:
        lines += ["", f"{each['label']['en']} ({each['id']}): {allowed(each)}; {each['default']} unless changed.",
                  f"    {each['information']['en']}"]  # fmt: skip
    return [
        *lines,
        "",
        f"{what} go to the container as ISMRMRD over TCP port 9002; images come back the same way.",
        "The container's log, and the messages that it sends, say what was refused and why.",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pipelines", nargs="*", default=RAW, metavar="PIPELINE", help="default: " + ", ".join(RAW))
    parser.add_argument("--pipelines", dest="folders", action="append", default=[], type=pathlib.Path, metavar="FOLDER",
                        help="of pipelines that are not shipped")  # fmt: skip
    parser.add_argument("--label", default=HERE / "label.json", type=pathlib.Path, help="changes to the label")
    parser.add_argument("--image", default="echotrain:cpu", help="made by docker/Dockerfile")
    parser.add_argument("--engine", default="docker", help="docker, podman or buildah, with options")
    parser.add_argument("--server", help="command that runs echotrain-server (default: the image's, by docker or podman; "
                                         "else build/bin/echotrain-server)")  # fmt: skip
    parser.add_argument("--version", help="of the package, as 1.2.3 (default: the image's)")
    parser.add_argument("--gpu", action="store_true", help="the image is of the target cuda")
    parser.add_argument("--context", type=pathlib.Path, help="write only what the image is built from, into this folder")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("."), help="folder for the zip")
    arguments = parser.parse_args()
    engine = shlex.split(arguments.engine)
    buildah = "buildah" in engine[0]
    folders = [folder.resolve() for folder in arguments.folders]

    if arguments.server:
        server = shlex.split(arguments.server)
    elif buildah or arguments.context:
        server = [str(ROOT / "build" / "bin" / "echotrain-server")]
    else:
        mounts = [f"--volume={folder}:{folder}:ro" for folder in folders]
        server = [*engine, "run", "--rm", *mounts, "--entrypoint", "/usr/bin/echotrain-server", arguments.image]
    version = arguments.version
    if not version and not arguments.context:
        asked = ["inspect", "--type", "image", arguments.image] if buildah else ["image", "inspect", arguments.image]
        about = json.loads(subprocess.run([*engine, *asked], check=True, capture_output=True, text=True).stdout)
        config = about["Docker"]["config"] if buildah else about[0]["Config"]
        version = config["Labels"]["org.opencontainers.image.version"]
    changes = json.loads(arguments.label.read_text())
    label = make_label(server, arguments.pipelines, folders, changes, version, arguments.gpu)
    if arguments.context:
        write_context(arguments.context, arguments.image, label, arguments.pipelines, folders)
        print(f"{arguments.context}: {package_name(label)}")
        return

    name = package_name(label)
    tag = re.sub(r"_v([^_]*)$", r":v\1", name.lower())
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_context(folder, arguments.image, label, arguments.pipelines, folders)
        build = ["build", "--isolation", "chroot", "--format", "docker", "--pull=never"] if buildah else ["build"]
        subprocess.run([*engine, *build, "-t", tag, "-f", str(folder / "Dockerfile"), str(folder)], check=True)
        saved = folder / f"{name}.tar"
        save = ["push", tag, f"docker-archive:{saved}:{tag}"] if buildah else ["save", "-o", str(saved), tag]
        subprocess.run([*engine, *save], check=True)
        arguments.output.mkdir(parents=True, exist_ok=True)
        package = arguments.output / f"{name}.zip"
        with zipfile.ZipFile(package, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in (saved, folder / f"{name}.pdf"):
                archive.write(file, file.name)
    print(f"{package}: {package.stat().st_size >> 20} MB")


if __name__ == "__main__":
    main()
