"""TLS between Dask's parties: takes a directory of PEM files, gives Dask's settings for all roles.

A directory has ``ca.pem``, the authority that signed everybody's certificate, and ``cert.pem`` with ``key.pem``, which
scheduler, workers and client all use. Who has no certificate of that authority is refused by each of them.
"""

import shutil
import subprocess
from pathlib import Path

from distributed import Security

from scalemani.errors import ScalemaniError

FILES = ("ca.pem", "cert.pem", "key.pem")


def pem_files(folder: Path) -> list[str]:
    """Absolute paths of authority, certificate and key.

    Raises
    ------
    ScalemaniError
        Naming a file that is missing.
    """
    for name in FILES:
        if not (folder / name).is_file():
            raise ScalemaniError(f"{folder} has no {name}; workflows/cluster.md says how to make {', '.join(FILES)}")
    return [str((folder / name).absolute()) for name in FILES]


def security(folder: Path | None) -> Security | None:
    """What Dask's client and scheduler take; None without a directory."""
    if folder is None:
        return None
    authority, certificate, key = pem_files(folder)
    roles = ("client", "scheduler", "worker")
    pairs = {f"tls_{role}_cert": certificate for role in roles} | {f"tls_{role}_key": key for role in roles}
    return Security(require_encryption=True, tls_ca_file=authority, **pairs)


def flags(folder: Path | None) -> list[str]:
    """What ``dask scheduler`` and ``dask worker`` take on the command line."""
    if folder is None:
        return []
    authority, certificate, key = pem_files(folder)
    return ["--protocol", "tls", "--tls-ca-file", authority, "--tls-cert", certificate, "--tls-key", key]


def environment(folder: str) -> dict[str, str]:
    """The same as variables, for processes that see the directory under `folder`."""
    found = {"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}
    found["DASK_DISTRIBUTED__COMM__TLS__CA_FILE"] = f"{folder}/{FILES[0]}"
    for role in ("CLIENT", "SCHEDULER", "WORKER"):
        found[f"DASK_DISTRIBUTED__COMM__TLS__{role}__CERT"] = f"{folder}/{FILES[1]}"
        found[f"DASK_DISTRIBUTED__COMM__TLS__{role}__KEY"] = f"{folder}/{FILES[2]}"
    return found


def openssl_commands(folder: Path, days: int = 30) -> list[list[str]]:
    """Commands that make such a directory, with an authority of its own whose key can be thrown away afterwards."""
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    authority, key = str(folder / FILES[0]), str(folder / "ca-key.pem")
    request = str(folder / "request.pem")
    return [
        ["openssl", "req", "-x509", *curve, "-subj", "/CN=dask-ca", "-keyout", key, "-out", authority]
        + ["-days", str(days)],
        ["openssl", "req", *curve, "-subj", "/CN=dask", "-keyout", str(folder / FILES[2]), "-out", request],
        ["openssl", "x509", "-req", "-in", request, "-CA", authority, "-CAkey", key, "-set_serial", "1"]
        + ["-days", str(days), "-out", str(folder / FILES[1])],
    ]  # fmt: skip


def make_certificates(folder: Path) -> bool:
    """Run those commands; False where there is no openssl."""
    if shutil.which("openssl") is None:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    for command in openssl_commands(folder, days=1):
        subprocess.run(command, check=True, capture_output=True)
    return True
