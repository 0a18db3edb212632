"""Paths in object storage, with what a store asks of a place; :mod:`scalemani.storage.files` lists that.

There are no folders: what has no object below it is not there. A put is whole or not at all, and seen at once by all;
nothing is renamed, copies are made by the server.

What is to take the place of something else is made whole beside it, in ``.<name>.scalemani/<hex>``. Then a journal is
put, ``.<name>.scalemani/replacing.json``, which names it, and the server copies it. From the journal on the old one is
given up, and whoever opens the place or works there next finishes the copy (:meth:`ObjectPath.recover`). What a killed
process left there without a journal goes: the old one was never touched. What is made in its place, metadata last, says
so in the same folder first (`making.json`), and what a kill leaves of it is removed in the same way.
"""

import fnmatch
import json
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import total_ordering
from pathlib import Path
from typing import Any

from scalemani.storage.buckets import Bucket, bucket_of, scheme_bucket_key

PART = 4 << 20  # bytes of an object that are held beside the memory they are read into
AT_ONCE = 1000  # keys of a listing or of a removal
ENDLESS = 1 << 60  # bytes that are said to be free where nobody counts
JOURNAL, MAKING = "replacing.json", "making.json"
HEADS = ("document.json", "zarr.json")  # of a run or an array: removed first, copied last, in this order
MOST_JOURNAL_BYTES = 4096


@total_ordering
class ObjectPath:
    """A key in a bucket, with those of pathlib's methods, and of FilePath's, that stores use.

    It is no ``os.PathLike``: what would take it for a path of this machine fails at once.

    key: Names with "/" between them; the bucket itself where it is empty.
    """

    __slots__ = ("_is_object", "bucket", "key")
    REMOTE = True  # whether each look at it is a request to a server
    INTERRUPTED = "the run that is to take its place is {}: a fit finishes that"

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

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def parent(self) -> "ObjectPath":
        return ObjectPath(self.bucket, self.key.rpartition("/")[0])

    def with_name(self, name: str) -> "ObjectPath":
        return self.parent / name

    def absolute(self) -> "ObjectPath":
        return self  # there are no links, and no folder that a process is in

    normal = real = shared_name = absolute

    def above(self) -> list["ObjectPath"]:
        """The folders that it is in, nearest first, but for the bucket."""
        names = self.key.split("/")[:-1]
        return [ObjectPath(self.bucket, "/".join(names[:count])) for count in range(len(names), 0, -1)]

    def nearest_folder(self) -> Path:
        """A folder of this machine."""
        return Path(tempfile.gettempdir())

    def workshop(self) -> "ObjectPath":
        """Where what comes to this place is made."""
        return self.with_name(f".{self.name}.scalemani")

    def scratch_name(self) -> "ObjectPath":
        """A name beside it that nothing has: what is made there gets this name when it is whole."""
        return self.workshop() / uuid.uuid4().hex

    def start_name(self) -> "ObjectPath":
        """Where something starts that two processes may begin at once: here, since the first put decides."""
        return self

    def relative_to(self, other: "ObjectPath") -> str:
        """The names below another."""
        return self.key.removeprefix(f"{other.key}/")

    # ---- what is there ---------------------------------------------------------------------------

    def size(self) -> int:
        return int(self.bucket.ask("head", self.key)["size"])

    def is_file(self) -> bool:
        if self._is_object is None:
            try:
                self.size()
            except FileNotFoundError:
                return False
            return True
        return self._is_object

    def is_dir(self) -> bool:
        return not self._is_object and next(self._below(2), None) is not None

    def exists(self) -> bool:
        return self.is_file() or self.is_dir()

    is_there = exists

    def is_begun(self) -> bool:
        """Whether it is an array whose metadata were not put yet, or are removed already."""
        return self.is_dir() and self.names() == {"c"}

    def is_symlink(self) -> bool:
        return False

    def iterdir(self) -> Iterator["ObjectPath"]:
        """The entries right below; none where there are none."""
        found = self.bucket.ask("list_with_delimiter", self.key or None)
        for key in found["common_prefixes"]:
            yield ObjectPath(self.bucket, key, is_object=False)
        for entry in found["objects"]:
            yield ObjectPath(self.bucket, entry["path"], is_object=True)

    def names(self) -> set[str]:
        return {entry.name for entry in self.iterdir()}

    def identity(self) -> bytes:
        return b"copied"  # objects are what their name says

    def strange_entries(self, levels: int) -> Iterator[tuple[str, str]]:
        return iter(())  # there are no links and no devices

    def glob(self, pattern: str) -> Iterator["ObjectPath"]:
        """Entries right below whose names match."""
        return (entry for entry in self.iterdir() if fnmatch.fnmatchcase(entry.name, pattern))

    def rglob(self, pattern: str = "*") -> Iterator["ObjectPath"]:
        """All objects below, at any depth, whose names match."""
        for entry in self._below(AT_ONCE):
            found = ObjectPath(self.bucket, entry["path"], is_object=True)
            if fnmatch.fnmatchcase(found.name, pattern):
                yield found

    def bytes_below(self) -> int:
        return sum(int(entry["size"]) for entry in self._below(AT_ONCE))

    def _below(self, at_once: int) -> Iterator[dict[str, Any]]:
        listed = iter(self.bucket.ask("list", self.key or None, chunk_size=at_once))
        while (part := self._next(listed)) is not None:
            yield from part

    def _next(self, listed: Iterator[Any]) -> Any:
        with self.bucket.answering():
            return next(listed, None)

    # ---- reading ---------------------------------------------------------------------------------

    def read_bytes(self) -> bytes:
        return self.read(1 << 62)

    def read(self, most: int) -> bytes:
        """The whole object; ValueError, and nothing is read, where it has more bytes."""
        found = self.bucket.ask("get", self.key)
        if found.meta["size"] > most:
            raise ValueError(f"it has {found.meta['size']:,} bytes, where at most {most:,} are expected")
        with self.bucket.answering():
            return bytes(found.bytes())

    def read_into(self, memory: Any) -> int:
        """Read the object into memory; how many bytes those are. ValueError where it has more than there is room."""
        room, done, found = memoryview(memory).cast("B"), 0, self.bucket.ask("get", self.key)
        if found.meta["size"] > room.nbytes:
            raise ValueError(f"more than {room.nbytes} bytes")
        parts = iter(found.stream(min_chunk_size=PART))
        while (part := self._next(parts)) is not None:
            room[done : done + len(part)] = memoryview(part)
            done += len(part)
        return done

    # ---- writing ---------------------------------------------------------------------------------

    def put(self, content: Any, mode: str = "overwrite") -> None:
        """Put the object whole, in place of one that is there."""
        said: Any = memoryview(content).cast("B") if memoryview(content).nbytes else b""
        if self.bucket.scheme == "memory":  # it keeps what it is given, and buffers are filled again
            said = bytes(said)
        self.bucket.ask("put", self.key, said, mode=mode, use_multipart=False)

    def put_new(self, content: Any) -> bool:
        """Put the object whole unless one is there; whether none was, as far as the answer says."""
        try:
            self.put(content, "create")
        except FileExistsError:
            return False
        return True

    def write(self, *parts: Any) -> None:
        """Put an object of what is being :meth:`built`."""
        self.put(b"".join(parts))

    def write_in_place(self, content: bytes) -> None:
        """Nothing: this is for full disks."""

    def mkdir(self, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: folders are made by what is in them."""

    make_folder = mkdir

    def make_folders(self) -> list[Path]:
        return []  # none had to be made

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object if there is one: servers don't say, and where an answer was lost it is asked for twice."""
        with suppress(FileNotFoundError):
            self.bucket.ask("delete", self.key)

    def remove(self) -> None:
        """Remove the object and all below, a run's documents first: what is half gone is no array and no run."""
        keys = [entry["path"] for entry in self._below(AT_ONCE)]
        own = [f"{self.key}/{name}" for name in HEADS]
        keys.sort(key=lambda key: (key not in own, not key.endswith("/zarr.json"), key))
        count, keys = len(set(own) & set(keys)), [*keys, self.key]
        for start, stop in ((0, count), *((at, at + AT_ONCE) for at in range(count, len(keys), AT_ONCE))):
            try:
                if stop:
                    self.bucket.ask("delete", keys[start:stop])
            except FileNotFoundError:
                continue  # another process removed it, or there was none

    remove_at_once = remove

    def remove_scratch(self, *below: str) -> None:
        """Nothing: a put that is killed leaves nothing."""

    # ---- one thing in the place of another -------------------------------------------------------

    @contextmanager
    def built(self, needed: int, *, replace: bool = False) -> "Iterator[ObjectPath]":
        """This place, to be filled, metadata last; empty again if the block ends badly, or is killed.

        replace: What is there goes first, and without metadata what comes is none; else nothing may be there.
        """
        mark = self.workshop() / MAKING
        self.remove() if replace else mark.put(b"{}")
        try:
            yield self
        except BaseException:
            self.remove()
            raise
        finally:
            if not replace:
                mark.unlink()

    def take(self, new: Any) -> None:
        """Have the server copy what is whole to this place, where nothing is, its own metadata last; `new` stays."""
        if self.exists():
            raise FileExistsError(17, "something is there", str(self))
        self._copy(new)

    def take_back(self, new: Any) -> bool:
        """Whether a `take` of `new` that was stopped had done a part, which is removed, and nothing else."""
        if (self / HEADS[-1]).is_file():
            return False
        for entry in new.rglob():
            (self / entry.relative_to(new)).unlink()
        return True

    def replace_with(self, new: Any) -> None:
        """Bring what is whole to this place, whatever is there; where that fails, the next to open it goes on."""
        (self.workshop() / JOURNAL).put(json.dumps({"comes": new.name}).encode())
        self._bring(new)

    def interrupted(self) -> "ObjectPath | None":
        """What is on its way to this place, if its process was killed, or is at it."""
        try:
            said = json.loads((self.workshop() / JOURNAL).read(MOST_JOURNAL_BYTES))
        except (FileNotFoundError, ValueError, RecursionError):
            return None
        name = said.get("comes") if isinstance(said, dict) else None
        return self.workshop() / name if isinstance(name, str) and name.isalnum() else None

    def recover(self) -> None:
        """Finish what was begun, and remove what a killed process was making; for the sole writer here."""
        if next(self.workshop().iterdir(), None) is None:
            return
        new = self.interrupted()
        if new is not None:
            self._bring(new)
        if (self.workshop() / MAKING).is_file() and not (self / HEADS[-1]).is_file():
            self.remove()
        self.workshop().remove()

    def _bring(self, new: "ObjectPath") -> None:
        """Copy and remove, as often as need be: what is copied is removed only once the whole is in its place."""
        if any((new / head).is_file() for head in HEADS):
            self.remove()
            self._copy(new)
        (self.workshop() / JOURNAL).unlink()
        new.remove()

    def _copy(self, new: "ObjectPath") -> None:
        """Have the server copy everything below, its own metadata last."""
        found = {entry.relative_to(new) for entry in new.rglob()}
        for name in (*sorted(found - {*HEADS}), *(head for head in HEADS if head in found)):
            self.bucket.ask("copy", (new / name).key, (self / name).key)

    # ---- before any work -------------------------------------------------------------------------

    def free_bytes(self) -> int:
        return ENDLESS

    def check_writable(self) -> None:
        """Put an object beside this one and remove it: the bucket is there, and may be written."""
        probe = self.with_name(f".scalemani-{uuid.uuid4().hex}")
        probe.put(b"")
        probe.unlink()

    @property
    def unseen_remedy(self) -> str:
        """What to do where other processes can't see it."""
        if self.bucket.scheme == "memory":
            return "memory:// is of one process; give a path or a bucket that all of them reach"
        return f"they need scalemani[cloud]; {self.bucket.remedy}, there"

    @property
    def in_bucket(self) -> tuple[Any, str]:
        """The bucket's own store and the key in it, for packages that read it in their own way."""
        return self.bucket.store, self.key
