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

if kubernetes/render.sh >"$work/nobody.yaml" 2>"$work/nobody.txt"; then die "a chart into whose servers nobody may connect renders"; fi
grep -q 'nobody may connect: say which networks' "$work/nobody.txt" || die "$(cat "$work/nobody.txt")"
kubernetes/render.sh kubernetes/networks.yaml | valid manifests
kubernetes/render.sh kubernetes/networks.yaml kubernetes/gpu.yaml | valid manifests-gpu
cat >"$work/more.yaml" <<'END'
gpus: 2
image: {tag: cuda}
imagePullSecrets: [{name: registry}]
autoscaling: {enabled: false, minReplicas: 3}
service: {type: LoadBalancer, annotations: {a: b}}
tolerations: [{key: mri, operator: Exists}]
nodeSelector: {gpu: "true"}
podAnnotations: {c: d}
options: {memory_mib: 20000, session_memory_mib: 9000, disk_cache_mib: 4096, allow: [10.1.0.0/16], admin: {hosts: [recon.example]}}
tls: {existingSecret: recon-tls, clientCa: true, plain: true}
tokens: {existingSecret: recon-tokens, key: clients}
admin: {existingSecret: recon-admin}
data: {existingClaim: recon-data, detached: true}
extraVolumes: [{name: pipelines, configMap: {name: site-pipelines}}]
extraVolumeMounts: [{name: pipelines, mountPath: /etc/pipelines, readOnly: true}]
extraEnv: [{name: TZ, value: Europe/Berlin}]
networkPolicy: {balancers: [{podSelector: {matchLabels: {app: haproxy}}}], egress: [{to: [{ipBlock: {cidr: 10.0.0.5/32}}], ports: [{port: 4242}]}]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
END
cat >"$work/tls.yaml" <<END
image: {digest: "sha256:$(printf '0%.0s' {1..64})"}
tls: {existingSecret: recon-tls}
podDisruptionBudget: {enabled: false}
END
kubernetes/render.sh "$work/tls.yaml" | valid chart-with-tls
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

names = "manifests", "manifests-gpu", "chart-with-everything", "chart-with-tls"
plain, gpu, more, tls = (documents(name) for name in names)
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
for name, all in zip(names, (plain, gpu, more, tls)):
    (work / f"{name}-options.yaml").write_text(all["ConfigMap/echotrain-options"]["data"]["echotrain.yaml"])

# Each port is open to whom it is for.
def ports(service):
    return {port["name"] for port in service["spec"]["ports"]}
def opened(all):
    return {rule["ports"][0]["port"]: rule.get("from") for rule in all["NetworkPolicy/echotrain"]["spec"]["ingress"] if "ports" in rule}
for all, scans in ((plain, {"scans"}), (more, {"scans", "scans-tls"}), (tls, {"scans-tls"})):
    assert ports(all["Service/echotrain"]) == scans and ports(all["Service/echotrain-servers"]) == scans | {"agent"}
    assert ports(all["Service/echotrain-admin"]) == {"admin"} and opened(all).keys() == scans | {"admin"}
    assert {port["name"] for port in pod(all)["containers"][0]["ports"]} == scans | {"admin", "agent"}
assert opened(more)["scans"] == [{"ipBlock": {"cidr": "10.1.0.0/16"}}] and opened(more)["scans-tls"] is None
assert opened(plain)["admin"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
assert "PodDisruptionBudget/echotrain" in plain and "PodDisruptionBudget/echotrain" not in tls
assert pod(tls)["containers"][0]["image"] == "echotrain@sha256:" + 64 * "0"
# A ServiceMonitor (kubernetes-validate does not know it) chooses the service whose labels it names, and a port of it.
monitor, service = more["ServiceMonitor/echotrain"], more["Service/echotrain-admin"]
jsonschema.Draft7Validator(json.loads(pathlib.Path("kubernetes/servicemonitor.schema.json").read_text())).validate(monitor)
assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
assert not monitor["spec"]["selector"]["matchLabels"].items() <= more["Service/echotrain"]["metadata"]["labels"].items()
assert {end["port"] for end in monitor["spec"]["endpoints"]} <= ports(service)
# Each file that the options name lies in a folder that is mounted.
options = yaml.safe_load((work / "chart-with-everything-options.yaml").read_text())
assert options["admin"] == {"bind": "0.0.0.0", "port": 9004, "agent_port": 9005, "page": "token", "hosts": ["recon.example"],
                            "token_file": "/etc/echotrain-secrets/admin/tokens"}
mounts = [pathlib.PurePath(one["mountPath"]) for one in pod(more)["containers"][0]["volumeMounts"]]
assert len(mounts) == len(pod(more)["volumes"]) == 8
for file in (options["tls"]["certificate"], options["tls"]["client_ca"], options["token_file"], options["admin"]["token_file"],
             options["capture"]["directory"], options["detached"]["directory"]):
    assert any(mount in pathlib.PurePath(file).parents for mount in mounts), file

# The chart's own schema accepts its values and refuses misspelt ones.
schema = json.loads(pathlib.Path("helm/echotrain/values.schema.json").read_text())
values = yaml.safe_load(pathlib.Path("helm/echotrain/values.yaml").read_text())
jsonschema.Draft7Validator(schema).validate(values)
for file in (work / "more.yaml", work / "tls.yaml", pathlib.Path("kubernetes/networks.yaml"), pathlib.Path("kubernetes/gpu.yaml")):
    over = yaml.safe_load(file.read_text())
    jsonschema.Draft7Validator(schema).validate({k: {**v, **over.get(k, {})} if isinstance(v, dict) else over.get(k, v) for k, v in values.items()})
assert not jsonschema.Draft7Validator(schema).is_valid({**values, "gpu": 1})
END
if [ -x "$build/bin/echotrain-server" ]; then
  for options in "$work"/*-options.yaml; do "$build/bin/echotrain-server" --options "$options" --list-gadgets >/dev/null; done
  "$build/bin/echotrain-server" --options container.yaml --list-gadgets >/dev/null
  say "the servers' options are understood by echotrain-server"
fi
say "chart and manifests: valid"
