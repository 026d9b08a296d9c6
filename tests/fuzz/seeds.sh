#!/usr/bin/env bash
# tests/fuzz/seeds.sh FOLDER ECHOTRAIN MAKE_SEEDS: writes FOLDER/<target>/*, the inputs that fuzzing begins with: from
# small simulated scans and their images, and from measured data where ../shared/data (or ECHOTRAIN_DATA) is.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$1 echotrain=$2 make_seeds=$3
scans=$out/scans
rm -rf "$out"
mkdir -p "$scans"

# simulate NAME PIPELINE [OPTION...]: a scan, and the images that the pipeline makes of it.
simulate() {
  local scan=$scans/$1.h5 pipeline=$2
  shift 2
  "$echotrain" simulate -o "$scan" --no-truth --seed 1 --matrix 8 "$@"
  "$echotrain" recon "$scan" -c "$pipeline" --backend cpu -o "${scan%.h5}_images.h5"
}
{
  simulate cartesian cartesian_2d --trajectory cartesian --coils 2 --noise 1 --noise-scan
  simulate several cartesian_2d --trajectory cartesian --coils 1 --slices 2 --frames 2 --contrasts 2
  simulate radial radial_2d --trajectory radial --coils 2 --readouts 9 --samples 16 --frames 2
  simulate golden radial_2d --trajectory golden_radial --coils 1 --readouts 34 --samples 16 --frames 2
  simulate spiral spiral_2d --trajectory spiral --coils 2 --readouts 4
  simulate stack stack_of_stars --trajectory golden_radial --coils 1 --readouts 9 --samples 16 --partitions 2
  simulate kooshball kooshball_3d --trajectory kooshball --coils 1 --readouts 40 --samples 16
} >"$scans/log" 2>&1 || { cat "$scans/log" >&2; exit 1; }

files=("$scans"/*.h5)
data=${ECHOTRAIN_DATA:-$root/../shared/data}
if [ -d "$data" ]; then
  while read -r file; do files+=("$file"); done < <(find "$data" -name '*.h5' | sort)
fi
"$make_seeds" "$out" "${files[@]}"
rm -rf "$scans"
