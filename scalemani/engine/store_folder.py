"""Where a run is while it is in use: takes the user's path or none, gives one; a temporary one goes by itself."""

import shutil
import tempfile
from multiprocessing.util import Finalize

from scalemani.engine.places import following
from scalemani.errors import ScalemaniError


class StoreFolder:
    """Where a run is: the user's path, or a temporary folder that goes when nothing refers to it."""

    def __init__(self, path: str | None) -> None:
        self.temporary = path is None
        if path is None:
            try:
                self.path = tempfile.mkdtemp(prefix="scalemani-")
            except OSError as error:
                raise ScalemaniError(
                    f"a model with store=None needs a temporary folder, and none can be made ({error}): set TMPDIR to "
                    "a folder that can be written, or give fit a store path"
                ) from error
        else:  # a link is followed once, so that all see one folder; one that leads nowhere is left to be refused
            self.path = str(following(path))
        if self.temporary:
            # At the end of this process too, but not at that of one that is forked from it, which did not make it.
            self._remove = Finalize(self, shutil.rmtree, (self.path,), {"ignore_errors": True}, exitpriority=0)

    def discard(self) -> None:
        """Remove a temporary folder now; a user's path is never removed."""
        if self.temporary:
            self._remove()
