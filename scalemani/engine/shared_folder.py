"""What every worker must see: takes a store's path, gives which workers read a file there as the client does.

A writer's client puts a file beside the store for the moment, so that a folder of the same name on another machine
is none; who only reads holds the store's own document against what the client reads.
"""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scalemani.engine.cluster_calls import Calls
from scalemani.engine.document import ROOT
from scalemani.engine.object_paths import ObjectPath
from scalemani.engine.objects import PARTIAL, beside, discard, put, room_for
from scalemani.engine.places import Place, place
from scalemani.engine.worker_side import read_back, read_text
from scalemani.errors import ScalemaniError

PROBE = ".scalemani-"
LEFT_SECONDS = 600  # a probe that much older than another is of a client that was killed: they live for seconds


class SharedFolder:
    """A store that workers see, or get no tasks.

    calls: Whose `blind` workers are those that don't.
    writing: Whether the caller writes there; else there must be a store, and nothing is written.
    token: A process that has seen the store knows it, and runs tasks that carry it.
    """

    def __init__(self, calls: Calls, path: str, *, writing: bool) -> None:
        self._calls, self._path, self._writing = calls, place(path).absolute(), writing
        self.token = uuid.uuid4().hex

    def check(self) -> None:
        """Ask all workers.

        Raises ScalemaniError: If one doesn't see it, saying how many don't.
        """
        if not self._writing and not read_text(str(self._path / ROOT)):
            return  # it is not here either, which the caller says
        seen = self.show()
        blind = sorted(worker for worker, sees in seen.items() if not sees)
        if blind:
            remedy = "give a path on a file system that all of them share"
            if isinstance(self._path, ObjectPath):
                remedy = f"they need scalemani[cloud]; {self._path.bucket.remedy}, there"
                if self._path.bucket.scheme == "memory":
                    remedy = "memory:// is of one process; give a path or a bucket that all of them reach"
            raise ScalemaniError(
                f"{len(blind)} of {len(seen)} workers can't see the folder of the store {str(self._path)!r} "
                f"(first: {blind[0]}): {remedy}"
            )

    def show(self) -> dict[str, bool]:
        """Whether each worker sees it; those that do know the token afterwards."""
        with self._file() as (file, text):
            seen = self._calls.ask(read_back, str(file), text, self.token)
        self._calls.blind = {worker for worker, sees in seen.items() if not sees}
        return seen

    @contextmanager
    def _file(self) -> Iterator[tuple[Place, str]]:
        """A file and what is in it, as long as workers read it."""
        if not self._writing:
            root = self._path / ROOT
            yield root, read_text(str(root))
            return
        if isinstance(self._path, ObjectPath):
            marked = beside(self._path)  # what a killed client left there goes with the next writer
            put(marked, self.token.encode())
            try:
                yield marked, self.token
            finally:
                discard(marked)
            return
        folder = self._path.parent
        while not folder.exists():
            folder = folder.parent
        probe = folder / f"{PROBE}{uuid.uuid4().hex}{PARTIAL}"
        try:
            with room_for(probe, len(self.token)):
                probe.write_text(self.token)
            _remove_left(probe)
            yield probe, self.token
        finally:
            probe.unlink(missing_ok=True)


def _remove_left(probe: Path) -> None:
    """Remove what killed clients left beside a probe, by the clock of the file system that has both."""
    now = probe.stat().st_mtime
    for other in probe.parent.glob(f"{PROBE}*"):
        if re.fullmatch(rf"{re.escape(PROBE)}[0-9a-f]{{32}}({re.escape(PARTIAL)})?", other.name):
            try:
                if now - other.lstat().st_mtime > LEFT_SECONDS:
                    other.unlink()
            except OSError:  # another client removed it, or it is another user's
                continue
