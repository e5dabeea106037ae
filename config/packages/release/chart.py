"""Checks the Helm chart: `helm lint`, what it renders, and the config in it, which a real baton has to accept."""

import json
import os
import subprocess
import tempfile
import tomllib
from pathlib import Path

from .common import ROOT, ReleaseError, report, run
from .tools import python_tool

CHART = ROOT / "config" / "helm" / "baton"
# The values with which each branch of a template is rendered.
VARIANTS = {
    "default": [],
    "store of your own": ["valkey.enabled=false", "durability=replicated", "replicas=1"],
    "monitored": ["serviceMonitor.enabled=true", "topologySpreadConstraints=null"],
    "ingress": ["ingress.enabled=true", "ingress.className=nginx", "ingress.tls=certificate", "drainSeconds=5", "stopDelaySeconds=7"],
}
SECRETS = ["ADMIN_TOKEN", "METRICS_TOKEN", "SEAL_KEY", "ANTHROPIC_API_KEY", "ADA_KEY"]
# Prints the documents of standard input as JSON: the build itself runs with Python's own library.
TO_JSON = "import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)"


def check(baton):
    helm, python = python_tool("helm"), python_tool("python")
    run([helm, "lint", "--strict", "--quiet", CHART])
    for name, values in VARIANTS.items():
        settings = [word for value in values for word in ("--set", value)]
        rendered = run([helm, "template", "team", CHART, *settings])
        documents = json.loads(run([python, "-c", TO_JSON], input=rendered))
        by_kind = {}
        for document in documents:
            by_kind.setdefault(document["kind"], []).append(document)
        accepted(baton, by_kind)
        selected(by_kind)
        monitored(by_kind)
        report(f"ok: helm template ({name}): {', '.join(sorted(by_kind))}")


def accepted(baton, by_kind):
    """The rendered config, with the variables that the rendered pod has."""
    [config], [deployment] = by_kind["ConfigMap"], by_kind["Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    environment = {name: f"a-secret-of-at-least-32-bytes-for-{name}" for name in SECRETS}
    environment["STORE_URL"] = "redis://127.0.0.1:1"
    environment |= {entry["name"]: entry["value"] for entry in container["env"]}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "baton.toml"
        file.write_text(config["data"]["baton.toml"])
        environment |= {"BATON_CONFIG": str(file), "HOME": folder, "BATON_STATE__DIR": folder}
        command = [baton, "check", "--json"]
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    # The store's server is looked for, too, and is not here: that is the one problem that there has to be.
    findings = json.loads(done.stdout)["findings"]
    problems = [row["subject"] for row in findings if row["severity"] == "error"]
    if problems != ["store.url"]:
        raise ReleaseError(f"the chart's config is refused:\n{done.stdout}\n{config['data']['baton.toml']}")
    grace = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    server = tomllib.loads(config["data"]["baton.toml"])["server"]
    if grace <= server["stop_delay_secs"] + server["drain_secs"]:
        raise ReleaseError(f"a pod is killed after {grace} s, before its streams may end")


def selected(by_kind):
    """Each service selects pods that there are, and each of its ports is one of theirs."""
    pods = [item["spec"]["template"] for kind in ("Deployment", "StatefulSet") for item in by_kind.get(kind, [])]
    for service in by_kind["Service"]:
        wanted = service["spec"]["selector"].items()
        [pod] = [pod for pod in pods if wanted <= pod["metadata"]["labels"].items()]
        names = {port["name"] for container in pod["spec"]["containers"] for port in container["ports"]}
        if missing := [port for port in service["spec"]["ports"] if port["targetPort"] not in names]:
            raise ReleaseError(f"{service['metadata']['name']} points to ports that no container has: {missing}")


def monitored(by_kind):
    """Each monitor selects one service, with the name of its port, and its token is one of the pod's secrets."""
    for monitor in by_kind.get("ServiceMonitor", []):
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        [service] = [item for item in by_kind["Service"] if wanted <= item["metadata"]["labels"].items()]
        [endpoint] = monitor["spec"]["endpoints"]
        token = endpoint["authorization"]["credentials"]
        ports = [port["name"] for port in service["spec"]["ports"]]
        if endpoint["port"] not in ports or token["key"] not in SECRETS:
            raise ReleaseError(f"the monitor cannot scrape {service['metadata']['name']}: {endpoint}")
