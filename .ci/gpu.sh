#!/usr/bin/env bash
# On a machine with a GPU, from a bundle (.ci/bundle.sh): every CUDA test, all four sanitizers and the GPU benchmarks; logs and
# JSON go to OUT_DIR, a few lines to the terminal. Stops at no failure, so that one run on a GPU gives all results.
#   .ci/gpu.sh BUNDLE_DIR OUT_DIR [tests] [sanitizers] [bench] [errors]       (default: all four)
# SANITIZERS_S=N: seconds for memcheck and synccheck, then again for racecheck and initcheck, which need half an hour for all
# tests. SANITIZERS_PART=2/8: of these two the second of eight parts, where a machine is lent for minutes.
set -uo pipefail
bundle=$1 out=$2
shift 2
parts=${*:-tests sanitizers bench errors}
cuda=$(find /usr/local/cuda*/targets/*/lib /usr/local/cuda*/lib64 -maxdepth 0 2>/dev/null | head -n 1)
cupti=$(find /usr/local/cuda*/extras/CUPTI/lib64 -maxdepth 0 2>/dev/null | head -n 1)
export LD_LIBRARY_PATH=$bundle/lib${cuda:+:$cuda}${cupti:+:$cupti}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
sanitizer=$(command -v compute-sanitizer || find /usr/local/cuda*/bin -name compute-sanitizer 2>/dev/null | head -n 1)
mkdir -p "$out"
status=0
commit=$(cat "$bundle/share/echotrain/commit" 2>/dev/null || echo unknown)
export ECHOTRAIN_EXPECT_CUDA=1 # whatever keeps CUDA from working here, a test on CUDA that cannot run fails

# report NAME LOG: the closing lines of a test program, and the first failures. A filter that finds no test has failed.
report() {
  grep -q '^\[       OK \]' "$2" || { echo "$1: no test has passed" && status=1; }
  grep -E '^\[  (PASSED|FAILED)  \]|ERROR SUMMARY|RACECHECK SUMMARY' "$2" | head -n 30 | sed "s/^/$1: /"
  grep -A6 ': Failure' "$2" | head -n 40
}

left() { echo $((end > SECONDS ? end - SECONDS : 1)); }  # seconds until `end`

# launched NAME FILTER: the kernels that these tests launch, to launched_NAME. Whether they pass is the part `tests`.
launched() {
  : >"$out/launched_$1"
  CUDA_INJECTION64_PATH=$bundle/bin/libechotrain_launches.so ECHOTRAIN_LAUNCHES=$out/launched_$1 ECHOTRAIN_AUTOTUNE=off timeout "$(left)" \
    "$bundle/bin/test_numerics" --gtest_filter="$2" >"$out/launches_$1.log" 2>&1 || true
}

# check NAME FILTER [NAME=VALUE...]: these tests at their small sizes under the tool that NAME begins with, until `end`.
# Into NAME.log, NAME.status, NAME.seconds.
check() {
  local name=$1 filter=$2 begin=$SECONDS ended=0
  shift 2
  env ECHOTRAIN_FEW=1 ECHOTRAIN_AUTOTUNE=off "$@" timeout -k 5 "$(left)" "$sanitizer" --tool "${name%%_*}" \
    --error-exitcode 9 "$bundle/bin/test_numerics" --gtest_filter="$filter" >"$out/$name.log" 2>&1 || ended=$?
  echo "$ended" >"$out/$name.status"
  echo $((SECONDS - begin)) >"$out/$name.seconds"
}

# bench SECONDS NAME PROGRAM [OPTION...]: the cases on the GPU, to NAME.json and NAME.log. What did not end well leaves
# NAME.json.cut instead.
bench() {
  local seconds=$1 name=$2 program=$3 ended=0
  shift 3
  timeout "$seconds" "$bundle/bin/$program" --benchmark_filter=/cuda --benchmark_out_format=json \
    --benchmark_out="$out/$name.json" --benchmark_context=commit="$commit" "$@" >"$out/$name.log" 2>&1 || ended=$?
  grep -E 'cuda' "$out/$name.log" | cut -c1-160
  [ "$ended" = 0 ] && return
  echo "$name: ended with status $ended (124: its $seconds s were over)"
  status=1
  mv -f "$out/$name.json" "$out/$name.json.cut" 2>/dev/null
}

for part in $parts; do
  case $part in
    tests)
      for program in test_numerics test_gadgets; do
        ECHOTRAIN_AUTOTUNE=off "$bundle/bin/$program" --gtest_filter='*Cuda*:*cuda*' >"$out/$program.log" 2>&1 || status=1
        report "$program" "$out/$program.log"
      done
      # The code of other devices, without this one's matrix instructions.
      ECHOTRAIN_AUTOTUNE=off ECHOTRAIN_HOPPER=off "$bundle/bin/test_numerics" --gtest_filter='DirectTransformTest/Cuda*' \
        >"$out/direct_transform_portable.log" 2>&1 || status=1
      report "direct transform without ECHOTRAIN_HOPPER" "$out/direct_transform_portable.log"
      ;;
    sanitizers)
      # Smaller problems, which launch the same kernels: the lists of all tests and of these are compared. StopOn measures
      # seconds, of which kernels take many times as many here; FftTest's large sizes are cuFFT's kernels alone.
      few='*Cuda*-StopOn*:FftTest/Cuda.LargeOddSizes:FftTest/Cuda.ManyItems'
      # Two at a time: each launch waits for the device's turn among processes (seven together: some milliseconds). racecheck
      # takes minutes for Hopper's direct transform (a part of its tests follows it) and never ends in a graph that loops;
      # memcheck is right with such graphs only where it is alone on the GPU (at the end).
      hopper='DirectTransformTest/Cuda.Weights*:DirectTransformTest/Cuda.Box*:DirectTransformTest/Cuda.PartsOf*'
      part=(GTEST_TOTAL_SHARDS=1 GTEST_SHARD_INDEX=0)
      if [ -n "${SANITIZERS_PART:-}" ]; then
        part=(GTEST_TOTAL_SHARDS="${SANITIZERS_PART#*/}" GTEST_SHARD_INDEX=$((${SANITIZERS_PART%/*} - 1)))
      fi
      end=$((SECONDS + ${SANITIZERS_S:-250}))
      check memcheck "$few" ECHOTRAIN_GRAPHS=off &
      pids=$!
      check synccheck "$few" ECHOTRAIN_GRAPHS=off &
      pids+=" $!"
      { ECHOTRAIN_FEW=1 launched few "$few"; launched all '*Cuda*'; } &
      for pid in $pids $!; do wait "$pid"; done
      end=$((SECONDS + ${SANITIZERS_S:-250}))
      { check racecheck_hopper "$hopper"; check racecheck "$few" ECHOTRAIN_HOPPER=off ECHOTRAIN_GRAPHS=off "${part[@]}"; } &
      pids=$!
      check initcheck "$few" ECHOTRAIN_GRAPHS=off "${part[@]}" &
      for pid in $pids $!; do wait "$pid"; done
      end=$((SECONDS + 60))
      check memcheck_graphs '*Pcg*Cuda*:ToeplitzTest/Cuda*'
      for tool in memcheck memcheck_graphs racecheck initcheck synccheck racecheck_hopper; do
        [ "$(cat "$out/$tool.status")" = 0 ] || status=1
        echo "$tool: ended with $(cat "$out/$tool.status") (124: its time was over) after $(cat "$out/$tool.seconds") s;" \
          "$(grep -c '^\[       OK' "$out/$tool.log") of $(sed -n 's/^\[==========\] Running \([0-9]*\) tests.*/\1/p' "$out/$tool.log") tests passed"
        report "$tool" "$out/$tool.log"
      done
      grep -vxFf "$out/launched_few" "$out/launched_all" | grep echotrain >"$out/launched_unchecked"
      echo "of $(grep -c echotrain "$out/launched_all") kernels that tests launch, $(wc -l <"$out/launched_unchecked") are launched by none at its small size"
      for list in few all; do
        grep -q '^\[==========\].*ran' "$out/launches_$list.log" || { echo "launched_$list: cut off" && status=1; }
      done
      if [ ! -s "$out/launched_few" ]; then grep -h '^launches: ' "$out"/launches_*.log; status=1; fi
      if [ -s "$out/launched_unchecked" ]; then cat "$out/launched_unchecked"; status=1; fi
      ;;
    bench)
      bench 280 bench_nufft bench_nufft --errors=off # the part `errors` has them
      bench 280 bench_solver bench_solver
      bench 120 bench_fhd bench_fhd
      bench 280 bench_parallel bench_parallel
      bench 280 bench_fft bench_fft
      # cuFINUFFT and plain cuFFT, by turns with ours; what it leaves out, it says.
      if python3 -c 'import numpy' 2>/dev/null; then
        python3 "$bundle/share/echotrain/bench/finufft_peer.py" "$bundle/bin" --out "$out/finufft_peer.json" \
          --commit "$commit" >"$out/finufft_peer.log" 2>&1 || status=1
        tail -n 12 "$out/finufft_peer.log"
      fi
      "$bundle/bin/bench_stream" --backend cuda --frames 10000 --benchmark_out_format=json \
        --benchmark_context=commit="$(cat "$bundle/share/echotrain/commit")" \
        --benchmark_out="$out/bench_stream.json" >"$out/bench_stream.log" 2>&1 || status=1
      sed -n '/^backend cuda/,$p' "$out/bench_stream.log"
      for program in seed_gregerson seed_stone seed_micgpu; do
        if [ -x "$bundle/bin/$program" ]; then
          "$bundle/bin/$program" >"$out/$program.log" 2>&1 || status=1
          tail -n 20 "$out/$program.log" | cut -c1-160
        fi
      done
      ;;
    errors) # of gridding, which take longer than all times together
      bench 580 bench_nufft_errors bench_nufft
      ;;
    *) echo "gpu.sh: '$part' is not one of tests, sanitizers, bench, errors" >&2; exit 2 ;;
  esac
done
exit $status
