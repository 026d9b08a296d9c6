#!/usr/bin/env bash
# .ci/lint.sh format | includes | links | tables | words | pages | tidy | tidy-changed
set -euo pipefail
# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"

# Leaves out benchmarks: clang-tidy takes Google Benchmark's loops and macros for faults.
not_tidied='^tests/(bench|seeds)/'
rooms=(protocol config gadgets server clients tests)
most_files=20      # tidy-changed stops here
most_seconds=240   # and here

sources() { find "${rooms[@]}" -type f \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) | sort; }

check_format() {
  local version
  version=$(clang-format --version | grep -oE 'version [0-9]+' || true)
  if ! sources | xargs clang-format --dry-run --Werror; then
    die "clang-format ($version) would change the files above; run: clang-format -i FILE"
  fi
  say "clang-format ($version): $(sources | wc -l) files are as they should be"
}

# How each source is compiled without precompiled headers, which are GCC's, so that includes are complete, too.
database=$build/lint
prepare_tidy() {
  local python
  python=$(test_python)
  quietly "$database/configure.log" "CMake's configure step for clang-tidy" cmake -S "$root" -B "$database" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DECHOTRAIN_PCH=OFF -DECHOTRAIN_UNITY=OFF -DECHOTRAIN_CUDA=OFF ${python:+-DECHOTRAIN_TEST_PYTHON="$python"}
}

# Prints those names from stdin that the C++ compiler compiles.
compiled() {
  python3 -c '
import json, os, sys
known = {os.path.realpath(e["file"]) for e in json.load(open(sys.argv[1]))}
for line in sys.stdin:
    name = line.strip()
    if name.endswith((".cc", ".cu")) and os.path.realpath(name) in known:
        print(name)' "$database/compile_commands.json" | { grep -vE "$not_tidied" || true; }
}

# Sources that differ from the merge base (or, on its tip, from the previous commit). A changed header counts as the
# source of the same name.
changed() {
  local base=""
  if ! git rev-parse -q --is-inside-work-tree >/dev/null 2>&1; then
    warn "no usable git checkout: every file counts as changed"
    sources
    return
  fi
  if git rev-parse -q --verify origin/main >/dev/null; then base=$(git merge-base HEAD origin/main 2>/dev/null || true); fi
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse -q --verify HEAD || true)" ]; then
    base=$(git rev-parse -q --verify HEAD~1 || true)
  fi
  {
    if [ -n "$base" ]; then git diff --name-only --diff-filter=d "$base" -- "${rooms[@]}"; else git ls-files -- "${rooms[@]}"; fi
    git ls-files --others --exclude-standard -- "${rooms[@]}"
  } | sed -nE 's/\.(h|cc|cu)$//p' | sort -u | while read -r name; do
    for file in "$name.cc" "$name.cu"; do if [ -f "$file" ]; then echo "$file"; fi; done
  done
}

# Clang 14 has the coroutines of C++20 but does not say so (CMakeLists.txt: echotrain_server).
tidy_arguments=
case $(clang-tidy --version 2>/dev/null | grep -oE 'version [0-9]+' || true) in
  'version 14') tidy_arguments='--extra-arg=-D__cpp_impl_coroutine=201902L --extra-arg=-DBOOST_ASIO_HAS_CO_AWAIT=1
    --extra-arg=-DBOOST_ASIO_HAS_STD_COROUTINE=1 --extra-arg=-Wno-builtin-macro-redefined' ;;
esac
export tidy_arguments
# shellcheck disable=SC2086  # several words
tidy_one() { clang-tidy --quiet -p "$database" $tidy_arguments "$1" 2>&1 | grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed|^Use -' || true; }
export -f tidy_one
export database

# tidy_files SECONDS: clang-tidy over the names on stdin, in groups as wide as the machine, until the time is over.
tidy_files() {
  local limit=$1 width found=0 checked=0 output
  width=$(nproc)
  local files=() group
  mapfile -t files
  while [ "$checked" -lt ${#files[@]} ] && [ "$SECONDS" -lt "$limit" ]; do
    group=("${files[@]:checked:width}")
    # shellcheck disable=SC2016  # the inner shell expands $1
    output=$(printf '%s\0' "${group[@]}" | xargs -0 -P "$width" -I{} bash -c 'tidy_one "$1"' _ {})
    if [ -n "$output" ]; then
      printf '%s\n' "$output"
      if grep -qE '(error|warning): ' <<<"$output"; then found=1; fi
    fi
    checked=$((checked + ${#group[@]}))
  done
  say "clang-tidy: $checked of ${#files[@]} files checked in $SECONDS s"
  if [ "$checked" -lt ${#files[@]} ]; then
    say "clang-tidy: out of time; left out (./run lint does all): ${files[*]:checked}"
  fi
  [ "$found" -eq 0 ] || die "clang-tidy found the above"
}

tidy_changed() {
  local names files=()
  names=$(changed | compiled)
  if [ -n "$names" ]; then mapfile -t files <<<"$names"; fi
  if [ ${#files[@]} -eq 0 ]; then
    say "clang-tidy: no compiled file has changed"
    return
  fi
  if [ ${#files[@]} -gt $most_files ]; then
    say "clang-tidy: ${#files[@]} files changed; left out (./run lint does all): ${files[*]:most_files}"
  fi
  printf '%s\n' "${files[@]:0:most_files}" | tidy_files "$most_seconds"
}

case ${1:-} in
  format) check_format ;;
  includes) python3 .ci/check_includes.py --self-test && python3 .ci/check_includes.py ;;
  links) python3 .ci/check_links.py --self-test && python3 .ci/check_links.py ;;
  tables) python3 tests/bench/tables.py --check ;;
  words) python3 .ci/check_words.py --self-test && python3 .ci/check_words.py headers commits ;;
  pages) python3 .ci/check_words.py --self-test && python3 .ci/check_words.py docs ;;
  tidy)
    prepare_tidy
    sources | compiled | tidy_files 1000000
    ;;
  tidy-changed)
    prepare_tidy
    tidy_changed
    ;;
  *) die "usage: .ci/lint.sh format | includes | links | tables | words | pages | tidy | tidy-changed" ;;
esac
