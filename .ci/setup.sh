#!/usr/bin/env bash
# Installs what is missing: .ci/setup.sh [build] [test] [lint] [bench] [fuzz] [package] [image] [ranks] [docs] [browser].
# Debian 12 and Ubuntu 24.04, by apt; the Python packages of the tests go to build/venv, those of the site to build/venv-docs.
# Where nothing is missing, it does not call apt.
set -euo pipefail
# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

build_packages=(cmake ninja-build g++ ccache pkg-config git libboost-dev libssl-dev libhdf5-dev libismrmrd-dev libfftw3-dev libzfp-dev
  libyaml-cpp-dev libspdlog-dev libfmt-dev libcli11-dev libeigen3-dev libpng-dev libpugixml-dev
  libqhull-dev prometheus-cpp-dev nlohmann-json3-dev libgtest-dev libgmock-dev python3)
test_packages=(openssl curl ismrmrd-tools python3-venv netcat-openbsd haproxy zsh mandoc iproute2 libdcmtk-dev orthanc dcm2niix)
lint_packages=(clang-format clang-tidy)
bench_packages=(libbenchmark-dev)
fuzz_packages=(clang libclang-rt-dev llvm)
package_packages=(dpkg-dev file xz-utils debootstrap python3-venv)
image_packages=(buildah ccache)
ranks_packages=(libopenmpi-dev openmpi-bin)
python_packages=(numpy h5py scipy 'ismrmrd>=1.14' pytest mypy matplotlib nibabel pydicom)
optional_python_packages=(pytest-xdist onnx onnxruntime mrd-python jsonschema gradunwarp twixtools pymapvbvd pypulseq)
# On Ubuntu, chromium is a snap, which tests cannot drive: they skip there.
browser_packages=(chromium chromium-driver)
browser_python_packages=(selenium)
axe_package=axe-playwright-python   # for the axe-core within it; without what it depends on
python_modules='numpy, h5py, scipy, ismrmrd, pytest'

docs_python_packages=('mkdocs-material>=9.5,<10' 'mkdocs<2')

install_packages() {
  local missing=() package
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    warn "this system has no apt; Echotrain needs these packages, by their names in Debian: $*"
    return
  fi
  for package in "$@"; do
    case $(dpkg-query -W -f='${db:Status-Status} ' "$package" 2>/dev/null || true) in
      installed\ *) ;;
      *) missing+=("$package") ;;
    esac
  done
  if [ ${#missing[@]} -eq 0 ]; then return; fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "packages are missing and there is no sudo; as root, run: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 -qq)
  say "set-up: installing ${#missing[@]} packages: ${missing[*]}"
  quietly "$build/apt-update.log" "apt-get update" "${apt[@]}" update
  quietly "$build/apt-install.log" "apt-get install" "${apt[@]}" install -y --no-install-recommends "${missing[@]}"
}

can_test() { [ -x "$1" ] && "$1" -c "import $python_modules" 2>/dev/null; }

install_python() {
  if [ -n "${ECHOTRAIN_TEST_PYTHON:-}" ]; then
    can_test "$ECHOTRAIN_TEST_PYTHON" || die "ECHOTRAIN_TEST_PYTHON=$ECHOTRAIN_TEST_PYTHON cannot import $python_modules"
    return
  fi
  local wanted="${python_packages[*]} ${optional_python_packages[*]}"
  if can_test "$build/venv/bin/python"; then
    if [ "$(cat "$build/venv/packages" 2>/dev/null)" = "$wanted" ]; then return; fi
    say "set-up: further Python packages of the tests, into build/venv"
    "$build/venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 \
      "${python_packages[@]}" "${optional_python_packages[@]}" >"$build/pip.log" 2>&1 ||
      warn "not all installed (no network? see build/pip.log); tests that need what is missing will be skipped"
    echo "$wanted" >"$build/venv/packages"
    return
  fi
  say "set-up: Python packages of the tests, into build/venv"
  mkdir -p "$build"
  if ! { python3 -m venv --clear "$build/venv" &&
    "$build/venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 \
      "${python_packages[@]}"; } >"$build/pip.log" 2>&1 || ! can_test "$build/venv/bin/python"; then
    rm -rf "$build/venv"
    warn "no Python environment could be made (no network? see build/pip.log); tests that need it will be skipped"
  elif ! "$build/venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 \
    "${optional_python_packages[@]}" >>"$build/pip.log" 2>&1; then
    warn "not installed: ${optional_python_packages[*]} (see build/pip.log); tests that need them will be skipped"
  fi
  if [ -d "$build/venv" ]; then echo "$wanted" >"$build/venv/packages"; fi
}

# The site's, apart from the tests' packages.
install_docs() {
  local venv=$build/venv-docs
  if [ "$(cat "$venv/packages" 2>/dev/null)" = "${docs_python_packages[*]}" ]; then return; fi
  say "set-up: MkDocs Material, into build/venv-docs"
  mkdir -p "$build"
  if ! { python3 -m venv --clear "$venv" && "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 \
    --timeout 20 "${docs_python_packages[@]}"; } >"$build/pip-docs.log" 2>&1; then
    rm -rf "$venv"
    warn "not installed: MkDocs Material (no network? see build/pip-docs.log); the site cannot be made, and its tests are skipped"
    return
  fi
  echo "${docs_python_packages[*]}" >"$venv/packages"
}

install_browser() {
  if [ "$(sed -nE 's/^ID=//p' /etc/os-release)" != debian ]; then
    warn "tests with a browser are skipped here: they need Debian's chromium"
    return
  fi
  if ! (install_packages "${browser_packages[@]}"); then
    warn "no Chromium could be installed; tests of the live page are skipped"
    return
  fi
  local python=${ECHOTRAIN_TEST_PYTHON:-$build/venv/bin/python}
  if [ ! -x "$python" ] || "$python" -c 'import selenium, importlib.util as u; assert u.find_spec("axe_playwright_python")' 2>/dev/null; then return; fi
  local pip=("$python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 20)
  { "${pip[@]}" "${browser_python_packages[@]}" && "${pip[@]}" --no-deps "$axe_package"; } >"$build/pip.log" 2>&1 ||
    warn "not installed: ${browser_python_packages[*]} $axe_package (see build/pip.log); tests that need them will be skipped"
}

for part in "${@:-build}"; do
  case $part in
    build) install_packages "${build_packages[@]}" ;;
    test)
      install_packages "${test_packages[@]}"
      install_python
      ;;
    lint) install_packages "${lint_packages[@]}" ;;
    bench) install_packages "${bench_packages[@]}" ;;
    fuzz) install_packages "${fuzz_packages[@]}" ;;
    package) install_packages "${package_packages[@]}" ;;
    image) install_packages "${image_packages[@]}" ;;
    ranks) install_packages "${ranks_packages[@]}" ;;
    docs)
      install_packages python3-venv
      install_docs
      ;;
    browser) install_browser ;;
    *) die "setup: '$part' is not one of build, test, lint, bench, fuzz, package, image, ranks, docs, browser" ;;
  esac
done
