#!/usr/bin/env bash
# Prints the chart (docker/helm/echotrain) as plain manifests, in a namespace of their own called echotrain:
#   docker/kubernetes/render.sh [VALUES.yaml...] | kubectl apply -f -
# Needs helm, or Debian's golang-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev, with which
# docker/helm/render.go does what helm does.
set -euo pipefail
# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../.ci/common.sh"
cat "$root/docker/kubernetes/namespace.yaml"
chart=$root/docker/helm/echotrain
if command -v helm >/dev/null; then
  helm template echotrain "$chart" --namespace echotrain "${@/#/--values=}"
else
  command -v go >/dev/null || die "neither helm nor go is installed: apt-get install golang-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev"
  GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$build/go go run "$root/docker/helm/render.go" "$chart" echotrain echotrain "$@"
fi
