"""One writer at a time: takes a path, holds it for the length of a ``with`` block, and says who else does.

Locks of files fail on network file systems and object stores have none, so a writer puts an object beside what it
writes, `.<name>.writer.json`, and puts it again with a higher beat every few seconds. One that comes later takes the
path over where the first is dead: at once if it was a process of the same machine that is surely gone, else when the
object did not change for `DEAD_AFTER` beats. No clock is compared with another's. A writer that was held up for so long
that it was taken over notices (:meth:`Writer.check`), and must stop. What a killed writer left beside the path is
brought into order on entering (`recover`, of either kind of place: :mod:`scalemani.storage.files`).
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil

from scalemani.errors import (
    IN_A_SEARCH,
    DamagedStoreError,
    DiskFullError,
    ScalemaniError,
    StoreInUseError,
    StoreUnreachableError,
)
from scalemani.storage.files import AnyPath, Location, create_once, open_location
from scalemani.storage.folders import short_name
from scalemani.storage.json import parsed, read_plain
from scalemani.storage.records import MOST_WRITER_BYTES, WriterRecord, canonical

BEAT = 5.0  # seconds; a compilation may hold every thread of a process for one or two
DEAD_AFTER = 6  # beats that were missed
SETTLE = 0.2  # seconds after which one of two that took over together sees that it was the first, and lost
LENGTH = 512  # bytes of the object: a beat on a full disk is written in place

_lock = threading.Lock()
_at_work: dict[str, str] = {}  # of this process: paths, and the ids of their writers


class Writer:
    """The right to write at a path, for the length of a ``with`` block.

    path: A store, or an output; need not be there yet.
    what: What is at work, for messages.
    beats: False where no other process can know of the path: nothing is put there.
    Raises StoreInUseError: On entering, if another writer lives.
    Raises ScalemaniError: On entering, if nothing can be put beside the path.
    """

    def __init__(self, path: AnyPath, what: str = "fit", *, beats: bool = True) -> None:
        target = open_location(path).real()
        self._shown, self._what, self._path, self._target = str(path), what, target, str(target)
        self._object: Location = target.with_name(f".{short_name(target.name)}.writer.json")
        self._id, self._beat = uuid.uuid4().hex, 0
        self._made: Sequence[Path] = ()  # folders, where the path's own are not there yet
        self._ended, self._lost, self._public = threading.Event(), False, beats
        self._thread = threading.Thread(target=self._beats, name="scalemani-writer", daemon=True)

    def __enter__(self) -> "Writer":
        if not self._public:
            return self
        with _lock:
            if self._target in _at_work:
                raise self._in_use("this process")
            _at_work[self._target] = self._id
        try:
            self._made = self._object.parent.make_folders()
            self._claim()
            self._recover()
        except OSError as error:
            self._forget()
            raise ScalemaniError(
                f"a {self._what} on {self._shown!r} needs to put a file into {str(self._object.parent)!r} while it "
                f"works: {error.strerror or error}; get the right to write there, or work on a copy elsewhere"
            ) from error
        except BaseException:
            self._forget()
            raise
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._public:
            return
        self._ended.set()
        self._thread.join()
        try:
            found = self._found()
            if found is not None and found.writer == self._id:
                self._object.unlink(missing_ok=True)
        except (OSError, DamagedStoreError, StoreUnreachableError):
            pass  # it is only ours to remove while we can read it
        finally:
            self._forget()

    def check(self) -> None:
        """Refuse to go on after another writer has taken over."""
        if self._public and not self._lost:
            try:
                found = self._found()
            except (DamagedStoreError, StoreUnreachableError):
                return
            self._lost = found is None or found.writer != self._id  # none: the other one is done already
        if self._lost:
            raise self._in_use("another process, which took over while this one stood still")

    # ---- claiming --------------------------------------------------------------------------------

    def _claim(self) -> None:
        while not create_once(self._object, self._text()):
            before = self._content()
            if before is None:
                continue
            self._refuse_living(before)
            if self._content() != before:
                continue  # another came first
            self._object.put(self._text())
            time.sleep(SETTLE)
            if self._content() != self._text():
                continue
            return

    def _recover(self) -> None:
        try:
            self._path.recover()
        except OSError:
            return  # nothing was removed, and who opens the run says where the old one is
        except BaseException:
            self._object.unlink(missing_ok=True)
            raise

    def _refuse_living(self, before: bytes) -> None:
        try:
            found = self._found()
        except DamagedStoreError:
            found = None
        if found is not None and found.boot == _machine():
            runs = found.pid != os.getpid() and _runs(found.pid, found.started)
            if runs is False:
                return
            if runs:
                raise self._in_use(f"process {found.pid} on this machine")
        seconds = min(found.seconds, 60.0) if found else BEAT
        waited = 0.0
        while waited < DEAD_AFTER * seconds:
            time.sleep(seconds / 2)
            waited += seconds / 2
            if self._content() != before:
                raise self._in_use(f"process {found.pid} on {found.host}" if found else "another process")

    def _in_use(self, who: str) -> StoreInUseError:
        more = IN_A_SEARCH if self._what == "fit" else ""
        return StoreInUseError(
            f"another {self._what} is at work on {self._shown!r}: {who}; wait for it, or give another path{more}"
        )

    def _forget(self) -> None:
        with _lock:
            if _at_work.get(self._target) == self._id:
                del _at_work[self._target]
        for folder in self._made:
            try:
                folder.rmdir()
            except OSError:
                return  # what was written is in it

    # ---- the object ------------------------------------------------------------------------------

    def _text(self) -> bytes:
        said = WriterRecord(
            writer=self._id,
            host=socket.gethostname(),
            boot=_machine(),
            pid=os.getpid(),
            started=psutil.Process().create_time(),
            beat=self._beat,
            seconds=BEAT,
        )
        return canonical(said).ljust(LENGTH)

    def _content(self) -> bytes | None:
        """What the object holds, nothing where it can't be read; None where there is none."""
        try:
            return read_plain(self._object, MOST_WRITER_BYTES)
        except DamagedStoreError as error:
            return None if isinstance(error.__cause__, FileNotFoundError) else b""

    def _found(self) -> WriterRecord | None:
        """Who is said to write; None where nobody is."""
        content = self._content()
        if content is None:
            return None
        found: WriterRecord = parsed(content, repr(str(self._object)), WriterRecord)
        return found

    def _beats(self) -> None:
        while not self._ended.wait(BEAT):
            try:
                self.check()
                self._beat += 1
                self._object.put(self._text())
            except StoreInUseError:
                return  # the next check of the work itself says so
            except DiskFullError:
                with suppress(OSError, ValueError):
                    self._object.write_in_place(self._text())
            except (OSError, StoreUnreachableError):
                continue  # a file system or a network that is away for a moment


def who_writes(path: AnyPath) -> str | None:
    """Who is at work at a path, for messages, as far as it can be told at once; None where nobody is or may be."""
    try:
        found = Writer(path)._found()
    except (DamagedStoreError, OSError):
        found = None
    if found is None:
        return None
    if found.boot != _machine():
        return f"process {found.pid} on {found.host}"
    return None if _runs(found.pid, found.started) is False else f"process {found.pid}"


@cache
def _machine() -> str:
    """A name of this machine since it was started, and of what a process number means there."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return f"{socket.gethostname()} {psutil.boot_time()}"


def _runs(pid: int, started: float) -> bool | None:
    """Whether a process is there and is the one that was meant; None where only its beats can tell.

    Another user's may be hidden (/proc with hidepid), which the system's own word that there is none is not subject to.
    A process that began at another time has a number that was given again, or the clock was set.
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # it is another user's
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return True if abs(process.create_time() - started) < 1 else None
    except psutil.Error:
        return None
