"""The document of a run: takes a folder, gives the JSON object of its root's attributes, checked, or an error.

It is in `zarr.json`, where any Zarr reader finds it, under "scalemani", with a CRC32C of its own text; and once more
in `document.json`, so that one damaged byte does not take a run with it. Both are put whole, the copy second: it
may be a stage behind, and then that stage is done again.
"""

import json
from functools import cache
from typing import Any

from scalemani.engine.bounded_json import REMEDY
from scalemani.engine.object_paths import ObjectPath
from scalemani.engine.objects import checksum_of, put, put_once
from scalemani.engine.places import Place
from scalemani.engine.schemas import MOST_DOCUMENT_BYTES, MOST_METADATA_BYTES, checked_document, parsed, read_plain
from scalemani.errors import DamagedStoreError

KEY = "scalemani"
SEALED = 3  # the last format version whose checksum is known to be made so
ROOT, COPY = "zarr.json", "document.json"


class RunDocument:
    """The two files of a run's document.

    held: Whether nobody else changes it, so that what was read from a bucket need not be asked for again.
    """

    def __init__(self, folder: Place) -> None:
        self.folder, self.held = folder, False
        self._content: bytes | None = None
        self._parsed = dict[str, Any]()

    def read(self) -> dict[str, Any]:
        """The document as it is now; not to be changed in place."""
        if self.held and self._content is not None and isinstance(self.folder, ObjectPath):
            return self._parsed
        place = self.folder / ROOT
        content = read_plain(place, MOST_DOCUMENT_BYTES)
        if content != self._content:  # read often, and seldom another
            self._parsed = checked(_attribute(parsed(content, str(place)), place), place)
            self._content = content
        return self._parsed

    def write(self, document: dict[str, Any]) -> None:
        """Put a document in place of the one that is there.

        Raises DiskFullError: The one that is there stays.
        """
        sealed, self._content = seal(document), None
        found = checked(parsed(canonical(sealed), str(self.folder)), self.folder / ROOT)  # what is written can be read
        put(self.folder / ROOT, as_group(sealed))
        self._content, self._parsed = as_group(sealed), found
        put(self.folder / COPY, canonical(sealed))

    def begin(self, document: dict[str, Any]) -> bool:
        """Put the first document of a run; whether none was there, which stays."""
        sealed = seal(document)
        begun = put_once(self.folder / ROOT, as_group(sealed))
        if begun:
            put(self.folder / COPY, canonical(sealed))
        return begun

    def copy(self) -> dict[str, Any]:
        """What the second file holds."""
        content = read_plain(self.folder / COPY, MOST_DOCUMENT_BYTES)
        return checked(parsed(content, str(self.folder / COPY)), self.folder / COPY)

    def whole(self) -> list[dict[str, Any]]:
        """Every document that is whole in one of the two files, in whichever form: that of this run first.

        This run's is the one of which more arrays are in place, should another run's have come here.
        """
        found = []
        for place in (self.folder / ROOT, self.folder / COPY):
            try:
                value = parsed(read_plain(place, MOST_DOCUMENT_BYTES), str(place))
                if isinstance(value, dict) and "stages" not in value:
                    value = _attribute(value, place)
                found.append(checked(value, place))
            except DamagedStoreError:
                continue
        return sorted(found, key=self.strangers)

    def strangers(self, document: dict[str, Any]) -> int:
        """How many arrays a document names that are not in place."""
        count = 0
        for name, wanted in document.get("arrays", {}).items():
            try:
                count += checksum_of(read_plain(self.folder / name / "zarr.json", MOST_METADATA_BYTES)) != wanted
            except DamagedStoreError:
                count += 1
        return count


def _attribute(group: Any, place: Place) -> Any:
    """The document in the attributes of the root group."""
    attributes = group.get("attributes") if isinstance(group, dict) else None
    if not isinstance(attributes, dict) or KEY not in attributes:
        raise DamagedStoreError(f"{str(place)!r} holds no run; {REMEDY}")
    return attributes[KEY]


def checked(document: Any, place: Place) -> dict[str, Any]:
    """A document that has its schema's form and its own checksum (earlier releases wrote none)."""
    found = checked_document(document, str(place))
    if found["format_version"] <= SEALED and "crc32c" in found and seal(found) != found:
        raise DamagedStoreError(f"{str(place)!r} is damaged (checksum differs); {REMEDY}")
    return found


def seal(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the CRC32C of its text."""
    bare = {key: value for key, value in document.items() if key != "crc32c"}
    return {**bare, "crc32c": checksum_of(canonical(bare))}


def as_group(document: dict[str, Any]) -> bytes:
    """The text of `zarr.json`."""
    return canonical({"attributes": {KEY: document}, "node_type": "group", "zarr_format": 3})


def canonical(value: Any) -> bytes:
    """The one text of a JSON value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


@cache
def versions() -> dict[str, str]:
    """The packages that a run is made by, for its document."""
    from importlib.metadata import PackageNotFoundError, version

    names = ("scalemani", "numpy", "scipy", "zarr", "dask", "numba", "pynndescent", "scikit-learn")
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found
