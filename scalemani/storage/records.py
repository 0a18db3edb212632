"""Takes parsed JSON of a store, gives it back checked, or says in one line what is off.

The schemas (JSON Schema 2020-12) are in :mod:`scalemani.storage.schema_data`. The `jsonschema` package is imported at
the first check, and each validator is made once.

The document of a run: takes a folder, gives the JSON object of its root's attributes, checked, or an error.

It is in `zarr.json`, where any Zarr reader finds it, under "scalemani", with a CRC32C of its own text; and once more
in `document.json`, so that one damaged byte does not take a run with it. Both are put whole, the copy second: it
may be a stage behind, and then that stage is done again.
"""

import json
import math
from functools import cache
from typing import Any

from scalemani.errors import DamagedStoreError
from scalemani.storage.files import Location, checksum_of, create_once
from scalemani.storage.json import REMEDY, damaged, parsed, read_plain
from scalemani.storage.schema_data import BY_AXIS, DTYPE_BYTES, LATER_BY_AXIS, MOST_BLOCKS, SCHEMAS

KEY = "scalemani"
SEALED = 3  # the last format version whose checksum is known to be made so
ROOT, COPY = "zarr.json", "document.json"


class RunDocument:
    """The two files of a run's document.

    held: Whether nobody else changes it, so that what was read from a bucket need not be asked for again.
    """

    def __init__(self, folder: Location) -> None:
        self.folder, self.held = folder, False
        self._content: bytes | None = None
        self._parsed = dict[str, Any]()

    def read(self) -> dict[str, Any]:
        """The document as it is now; not to be changed in place."""
        if self.held and self._content is not None and self.folder.REMOTE:
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
        (self.folder / ROOT).put(as_group(sealed))
        self._content, self._parsed = as_group(sealed), found
        (self.folder / COPY).put(canonical(sealed))

    def begin(self, document: dict[str, Any]) -> bool:
        """Put the first document of a run; whether none was there, which stays."""
        sealed = seal(document)
        begun = create_once(self.folder / ROOT, as_group(sealed))
        if begun:
            (self.folder / COPY).put(canonical(sealed))
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


def _attribute(group: Any, place: Location) -> Any:
    """The document in the attributes of the root group."""
    attributes = group.get("attributes") if isinstance(group, dict) else None
    if not isinstance(attributes, dict) or KEY not in attributes:
        raise DamagedStoreError(f"{str(place)!r} holds no run; {REMEDY}")
    return attributes[KEY]


def checked(document: Any, place: Location) -> dict[str, Any]:
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


MOST_DOCUMENT_BYTES = 256 << 20  # metric_params may hold a matrix, indented, in two stages
MOST_LINE_BYTES = 16 << 20  # a checksum of at most 12 letters for each of a million tiles
MOST_WRITER_BYTES = MOST_METADATA_BYTES = 64 << 10
LEAST_CHUNK = 16 << 20  # bytes of all chunks of a small array but one: write_array's have 32 MiB or a row


@cache
def _validator(name: str) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    # the specification takes 60.0 for an integer; what counts here is Python's type
    checker = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    return extend(Draft202012Validator, type_checker=checker)(SCHEMAS[name])


def _checked(obj: Any, name: str, where: str) -> dict[str, Any]:
    from jsonschema.exceptions import best_match

    error = best_match(_validator(name).iter_errors(obj))
    if error is not None:
        at = ".".join(map(str, error.absolute_path))
        raise damaged(where, f"{at or 'the whole'} is damaged: {_said(error)}")
    found: dict[str, Any] = obj
    return found


def _said(error: Any) -> str:
    """A validator's error in a few words; what was found is cut short, since it may be large."""
    if error.validator in ("required", "dependentRequired"):
        return str(error.message)
    found = repr(error.instance)
    short = found if len(found) <= 60 else found[:57] + "..."
    if error.validator in ("type", "anyOf"):
        return f"{short} has the wrong type"
    allowed = str(error.validator_value)
    return f"{short} is not allowed ({error.validator}: {allowed if len(allowed) <= 80 else allowed[:77] + '...'})"


def checked_document(obj: Any, where: str) -> dict[str, Any]:
    """The root document of a run: format version, id, versions, the stages that are done, checksums of its arrays.

    obj: As :func:`read_json` gives it.
    where: Names the file in the error.
    Raises DamagedStoreError: Naming the first key that is missing, of another type, or out of range; or stages that
        contradict one another.
    """
    found = _checked(obj, "document", where)
    wrong = _contradiction(found["stages"])
    if wrong is not None:
        raise damaged(where, wrong)
    return found


def _contradiction(stages: dict[str, Any]) -> str | None:
    """What stages say that can't be true together, in a few words: a schema does not see across them."""
    data, graph, solved, fit = (stages.get(name) for name in ("data", "graph", "solve", "fit"))
    if data is not None:
        rows, features, points = data["fields"]["n_rows"], data["fields"]["n_features"], data["n_distinct"]
        if points > rows or (data["fields"]["kind"] != "features" and not rows == features == points):
            return f"{rows} rows of {features} features make no {points} points"
        if graph is not None and graph["n_vertices"] > points:
            return f"a graph of {graph['n_vertices']} vertices for {points} points"
        searched = stages.get("neighbors", {}).get("fields")
        reach = (searched["n_neighbors"], searched["radius"]) if searched else ()
        if reach == (None, None) and data["fields"]["kind"] != "geodesic":
            return "neighbours by no number and no radius"
    if solved is not None:
        p, spectrum = solved["fields"]["n_components"], solved["spectrum"]
        for name in (*BY_AXIS, *LATER_BY_AXIS):
            if len(spectrum.get(name, [])) not in (p, 0):
                return f"{name} has {len(spectrum[name])} numbers for {p} axes"
        if fit is not None and fit["fields"]["n_components"] != p:
            return f"{fit['fields']['n_components']} axes were asked for, and {p} found"
    return None


def checked_line(obj: Any, where: str) -> dict[str, Any]:
    """The ledger's line of a row of tiles: checksums, and by newer releases the run's id and the row.

    Raises DamagedStoreError: As :func:`checked_document`.
    """
    return _checked(obj, "line", where)


def checked_writer(obj: Any, where: str) -> dict[str, Any]:
    """The heartbeat of the one process that writes.

    Raises DamagedStoreError: As :func:`checked_document`.
    """
    return _checked(obj, "writer", where)


def checked_array_metadata(obj: Any, where: str, largest_bytes: int, *, tiles: bool = False) -> dict[str, Any]:
    """The metadata (`zarr.json`) of one array of a run, as this package writes it: plain numbers, little-endian.

    obj, where: As :func:`checked_document`.
    largest_bytes: What the array, and one chunk of it, may take in memory.
    tiles: Whether it is D, square, with square chunks, which alone may be compressed; else the number of chunks is held
        against the bytes, so that no file of a kilobyte stands for a billion chunks.
    Raises DamagedStoreError: Another kind of node, dtype or codec, a storage transformer, an array or chunk that is too
        large, or chunks that are too many.
    """
    metadata = _checked(obj, "metadata", where)
    shape, chunks = metadata["shape"], metadata["chunk_grid"]["configuration"]["chunk_shape"]
    item = DTYPE_BYTES[metadata["data_type"]]
    if len(shape) != len(chunks):
        raise damaged(where, f"an array of {len(shape)} axes has chunks of {len(chunks)}")
    if item > 1 and metadata["codecs"][0].get("configuration") is None:
        raise damaged(where, "the codec bytes has no byte order")
    second = [codec["name"] for codec in metadata["codecs"][1:]]
    if second and (second == ["blosc"]) != tiles:
        raise damaged(where, f"the codec {second[0]!r} is not for {'distances' if tiles else 'small arrays'}")
    whole, chunk = array_bytes(metadata), item * math.prod(chunks)
    if whole > largest_bytes or chunk > max(largest_bytes, item):
        raise damaged(
            where, f"says {whole:,} bytes in chunks of {chunk:,}, where at most {largest_bytes:,} are expected"
        )
    if tiles and not (len(shape) == 2 and shape[0] == shape[1] and chunks[0] == chunks[1]):
        raise damaged(where, f"distances of shape {shape} in tiles of {chunks}: both must be square")
    count = math.prod(-(-side // length) for side, length in zip(shape, chunks, strict=True))
    most = MOST_BLOCKS**2 if tiles else 2 + 2 * whole // LEAST_CHUNK
    if count > most or (tiles and -(-shape[0] // chunks[0]) > MOST_BLOCKS):
        raise damaged(where, f"{whole:,} bytes are cut into {count:,} chunks, where at most {most:,} are expected")
    return metadata


def array_bytes(metadata: dict[str, Any]) -> int:
    """Bytes of an array's numbers, of checked metadata.

    >>> array_bytes({"shape": [3, 2], "data_type": "float32"})
    24
    """
    return int(math.prod(metadata["shape"])) * DTYPE_BYTES[metadata["data_type"]]
