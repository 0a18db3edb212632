"""URLs of object storage: takes what names a store, gives scheme, bucket and key, or says in a line why it can't.

What only looks like such a URL is refused: as a path of this machine it would make a folder of that name, and a result
would be where nobody looks for it. No message repeats user info: a password would go into logs.
"""

import re

from scalemani.errors import ScalemaniError

__all__ = ["URL", "refuse_near_url", "scheme_bucket_key", "shown"]

SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "az", "azure": "az", "memory": "memory"}
URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
NEAR = re.compile(rf"\s*({'|'.join(sorted(SCHEMES, reverse=True))})\s*:|\s+[A-Za-z][A-Za-z0-9+.-]+:/", re.IGNORECASE)


def shown(url: str) -> str:
    """A URL in a message, quoted; without what stands before an "@".

    >>> shown("s3://me:secret@shelf/x"), shown("s3://shelf/x")
    ("'s3://...@shelf/x'", "'s3://shelf/x'")
    """
    return repr(re.sub(r":.*@", "://...@", url, flags=re.DOTALL))


def scheme_bucket_key(url: str) -> tuple[str, str, str]:
    """The parts of a URL such as ``s3://bucket/runs/a``; ``memory://`` has no buckets.

    Raises ScalemaniError: If it is none that is known, or has a user, a password or a port.

    >>> scheme_bucket_key("s3a://shelf//runs/a"), scheme_bucket_key("memory://a")
    (('s3', 'shelf', 'runs/a'), ('memory', '', 'a'))
    """
    found = URL.fullmatch(url)
    scheme = SCHEMES.get(found[1].lower()) if found else None
    if found is None or scheme is None:
        known = "s3://, gs://, az://, memory:// or a local path"
        raise ScalemaniError(f"{shown(url)} is of no kind that is known: {known}")
    parts = [part for part in found[2].split("/") if part]
    example = "memory://name" if scheme == "memory" else f"{scheme}://bucket/name"
    if parts and ("@" in parts[0] or (scheme != "memory" and ":" in parts[0])):
        raise ScalemaniError(
            f"{shown(url)} has a user, a password or a port, which no store's URL has: give {example}, and credentials "
            "and the server by the environment"
        )
    bucket = "" if scheme == "memory" else parts.pop(0) if parts else None
    if bucket is None or not parts or {".", ".."} & set(parts) or not "".join(parts).isprintable():
        raise ScalemaniError(f"{shown(url)}: a bucket and a name in it are needed, such as {example}")
    return scheme, bucket, "/".join(parts)


def refuse_near_url(said: str) -> None:
    """Refuse what is no URL and was surely meant to be one; drive letters and other names with colons are paths.

    >>> refuse_near_url("C:/runs"), refuse_near_url("a:b"), refuse_near_url("s3/b")
    (None, None, None)
    """
    found = NEAR.match(said)
    if found:
        scheme = SCHEMES.get((found[1] or "").lower(), "s3")
        example = "memory://name" if scheme == "memory" else f"{scheme}://bucket/name"
        raise ScalemaniError(
            f"{shown(said)} is no URL, and too like one for a path of this machine: give {example}, or such a path in "
            "full, from its root"
        )
