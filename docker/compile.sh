#!/bin/sh
# In an image's first stage: compiles the sources of this folder and leaves a Debian package in /packages.
#   docker/compile.sh [CMAKE ARGUMENT...]
set -eu
export CCACHE_BASEDIR=/src CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
cmake -S . -B /tmp/build -G Ninja -DCMAKE_BUILD_TYPE=Release -DECHOTRAIN_TESTS=OFF \
  -DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_CUDA_COMPILER_LAUNCHER=ccache "$@"
cmake --build /tmp/build
(cd /tmp/build && cpack -G DEB)
mkdir -p /packages
cp /tmp/build/packages/echotrain_*.deb /packages/
