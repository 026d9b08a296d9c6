#!/usr/bin/env python3
"""Checks who includes whom, where CUDA headers appear, and what lies at the top of the tree.

    .ci/check_includes.py [ROOT]     checks the tree at ROOT (default: the one this file is in); exit 1 on a violation
    .ci/check_includes.py --self-test
"""

import re
import subprocess
import sys
from pathlib import Path

ROOMS = ("protocol", "config", "gadgets", "server", "clients", "tests")
TOP_LEVEL = {"CMakeLists.txt", "CMakePresets.json", "README.md", "LICENSE", "run", "protocol", "config", "gadgets",
             "server", "clients", "tests", "docker", "docs"}  # and dotfiles

# gadgets/<name>.{h,cc} that are the frame every gadget stands in, not gadgets themselves.
CORE = {"gadget", "items", "parameters", "registry", "pipeline", "framer", "readout_window", "line_set",
        "measurement", "cartesian_lines", "heartbeats", "frame_gridder", "device_cache", "plan_cache", "operator_cache",
        "trajectory_store", "side_images", "echo_geometry", "ranked_pipeline"}
# The one file that knows every gadget.
REGISTERS_ALL = "gadgets/builtin.cc"
# What a gadget may see of the protocol: data types, no files and no byte streams.
DATA_TYPES = {"protocol/messages.h", "protocol/message_id.h", "protocol/limits.h", "protocol/header.h",
              "protocol/result.h", "protocol/acquisition_check.h"}
FILES_AND_STREAMS = {"protocol/dataset.h", "protocol/stream_file.h"}

SOURCE = re.compile(r"\.(h|cc|cu|cuh)$")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)
CUDA_HEADER = re.compile(r"^(cuda|cufft|cublas|cusparse|curand|cusolver|cuComplex|cub/|thrust/|cooperative_groups|"
                         r"nvtx|nvToolsExt|nvrtc|mma\.h|device_launch_parameters|vector_types\.h|nv/)")


def room_of(path):
    """The part of the tree a path belongs to, as the rules name it."""
    return "gadgets/numerics" if path.startswith("gadgets/numerics/") else path.split("/")[0]


def is_core(path):
    return Path(path).stem in CORE and path.count("/") == 1


def own_header(path):
    return re.sub(r"\.(cc|cu|cuh)$", ".h", path)


def may_include(path, target):
    """None when file `path` may include our file `target`, otherwise the rule it breaks. Both are relative to the root."""
    room, target_room = room_of(path), room_of(target)
    if room == "tests":
        return None
    if target_room == "tests":
        return "nothing but tests includes tests"
    if room in ("protocol", "config", "gadgets/numerics"):
        return None if target_room == room else f"{room} includes nothing of ours outside itself"
    if room in ("server", "clients"):
        other = "clients" if room == "server" else "server"
        return f"{room} never includes {other}" if target_room == other else None

    # What remains is a file of gadgets/.
    if target_room in ("server", "clients"):
        return f"a gadget never includes {target_room}"
    if target_room == "gadgets/numerics":
        return None
    if target_room == "config":
        return None if is_core(path) else "of the gadgets, only the core files (" + ", ".join(sorted(CORE)) + ") see config"
    if target_room == "protocol":
        if target in FILES_AND_STREAMS:
            return "a gadget sees no files and no byte streams"
        return None if is_core(path) or target in DATA_TYPES else "a gadget sees the protocol's data types only"
    if is_core(target) or target == own_header(path) or path == REGISTERS_ALL:
        return None
    return "a gadget never includes another gadget"


def may_see_cuda(path):
    return path.endswith((".cu", ".cuh")) or re.match(r"gadgets/numerics/[^/]*_cuda\.[^/]*$", path) is not None


def check_file(path, text):
    """Every violation in a file, as "path:line: message"."""
    found = []
    for match in INCLUDE.finditer(text):
        kind, target = match.groups()
        message = None
        if kind == '"' and room_of(target) in (*ROOMS, "gadgets/numerics") and "/" in target and ".." not in target:
            message = may_include(path, target)
            if message is None and target.endswith(".cuh") and not may_see_cuda(path):
                message = "CUDA headers appear only in .cu, .cuh and gadgets/numerics/*_cuda.*"
        elif CUDA_HEADER.match(target):
            if not may_see_cuda(path):
                message = "CUDA headers appear only in .cu, .cuh and gadgets/numerics/*_cuda.*"
        elif kind == '"':
            message = 'write our headers from the top of the tree ("protocol/codec.h"), others in <>'
        elif target.split("/")[0] in ROOMS and "/" in target:
            message = "write our headers in quotes"
        if message:
            line = text.count("\n", 0, match.start()) + 1
            found.append(f"{path}:{line}: #include {target}: {message}")
    return found


def top_level(root):
    """Names at the top of the tree: tracked ones in a git checkout, otherwise all but build folders."""
    listing = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True, check=False)
    if listing.returncode == 0 and listing.stdout:
        return {name.split("/")[0] for name in listing.stdout.split("\0") if name}
    return {p.name for p in root.iterdir() if not re.match(r"(build.*|demo|out|bundle)$", p.name)}


def check_top_level(names):
    return [f"{name}: not one of the top-level entries ({', '.join(sorted(TOP_LEVEL))})"
            for name in sorted(names) if name not in TOP_LEVEL and not name.startswith(".")]


def check_tree(root):
    found = check_top_level(top_level(root))
    files = 0
    for room in ROOMS:
        for file in sorted((root / room).rglob("*")):
            if file.is_file() and SOURCE.search(file.name):
                files += 1
                found += check_file(file.relative_to(root).as_posix(), file.read_text(encoding="utf-8"))
    return found, files


def self_test():
    """Each rule refuses what breaks it and lets pass what does not."""
    bad = [
        ("protocol/codec.cc", '#include "config/yaml_reader.h"'),
        ("protocol/codec.cc", '#include "gadgets/items.h"'),
        ("config/node.cc", '#include "protocol/messages.h"'),
        ("gadgets/numerics/fft.cc", '#include "gadgets/items.h"'),
        ("gadgets/numerics/fft.cc", '#include "protocol/messages.h"'),
        ("gadgets/numerics/fft.h", "#include <cuda_runtime.h>"),
        ("gadgets/numerics/fft_cpu.cc", "#include <cufft.h>"),
        ("gadgets/fft.cc", '#include "gadgets/gridding.h"'),
        ("gadgets/fft.h", '#include "gadgets/builtin.h"'),
        ("gadgets/fft.cc", '#include "server/session.h"'),
        ("gadgets/fft.cc", '#include "clients/cpp/png_writer.h"'),
        ("gadgets/fft.cc", '#include "config/yaml_reader.h"'),
        ("gadgets/fft.cc", '#include "protocol/codec.h"'),
        ("gadgets/pipeline.cc", '#include "protocol/dataset.h"'),
        ("gadgets/pipeline.cc", '#include "gadgets/fft.h"'),
        ("gadgets/fft.cc", "#include <cub/cub.cuh>"),
        ("server/session.cc", '#include "clients/cpp/send.h"'),
        ("server/session.cc", '  #  include "clients/cpp/send.h"  // why not'),
        ("server/session.cc", "#include <cuda_runtime_api.h>"),
        ("server/session.cc", '#include "gadgets/numerics/tiles.cuh"'),
        ("server/session.cc", '#include "listener.h"'),
        ("server/session.cc", '#include "../server/listener.h"'),
        ("server/session.cc", "#include <server/listener.h>"),
        ("clients/cpp/send.cc", '#include "server/session.h"'),
        ("server/session.cc", '#include "tests/support/stream.h"'),
        ("tests/numerics/fft_test.cc", "#include <thrust/sort.h>"),
    ]
    good = [
        ("protocol/codec.cc", '#include "protocol/messages.h"\n#include <vector>'),
        ("protocol/codec.cc", '// #include "server/session.h"'),
        ("gadgets/numerics/fft_cuda.h", "#include <cufft.h>"),
        ("gadgets/numerics/fft_cuda.cu", '#include <cub/cub.cuh>\n#include "gadgets/numerics/tiles.cuh"'),
        ("gadgets/fft.cc", '#include "gadgets/fft.h"\n#include "gadgets/gadget.h"\n#include "gadgets/numerics/fft.h"'),
        ("gadgets/fft.cc", '#include "protocol/messages.h"'),
        ("gadgets/builtin.cc", '#include "gadgets/fft.h"'),
        ("gadgets/registry.cc", '#include "config/yaml_reader.h"'),
        ("server/session.cc", '#include "server/listener.h"\n#include "gadgets/pipeline.h"\n#include "protocol/codec.h"'),
        ("clients/cpp/send.cc", '#include "protocol/dataset.h"\n#include <yaml-cpp/yaml.h>'),
        ("tests/unit/server/session_test.cc", '#include "server/session.h"\n#include "clients/cpp/send.h"'),
    ]
    wrong = [f"not refused: {path}: {text}" for path, text in bad if len(check_file(path, text)) != 1]
    wrong += [f"refused: {message}" for path, text in good for message in check_file(path, text)]
    if len(check_top_level({"run", ".ci", "src", "protocol"})) != 1:
        wrong.append("the top-level rule does not find exactly 'src'")
    for message in wrong:
        print(message)
    print(f"self-test: {len(bad) + len(good) + 1} cases, {len(wrong)} wrong")
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
