#!/usr/bin/env python3
"""Checks who includes whom, where CUDA headers appear, and that folders stay small and say what they hold.

    .ci/check_includes.py [ROOT]     checks the tree at ROOT (default: the one this file is in); exit 1 on a violation
    .ci/check_includes.py --self-test

The rules follow from folders; there is no list of files.
  protocol, config       include nothing of ours outside themselves
  gadgets/numerics       the same; a gadget family and everything below it may include it
  gadgets/api            numerics/core, protocol/data, config
  gadgets/shared         api, numerics, config, protocol/data
  gadgets/engine         the same, and shared
  gadgets/FAMILY         api, shared, numerics, protocol/data; never the engine, never another family
  gadgets/steps          the same, and protocol/wire: it is the family that speaks with other programs
  gadgets/builtin        (the list of all gadgets) every family
  server, clients        everything above, never each other
Within protocol, gadgets/numerics, server and clients/cpp a folder includes only the folders that the line "Uses: ..." of
its README.md names. Those lines make no circles. Sources at the top of such a room may include all of it.
No file includes itself through others, and no folder: neither its neighbours nor its own subfolders include what includes
them (tests may). A source has a header of its own name, or is a part of one: NAME_PART.cc of NAME.h.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOMS = ("protocol", "config", "gadgets", "server", "clients", "tests")
TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md",
             "SECURITY.md", "LICENSE", "run", "protocol", "config", "gadgets", "server", "clients", "tests", "docker",
             "docs"}  # and dotfiles
# Rooms whose folders say in their README.md which of each other they use.
PARTED = ("gadgets/numerics", "protocol", "server", "clients/cpp")
# Lists, each of whose sources adds itself to the list, which has one header.
LISTS = ("gadgets/builtin", "server/parts", "clients/cpp/commands")
MOST_FILES = 25  # in a folder
MOST_WITHOUT_README = 3
README_LINES = (10, 30)

SOURCE = re.compile(r"\.(h|cc|cu|cuh)$")
CODE = re.compile(r"\.(h|cc|cu|cuh|c|py|sh)$")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
USES = re.compile(r"^Uses: *([^\n]*?)\.? *$", re.MULTILINE)
CUDA_HEADER = re.compile(r"^(cuda|cufft|cublas|cusparse|curand|cusolver|cuComplex|cub/|thrust/|cooperative_groups|"
                         r"nvtx|nvToolsExt|nvrtc|mma\.h|device_launch_parameters|vector_types\.h|nv/)")


def folder_of(path):
    """(room, folder) of a path: ("gadgets/numerics", "fft"), ("gadgets", "api"), ("server", ""), ("config", "")."""
    parts = path.split("/")[:-1]
    for room in PARTED:
        depth = room.count("/") + 1
        if parts[:depth] == room.split("/"):
            return room, parts[depth] if len(parts) > depth else ""
    return parts[0] if parts else "", parts[1] if len(parts) > 1 else ""


def within(room, folder, target_folder, uses):
    """The rule that one folder of a parted room breaks by including another; None if it breaks none."""
    if folder in ("", target_folder):
        return None
    if target_folder == "":
        return f"{room}/{folder} must not include the sources at the top of {room}, which may include it"
    if target_folder in uses.get(f"{room}/{folder}", ()):
        return None
    return f'{room}/{folder} does not use {target_folder}; to change that, name it in the line "Uses:" of {room}/{folder}/README.md'


def gadgets_may_include(folder, target_room, target_folder):
    """The rule that a folder of gadgets/ other than numerics breaks by an include; None if it breaks none."""
    if target_room.split("/")[0] in ("server", "clients"):
        return f"a gadget never includes {target_room}"
    if target_room == "gadgets/numerics":
        if folder == "api" and target_folder != "core":
            return "gadgets/api is all that a gadget's author reads, so it includes numerics/core only"
        return None
    if target_room == "config":
        return None if folder in ("api", "engine", "shared", "builtin") else "a gadget reads no config: its parameters are declared"
    if target_room == "protocol":
        if target_folder == "data" or folder in ("engine", "builtin") or (folder, target_folder) == ("steps", "wire"):
            return None
        return "a gadget sees the protocol's data types (protocol/data) only"
    if folder in ("builtin", target_folder):
        return None
    allowed = {"api": (), "shared": ("api",), "engine": ("api", "shared")}.get(folder, ("api", "shared"))
    if target_folder in allowed:
        return None
    if target_folder == "builtin":
        return "only programs see the list of all gadgets"
    if folder in ("api", "shared", "engine"):
        return f"of gadgets/, gadgets/{folder} includes only: {', '.join((*allowed, 'numerics'))}"
    return "a family of gadgets includes api, shared and numerics, never the engine or another family"


def may_include(path, target, uses):
    """None when file `path` may include our file `target`, otherwise the rule it breaks. Both are relative to the root."""
    room, folder = folder_of(path)
    target_room, target_folder = folder_of(target)
    if room == "tests":
        return None
    if target_room == "tests":
        return "nothing but tests includes tests"
    if room == target_room and room in PARTED:
        return within(room, folder, target_folder, uses)
    if room in ("protocol", "config", "gadgets/numerics"):
        return None if target_room == room else f"{room} includes nothing of ours outside itself"
    if room == "gadgets":
        return gadgets_may_include(folder, target_room, target_folder)
    if room == "server" and target_room.startswith("clients"):
        return "server never includes clients"
    if room.startswith("clients") and target_room == "server":
        return "clients never include server"
    return None


def may_see_cuda(path):
    return path.endswith((".cu", ".cuh"))


def check_file(path, text, uses):
    """Every violation in a file, as "path:line: message"."""
    found = []
    for match in INCLUDE.finditer(text):
        kind, target = match.groups()
        message = None
        if kind == '"' and target.split("/")[0] in ROOMS and "/" in target and ".." not in target:
            message = may_include(path, target, uses)
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


def read_uses(root):
    """The folders that each folder of a parted room uses, as its README.md says."""
    uses = {}
    for room in PARTED:
        for readme in sorted((root / room).glob("*/README.md")):
            named = USES.search(readme.read_text(encoding="utf-8"))
            words = re.findall(r"[\w/]+", named.group(1)) if named else []
            uses[readme.parent.relative_to(root).as_posix()] = [w for w in words if w not in ("nothing", "and")]
    return uses


def circles(uses):
    """Folders that use each other, directly or through others."""
    found = []
    for start in uses:
        room = next(r for r in PARTED if start.startswith(r + "/"))
        seen, stack = set(), [f"{room}/{name}" for name in uses[start]]
        while stack:
            folder = stack.pop()
            if folder == start:
                found.append(f"{start}/README.md: its folder uses folders that use it ({', '.join(sorted(seen)) or start})")
                break
            if folder not in seen:
                seen.add(folder)
                stack += [f"{room}/{name}" for name in uses.get(folder, ())]
    return found


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
    """Folders are small and have a README. `files`: paths of code; `readme_of(folder)`: its README's text or None."""
    found, folders = [], {}
    for path in files:
        folders.setdefault(path.rsplit("/", 1)[0], []).append(path)
    for folder, names in sorted(folders.items()):
        if len(names) > MOST_FILES:
            found.append(f"{folder}: {len(names)} files of code; a folder is one idea and holds at most {MOST_FILES}")
        if len(names) <= MOST_WITHOUT_README:
            continue
        text = readme_of(folder)
        if text is None:
            found.append(f"{folder}: no README.md; write what lives there, what flows in and out, and where to start")
        elif not README_LINES[0] <= text.count("\n") <= README_LINES[1]:
            found.append(f"{folder}/README.md: {text.count(chr(10))} lines; {README_LINES[0]} to {README_LINES[1]} are asked")
    return found


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
    uses = read_uses(root)
    found = check_top_level({name.split("/")[0] for name in files}) + circles(uses)
    code = [f for f in files if f.split("/")[0] in ROOMS and CODE.search(f)]

    def readme_of(folder):
        readme = root / folder / "README.md"
        return readme.read_text(encoding="utf-8") if readme.is_file() else None

    found += check_folders(code, readme_of) + check_headers(code)
    sources = [f for f in code if SOURCE.search(f)]
    includes = {}
    for file in sources:
        text = (root / file).read_text(encoding="utf-8")
        found += check_file(file, text, uses)
        includes[file] = [target for kind, target in INCLUDE.findall(text) if kind == '"']
    return found + file_circles(includes) + folder_circles(includes), len(sources)


def self_test():
    """Each rule refuses files that break it and accepts others."""
    uses = {"gadgets/numerics/fft": ["core"], "gadgets/numerics/nufft": ["core", "fft"], "gadgets/numerics/core": [],
            "protocol/data": [], "protocol/wire": ["data"], "server/net": ["base"], "server/session": ["net", "base"],
            "clients/cpp/send": ["base"]}
    bad = [
        ("protocol/wire/codec.cc", '#include "config/yaml_reader.h"'),
        ("protocol/wire/codec.cc", '#include "gadgets/api/items.h"'),
        ("protocol/data/header.cc", '#include "protocol/wire/codec.h"'),
        ("config/node.cc", '#include "protocol/data/messages.h"'),
        ("gadgets/numerics/fft/fft.cc", '#include "gadgets/api/items.h"'),
        ("gadgets/numerics/fft/fft.cc", '#include "protocol/data/messages.h"'),
        ("gadgets/numerics/fft/fft.cc", '#include "gadgets/numerics/nufft/nufft.h"'),
        ("gadgets/numerics/core/context.cc", '#include "gadgets/numerics/fft/fft.h"'),
        ("gadgets/numerics/unknown/a.cc", '#include "gadgets/numerics/core/array.h"'),
        ("gadgets/numerics/fft/fft.h", "#include <cuda_runtime.h>"),
        ("gadgets/numerics/fft/fft_cpu.cc", "#include <cufft.h>"),
        ("gadgets/api/items.h", '#include "gadgets/numerics/nufft/nufft.h"'),
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
        ("gadgets/steps/exchange.cc", '#include "protocol/files/dataset.h"'),
        ("gadgets/steps/exchange.cc", '#include "gadgets/images/scale.h"'),
        ("gadgets/images/scale.cc", '#include "server/session/session.h"'),
        ("gadgets/images/scale.cc", '#include "clients/cpp/images/png_writer.h"'),
        ("gadgets/images/scale.cc", "#include <cub/cub.cuh>"),
        ("server/session/session.cc", '#include "clients/cpp/send/send.h"'),
        ("server/session/session.cc", '  #  include "clients/cpp/send/send.h"  // why not'),
        ("server/session/session.cc", "#include <cuda_runtime_api.h>"),
        ("server/session/session.cc", '#include "gadgets/numerics/nufft/tiles.cuh"'),
        ("server/session/session.cc", '#include "listener.h"'),
        ("server/session/session.cc", '#include "../server/listener.h"'),
        ("server/session/session.cc", "#include <server/server.h>"),
        ("server/session/session.cc", '#include "server/server.h"'),
        ("server/net/transport.cc", '#include "server/session/session.h"'),
        ("clients/cpp/send/send.cc", '#include "server/session/session.h"'),
        ("clients/cpp/send/send.cc", '#include "clients/cpp/recon/recon.h"'),
        ("server/session/session.cc", '#include "tests/support/stream.h"'),
        ("tests/gadgets/numerics/fft/fft_test.cc", "#include <thrust/sort.h>"),
    ]
    good = [
        ("protocol/wire/codec.cc", '#include "protocol/data/messages.h"\n#include <vector>'),
        ("protocol/wire/codec.cc", '// #include "server/session/session.h"'),
        ("gadgets/numerics/fft/fft_cuda.cu", '#include <cufft.h>\n#include "gadgets/numerics/fft/tiles.cuh"'),
        ("gadgets/numerics/nufft/nufft.cc", '#include "gadgets/numerics/fft/fft.h"'),
        ("gadgets/api/gadget.h", '#include "gadgets/numerics/core/context.h"\n#include "config/yaml_reader.h"'),
        ("gadgets/shared/measurement.h", '#include "gadgets/api/items.h"\n#include "gadgets/numerics/nufft/nufft.h"'),
        ("gadgets/engine/pipeline.cc", '#include "gadgets/shared/measurement.h"\n#include "config/pipeline_spec.h"'),
        ("gadgets/images/scale.cc", '#include "gadgets/images/orient.h"\n#include "gadgets/api/gadget.h"'),
        ("gadgets/images/scale.cc", '#include "protocol/data/messages.h"\n#include "gadgets/shared/measurement.h"'),
        ("gadgets/steps/exchange.cc", '#include "protocol/wire/codec.h"\n#include "gadgets/shared/scan_port.h"'),
        ("gadgets/builtin/images.cc", '#include "gadgets/images/scale.h"\n#include "gadgets/api/registry.h"'),
        ("server/session/session.cc", '#include "server/net/transport.h"\n#include "gadgets/engine/pipeline.h"'),
        ("server/main.cc", '#include "server/session/session.h"\n#include "server/server.h"'),
        ("clients/cpp/send/send.cc", '#include "protocol/files/dataset.h"\n#include <yaml-cpp/yaml.h>'),
        ("tests/server/session/session_test.cc", '#include "server/session/session.h"\n#include "clients/cpp/send/send.h"'),
    ]
    wrong = [f"not refused: {path}: {text}" for path, text in bad if len(check_file(path, text, uses)) != 1]
    wrong += [f"refused: {message}" for path, text in good for message in check_file(path, text, uses)]
    if len(check_top_level({"run", ".ci", "src", "protocol"})) != 1:
        wrong.append("the top-level rule does not find exactly 'src'")
    if circles(uses) or len(circles({"server/a": ["b"], "server/b": ["c"], "server/c": ["a"], "server/d": ["a"]})) != 3:
        wrong.append("circles are not found, or found where there are none")
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
    if len(check_folders(crowd, lambda _: short)) != 1 or check_folders(crowd[1:], lambda _: short):
        wrong.append("crowded folders")
    if len(check_folders(crowd[:4], lambda _: None)) != 1 or check_folders(crowd[:3], lambda _: None):
        wrong.append("folders without README")
    if len(check_folders(["tests/server/net/a.cc"] * 4, lambda _: None)) != 1:
        wrong.append("folders of tests without README")
    if len(check_folders(crowd[:4], lambda _: "a\n" * 31)) != 1:
        wrong.append("a README's length")
    with tempfile.TemporaryDirectory() as folder:
        readme = Path(folder) / "protocol" / "wire" / "README.md"
        readme.parent.mkdir(parents=True)
        readme.write_text("# Wire\n\nUses: data, files.\n", encoding="utf-8")
        if read_uses(Path(folder)) != {"protocol/wire": ["data", "files"]}:
            wrong.append(f"read_uses: {read_uses(Path(folder))}")
    for message in wrong:
        print(message)
    print(f"self-test: {len(bad) + len(good) + 11} cases, {len(wrong)} wrong")
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-")):
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    found, files = check_tree(root)
    for message in found:
        print(message)
    if files == 0:
        print(f"{root}: no sources found; give the folder that holds {', '.join(ROOMS)}")
        return 2
    print(f"include rules: {files} files, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
