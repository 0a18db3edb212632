"""Buckets of object storage: takes a name, gives obstore's functions on it, with errors of one line.

obstore and not fsspec: it has the conditional put that the ledger and the one writer stand on (``If-None-Match: *``),
takes buffers as they are, gives up Python's lock while it waits, retries by itself, and reads the credentials from the
environment that people have set already (``AWS_*``, ``GOOGLE_*``, ``AZURE_*``, or the machine's own role), so that none
pass through here. It is one wheel without dependencies for s3, gs, az and memory, where fsspec takes a package of its
own for each and promises no conditional put. ``memory://`` lives in one process, as long as that.
"""

import os
import re
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scalemani.engine.forks import BUCKETS, begin
from scalemani.errors import ScalemaniError, StoreUnreachableError

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
