#!/usr/bin/env bash
# tests/fuzz/run.sh [--seed N] [SECONDS] [NAME...]: builds the fuzz targets with Clang into build-fuzz/ and runs each: first every
# input of tests/fuzz/corpus once, then new ones for SECONDS (10); as many targets at a time as there are cores. Prints what each one
# did; fails when one finds something, and says how to see it again. Inputs that reached something new stay in build-fuzz/corpus, or in
# the folder ECHOTRAIN_FUZZ_KEEP. Needs build/bin/echotrain, which simulates scans. The
# target hdf5 runs only when it is named: it finds faults of the HDF5 library (docs/reliability.md). --seed N: begins the
# same sequence of random inputs each time, so that a run that passed passes again (the default, 0, is a new one each time).
set -euo pipefail
# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../.ci/common.sh"

folder=$root/build-fuzz
here=$root/tests/fuzz
keep=${ECHOTRAIN_FUZZ_KEEP:-$folder/corpus}

can_fuzz() {
  command -v clang++ >/dev/null &&
    printf 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++ -x c++ -fsanitize=fuzzer,address - -o /dev/null 2>/dev/null
}

# The words that each target's inputs are made of.
dictionaries() {
  case $1 in
    codec | stream) echo codec ;;
    dialogue | session) echo codec config xml ;;
    header | attributes) echo xml ;;
    yaml | options) echo config ;;
  esac
}

# What a target may need at most: one allocation [MiB], so that a length that is only claimed is never believed, and one
# input [bytes].
allocation() { case $1 in codec | stream) echo 80 ;; compression) echo 32 ;; *) echo 300 ;; esac; }
input_bytes() { case $1 in session) echo 16384 ;; codec | stream | dialogue) echo 40000 ;; semantic) echo 4096 ;; hdf5) echo 65536 ;; *) echo 8192 ;; esac; }

# run_one NAME SECONDS SEED: first the tree's corpus, then every kept input as it is and others made of them. Its output goes to
# NAME.log, its status to NAME.status.
run_one() {
  local name=$1 seconds=$2 seed=$3 status=0 extra=() log=$folder/logs/$1.log
  local limits=(-timeout=60 -rss_limit_mb=3000 -malloc_limit_mb="$(allocation "$name")")
  local corpus=("$here/corpus/$name"/*)
  mkdir -p "$keep/$name" "$folder/findings" "$folder/seeds/$name" "$folder/logs"
  if [ -n "$(dictionaries "$name")" ]; then
    for words in $(dictionaries "$name"); do cat "$here/$words.dict"; done >"$folder/logs/$name.dict"
    extra=("-dict=$folder/logs/$name.dict")
  fi
  : >"$log"
  if [ -e "${corpus[0]}" ]; then "$folder/bin/fuzz_$name" "${limits[@]}" "${corpus[@]}" >"$log" 2>&1 || status=$?; fi
  if [ "$status" -eq 0 ]; then
    "$folder/bin/fuzz_$name" "${limits[@]}" -max_total_time="$seconds" -seed="$seed" -print_final_stats=1 \
      -max_len="$(input_bytes "$name")" "${extra[@]}" -artifact_prefix="$folder/findings/$name-" \
      "$keep/$name" "$folder/seeds/$name" >>"$log" 2>&1 || status=$?
  fi
  echo "$status" >"$folder/logs/$name.status"
}

# One line of the table, from a log: the last line with coverage, and the count of executions.
report() {
  local name=$1 log=$folder/logs/$1.log status
  status=$(cat "$folder/logs/$name.status")
  local line runs
  line=$(grep -E 'cov: [0-9]+ ft: [0-9]+ corp: ' "$log" | tail -n 1 || true)
  runs=$(sed -nE 's/^stat::number_of_executed_units: +([0-9]+)/\1/p' "$log" | tail -n 1)
  printf '%-12s %12s %8s %8s %8s  %s\n' "$name" "${runs:-?}" "$(sed -nE 's/.* cov: ([0-9]+) .*/\1/p' <<<"$line")" \
    "$(sed -nE 's/.* ft: ([0-9]+) .*/\1/p' <<<"$line")" "$(sed -nE 's|.* corp: ([0-9]+)/.*|\1|p' <<<"$line")" \
    "$([ "$status" -eq 0 ] && echo held || echo FINDING)"
}

explain() {
  local name=$1 input again
  printf '\n%s: the end of build-fuzz/logs/%s.log\n' "$name" "$name"
  grep -vE '^#[0-9]+' "$folder/logs/$name.log" | tail -n 40
  # The input that libFuzzer wrote, or else the one of the corpus that did not come to its end; what is found at the corpus's end (a
  # leak, say) is that of all its inputs.
  input=$(awk '/^Running: / { at = substr($0, 10) } /^Executed / { at = "" }
    sub(/.*Test unit written to /, "") { at = $0 } END { print at }' "$folder/logs/$name.log")
  again=${input#"$root/"}
  if [ -z "$input" ] && ! grep -qE '^#[0-9]+' "$folder/logs/$name.log"; then again="tests/fuzz/corpus/$name/*"; fi
  if [ -n "$again" ]; then printf 'again: %s %s\n' "build-fuzz/bin/fuzz_$name" "$again"; fi
}

if [ "${1:-}" = --one ]; then
  run_one "$2" "$3" "$4"
  exit 0
fi

seed=0
if [ "${1:-}" = --seed ]; then
  [[ ${2:-} =~ ^[0-9]+$ ]] || die "--seed needs a number, as in tests/fuzz/run.sh --seed 1 10"
  seed=$2
  shift 2
fi
seconds=10
if [[ ${1:-} =~ ^[0-9]+$ ]]; then
  seconds=$1
  shift
fi
all=()
for source in "$here"/fuzz_*.cc; do
  name=$(basename "$source" .cc)
  all+=("${name#fuzz_}")
done
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for name in "${all[@]}"; do if [ "$name" != hdf5 ]; then names+=("$name"); fi; done
fi
for name in "${names[@]}"; do
  case " ${all[*]} " in *" $name "*) ;; *) die "there is no fuzz target '$name'; there are: ${all[*]}" ;; esac
done
if ! can_fuzz; then
  say "SKIPPED: the fuzzers need clang++ with libFuzzer (Debian and Ubuntu: clang libclang-rt-dev)"
  exit 0
fi
[ -x "$build/bin/echotrain" ] || die "build/bin/echotrain is not built; run ./run build, or ./run fuzz"

arguments=()
while read -r line; do arguments+=("$line"); done < <(use_ccache)
quietly "$folder/configure.log" "CMake's configure step" cmake -S "$root" --preset fuzz "${arguments[@]}"
compile "$folder" --target make_seeds "${names[@]/#/fuzz_}"
quietly "$folder/seeds.log" "making the seeds" "$here/seeds.sh" "$folder/seeds" "$build/bin/echotrain" "$folder/bin/make_seeds"

TMPDIR=$(mktemp -d -p "$([ -d /dev/shm ] && echo /dev/shm || echo /tmp)" echotrain-fuzz-XXXXXX)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
say "fuzzing ${#names[@]} targets for $seconds s each, with ASan and UBSan"
printf '%s\n' "${names[@]}" | xargs -P "$(nproc)" -I{} "$0" --one {} "$seconds" "$seed"
printf '%-12s %12s %8s %8s %8s\n' target executions cov ft corpus
failed=()
for name in "${names[@]}"; do
  report "$name"
  if [ "$(cat "$folder/logs/$name.status")" -ne 0 ]; then failed+=("$name"); fi
done
for name in "${failed[@]}"; do explain "$name"; done
if [ ${#failed[@]} -gt 0 ]; then die "the fuzzers found something: ${failed[*]}"; fi
