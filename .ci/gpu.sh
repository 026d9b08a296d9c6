#!/usr/bin/env bash
# On a machine with a GPU, from a bundle (.ci/bundle.sh): every CUDA test, all four sanitizers and the GPU benchmarks; logs and
# JSON go to OUT_DIR, a few lines to the terminal. Stops at no failure, so that one run on a GPU gives all results.
#   .ci/gpu.sh BUNDLE_DIR OUT_DIR [tests] [sanitizers] [bench] [errors]       (default: all four)
# SANITIZERS_S=N: seconds for all four tools together.
set -uo pipefail
bundle=$1 out=$2
shift 2
parts=${*:-tests sanitizers bench errors}
cuda=$(find /usr/local/cuda*/targets/*/lib /usr/local/cuda*/lib64 -maxdepth 0 2>/dev/null | head -n 1)
cupti=$(find /usr/local/cuda*/extras/CUPTI/lib64 -maxdepth 0 2>/dev/null | head -n 1)
export LD_LIBRARY_PATH=$bundle/lib${cuda:+:$cuda}${cupti:+:$cupti}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
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
        "$bundle/bin/$program" --gtest_filter='*Cuda*:*cuda*' >"$out/$program.log" 2>&1 || status=1
        report "$program" "$out/$program.log"
      done
      # The code of other devices, without this one's matrix instructions.
      ECHOTRAIN_HOPPER=off "$bundle/bin/test_numerics" --gtest_filter='DirectTransformTest/Cuda*' \
        >"$out/direct_transform_portable.log" 2>&1 || status=1
      report "direct transform without ECHOTRAIN_HOPPER" "$out/direct_transform_portable.log"
      ;;
    sanitizers)
      python3 "$(dirname "$0")/gpu_sanitizers.py" "$bundle" "$out" --seconds "${SANITIZERS_S:-400}" || status=1
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
