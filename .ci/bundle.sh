#!/usr/bin/env bash
# Gathers programs and the shared libraries they need into one relocatable folder:
#   .ci/bundle.sh BUILD_DIR BUNDLE_DIR
# Libraries of every Linux host (libc, libstdc++) and of every CUDA host (driver, cuFFT) stay out. Run the programs with
#   LD_LIBRARY_PATH=BUNDLE_DIR/lib[:CUDA's lib folder] BUNDLE_DIR/bin/...
set -euo pipefail
build=$1 bundle=$2
here=$(cd "$(dirname "$0")/.." && pwd)
rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/lib" "$bundle/share/echotrain/bench"
git -C "$here" describe --always --dirty >"$bundle/share/echotrain/commit" 2>/dev/null || echo unknown >"$bundle/share/echotrain/commit"
cp "$here"/tests/bench/peers/*.py "$bundle/share/echotrain/bench/"
find "$build/bin" -maxdepth 1 -type f -perm -u+x -exec cp {} "$bundle/bin/" \;
cp -r "$here/config/pipelines" "$bundle/share/echotrain/"
# What tests read of the sources (tests/support/sources.h).
mkdir -p "$bundle/share/echotrain/sources/config" "$bundle/share/echotrain/sources/docs"
cp -r "$here/config/pipelines" "$bundle/share/echotrain/sources/config/"
cp "$here/docs/gadgets.md" "$here/docs/from-gadgetron.md" "$bundle/share/echotrain/sources/docs/"
# Takes the libraries of the build's programs: their run paths hold there, and not in the bundle.
find "$build/bin" -maxdepth 1 -type f -perm -u+x -exec ldd {} + | awk '/=> \//{print $3}' | sort -u |
  grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|ld-linux[^/]*|libstdc\+\+|libgcc_s|libcuda|libcudart|libcufft|libcublas|libcublasLt|libnvrtc|libnvJitLink)\.so' |
  while read -r library; do cp -L "$library" "$bundle/lib/"; done
strip --strip-unneeded "$bundle"/bin/* "$bundle"/lib/* 2>/dev/null || true
du -sh "$bundle" | awk '{print "bundle: " $1 " in " $2}'
