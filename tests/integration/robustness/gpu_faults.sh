#!/usr/bin/env bash
# A GPU that is full, and one that fails for good, on a machine that has one:
#   tests/integration/robustness/gpu_faults.sh BIN_DIR [gpu_faults.so]     (made with cc from tests/support/gpu_faults.c if not given)
set -uo pipefail
bin=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
server= hog=
trap 'kill $server $hog 2>/dev/null || true; rm -rf "$work"' EXIT
faults=${2:-$work/gpu_faults.so}
[ $# -gt 1 ] || cc -O2 -shared -fPIC -o "$faults" "$here/../support/gpu_faults.c" -ldl -lpthread
faults=$(realpath "$faults")
cd "$work"
failed=0
held() { echo "held: $1"; }
broke() { echo "BROKE: $1"; failed=1; }
check() { if eval "$2"; then held "$1"; else broke "$1 ($2; readiness: $(page /readyz))"; fi; }

# start OPTIONS...: a server of one's own; its port is $port, that of its admin pages $admin.
start() {
  "$bin/echotrain-server" --port 0 --admin-port 0 --pipelines "$work/pipelines" "$@" >server.log 2>&1 &
  server=$!
  for _ in $(seq 300); do
    grep -q '^admin on' server.log && break
    sleep 0.1
  done
  port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' server.log)
  admin=$(sed -n 's/^admin on .*:\([0-9]*\)$/\1/p' server.log)
}
send() {
  local file=$1 out=$2
  shift 2
  rm -f "$out"
  timeout 100 "$bin/echotrain" send "$file" -p "$port" -o "$out" "$@" >"$out.log" 2>&1
}
same() { "$bin/echotrain" compare "$1" "$2" --scale none --max-nrmse 0 >/dev/null 2>&1; }
page() { # the status of an admin page and its last line
  { exec 9<>"/dev/tcp/127.0.0.1/$admin" && printf 'GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' "$1" >&9 &&
    tr -d '\r' <&9 | sed -n '1s/^[^ ]* \([0-9]*\).*/\1/p; $p' | paste -sd' '; } 2>/dev/null || echo gone
}

mkdir pipelines
for backend in cpu cuda; do
  cat >"pipelines/on_$backend.yaml" <<END
echotrain: 1
name: on_$backend
description: a Fourier transform on one backend
backend: $backend
pipeline:
  - cartesian_kspace
  - fft
  - coil_combine
  - image
END
done
"$bin/echotrain" simulate -o small.h5 --trajectory cartesian --matrix 128 --coils 4 --frames 3 >/dev/null
"$bin/echotrain" simulate -o large.h5 --trajectory cartesian --matrix 512 --coils 64 >/dev/null

echo "-- a scan that needs more than its budget"
start --backend cuda --device-memory-mib 64
send small.h5 right.h5 -c on_cuda
check "the large scan is refused with the reason" '! send large.h5 out.h5 -c on_cuda && grep -q "out of memory" out.h5.log'
grep -h "out of memory" out.h5.log | head -n 1 | cut -c1-200
check "the next scan has the same bits" 'send small.h5 out.h5 -c on_cuda && same out.h5 right.h5'
kill -TERM $server && wait $server && held "exit 0" || broke "exit"

echo "-- a GPU that another program has filled"
start --backend cuda
send small.h5 right.h5 -c on_cuda
send large.h5 right_large.h5 -c on_cuda
kill -TERM $server && wait $server || true
start --backend cuda
send small.h5 out.h5 -c on_cuda
rm -f full
ECHOTRAIN_GPU_FILL=24 ECHOTRAIN_GPU_FAULT=$work/full LD_PRELOAD=$faults sleep 300 &
hog=$!
for _ in $(seq 300); do [ -e full ] && break; sleep 0.1; done
check "the large scan is refused with the reason" '! send large.h5 out.h5 -c on_cuda && grep -q "resources" out.h5.log'
grep -h "resources" out.h5.log | head -n 1 | cut -c1-200
check "a scan that fits has the same bits" 'send small.h5 out.h5 -c on_cuda && same out.h5 right.h5'
for _ in $(seq 100); do [[ "$(page /readyz)" == 200* ]] && break; sleep 0.1; done # it warms up for 0.8 s
check "the server is ready" '[[ "$(page /readyz)" == 200* ]]'
kill $hog && wait $hog 2>/dev/null || true
check "with memory again the large scan has the same bits" 'send large.h5 out.h5 -c on_cuda && same out.h5 right_large.h5'
check "and the small one" 'send small.h5 out.h5 -c on_cuda && same out.h5 right.h5'
kill -TERM $server && wait $server && held "exit 0" || broke "exit"

echo "-- the process that tries a GPU when scans fail"
said=0
"$bin/echotrain-server" --canary 0 || said=$?
check "says that it works" '[ $said -eq 0 ]'
CUDA_VISIBLE_DEVICES=-1 "$bin/echotrain-server" --canary 0 || said=$?
check "says that a device which is not there does not" '[ $said -eq 83 ]'
rm -f full
ECHOTRAIN_GPU_FILL=24 ECHOTRAIN_GPU_FAULT=$work/full LD_PRELOAD=$faults sleep 300 &
hog=$!
for _ in $(seq 300); do [ -e full ] && break; sleep 0.1; done
said=0
"$bin/echotrain-server" --canary 0 || said=$?
check "does not call a full one broken" '[ -e full ] && [ $said -eq 84 ]'
kill $hog && wait $hog 2>/dev/null || true

echo "-- a kernel that writes to address 0"
export ECHOTRAIN_GPU_FAULT=$work/now
LD_PRELOAD=$faults start --backend auto
send small.h5 right_cpu.h5 -c on_cpu
send small.h5 out.h5 -c on_cuda
check "before it, all is well" 'same out.h5 right.h5'
send small.h5 cpu.h5 -c on_cpu --rate 100 &
on_cpu=$!
send small.h5 gpu.h5 -c on_cuda --rate 100 &
on_gpu=$!
sleep 1.5
touch now
status=0
wait $on_gpu || status=$?
check "the scan on the GPU fails" '[ $status -ne 0 ]'
grep -h "resources" gpu.h5.log | head -n 1 | cut -c1-200
check "the server is not ready" '[[ "$(page /readyz)" == 503* ]]'
check "it lives while the scan on the CPU goes on" 'kill -0 $on_cpu && kill -0 $server'
check "that scan ends well" 'wait $on_cpu && same cpu.h5 right_cpu.h5'
status=0
wait $server || status=$?
check "the server ends with status 3, for its supervisor" '[ $status -eq 3 ]'
server=
exit $failed
