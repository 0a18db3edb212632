"""Takes parsed JSON of a store, gives it back checked, or says in one line what is off.

The schemas (JSON Schema 2020-12) are in :mod:`.schema_data`. The `jsonschema` package is imported at the first check,
and each validator is made once.
"""

import math
from functools import cache
from typing import Any

from scalemani.engine.bounded_json import check_no_links, damaged, parsed, read_json, read_plain
from scalemani.engine.schema_data import BY_AXIS, DTYPE_BYTES, LATER_BY_AXIS, MOST_BLOCKS, SCHEMAS

__all__ = [
    "MOST_DOCUMENT_BYTES",
    "MOST_LINE_BYTES",
    "MOST_METADATA_BYTES",
    "MOST_WRITER_BYTES",
    "array_bytes",
    "check_no_links",
    "checked_array_metadata",
    "checked_document",
    "checked_line",
    "checked_writer",
    "parsed",
    "read_json",
    "read_plain",
]

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
