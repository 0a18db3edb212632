"""Buckets: takes a URL, gives obstore's functions on its bucket, with errors of one line.

A URL that is nearly one of object storage is refused: as a path of this machine it would make a folder of that name,
and a result would be where nobody looks for it. No message repeats user info: a password would go into logs.

obstore and not fsspec: it has the conditional put that the ledger and the one writer stand on (``If-None-Match: *``),
takes buffers as they are, gives up Python's lock while it waits, retries by itself, and reads the credentials from the
environment that people have set already. It is one wheel without dependencies for s3, gs, az and memory. ``memory://``
lives in one process, as long as that.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scalemani.errors import ScalemaniError, StoreUnreachableError
from scalemani.storage.forks import BUCKETS, begin

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs", "az": "az", "azure": "az", "memory": "memory"}
URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
NEAR = re.compile(rf"\s*({'|'.join(sorted(SCHEMES, reverse=True))})\s*:|\s+[A-Za-z][A-Za-z0-9+.-]+:/", re.IGNORECASE)
SETTINGS = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_", "memory": ""}  # how the names of theirs begin
NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "specified bucket does not exist")
FIRST_SECONDS, FIRST_TRIES = 10, 2  # of the request that finds out whether a store is there at all
MOST_SECONDS = 300  # of any other, with its bytes; obstore tries ten times within three minutes
OF_CLIENTS = ("allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "timeout", "user_agent")


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


class Bucket:
    """What holds objects: a bucket, a container or this process's memory.

    Raises ScalemaniError: If obstore is not installed, or settings are missing or wrong.
    """

    def __init__(self, scheme: str, name: str) -> None:
        self.root = f"{scheme}://{name}" if name else f"{scheme}:/"
        self.scheme, self.name = scheme, name
        try:
            import obstore
        except ImportError as error:
            raise ScalemaniError(
                f"a store at {scheme}:// needs obstore, which is not installed: pip install 'scalemani[cloud]'"
            ) from error
        self.module: Any = obstore
        self.store, self._first = self._opened(), self._opened(first=True)
        self._met = False

    def _opened(self, *, first: bool = False) -> "ObjectStore":
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        if self.scheme == "memory":
            return _memory()
        seconds = timedelta(seconds=FIRST_SECONDS)
        settings: dict[str, Any] = {"client_options": {"timeout": timedelta(seconds=MOST_SECONDS)}}
        if first:
            settings["client_options"] = {"timeout": seconds, "connect_timeout": seconds}
            settings["retry_config"] = {"max_retries": FIRST_TRIES, "retry_timeout": seconds}
        for option in OF_CLIENTS:  # obstore takes them from the environment where it is given none
            if (name := f"{SETTINGS[self.scheme]}{option.upper()}") in os.environ:
                settings["client_options"][option] = os.environ[name]
        try:
            found: ObjectStore = from_url(self.root, **settings)
            return found
        except (BaseError, ValueError) as error:
            raise ScalemaniError(f"{self.root} can't be used: {_one_line(error)}; {self.remedy}") from error

    @property
    def remedy(self) -> str:
        """What to look at where it can't be reached."""
        return f"look at the name and at the {SETTINGS[self.scheme]}* variables of the environment"

    def ask(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Call obstore's function of that name; until the bucket has once answered, without trying for long.

        Raises FileNotFoundError, FileExistsError: Of objects.
        Raises StoreUnreachableError: Of anything else that went wrong.
        """
        from obstore.exceptions import AlreadyExistsError, BaseError

        if self.scheme != "memory":
            begin(BUCKETS)  # a child would wait for ever for threads of its parent
        try:
            found = getattr(self.module, name)(self.store if self._met else self._first, *arguments, **named)
            self._met |= name != "list"  # which asks when it is iterated
            return found
        except FileNotFoundError as error:
            if any(said in str(error) for said in NO_BUCKET):
                raise self.unreachable(error) from error
            self._met = True
            raise FileNotFoundError(2, "there is no such object", f"{self.root}/{arguments[0]}") from error
        except AlreadyExistsError as error:
            raise FileExistsError(17, "the object is there", f"{self.root}/{arguments[0]}") from error
        except BaseError as error:
            raise self.unreachable(error) from error

    @contextmanager
    def answering(self) -> Iterator[None]:
        """For what is iterated or read after :meth:`ask`: what goes wrong is a StoreUnreachableError too."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            raise self.unreachable(error) from error

    def unreachable(self, error: BaseException) -> StoreUnreachableError:
        """The error of one line."""
        said = str(error)
        if any(name in said for name in NO_BUCKET):
            return StoreUnreachableError(f"{self.root} is not there: make it, or give another; {self.remedy}")
        refused = re.search(r"status code: (401|403)\b|InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied", said)
        if refused or type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError"):
            code = re.search(r"<Code>(\w+)</Code>", said)
            why = f"access is refused ({code[1] if code else 'no credentials that it takes'})"
        else:
            why = _one_line(error)
        return StoreUnreachableError(f"{self.root} can't be used: {why}; {self.remedy}")


def _one_line(error: BaseException) -> str:
    """The first line of what obstore says, without how it came to it."""
    line = next(iter(str(error).splitlines()), "") or type(error).__name__
    for _ in range(3):  # what encloses the cause
        line = re.sub(r"^(Generic \w+ error|Error performing \w+ request|Object at location .*? not found): ", "", line)
    line = re.sub(r" - Server returned non-2xx", ":", line)
    return line if len(line) <= 200 else line[:197] + "..."


@lru_cache(maxsize=1)
def _memory() -> "ObjectStore":
    from obstore.store import MemoryStore

    return MemoryStore()


@lru_cache(maxsize=16)
def _bucket(scheme: str, name: str, settings: tuple[tuple[str, str], ...]) -> Bucket:
    """Opened once for the settings that the environment has."""
    return Bucket(scheme, name)


def bucket_of(scheme: str, name: str) -> Bucket:
    """A bucket as the environment says now."""
    begin = SETTINGS[scheme]
    found = tuple(sorted(item for item in os.environ.items() if begin and item[0].startswith(begin)))
    return _bucket(scheme, name, found)
