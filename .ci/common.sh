# Shared by run and the scripts of .ci: where things are, how to speak, how to build. To be sourced.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build

say() { printf '== %s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# quietly LOG WHAT COMMAND...: runs a command with its output in a file. Shows the end of the file if it fails.
quietly() {
  local log=$1 what=$2
  shift 2
  mkdir -p "$(dirname "$log")"
  if ! "$@" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    die "$what failed; its last lines are above, all of them in $log"
  fi
}

# The compute capabilities of the GPUs in this machine, as CMake wants them: "90" or "80;90". Empty when there is none.
native_architectures() {
  command -v nvidia-smi >/dev/null || return 0
  { nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null || true; } |
    tr -d '. \r' | grep -E '^[0-9]+$' | sort -un | paste -sd ';' || true
}

find_nvcc() { command -v nvcc || { [ -x /usr/local/cuda/bin/nvcc ] && echo /usr/local/cuda/bin/nvcc; } || true; }

# The Python that runs the tests: ECHOTRAIN_TEST_PYTHON, or the environment that set-up made. Empty when there is none.
test_python() {
  local python=${ECHOTRAIN_TEST_PYTHON:-$build/venv/bin/python}
  if [ -x "$python" ]; then echo "$python"; fi
}

use_ccache() {
  export CCACHE_NOHASHDIR=1 CCACHE_BASEDIR="$root" CCACHE_SLOPPINESS=pch_defines,time_macros
  if command -v ccache >/dev/null; then
    printf '%s\n' -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache
  fi
}

# in_build TEXT: whether a line of the build's CMakeCache.txt, if there is one, begins so.
in_build() { grep -qs "^$1" "$build/CMakeCache.txt"; }

# configure_release [CMAKE ARGUMENT...]: from the environment, ECHOTRAIN_WERROR, ECHOTRAIN_CUDA and ECHOTRAIN_CUDA_ARCHITECTURES.
configure_release() {
  local arguments=(-S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DECHOTRAIN_CUDA=${ECHOTRAIN_CUDA:-AUTO}") line
  # After ./run demo, which leaves these out; else a choice of the user's stays.
  if ! in_build ECHOTRAIN_PARTS:STRING=all; then
    arguments+=(-DECHOTRAIN_PARTS=all -DECHOTRAIN_TESTS=ON -DECHOTRAIN_DICOM=AUTO)
  fi
  while read -r line; do arguments+=("$line"); done < <(use_ccache)
  if [ -n "${ECHOTRAIN_WERROR:-}" ]; then arguments+=("-DECHOTRAIN_WERROR=$ECHOTRAIN_WERROR"); fi
  local python
  python=$(test_python)
  if [ -n "$python" ]; then arguments+=("-DECHOTRAIN_TEST_PYTHON=$python"); fi
  local architectures=${ECHOTRAIN_CUDA_ARCHITECTURES:-}
  if [ -z "$architectures" ] && [ -n "$(find_nvcc)" ]; then architectures=$(native_architectures); fi
  if [ -n "$architectures" ]; then arguments+=("-DCMAKE_CUDA_ARCHITECTURES=$architectures"); fi
  quietly "$build/configure.log" "CMake's configure step" cmake "${arguments[@]}" "$@"
  sed -n 's/^-- Echotrain: /== /p' "$build/configure.log"
}

# compile FOLDER [CMAKE --build ARGUMENT...]
compile() {
  local folder=$1
  shift
  use_ccache >/dev/null
  export NINJA_STATUS="[%f/%t %es] "
  cmake --build "$folder" -j "$(nproc)" "$@"
}

# merge_base: the commit at which this branch parts from the main branch; nothing where that is not known, and on the main
# branch itself or without a branch, as in a clone that is made for one run: its origin/main may hold the whole change, or
# a part of it.
merge_base() {
  local branch main base
  branch=$(git -C "$root" symbolic-ref -q --short HEAD 2>/dev/null) || return 0
  if [ "$branch" = main ]; then return 0; fi
  for main in origin/main main; do
    base=$(git -C "$root" merge-base HEAD "$main" 2>/dev/null) || continue
    if [ "$base" != "$(git -C "$root" rev-parse HEAD)" ]; then echo "$base"; fi
    return
  done
}

# touched BASE PATH...: whether one of these is not as it was in the commit BASE, or is not there at all; yes where BASE is empty.
touched() {
  local base=$1 path changed
  shift
  if [ -z "$base" ]; then return 0; fi
  for path in "$@"; do case $path in *'*'*) ;; *) if [ ! -e "$root/$path" ]; then return 0; fi ;; esac; done
  changed=$(git -C "$root" diff --name-only "$base" -- "$@" && git -C "$root" ls-files --others --exclude-standard -- "$@") || return 0
  [ -n "$changed" ]
}

# count_tests FOLDER RETRIED: what became of the tests of a run; fails where some are lost. ctest counts what was skipped as passed.
count_tests() { python3 "$root/.ci/count_tests.py" "$@"; }

# Arguments of ctest: all tests that do not take minutes, programs in parts (tests/CMakeLists.txt).
whole=(-C whole -LE '^(long|single)$')

# run_tests_in FOLDER [CTEST ARGUMENT...]: two tests at a time that compute, or up to four that wait (their PROCESSORS, in
# tests/CMakeLists.txt). Where all of a few failures are of tests with the label "timing", and of GoogleTest's each assertion is one
# with kMatterOfTime, these run again alone, at most twice each: a busy machine moves bounds in seconds. Everything else that fails
# stands at once: wrong texts, sums and bits, a crash, a hang, a sanitizer's report. "-C whole" before other arguments: all tests, in
# as few processes as there may be.
run_tests_in() {
  local folder=$1 log=$1/Testing/first.log failed others most=5 kind=()
  shift
  if [ "${1:-}" = -C ]; then kind=(-C "$2"); fi
  mkdir -p "$folder/Testing"
  rm -f "$folder"/tests/results/*.xml # those of the run before must not pass for this one's
  if ctest --test-dir "$folder" --output-on-failure -j4 "$@" 2>&1 | tee "$log"; then
    count_tests "$folder" 0
    return
  fi
  failed=$(sed -n 's/^[0-9]*://p' "$folder/Testing/Temporary/LastTestsFailed.log" 2>/dev/null || true)
  others=$(grep -vxFf <(ctest --test-dir "$folder" -N -L '^timing$' | sed -n 's/^ *Test *#[0-9]*: //p') <<<"$failed" || true)
  if [ -z "$failed" ] || [ -n "$others" ] || [ "$(wc -l <<<"$failed")" -gt "$most" ] ||
    grep -qE '\*\*\*(Exception|Not Run|Timeout)|ERROR: (Address|Leak)Sanitizer|WARNING: ThreadSanitizer|: runtime error: |^no matter of time: ' "$log" ||
    [ "$(grep -c ': Failure$' "$log")" -gt "$(grep -c '^a matter of time: ' "$log")" ]; then
    count_tests "$folder" 0 || true
    return 1
  fi
  say "failed beside other tests; now alone: ${failed//$'\n'/, }"
  if ! ctest --test-dir "$folder" --output-on-failure "${kind[@]}" --rerun-failed --repeat until-pass:2; then
    count_tests "$folder" 0 || true
    return 1
  fi
  say "passed alone, after a failure beside other tests: ${failed//$'\n'/, }"
  count_tests "$folder" "$(wc -l <<<"$failed")"
}
