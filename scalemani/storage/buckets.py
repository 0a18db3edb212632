"""Paths in object storage: takes a URL, gives the part of pathlib's ways that a store needs, over
:mod:`scalemani.storage.buckets`.

There are no folders: what has no object below it is not there, and making one does nothing. A put is whole or not at
all, and seen at once by all; nothing is renamed, copies are made by the server.

URLs of object storage: takes what names a store, gives scheme, bucket and key, or says in a line why it can't.

What only looks like such a URL is refused: as a path of this machine it would make a folder of that name, and a result
would be where nobody looks for it. No message repeats user info: a password would go into logs.

Buckets of object storage: takes a name, gives obstore's functions on it, with errors of one line.

obstore and not fsspec: it has the conditional put that the ledger and the one writer stand on (``If-None-Match: *``),
takes buffers as they are, gives up Python's lock while it waits, retries by itself, and reads the credentials from the
environment that people have set already (``AWS_*``, ``GOOGLE_*``, ``AZURE_*``, or the machine's own role), so that none
pass through here. It is one wheel without dependencies for s3, gs, az and memory, where fsspec takes a package of its
own for each and promises no conditional put. ``memory://`` lives in one process, as long as that.
"""

import contextlib
import fnmatch
import os
import re
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache, total_ordering
from typing import TYPE_CHECKING, Any, NamedTuple

from scalemani.errors import ScalemaniError, StoreUnreachableError
from scalemani.storage.forks import BUCKETS, begin

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


if TYPE_CHECKING:
    from obstore.store import ObjectStore

SETTINGS = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_", "memory": ""}  # how the names of theirs begin
NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "specified bucket does not exist")
FIRST_SECONDS, FIRST_TRIES = 10, 2  # of the request that finds out whether a store is there at all
MOST_SECONDS = 300  # of any other, with its bytes; obstore tries ten times within three minutes
OF_CLIENTS = ("allow_http", "allow_invalid_certificates", "connect_timeout", "proxy_url", "timeout", "user_agent")


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
        begin = SETTINGS[self.scheme]
        for option in OF_CLIENTS:  # obstore takes them from the environment where it is given none
            if f"{begin}{option.upper()}" in os.environ:
                settings["client_options"][option] = os.environ[f"{begin}{option.upper()}"]
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
    found = tuple(sorted(item for item in os.environ.items() if item[0].startswith(begin))) if begin else ()
    return _bucket(scheme, name, found)


PART = 4 << 20  # bytes of an object that are held beside the memory they are read into
AT_ONCE = 1000  # keys of a listing or of a removal


class Status(NamedTuple):
    """Of an object: bytes, and when it was put, by the server's clock."""

    st_size: int
    st_mtime: float


@total_ordering
class ObjectPath:
    """A key in a bucket, with those of pathlib's methods that stores use.

    It is no ``os.PathLike``: what would take it for a path of this machine fails at once.

    key: Names with "/" between them; the bucket itself where it is empty.
    """

    __slots__ = ("_is_object", "bucket", "key")

    def __init__(self, bucket: Bucket, key: str, *, is_object: bool | None = None) -> None:
        self.bucket, self.key = bucket, key
        self._is_object = is_object  # as a listing said

    @classmethod
    def of(cls, url: str) -> "ObjectPath":
        """The path of a URL such as ``s3://bucket/runs/a``.

        Raises ScalemaniError: If it is none that is known (:mod:`scalemani.storage.buckets`).
        """
        scheme, bucket, key = scheme_bucket_key(url)
        return cls(bucket_of(scheme, bucket), key)

    # ---- names -----------------------------------------------------------------------------------

    def __str__(self) -> str:
        return f"{self.bucket.root}/{self.key}"

    def __repr__(self) -> str:
        return f"ObjectPath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and str(self) == str(other)

    def __lt__(self, other: "ObjectPath") -> bool:
        return str(self) < str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __truediv__(self, name: str) -> "ObjectPath":
        return ObjectPath(self.bucket, f"{self.key}/{name}" if self.key else name)

    def joinpath(self, *names: str) -> "ObjectPath":
        """Below this one."""
        return self / "/".join(names)

    @property
    def name(self) -> str:
        """The last of the names."""
        return self.key.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The end of the name from its last dot."""
        return os.path.splitext(self.name)[1]

    @property
    def parent(self) -> "ObjectPath":
        """What it is below."""
        return ObjectPath(self.bucket, self.key.rpartition("/")[0])

    def with_name(self, name: str) -> "ObjectPath":
        """Beside this one."""
        return self.parent / name

    def absolute(self) -> "ObjectPath":
        """Itself."""
        return self

    def relative_to(self, other: "ObjectPath") -> str:
        """The names below another."""
        return self.key.removeprefix(f"{other.key}/")

    # ---- what is there ---------------------------------------------------------------------------

    def stat(self) -> Status:
        """Of the object."""
        found = self.bucket.ask("head", self.key)
        put: datetime = found["last_modified"]
        return Status(found["size"], put.timestamp())

    def is_file(self) -> bool:
        """Whether there is an object."""
        if self._is_object is None:
            try:
                self.stat()
            except FileNotFoundError:
                return False
            return True
        return self._is_object

    def is_dir(self) -> bool:
        """Whether there are objects below."""
        return not self._is_object and next(self._below(2), None) is not None

    def exists(self) -> bool:
        """Whether there is an object, or any below."""
        return self.is_file() or self.is_dir()

    def is_symlink(self) -> bool:
        """There are none."""
        return False

    def iterdir(self) -> Iterator["ObjectPath"]:
        """The entries right below; none where there are none."""
        found = self.bucket.ask("list_with_delimiter", self.key or None)
        for key in found["common_prefixes"]:
            yield ObjectPath(self.bucket, key, is_object=False)
        for entry in found["objects"]:
            yield ObjectPath(self.bucket, entry["path"], is_object=True)

    def glob(self, pattern: str) -> Iterator["ObjectPath"]:
        """Entries below whose names match, part by part."""
        first, _, rest = pattern.partition("/")
        if not any(sign in first for sign in "*?["):
            found = [self / first] if rest or (self / first).exists() else []
        else:
            found = [entry for entry in self.iterdir() if fnmatch.fnmatchcase(entry.name, first)]
        for entry in found:
            yield from entry.glob(rest) if rest else [entry]

    def rglob(self, pattern: str = "*") -> Iterator["ObjectPath"]:
        """All objects below, at any depth, whose names match."""
        for entry in self._below(AT_ONCE):
            found = ObjectPath(self.bucket, entry["path"], is_object=True)
            if fnmatch.fnmatchcase(found.name, pattern):
                yield found

    def bytes_below(self) -> int:
        """Of all objects below together."""
        return sum(int(entry["size"]) for entry in self._below(AT_ONCE))

    def _below(self, at_once: int) -> Iterator[dict[str, Any]]:
        listed = iter(self.bucket.ask("list", self.key or None, chunk_size=at_once))
        while (part := self._next(listed)) is not None:
            yield from part

    def _next(self, listed: Iterator[Any]) -> Any:
        from obstore.exceptions import BaseError

        try:
            return next(listed, None)
        except (BaseError, FileNotFoundError) as error:
            raise self.bucket.unreachable(error) from error

    # ---- reading ---------------------------------------------------------------------------------

    def read_bytes(self) -> bytes:
        """The whole object."""
        return self.read_up_to(1 << 62)

    def read_text(self) -> str:
        """The whole object, of UTF-8."""
        return self.read_bytes().decode()

    def read_up_to(self, most: int) -> bytes:
        """The whole object; ValueError, and nothing is read, where it has more bytes."""
        found = self._got()
        if found.meta["size"] > most:
            raise ValueError(f"has {found.meta['size']:,} bytes, where at most {most:,} are expected")
        return self._whole(found)

    def read_into(self, buffer: Any) -> int:
        """Read the object into memory; how many bytes those are. ValueError where it has more than there is room."""
        room, done, found = memoryview(buffer).cast("B"), 0, self._got()
        if found.meta["size"] > room.nbytes:
            raise ValueError(f"more than {room.nbytes} bytes")
        parts = iter(found.stream(min_chunk_size=PART))
        while (part := self._next(parts)) is not None:
            room[done : done + len(part)] = memoryview(part)
            done += len(part)
        return done

    def _got(self) -> Any:
        return self.bucket.ask("get", self.key)

    def _whole(self, found: Any) -> bytes:
        from obstore.exceptions import BaseError

        try:
            return bytes(found.bytes())
        except BaseError as error:
            raise self.bucket.unreachable(error) from error

    # ---- writing ---------------------------------------------------------------------------------

    def write_bytes(self, content: Any, *, once: bool = False) -> None:
        """Put an object whole, in the place of one that is there.

        once: One that is there stays: FileExistsError.
        """
        said: Any = memoryview(content).cast("B") if memoryview(content).nbytes else b""
        if self.bucket.scheme == "memory":  # it keeps what it is given, and buffers are filled again
            said = bytes(said)
        mode = "create" if once else "overwrite"
        self.bucket.ask("put", self.key, said, mode=mode, use_multipart=False)

    def copy_to(self, other: "ObjectPath") -> None:
        """Have the server put what is here there."""
        self.bucket.ask("copy", self.key, other.key)

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object if there is one: servers don't say, and where an answer was lost it is asked for twice."""
        with contextlib.suppress(FileNotFoundError):
            self.bucket.ask("delete", self.key)

    def remove_all(self) -> None:
        """Remove the object and all below, a run's documents first: what is half gone is no array and no run."""
        keys = [entry["path"] for entry in self._below(AT_ONCE)]
        own = [f"{self.key}/{name}" for name in ("zarr.json", "document.json")]
        keys.sort(key=lambda key: (key not in own, not key.endswith("/zarr.json"), key))
        count, keys = len(set(own) & set(keys)), [*keys, self.key]
        for start, stop in ((0, count), *((at, at + AT_ONCE) for at in range(count, len(keys), AT_ONCE))):
            try:
                if stop:
                    self.bucket.ask("delete", keys[start:stop])
            except FileNotFoundError:
                continue  # another process removed it, or there was none

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: folders are made by what is in them."""

    # ---- before any work -------------------------------------------------------------------------

    def check_right(self) -> None:
        """Put an object beside this one and remove it: the bucket is there, and may be written."""
        probe = self.with_name(f".scalemani-{uuid.uuid4().hex}")
        probe.write_bytes(b"")
        probe.unlink()
