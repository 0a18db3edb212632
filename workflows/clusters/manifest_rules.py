"""Rules for manifests: takes the objects of :mod:`clusters.kubernetes`, or what was read from files, finds faults.

Fields are held against the documented ones, values against what was asked for, and the commands of containers against
the command lines of Dask and of scalemani themselves.
"""

from collections.abc import Iterator
from typing import Any

from distributed.cli import dask_scheduler, dask_worker

from clusters.fitting import ONE_THREAD
from clusters.kubernetes import API, Manifest, Settings
from scalemani.terminal.commands import cli

#: Documented fields by where they stand: those that must be there, and those that may.
FIELDS = {
    "DaskCluster": ("apiVersion kind metadata spec", ""),
    "DaskCluster.spec": ("scheduler worker", "idleTimeout"),
    "DaskCluster.spec.scheduler": ("spec service", "metadata"),
    "DaskCluster.spec.scheduler.service": ("type selector ports", ""),
    "DaskCluster.spec.worker": ("spec", "metadata replicas"),
    "NetworkPolicy": ("apiVersion kind metadata spec", ""),
    "NetworkPolicy.spec": ("podSelector policyTypes ingress", "egress"),
    "Job": ("apiVersion kind metadata spec", ""),
    "Job.spec": ("template", "completions parallelism backoffLimit podFailurePolicy activeDeadlineSeconds"),
}
POD = ("containers", "initContainers restartPolicy volumes terminationGracePeriodSeconds")
CONTAINER = (
    "name image args env resources volumeMounts",
    "command imagePullPolicy ports readinessProbe livenessProbe",
)


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Every pod's spec, by what it is."""
    for manifest in manifests:
        if manifest["kind"] == "DaskCluster":
            yield "scheduler", manifest["spec"]["scheduler"]["spec"]
            yield "worker", manifest["spec"]["worker"]["spec"]
        elif manifest["kind"] == "Job":
            yield "client", manifest["spec"]["template"]["spec"]


def containers(pod: Manifest) -> list[Manifest]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def inspect(manifests: list[Manifest], settings: Settings) -> None:
    """Hold manifests against the documented structure and against what was asked for.

    Raises
    ------
    RuntimeError
        Naming each rule that is broken.
    """
    broken = [f"{place}: {what}" for place, what in _structure(manifests)]
    wanted = {"name": "shared", "mountPath": settings.mount}
    limits = {"scheduler": "Always", "worker": "Always", "client": "Never"}
    for kind, pod in pods(manifests):
        claims = [
            volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"] if volume["name"] == "shared"
        ]
        rules = {"the claim": claims == [settings.claim], "restart policy": pod["restartPolicy"] == limits[kind]}
        secrets = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
        rules["certificates"] = secrets == [settings.tls_secret] * bool(settings.tls_secret)
        for container in containers(pod):
            variables = {entry["name"]: entry["value"] for entry in container["env"]}
            encrypted = variables.get("DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION") == "True"
            rules[f"{container['name']} mounts the claim where all do"] = wanted in container["volumeMounts"]
            rules[f"{container['name']} has a memory limit"] = (
                container["resources"]["limits"]["memory"] == settings.memory
            )
            rules[f"{container['name']} has one BLAS thread"] = variables.items() >= ONE_THREAD.items()
            rules[f"{container['name']} encrypts"] = encrypted == bool(settings.tls_secret)
        broken += [f"{kind}: {rule}" for rule, holds in rules.items() if not holds]
    if broken:
        raise RuntimeError(f"the manifests break: {'; '.join(broken)}")


def _structure(manifests: list[Manifest]) -> Iterator[tuple[str, str]]:
    """Fields that are missing or not documented, by place."""
    versions = {"DaskCluster": API, "Job": "batch/v1", "NetworkPolicy": "networking.k8s.io/v1"}
    for manifest in manifests:
        kind = manifest["kind"]
        if manifest["apiVersion"] != versions.get(kind):
            yield kind, f"apiVersion {manifest['apiVersion']}"
        for place, fields in FIELDS.items():
            if place.split(".")[0] == kind:
                found = manifest
                for step in place.split(".")[1:]:
                    found = found.get(step, {})
                yield from ((place, what) for what in _differing(found, fields))
    for kind, pod in pods(manifests):
        yield from ((f"pod of {kind}", what) for what in _differing(pod, POD))
        for container in containers(pod):
            yield from ((f"container {container.get('name')}", what) for what in _differing(container, CONTAINER))


def _differing(found: Manifest, fields: tuple[str, str]) -> Iterator[str]:
    needed, allowed = (set(words.split()) for words in fields)
    yield from (f"lacks {name}" for name in sorted(needed - set(found)))
    yield from (f"has {name}, which is not documented" for name in sorted(set(found) - needed - allowed))


def parse_commands(manifests: list[Manifest]) -> dict[str, dict[str, Any]]:
    """Parameters that Dask's own command lines, and scalemani's, read in the containers' args.

    Raises
    ------
    click.UsageError
        A word that they don't know.
    """
    commands = {
        "scheduler": (dask_scheduler.main, 2),  # "dask scheduler"
        "worker": (dask_worker.main, 2),
        "fit": (cli.commands["fit"], 2),
    }
    found = {}
    for _, pod in pods(manifests):
        for container in pod["containers"]:
            command, words = commands[container["name"]]
            found[container["name"]] = command.make_context(container["name"], container["args"][words:]).params
    return found
