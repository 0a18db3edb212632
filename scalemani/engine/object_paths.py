"""Paths in object storage: takes a URL, gives the part of pathlib's ways that a store needs, over :mod:`.buckets`.

There are no folders: what has no object below it is not there, and making one does nothing. A put is whole or not at
all, and seen at once by all; nothing is renamed, copies are made by the server.
"""

import contextlib
import fnmatch
import os
import uuid
from collections.abc import Iterator
from datetime import datetime
from functools import total_ordering
from typing import Any, NamedTuple

from scalemani.engine.buckets import Bucket, bucket_of
from scalemani.engine.urls import scheme_bucket_key

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

        Raises ScalemaniError: If it is none that is known (:mod:`.urls`).
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
