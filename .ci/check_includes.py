#!/usr/bin/env python3
"""Checks who includes whom, where CUDA headers appear, and that sources have headers of their names.

    .ci/check_includes.py [ROOT]     checks the tree at ROOT (default: the one this file is in); exit 1 on a violation
    .ci/check_includes.py --self-test

Who may include whom is in .ci/layers.toml, which says how it is read; layers make no circles. No file includes itself
through others, and no folder: neither its neighbours nor its own subfolders include what includes them (tests may). A
source has a header of its own name, or is a part of one: NAME_PART.cc of NAME.h. A folder of more than three files has a
README. Crowded folders and READMEs that are short or long are told and break nothing.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

LIST = ".ci/layers.toml"
ROOMS = ("protocol", "config", "gadgets", "server", "clients", "tests")
TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md",
             "SECURITY.md", "LICENSE", "run", "protocol", "config", "gadgets", "server", "clients", "tests", "docker",
             "docs"}  # and dotfiles
# Lists, each of whose sources adds itself to the list, which has one header.
LISTS = ("gadgets/builtin", "server/parts", "clients/cpp/commands")
MOST_FILES = 25  # in a folder, before it is told
MOST_WITHOUT_README = 3
README_LINES = (10, 30)

SOURCE = re.compile(r"\.(h|cc|cu|cuh)$")
CODE = re.compile(r"\.(h|cc|cu|cuh|c|py|sh)$")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
CUDA_HEADER = re.compile(r"^(cuda|cufft|cublas|cusparse|curand|cusolver|cuComplex|cub/|thrust/|cooperative_groups|"
                         r"nvtx|nvToolsExt|nvrtc|mma\.h|device_launch_parameters|vector_types\.h|nv/)")


def above(folder):
    return folder.rpartition("/")[0]


def read_layers(text):
    """(for each layer, those that it may include: a path, or "FOLDER/" for all below it; what is wrong with the list)."""
    tables, found = tomllib.loads(text), []
    layers = {room if name == "." else f"{room}/{name}": [room, *uses, *table.get("below", ())]
              for room, table in tables.items() for name, uses in table.items() if name != "below"}
    for layer, (room, *names) in layers.items():
        layers[layer] = []
        for name in names:
            whole = next((path for path in (f"{room}/{name}", name) if path in layers or
                          (path.endswith("/") and any(other.startswith(path) for other in layers))), None)
            if whole is None:
                found.append(f"{LIST}: {layer} names {name}, which is no layer")
            else:
                layers[layer].append(whole)
    return layers, found


def layer_of(path, layers):
    """The layer of a file, or None where the list must name its folder."""
    folder = at = above(path)
    while at:
        parted = any(name.startswith(at + "/") for name in layers)
        if parted and at != folder:
            return None  # its layers are named one by one
        if at in layers or (f"{above(at)}/*" in layers and not parted):
            return at
        at = above(at)
    return None


def uses_of(layer, layers):
    return layers.get(layer, layers.get(f"{above(layer)}/*", ()))


def covers(name, layer):
    return name == layer or (name.endswith("/") and layer.startswith(name))


def may_include(path, target, layers):
    """None when file `path` may include our file `target`, otherwise the rule it breaks. Both are relative to the root."""
    if path.startswith("tests/"):
        return None
    if target.startswith("tests/"):
        return "nothing but tests includes tests"
    mine, its = layer_of(path, layers), layer_of(target, layers)
    for file, layer in ((path, mine), (target, its)):
        if layer is None:
            return f"{above(file)} is in no layer; give it a line in {LIST}"
    if mine == its or any(covers(name, its) for name in uses_of(mine, layers)):
        return None
    return f"{mine} may not include {its}; who may include whom is in {LIST}"


def may_see_cuda(path):
    return path.endswith((".cu", ".cuh"))


def check_file(path, text, layers):
    """Every violation in a file, as "path:line: message"."""
    found = []
    for match in INCLUDE.finditer(text):
        kind, target = match.groups()
        message = None
        if kind == '"' and target.split("/")[0] in ROOMS and "/" in target and ".." not in target:
            message = may_include(path, target, layers)
            if message is None and target.endswith(".cuh") and not may_see_cuda(path):
                message = "CUDA headers appear only in .cu and .cuh"
        elif CUDA_HEADER.match(target):
            if not may_see_cuda(path):
                message = "CUDA headers appear only in .cu and .cuh"
        elif kind == '"':
            message = 'write our headers from the top of the tree ("protocol/wire/codec.h"), others in <>'
        elif target.split("/")[0] in ROOMS and "/" in target:
            message = "write our headers in quotes"
        if message:
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{path}:{line}: #include {target}: {message}")
    return found


def circles(layers):
    """Layers that use each other, directly or through others."""
    found = []
    for start in layers:
        seen, stack = set(), [start]
        while stack:
            layer = stack.pop()
            names = [other for other in layers if other != layer and any(covers(name, other) for name in uses_of(layer, layers))]
            if start in names:
                found.append(f"{LIST}: {start} uses layers that use it ({', '.join(sorted(seen))})")
                break
            stack += [name for name in names if name not in seen]
            seen.update(names)
    return found


def gone(layers, files):
    """Layers without files."""
    return [f"{LIST}: there is no folder {layer}" for layer in layers
            if not layer.endswith("/*") and not any(file.startswith(layer + "/") for file in files)]


def file_circles(includes):
    """Files that include themselves through others. `includes`: the files of ours that each file includes."""
    found, done = [], set()

    def visit(file, above):
        if file in above:
            found.append(f"{file}: includes itself: {' -> '.join([*above[above.index(file):], file])}")
        elif file not in done:
            for target in includes.get(file, ()):
                visit(target, [*above, file])
            done.add(file)

    for file in sorted(includes):
        visit(file, [])
    return found


def folder_circles(includes):
    """Folders that include themselves through others, a subfolder being another folder: each circle once, with the includes
    that make it."""
    leads = {}  # from a folder to others, and by which include
    for file, targets in sorted(includes.items()):
        for target in targets:
            pair = [path.rsplit("/", 1)[0] for path in (file, target)]
            if pair[0] != pair[1] and target in includes and not file.startswith("tests/"):
                leads.setdefault(pair[0], {}).setdefault(pair[1], f"{file} includes {target}")
    found, reported = [], set()
    for start in sorted(leads):
        ways, ahead = {start: []}, [start]  # the shortest way to each folder
        for folder in ahead:
            for other, include in leads.get(folder, {}).items():
                if other == start and not reported & {start, folder, *ways[folder]}:
                    reported |= {start, folder, *ways[folder]}
                    steps = zip([*ways[folder], folder], [*ways[folder][1:], folder, start])
                    found.append(f"{start}: a circle of folders: {'; '.join(leads[a][b] for a, b in steps)}")
                if other not in ways:
                    ways[other] = [*ways[folder], folder]
                    ahead.append(other)
    return found


def check_headers(files):
    """Sources without a header of their name in their folder; a backend's may be of a header of numerics/core."""
    found, headers = [], {file.rsplit(".", 1)[0] for file in files if file.endswith((".h", ".cuh"))}
    for file in files:
        folder, name = file.rsplit("/", 1)
        words = name.rsplit(".", 1)[0].split("_")
        if not file.endswith((".cc", ".cu")) or folder.startswith("tests") or folder in LISTS or words[-1] == "main":
            continue
        names = ["_".join(words[:n]) for n in range(1, len(words) + 1)]
        places = [folder] + (["gadgets/numerics/core"] if words[-1] == "cuda" else [])
        if not any(f"{place}/{each}" in headers for place in places for each in names):
            found.append(f"{file}: no header of its name, nor of the beginning of it (NAME_PART of NAME.h)")
    return found


def check_folders(files, readme_of):
    """(folders without a README, what is only told: crowded folders, short or long READMEs). `files`: paths of code;
    `readme_of(folder)`: its README's text or None."""
    found, told, folders = [], [], {}
    for path in files:
        folders.setdefault(above(path), []).append(path)
    for folder, names in sorted(folders.items()):
        if len(names) > MOST_FILES:
            told.append(f"{folder}: {len(names)} files of code; is it one idea?")
        if len(names) <= MOST_WITHOUT_README:
            continue
        text = readme_of(folder)
        if text is None:
            found.append(f"{folder}: no README.md, which a folder of more than {MOST_WITHOUT_README} files needs; write what lives "
                         "there, what flows in and out, and where to start")
        elif not README_LINES[0] <= text.count("\n") <= README_LINES[1]:
            told.append(f"{folder}/README.md: {text.count(chr(10))} lines; {README_LINES[0]} to {README_LINES[1]} are read")
    return found, told


def tracked(root):
    """Files of the tree: tracked and new ones in a git checkout, otherwise all but build folders."""
    listing = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                             capture_output=True, text=True, check=False)
    if listing.returncode == 0 and listing.stdout:
        return sorted(name for name in listing.stdout.split("\0") if name and (root / name).is_file())
    return sorted(p.relative_to(root).as_posix() for p in root.rglob("*")
                  if p.is_file() and not re.match(r"(build[^/]*|demo|out|bundle|\.git)/", p.relative_to(root).as_posix()))


def check_top_level(names):
    return [f"{name}: not one of the top-level entries ({', '.join(sorted(TOP_LEVEL))})"
            for name in sorted(names) if name not in TOP_LEVEL and not name.startswith(".")]


def check_tree(root):
    files = tracked(root)
    layers, found = read_layers((root / LIST).read_text(encoding="utf-8"))
    found += check_top_level({name.split("/")[0] for name in files}) + circles(layers)
    code = [f for f in files if f.split("/")[0] in ROOMS and CODE.search(f)]

    def readme_of(folder):
        readme = root / folder / "README.md"
        return readme.read_text(encoding="utf-8") if readme.is_file() else None

    missing, told = check_folders(code, readme_of)
    sources = [f for f in code if SOURCE.search(f)]
    found += missing + check_headers(code) + (gone(layers, files) if sources else [])
    includes = {}
    for file in sources:
        text = (root / file).read_text(encoding="utf-8")
        found += check_file(file, text, layers)
        includes[file] = [target for kind, target in INCLUDE.findall(text) if kind == '"']
    return found + file_circles(includes) + folder_circles(includes), told, len(sources)


def self_test():
    """Each rule refuses files that break it and accepts others."""
    layers, wrong = read_layers("""
[protocol]
data = []
wire = ["data"]
files = ["data"]
[config]
"." = []
["gadgets/numerics"]
core = []
"core/cuda" = ["core"]
"transforms/fft" = ["core"]
"transforms/nufft" = ["core", "transforms/fft"]
[gadgets]
api = ["numerics/core", "protocol/data", "config"]
shared = ["api", "numerics/", "protocol/data", "config"]
engine = ["api", "shared", "numerics/", "protocol/", "config"]
builtin = ["gadgets/", "protocol/", "config"]
steps = ["api", "shared", "numerics/", "protocol/data", "protocol/wire"]
"*" = ["api", "shared", "numerics/", "protocol/data"]
[server]
below = ["protocol/", "config", "gadgets/"]
"." = ["server/"]
base = []
net = ["base"]
session = ["net", "base"]
["clients/cpp"]
below = ["protocol/", "config", "gadgets/"]
base = []
send = ["base"]
recon = ["base"]
""")
    bad = [
        ("protocol/wire/codec.cc", '#include "config/yaml_reader.h"'),
        ("protocol/wire/codec.cc", '#include "gadgets/api/items.h"'),
        ("protocol/data/header.cc", '#include "protocol/wire/codec.h"'),
        ("config/node.cc", '#include "protocol/data/messages.h"'),
        ("gadgets/numerics/transforms/fft/fft.cc", '#include "gadgets/api/items.h"'),
        ("gadgets/numerics/transforms/fft/fft.cc", '#include "protocol/data/messages.h"'),
        ("gadgets/numerics/transforms/fft/fft.cc", '#include "gadgets/numerics/transforms/nufft/nufft.h"'),
        ("gadgets/numerics/core/context.cc", '#include "gadgets/numerics/transforms/fft/fft.h"'),
        ("gadgets/numerics/unknown/a.cc", '#include "gadgets/numerics/core/array.h"'),
        ("gadgets/numerics/core/unknown/a.cc", '#include "gadgets/numerics/core/array.h"'),
        ("gadgets/numerics/core/array.h", '#include "gadgets/numerics/core/cuda/stream.h"'),
        ("gadgets/api/gadget.h", '#include "gadgets/numerics/core/cuda/stream.h"'),
        ("gadgets/top.h", '#include "gadgets/api/gadget.h"'),
        ("gadgets/numerics/transforms/fft/fft.h", "#include <cuda_runtime.h>"),
        ("gadgets/numerics/transforms/fft/fft_cpu.cc", "#include <cufft.h>"),
        ("gadgets/api/items.h", '#include "gadgets/numerics/transforms/nufft/nufft.h"'),
        ("gadgets/api/gadget.h", '#include "gadgets/shared/measurement.h"'),
        ("gadgets/api/gadget.h", '#include "protocol/wire/codec.h"'),
        ("gadgets/shared/measurement.h", '#include "gadgets/engine/framer.h"'),
        ("gadgets/shared/measurement.h", '#include "gadgets/images/scale.h"'),
        ("gadgets/engine/pipeline.cc", '#include "gadgets/images/scale.h"'),
        ("gadgets/engine/pipeline.cc", '#include "gadgets/builtin/families.h"'),
        ("gadgets/images/scale.cc", '#include "gadgets/gridding/gridding.h"'),
        ("gadgets/images/scale.cc", '#include "gadgets/engine/pipeline.h"'),
        ("gadgets/images/scale.cc", '#include "config/yaml_reader.h"'),
        ("gadgets/images/scale.cc", '#include "protocol/wire/codec.h"'),
        ("gadgets/images/scale.cc", '#include "protocol/files/dataset.h"'),
        ("gadgets/steps/step_exchange.cc", '#include "protocol/files/dataset.h"'),
        ("gadgets/steps/step_exchange.cc", '#include "gadgets/images/scale.h"'),
        ("gadgets/images/scale.cc", '#include "server/session/session.h"'),
        ("gadgets/images/scale.cc", '#include "clients/cpp/images/png_writer.h"'),
        ("gadgets/images/scale.cc", "#include <cub/cub.cuh>"),
        ("server/session/session.cc", '#include "clients/cpp/send/send.h"'),
        ("server/session/session.cc", '  #  include "clients/cpp/send/send.h"  // why not'),
        ("server/session/session.cc", "#include <cuda_runtime_api.h>"),
        ("server/session/session.cc", '#include "gadgets/numerics/transforms/nufft/tiles.cuh"'),
        ("server/session/session.cc", '#include "listener.h"'),
        ("server/session/session.cc", '#include "../server/listener.h"'),
        ("server/session/session.cc", "#include <server/server.h>"),
        ("server/session/session.cc", '#include "server/server.h"'),
        ("server/net/transport.cc", '#include "server/session/session.h"'),
        ("clients/cpp/send/send.cc", '#include "server/session/session.h"'),
        ("clients/cpp/send/send.cc", '#include "clients/cpp/recon/recon.h"'),
        ("server/session/session.cc", '#include "tests/support/stream.h"'),
        ("tests/gadgets/numerics/transforms/fft/fft_test.cc", "#include <thrust/sort.h>"),
    ]
    good = [
        ("protocol/wire/codec.cc", '#include "protocol/data/messages.h"\n#include <vector>'),
        ("protocol/wire/codec.cc", '// #include "server/session/session.h"'),
        ("gadgets/numerics/transforms/fft/fft_cuda.cu", '#include <cufft.h>\n#include "gadgets/numerics/transforms/fft/tiles.cuh"'),
        ("gadgets/numerics/transforms/nufft/nufft.cc", '#include "gadgets/numerics/transforms/fft/fft.h"'),
        ("gadgets/api/gadget.h", '#include "gadgets/numerics/core/context.h"\n#include "config/yaml_reader.h"'),
        ("gadgets/shared/measurement.h", '#include "gadgets/api/items.h"\n#include "gadgets/numerics/transforms/nufft/nufft.h"'),
        ("gadgets/engine/pipeline.cc", '#include "gadgets/shared/measurement.h"\n#include "config/pipeline_spec.h"'),
        ("gadgets/images/contrast/label.cc", '#include "gadgets/images/orient.h"'),
        ("gadgets/numerics/core/cuda/stream.cc", '#include "gadgets/numerics/core/array.h"'),
        ("gadgets/images/scale.cc", '#include "gadgets/images/orient.h"\n#include "gadgets/api/gadget.h"'),
        ("gadgets/images/scale.cc", '#include "protocol/data/messages.h"\n#include "gadgets/shared/measurement.h"'),
        ("gadgets/steps/step_exchange.cc", '#include "protocol/wire/codec.h"\n#include "gadgets/shared/program/scan_environment.h"'),
        ("gadgets/builtin/images.cc", '#include "gadgets/images/scale.h"\n#include "gadgets/api/registry.h"'),
        ("server/session/session.cc", '#include "server/net/transport.h"\n#include "gadgets/engine/pipeline.h"'),
        ("server/main.cc", '#include "server/session/session.h"\n#include "server/server.h"'),
        ("clients/cpp/send/send.cc", '#include "protocol/files/dataset.h"\n#include <yaml-cpp/yaml.h>'),
        ("tests/server/session/session_test.cc", '#include "server/session/session.h"\n#include "clients/cpp/send/send.h"'),
    ]
    wrong += [f"not refused: {path}: {text}" for path, text in bad if len(check_file(path, text, layers)) != 1]
    wrong += [f"refused: {message}" for path, text in good for message in check_file(path, text, layers)]
    if len(check_top_level({"run", ".ci", "src", "protocol"})) != 1:
        wrong.append("the top-level rule does not find exactly 'src'")
    round_about, _ = read_layers('[server]\na = ["b"]\nb = ["c"]\nc = ["a"]\nd = ["a"]\n')
    if circles(layers) or len(circles(round_about)) != 3:
        wrong.append("circles are not found, or found where there are none")
    if len(read_layers('[server]\na = ["b", "server/"]\n')[1]) != 1:
        wrong.append("a name that is no layer is not found")
    if len(gone({"server/a": [], "server/b": [], "server/*": []}, ["server/a/a.h"])) != 1:
        wrong.append("layers without files are not found, or found where there are files")
    round_trip = {"a/a.h": ["a/b.h"], "a/b.h": ["a/c.h"], "a/c.h": ["a/a.h"], "a/d.h": ["a/c.h", "a/b.h"]}
    if len(file_circles(round_trip)) != 1 or file_circles({**round_trip, "a/c.h": []}):
        wrong.append("files that include themselves are not found, or found where there are none")
    up_and_down = {"a/a.cc": ["a/b/b.h"], "a/b/b.h": ["a/c.h"], "a/c.h": [], "d/d.h": ["a/c.h"]}
    three = {"a/a.h": ["b/b.h"], "b/b.h": ["c/c.h"], "c/c.h": ["a/z.h"], "a/z.h": []}
    if len(folder_circles(up_and_down)) != 1 or len(folder_circles(three)) != 1:
        wrong.append("circles of folders are not found, or more than once")
    if folder_circles({**up_and_down, "a/b/b.h": []}) or folder_circles({f"tests/{f}": [f"tests/{to}" for to in three[f]] for f in three}):
        wrong.append("circles of folders are found where there are none")
    named = ["server/net/a.h", "server/net/a.cc", "server/net/a_part.cc", "server/main.cc", "server/parts/b.cc"]
    if len(check_headers([*named, "server/net/b.cc", "server/net/part_a.cc"])) != 2 or check_headers(named):
        wrong.append("sources without a header of their name")
    crowd, short = [f"server/net/f{i}.cc" for i in range(MOST_FILES + 1)], "a\n" * README_LINES[0]
    if [len(each) for each in check_folders(crowd, lambda _: short)] != [0, 1] or any(check_folders(crowd[1:], lambda _: short)):
        wrong.append("crowded folders")
    if [len(each) for each in check_folders(crowd[:4], lambda _: None)] != [1, 0] or any(check_folders(crowd[:3], lambda _: None)):
        wrong.append("folders without README")
    if len(check_folders(["tests/server/net/a.cc"] * 4, lambda _: None)[0]) != 1:
        wrong.append("folders of tests without README")
    if [len(each) for each in check_folders(crowd[:4], lambda _: "a\n" * 31)] != [0, 1]:
        wrong.append("a README's length")
    with tempfile.TemporaryDirectory() as folder:
        for name, its_text in ((LIST, '[server]\nbase = []\n'), ("server/base/log.h", '#include "server/net/connection_admission.h"\n')):
            (Path(folder) / name).parent.mkdir(parents=True)
            (Path(folder) / name).write_text(its_text, encoding="utf-8")
        if len(check_tree(Path(folder))[0]) != 1:
            wrong.append(f"a tree with one violation: {check_tree(Path(folder))}")
    for message in wrong:
        print(message)
    print(f"self-test: {len(bad) + len(good) + 13} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-")):
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    if not (root / LIST).is_file():
        print(f"{root}: no {LIST} found; give the folder that holds {', '.join(ROOMS)}")
        return 2
    found, told, files = check_tree(root)
    for message in found + [f"warning: {each}" for each in told]:
        print(message)
    if files == 0:
        print(f"{root}: no sources found; give the folder that holds {', '.join(ROOMS)}")
        return 2
    print(f"include rules: {files} files, {len(found)} violations, {len(told)} warnings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
