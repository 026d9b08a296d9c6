#!/usr/bin/env bash
# Checks the manifests, the chart and the compose files by the schemas that their makers publish:
#   docker/kubernetes/test.sh
# Needs kubectl (it contains kustomize), a network for pip (kubernetes-validate has Kubernetes' JSON schemas), and helm or
# Debian's golang-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev, with which docker/helm/render.go does
# what helm does.
set -euo pipefail
# shellcheck source=.ci/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../.ci/common.sh"
cd "$root/docker"
kubernetes=1.30
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=$build/venv-schemas/bin/python
if [ ! -x "$python" ]; then
  mkdir -p "$build"
  python3 -m venv "$build/venv-schemas"
  quietly "$build/pip.log" pip "$python" -m pip install --quiet --disable-pip-version-check kubernetes-validate jsonschema pyyaml
fi
command -v kubectl >/dev/null || die "kubectl is missing"

render() {
  if command -v helm >/dev/null; then
    helm template recon helm/echotrain "${@/#/--values=}"
  else
    command -v go >/dev/null || die "neither helm nor go is installed: apt-get install golang-go golang-github-masterminds-sprig-dev golang-k8s-sigs-yaml-dev"
    GO111MODULE=off GOPATH=/usr/share/gocode GOCACHE=$build/go go run helm/render.go helm/echotrain "$@"
  fi
}

# valid NAME: the manifests on stdin.
valid() {
  cat >"$work/$1.yaml"
  "$build/venv-schemas/bin/kubernetes-validate" --strict --quiet --no-warn -k "$kubernetes" "$work/$1.yaml" ||
    die "$1 is not valid for Kubernetes $kubernetes"
  say "$1: $(grep -c '^kind:' "$work/$1.yaml") objects are valid for Kubernetes $kubernetes"
}

kubectl kustomize kubernetes/cpu | valid manifests
kubectl kustomize kubernetes/gpu | valid manifests-gpu
render | valid chart
cat >"$work/more.yaml" <<'END'
gpus: 2
image: {tag: cuda}
imagePullSecrets: [{name: registry}]
autoscaling: {enabled: false, minReplicas: 3}
service: {type: LoadBalancer, annotations: {a: b}}
tolerations: [{key: mri, operator: Exists}]
nodeSelector: {gpu: "true"}
podAnnotations: {c: d}
END
render "$work/more.yaml" | valid chart-with-everything

"$python" - "$work" <<'END'
import json, pathlib, sys
import jsonschema, yaml

work = pathlib.Path(sys.argv[1])

def documents(name):
    return {d["kind"] + "/" + d["metadata"]["name"]: d for d in yaml.safe_load_all((work / f"{name}.yaml").read_text()) if d}

# The chart with its own values is what the plain manifests are.
plain, chart = documents("manifests"), documents("chart")
def pod(all, name):
    return all[f"Deployment/{name}"]["spec"]["template"]["spec"]
ours, theirs = pod(plain, "echotrain"), pod(chart, "recon")
theirs["containers"][0].pop("imagePullPolicy")
for volume in (*ours["volumes"], *theirs["volumes"]):
    volume.pop("configMap", None)
assert ours == theirs, f"chart and manifests differ:\n{ours}\n{theirs}"
assert plain["HorizontalPodAutoscaler/echotrain"]["spec"]["metrics"] == chart["HorizontalPodAutoscaler/recon"]["spec"]["metrics"]
assert yaml.safe_load(plain["ConfigMap/echotrain-options"]["data"]["echotrain.yaml"]) == yaml.safe_load(
    chart["ConfigMap/recon-options"]["data"]["echotrain.yaml"])
for name, deployment, gpus in (("manifests-gpu", "echotrain", 1), ("chart-with-everything", "recon", 2)):
    limits = pod(documents(name), deployment)["containers"][0]["resources"]["limits"]
    assert int(limits["nvidia.com/gpu"]) == gpus and limits["memory"] == "8Gi", limits
more = documents("chart-with-everything")
assert more["Deployment/recon"]["spec"]["replicas"] == 3 and "HorizontalPodAutoscaler/recon" not in more
for grace in (ours, theirs):
    options = yaml.safe_load(plain["ConfigMap/echotrain-options"]["data"]["echotrain.yaml"])
    assert grace["terminationGracePeriodSeconds"] > 5 + options["shutdown_timeout_s"]
(work / "options.yaml").write_text(plain["ConfigMap/echotrain-options"]["data"]["echotrain.yaml"])

# The chart's own schema takes its values and refuses what is misspelt.
schema = json.loads(pathlib.Path("helm/echotrain/values.schema.json").read_text())
values = yaml.safe_load(pathlib.Path("helm/echotrain/values.yaml").read_text())
jsonschema.Draft7Validator(schema).validate(values)
assert not jsonschema.Draft7Validator(schema).is_valid({**values, "gpu": 1})
END
if [ -x "$build/bin/echotrain-server" ]; then
  "$build/bin/echotrain-server" --options "$work/options.yaml" --list-gadgets >/dev/null
  "$build/bin/echotrain-server" --options container.yaml --list-gadgets >/dev/null
  say "the servers' options are understood by echotrain-server"
fi
say "manifests and chart: valid, and the same where they should be"
