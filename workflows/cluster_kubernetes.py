"""A fit on Kubernetes, by the Dask operator: writes the manifests, checks them, says which commands to give.

    python workflows/cluster_kubernetes.py /data/points.npy /data/run.zarr --image registry.example.org/scalemani:1 \\
        --claim shared-data --mount /data --workers 20 --cores 8 --memory 32Gi --out manifests -- --components 3
    python workflows/cluster_kubernetes.py --small --out tmp   # manifests written, read again and inspected

Needs a cluster with the operator (https://kubernetes.dask.org) and nothing but this repository here: the manifests are
plain YAML for `kubectl apply`. cluster.yaml holds a DaskCluster (scheduler and workers) and a NetworkPolicy that lets
only the cluster's own pods reach them; fit.yaml a Job that runs `scalemani fit`, and again where it was cut off: the
same command goes on from the store. POINTS and STORE are paths as the pods see them, on one claim that many nodes may
write (ReadWriteMany), mounted at the same place in all pods. Words after -- are those of `scalemani fit`. See
workflows/cluster.md.
"""

import argparse
import re
import sys
from pathlib import PurePosixPath

import yaml
from clusters import fitting, kubernetes, manifest_rules
from clusters.fitting import say

from scalemani.errors import ScalemaniError
from scalemani.terminal.commands import cli


class InFull(yaml.SafeDumper):
    """Says again what is there twice, instead of pointing to it."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def main() -> int:
    own, words = fitting.halves(sys.argv[1:])
    options = read_options(own)
    if options.small:
        return small(options)
    check(options, words)
    print("\n".join(write(options, words)))
    return 0


def read_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    fitting.add_common(parser, "cluster-kubernetes")
    parser.add_argument("--image", help="container image with Python, scalemani and what it needs")
    parser.add_argument("--claim", help="PersistentVolumeClaim with the points, and room for the store")
    parser.add_argument("--mount", default="/data", help="where all pods mount it (default: %(default)s)")
    parser.add_argument("--name", default="scalemani", help="of the cluster (default: %(default)s)")
    parser.add_argument("--namespace", default="default", help="of everything (default: %(default)s)")
    parser.add_argument("--operator-namespace", default="dask-operator", help="the operator's (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=4, help="pods of workers (default: %(default)s)")
    parser.add_argument("--cores", type=int, default=4, help="of a pod, each a thread (default: %(default)s)")
    parser.add_argument("--memory", default="16Gi", help="limit of a pod (default: %(default)s)")
    parser.add_argument("--tls-secret", help="Secret with ca.pem, cert.pem and key.pem: TLS between all pods")
    parser.add_argument("--retries", type=int, default=20, help="pods that may fail before the Job does")
    parser.add_argument("--small", action="store_true", help="a smoke test on this machine")
    return parser.parse_args(arguments)


def check(options: argparse.Namespace, words: list[str]) -> None:
    """What can't work, before a file is written."""
    for name in ("points", "store", "image", "claim"):
        if getattr(options, name) is None:
            label = name.upper() if name in ("points", "store") else f"--{name}"
            raise ScalemaniError(f"give {label}; POINTS and STORE are paths as the pods see them")
    mount = PurePosixPath(options.mount)
    for path in (options.points.partition(":")[0], options.store):
        if not mount.is_absolute() or mount not in PurePosixPath(path).parents or ".." in PurePosixPath(path).parts:
            raise ScalemaniError(
                f"{path} is not below --mount {mount}, which is all that pods share; give a path there"
            )
    for name in ("name", "namespace", "operator_namespace", "claim", "tls_secret"):
        value = getattr(options, name)
        if value is not None and (not re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", value) or len(value) > 40):
            label = name.replace("_", "-")
            raise ScalemaniError(f"--{label} {value!r} is no name: up to 40 small letters, digits and inner hyphens")
    for name in ("workers", "cores"):
        if getattr(options, name) < 1:
            raise ScalemaniError(f"--{name} {getattr(options, name)} is less than 1; give 1 or more")
    kubernetes.worker_memory(options.memory)
    fitting.check_goes_on(words)
    context = cli.commands["fit"].make_context("fit", [options.points, options.store, *words])
    if context.params["scheduler"] is not None:
        raise ScalemaniError("--scheduler is not for a workflow that makes its own cluster; leave it out")


def write(options: argparse.Namespace, words: list[str]) -> list[str]:
    """The two files; returns the commands to give next, with why."""
    settings = kubernetes.Settings(
        **{name: getattr(options, name) for name in kubernetes.Settings.__dataclass_fields__ if hasattr(options, name)}
    )
    files = {
        "cluster.yaml": [kubernetes.dask_cluster(settings), kubernetes.network_policy(settings)],
        "fit.yaml": [kubernetes.fit_job(settings, [options.points, options.store, *words])],
    }
    manifest_rules.inspect([manifest for each in files.values() for manifest in each], settings)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, manifests in files.items():
        text = yaml.dump_all(manifests, Dumper=InFull, sort_keys=False, width=120)
        (options.out / name).write_text(text, encoding="utf-8")
        say(f"{options.out / name}: {', '.join(manifest['kind'] for manifest in manifests)}")
    out, space, job = options.out, f"-n {options.namespace}", f"job/{options.name}-fit"
    secret = [
        f"kubectl create secret generic {options.tls_secret} {space} --from-file=ca.pem --from-file=cert.pem "
        "--from-file=key.pem   # once; workflows/cluster.md makes them"
    ]
    return [
        *(secret if options.tls_secret else []),
        f"kubectl apply --dry-run=server -f {out}/cluster.yaml -f {out}/fit.yaml   # the cluster's own check",
        f"kubectl apply -f {out}/cluster.yaml -f {out}/fit.yaml",
        f"kubectl logs {space} -f {job}",
        f"kubectl wait {space} --for=condition=complete --timeout=-1s {job}",
        f"kubectl delete {space} {job} && kubectl apply -f {out}/fit.yaml   # the same fit again: it goes on",
        f"kubectl delete -f {out}/cluster.yaml -f {out}/fit.yaml   # at the end; points and store stay on the claim",
    ]


def small(options: argparse.Namespace) -> int:
    """Manifests with and without TLS, read back from their files, inspected, and their commands parsed by Dask's."""
    out = options.out.absolute()
    common = "/data/points.npy /data/run.zarr --image example.org/scalemani:1 --claim shared --memory 8Gi --cores 2"
    for name, extra in (("plain", []), ("tls", ["--tls-secret", "dask-certificates"])):
        each = read_options([*common.split(), *extra, "--out", str(out / name)])
        words = list(fitting.SMALL_WORDS)
        check(each, words)
        commands = write(each, words)
        read = [
            manifest
            for file in ("cluster.yaml", "fit.yaml")
            for manifest in yaml.safe_load_all((each.out / file).read_text(encoding="utf-8"))
        ]
        settings = kubernetes.Settings(
            **{field: getattr(each, field) for field in kubernetes.Settings.__dataclass_fields__}
        )
        manifest_rules.inspect(read, settings)
        manifest_rules.parse_commands(read)
    print((out / "tls" / "cluster.yaml").read_text(encoding="utf-8"))
    print("\n".join(commands))
    return 0


if __name__ == "__main__":
    fitting.ended_by(main)
