"""Manifests for the Dask operator: takes settings, gives the objects that `kubectl apply` takes.

Fields are those of the operator's documentation (https://kubernetes.dask.org, "Custom Resources", version v1 of
kubernetes.dask.org) and of Kubernetes' own (core/v1, batch/v1, networking.k8s.io/v1). The operator makes a Deployment
of each worker and of the scheduler, a Service NAME-scheduler, and labels their pods dask.org/cluster-name: NAME.
"""

import re
from dataclasses import dataclass
from typing import Any

from dask.utils import parse_bytes

from clusters import certificates
from clusters.fitting import ONE_THREAD
from scalemani.errors import ScalemaniError

Manifest = dict[str, Any]

API = "kubernetes.dask.org/v1"
RESERVE = 512 * 2**20  # bytes of a pod that no task has: the nanny, and what the kernel counts and Dask does not
CERTIFICATES = "/etc/dask-certificates"
PORTS = {"tcp-comm": 8786, "http-dashboard": 8787}
WORKER_DASHBOARD = 8788
WRONG_USE = 2  # the exit code that no retry helps


@dataclass(frozen=True)
class Settings:
    """What the manifests depend on; names as on the command line."""

    name: str
    namespace: str
    operator_namespace: str
    image: str
    claim: str
    mount: str
    workers: int
    cores: int
    memory: str
    tls_secret: str | None
    retries: int

    @property
    def scheduler(self) -> str:
        """Address as all pods see it."""
        scheme = "tls" if self.tls_secret else "tcp"
        return f"{scheme}://{self.name}-scheduler.{self.namespace}.svc.cluster.local:{PORTS['tcp-comm']}"


def worker_memory(memory: str) -> int:
    """Bytes that Dask gives the worker of a pod with this limit, so that its nanny acts before the kernel does.

    Raises
    ------
    ScalemaniError
    """
    if not re.fullmatch(r"[1-9]\d*([kMGT]|[KMGT]i)?", memory):
        raise ScalemaniError(f"{memory!r} is no size of Kubernetes'; give one such as 16Gi")
    total = parse_bytes(f"{memory}B")
    if total < 2 * RESERVE:
        raise ScalemaniError(f"a pod of {memory} is too small; give 1Gi or more, half a Gi of it for Dask's own")
    return total - RESERVE


def dask_cluster(settings: Settings) -> Manifest:
    """Scheduler and workers, as the operator's custom resource."""
    scheme = ["--protocol", "tls"] if settings.tls_secret else []
    probe = {"httpGet": {"port": "http-dashboard", "path": "/health"}}
    scheduler = _container("scheduler", ["dask", "scheduler", "--host", "0.0.0.0", *scheme], settings)
    scheduler["ports"] = [_port(name, number) for name, number in PORTS.items()]
    scheduler["readinessProbe"] = {**probe, "initialDelaySeconds": 5, "periodSeconds": 10}
    scheduler["livenessProbe"] = {**probe, "initialDelaySeconds": 60, "periodSeconds": 20}
    worker = _container(
        "worker",
        [
            *("dask", "worker", settings.scheduler, *scheme, "--name", "$(DASK_WORKER_NAME)"),
            *("--nthreads", str(settings.cores), "--memory-limit", str(worker_memory(settings.memory))),
            *("--local-directory", "/tmp", "--death-timeout", "120"),
            *("--dashboard", "--dashboard-address", str(WORKER_DASHBOARD)),
        ],
        settings,
    )
    worker["ports"] = [_port("http-dashboard", WORKER_DASHBOARD)]
    ports = [{"name": name, "protocol": "TCP", "port": number, "targetPort": name} for name, number in PORTS.items()]
    labels = {"dask.org/cluster-name": settings.name, "dask.org/component": "scheduler"}
    return {
        "apiVersion": API,
        "kind": "DaskCluster",
        "metadata": _metadata(settings.name, settings),
        "spec": {
            "idleTimeout": 0,  # a client that comes again finds it
            "scheduler": {
                "spec": _pod([scheduler], settings, "Always"),
                "service": {"type": "ClusterIP", "selector": labels, "ports": ports},
            },
            "worker": {"replicas": settings.workers, "spec": _pod([worker], settings, "Always")},
        },
    }


def network_policy(settings: Settings) -> Manifest:
    """Only the cluster's own pods reach scheduler and workers, and the operator the scheduler's page."""
    own = {"matchLabels": {"dask.org/cluster-name": settings.name}}
    operator = {"matchLabels": {"kubernetes.io/metadata.name": settings.operator_namespace}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(f"{settings.name}-own-pods", settings),
        "spec": {
            "podSelector": own,
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": own}]},
                {
                    "from": [{"namespaceSelector": operator}],
                    "ports": [{"protocol": "TCP", "port": PORTS["http-dashboard"]}],
                },
            ],
        },
    }


def fit_job(settings: Settings, words: list[str]) -> Manifest:
    """The client: waits for a worker, fits, and is started again where it was cut off, but not for wrong use."""
    wait = (
        "from distributed import Client; "
        f"Client('{settings.scheduler}', timeout='600s').wait_for_workers(1, timeout=600)"
    )
    waiting = _container("wait-for-workers", ["python", "-c", wait], settings)
    fit = _container("fit", ["scalemani", "fit", *words, "--scheduler", settings.scheduler], settings)
    # Not "scheduler" or "worker": the operator's Service and Deployments select by component.
    labels = {"dask.org/cluster-name": settings.name, "dask.org/component": "client"}
    pod = _pod([fit], settings, "Never")
    pod["initContainers"] = [waiting]
    pod["terminationGracePeriodSeconds"] = 180  # SIGTERM comes first; tasks that run are finished
    refused = {"containerName": "fit", "operator": "In", "values": [WRONG_USE]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(f"{settings.name}-fit", settings),
        "spec": {
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": settings.retries,
            "podFailurePolicy": {
                "rules": [
                    {"action": "FailJob", "onExitCodes": refused},
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                ]
            },
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _metadata(name: str, settings: Settings) -> Manifest:
    return {"name": name, "namespace": settings.namespace}


def _port(name: str, number: int) -> Manifest:
    return {"name": name, "containerPort": number, "protocol": "TCP"}


def _container(name: str, command: list[str], settings: Settings) -> Manifest:
    """`command` is given as args for the operator's containers, whose image may have an entry point of its own."""
    variables = dict(ONE_THREAD)
    if settings.tls_secret:
        variables |= certificates.environment(CERTIFICATES)
        variables["DASK_SCHEDULER_ADDRESS"] = settings.scheduler  # the operator's own would be tcp://
    cores = 1 if name == "scheduler" else settings.cores
    resources = {"cpu": str(cores), "memory": settings.memory}
    mounts = [{"name": "shared", "mountPath": settings.mount}]
    if settings.tls_secret:
        mounts.append({"name": "certificates", "mountPath": CERTIFICATES, "readOnly": True})
    return {
        "name": name,
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "args": command,
        "env": [{"name": variable, "value": value} for variable, value in variables.items()],
        "resources": {"requests": dict(resources), "limits": dict(resources)},
        "volumeMounts": mounts,
    }


def _pod(containers: list[Manifest], settings: Settings, restart: str) -> Manifest:
    volumes: list[Manifest] = [{"name": "shared", "persistentVolumeClaim": {"claimName": settings.claim}}]
    if settings.tls_secret:
        volumes.append({"name": "certificates", "secret": {"secretName": settings.tls_secret, "defaultMode": 0o444}})
    return {"restartPolicy": restart, "containers": containers, "volumes": volumes}
