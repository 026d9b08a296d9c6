#!/usr/bin/env bash
# tests/fuzz/corpus.sh [SECONDS] [NAME...]: makes tests/fuzz/corpus anew: fuzzes the targets, each for SECONDS (300), and keeps of what
# was reached at most 24 inputs of a target, of 4 KiB each and 20 KiB together. Nothing measured is among them: seeds are simulated.
set -euo pipefail
# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../.ci/common.sh"

folder=$root/build-fuzz
here=$root/tests/fuzz
seconds=300
if [[ ${1:-} =~ ^[0-9]+$ ]]; then
  seconds=$1
  shift
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

ECHOTRAIN_DATA=$work/none ECHOTRAIN_FUZZ_KEEP=$work "$here/run.sh" "$seconds" "$@"

# choose CONTROL TO: copies those of a merge's files that together reach most, by what each adds per byte.
choose() {
  python3 - "$@" <<'END'
import pathlib, shutil, sys

lines = pathlib.Path(sys.argv[1]).read_text().splitlines()
files = [pathlib.Path(line) for line in lines[2 : 2 + int(lines[0])]]
reached = {}
for line in lines[2 + len(files) :]:
    if line.startswith("FT "):
        place, *features = map(int, line.split()[1:])
        reached[files[place]] = set(features)
left, count = 20 << 10, 0
while count < 24:
    fitting = [file for file in reached if file.stat().st_size <= left and reached[file]]
    if not fitting:
        break
    best = max(fitting, key=lambda file: len(reached[file]) / (file.stat().st_size + 64))
    shutil.copy(best, pathlib.Path(sys.argv[2]) / best.name)
    left, count, new = left - best.stat().st_size, count + 1, set(reached[best])
    for features in reached.values():
        features -= new
END
}

for kept in "$work"/*/; do
  name=$(basename "$kept")
  mkdir -p "$work/of_$name/all" "$work/of_$name/merged"
  find "$kept" "$folder/seeds/$name" -type f -size -4097c -exec cp -t "$work/of_$name/all" {} +
  quietly "$folder/logs/$name.merge.log" "merging the inputs of $name" "$folder/bin/fuzz_$name" -set_cover_merge=1 \
    -timeout=60 -rss_limit_mb=3000 -merge_control_file="$work/of_$name/control" "$work/of_$name/merged" "$work/of_$name/all"
  rm -rf "${here:?}/corpus/$name"
  mkdir -p "$here/corpus/$name"
  choose "$work/of_$name/control" "$here/corpus/$name"
  say "$name: $(find "$here/corpus/$name" -type f | wc -l) inputs, $(cat "$here/corpus/$name"/* | wc -c) bytes"
done
