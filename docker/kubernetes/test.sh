#!/usr/bin/env bash
# Checks the chart, and with it the manifests that render.sh makes of it, by the schemas that their makers publish:
#   docker/kubernetes/test.sh
# Needs a network for pip (kubernetes-validate has Kubernetes' JSON schemas), and what render.sh needs.
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

# valid NAME: the manifests on stdin.
valid() {
  cat >"$work/$1.yaml"
  "$build/venv-schemas/bin/kubernetes-validate" --strict --quiet --no-warn -k "$kubernetes" "$work/$1.yaml" ||
    die "$1 is not valid for Kubernetes $kubernetes"
  say "$1: $(grep -c '^kind:' "$work/$1.yaml") objects are valid for Kubernetes $kubernetes"
}

kubernetes/render.sh | valid manifests
kubernetes/render.sh kubernetes/gpu.yaml | valid manifests-gpu
cat >"$work/more.yaml" <<'END'
gpus: 2
image: {tag: cuda}
imagePullSecrets: [{name: registry}]
autoscaling: {enabled: false, minReplicas: 3}
service: {type: LoadBalancer, annotations: {a: b}}
tolerations: [{key: mri, operator: Exists}]
nodeSelector: {gpu: "true"}
podAnnotations: {c: d}
options: {memory_mib: 20000, session_memory_mib: 9000, disk_cache_mib: 4096}
END
kubernetes/render.sh "$work/more.yaml" | valid chart-with-everything

"$python" - "$work" <<'END'
import json, pathlib, sys
import jsonschema, yaml

work = pathlib.Path(sys.argv[1])

def documents(name):
    return {d["kind"] + "/" + d["metadata"]["name"]: d for d in yaml.safe_load_all((work / f"{name}.yaml").read_text()) if d}

def pod(all):
    return all["Deployment/echotrain"]["spec"]["template"]["spec"]

def mib(size):
    assert size.endswith("Mi"), size
    return int(size[:-2])

plain, gpu, more = documents("manifests"), documents("manifests-gpu"), documents("chart-with-everything")
assert {"Namespace/echotrain", "HorizontalPodAutoscaler/echotrain", "Service/echotrain-servers"} <= set(plain), set(plain)
for name, document in plain.items():
    assert name == "Namespace/echotrain" or document["metadata"]["namespace"] == "echotrain", name
def image_and_sessions(all):
    metric = all["HorizontalPodAutoscaler/echotrain"]["spec"]["metrics"][0]["pods"]["target"]["averageValue"]
    return pod(all)["containers"][0]["image"], metric
assert image_and_sessions(plain) == ("echotrain:cpu", "3") and image_and_sessions(gpu) == ("echotrain:cuda", "6")
for all, gpus in ((plain, 0), (gpu, 1), (more, 2)):
    limits = pod(all)["containers"][0]["resources"]["limits"]
    assert int(limits.get("nvidia.com/gpu", 0)) == gpus, limits
    # The process may take memory_mib + 256 MiB, and /tmp, the kernel's buffers and files being written come on top.
    options = yaml.safe_load(all["ConfigMap/echotrain-options"]["data"]["echotrain.yaml"])
    assert mib(limits["memory"]) >= options["memory_mib"] + 512, limits
    assert options["session_memory_mib"] <= options["memory_mib"] / 2
    (cache,) = (one["emptyDir"]["sizeLimit"] for one in pod(all)["volumes"] if one["name"] == "cache")
    assert mib(cache) >= options["disk_cache_mib"] + 128, cache
    assert ("nvidia.com/gpu" in [one["key"] for one in pod(all).get("tolerations", [])]) == (gpus > 0)
assert more["Deployment/echotrain"]["spec"]["replicas"] == 3 and "HorizontalPodAutoscaler/echotrain" not in more
options = yaml.safe_load(plain["ConfigMap/echotrain-options"]["data"]["echotrain.yaml"])
assert options["bind"] == "0.0.0.0" and options["admin"]["port"] == 9004
assert pod(plain)["terminationGracePeriodSeconds"] > 5 + options["shutdown_timeout_s"]
(work / "options.yaml").write_text(plain["ConfigMap/echotrain-options"]["data"]["echotrain.yaml"])

# The chart's own schema accepts its values and refuses misspelt ones.
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
say "chart and manifests: valid"
