"""The JSON Schemas of a store's files, as data: the run's document, a ledger line, the writer's heartbeat, an array.

They hold what later code relies on: keys, types, ranges, which stages need which. A later minor release may add keys
inside stages and below the root: they are let through and never used. :mod:`scalemani.storage.records` checks with
    them.
"""

from typing import Any

__all__ = ["BY_AXIS", "DTYPE_BYTES", "LATER_BY_AXIS", "MOST_BLOCKS", "SCHEMAS"]

MOST_ARRAYS = 1 << 20  # three of each read of D that is kept
MOST_BLOCKS = 1 << 20  # blocks of vertices: what loops over them ends

Schema = dict[str, Any]


def _object(required: str = "", **properties: Any) -> Schema:
    return {"type": "object", "required": required.split(), "properties": properties}


def _integers(least: int = 0, most: int | None = None) -> Schema:
    return {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _words(*allowed: str | None) -> Schema:
    return {"enum": list(allowed)}


def _text(most: int) -> Schema:
    return {"type": "string", "maxLength": most}


_POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}
_NOT_NEGATIVE: Schema = {"type": "number", "minimum": 0}
_SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
_BOOLEAN: Schema = {"type": "boolean"}
_HEX: Schema = {"type": "string", "pattern": r"^[0-9a-f]{32}\Z"}
_PLAIN: Schema = {"type": "string", "pattern": r"^[^\x00-\x1f\x7f-\x9f]*\Z", "maxLength": 255}
_CRC32C = _integers(0, 2**32 - 1)
_ROWS = _integers(1, 2**40)
_COUNT = _integers(1, 2**31)
_SEED = _integers()
_SIZED: Schema = {"type": "number", "minimum": -1e306, "maximum": 1e306}  # a few of them can be added up
_NUMBERS: Schema = {"type": "array", "items": _SIZED, "minItems": 1}
_METRIC_PARAMS = _or_null({"type": "object"})
_CORRECTION: Schema = {"anyOf": [{"type": ["number", "null"]}, _PLAIN]}

_NEIGHBORS = {
    "n_neighbors": _or_null(_integers(1)),
    "radius": _or_null(_POSITIVE),
    "metric": _text(1000),
    "metric_params": _METRIC_PARAMS,
    "knn": _or_null(_PLAIN),
    "random_state": _or_null(_SEED),
}
_GRAPH = {"graph": _PLAIN, "disconnected": _PLAIN}
_SOLVE = {
    "n_components": _COUNT,
    "correction": _CORRECTION,
    "constant_solver": _PLAIN,
    "tol": _POSITIVE,
    "random_state": _or_null(_SEED),
}
# By axis, one number each (checked in :mod:`scalemani.storage.records`).
BY_AXIS = ("eigenvalues", "eigenvalues_unshifted", "share", "share_unshifted", "residuals")
LATER_BY_AXIS = ("share_of_squares", "relative_eig", "rel_corr_eig", "broken_stick")
# What the first format wrote; it knew no correction, so that the account lacks that, and the later keys came together.
_FIRST = "additive_constant median_distance max_distance constant_over_median shift trace trace_unshifted"
_LATER = "lowest_ritz_value most_negative_eigenvalue negative_mass reconstruction_error"
_SPECTRUM: Schema = {
    **_object(" ".join([_FIRST, *BY_AXIS, "n_passes n_vertices converged"])),
    "properties": {
        "correction": _CORRECTION,
        **dict.fromkeys((*BY_AXIS, *LATER_BY_AXIS), _NUMBERS),
        "relative_eig": {"type": "array", "items": {"type": ["number", "null"]}},
        "gof": {**_NUMBERS, "minItems": 2, "maxItems": 2},
        **dict.fromkeys((*_FIRST.split(), *_LATER.split(), "lingoes_constant"), _SIZED),
        **dict.fromkeys(("next_eigenvalue", "gap"), _or_null(_SIZED)),
        "n_passes": _integers(),
        "n_vertices": _COUNT,
        "converged": _BOOLEAN,
        "complete": _BOOLEAN,
        "warnings": {"type": "array", "items": _text(2000), "maxItems": 100},
        "self_check": {"type": "object", "additionalProperties": {"type": ["number", "null"]}},
    },
    "additionalProperties": {"type": ["number", "string", "boolean", "null", "array"]},
    "dependentRequired": {
        "gof": ["next_eigenvalue", "gap", "complete", "lingoes_constant", *LATER_BY_AXIS, *_LATER.split()],
        "broken_stick": ["gof"],
    },
}
_STAGES = {
    "data": _object(
        "fields seed n_distinct",
        fields=_object(
            "kind n_rows n_features fingerprint",
            kind=_words("features", "distances", "graph", "geodesic"),
            n_rows=_ROWS,
            n_features=_ROWS,
            fingerprint={"type": "string", "pattern": r"^[0-9a-f]{8,128}\Z"},
        ),
        seed=_SEED,
        n_distinct=_ROWS,
    ),
    "neighbors": _object(
        "fields listed method recall",
        fields=_object(" ".join(_NEIGHBORS), **_NEIGHBORS),
        listed=_BOOLEAN,
        method=_PLAIN,
        recall=_SHARE,
        left_out=_integers(0, 2**50),
        account=_object(
            "n_shards n_clusters",
            n_distances=_integers(0, 2**80),
            n_shards=_COUNT,
            n_clusters=_COUNT,
        ),
    ),
    "graph": _object(
        "fields scale n_vertices n_edges n_components component_sizes n_bridges",
        fields=_object(" ".join(_GRAPH), **_GRAPH),
        scale=_POSITIVE,
        n_vertices=_COUNT,
        n_edges=_integers(0, 2**50),
        n_components=_COUNT,
        component_sizes={"type": "array", "items": _COUNT, "minItems": 1, "maxItems": 1000},
        n_bridges=_integers(0, 2**31),
    ),
    "start": _object("fields most_columns", fields={"type": "object"}, most_columns=_COUNT),
    "reads": _object("fields count", fields={"type": "object"}, count=_integers(0, 2**31)),
    "landmarks": _object(
        "fields n_landmarks landmarks_a_task points_a_chunk",
        fields={"type": "object"},
        n_landmarks=_COUNT,
        landmarks_a_task=_COUNT,
        points_a_chunk=_COUNT,
        reach=_or_null(_NOT_NEGATIVE),
    ),
    "geodesics": _object("fields median", fields=_object("tile_size", tile_size=_COUNT), median=_NOT_NEGATIVE),
    "solve": _object(
        "fields constant spectrum revision",  # and `nugget` and `tolerance`, which earlier releases lack
        fields=_object(" ".join(_SOLVE), **_SOLVE),
        constant=_SIZED,
        nugget=_SIZED,
        tolerance=_SHARE,
        spectrum=_SPECTRUM,
        revision=_HEX,
    ),
    "fit": _object(
        "fields estimator",
        fields=_object(
            "n_neighbors n_components radius metric metric_params projection tol random_state keep_distances",
            **(_NEIGHBORS | _GRAPH | _SOLVE | {"random_state": _SEED}),
            projection=_PLAIN,
            keep_distances=_BOOLEAN,
        ),
        estimator=_words("KernelIsomap", "Isomap"),
    ),
    "names": _object(
        "fields", fields=_object("features", features=_or_null({"type": "array", "items": _text(100_000)}))
    ),
}
_DOCUMENT: Schema = {
    **_object("format_version id versions stages"),
    "properties": {
        "format_version": _integers(1),
        "id": _HEX,
        "versions": {"type": "object", "additionalProperties": _PLAIN, "maxProperties": 100},
        "crc32c": _CRC32C,
        "arrays": {
            "type": "object",
            "propertyNames": {"pattern": r"^[a-z][a-z0-9_]*\Z", "maxLength": 64},
            "additionalProperties": _CRC32C,
            "maxProperties": MOST_ARRAYS,
        },
        "stages": {
            "type": "object",
            "properties": _STAGES,
            "additionalProperties": _object("fields", fields={"type": "object"}),
            "dependentRequired": {
                "neighbors": ["data"],
                "graph": ["data", "neighbors"],
                "landmarks": ["data", "neighbors", "graph"],
                "geodesics": ["data", "neighbors", "graph"],
                "solve": ["data", "neighbors", "graph"],
                "fit": ["data", "neighbors", "graph", "solve"],
            },
        },
    },
}
_LINE: Schema = {
    **_object(
        "crc32c",
        crc32c={"type": "array", "items": _CRC32C, "minItems": 1, "maxItems": MOST_BLOCKS},
        run=_HEX,
        row=_integers(0, MOST_BLOCKS - 1),
    ),
    "dependentRequired": {"run": ["row"], "row": ["run"]},  # the first releases wrote neither
}
_WRITER = _object(
    "writer host pid beat seconds",
    writer=_HEX,
    host=_PLAIN,
    boot=_PLAIN,
    pid=_integers(1, 2**31),
    started=_NOT_NEGATIVE,
    beat=_integers(0, 2**53),
    seconds={"type": "number", "exclusiveMinimum": 0, "maximum": 86400},
)
DTYPE_BYTES = {
    "bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8,
    "float16": 2, "float32": 4, "float64": 8,
}  # fmt: skip
_SIDES: Schema = {"type": "array", "minItems": 1, "maxItems": 4}
_BYTES_CODEC: Schema = {
    **_object("name", name=_words("bytes"), configuration=_object("endian", endian=_words("little"))),
    "additionalProperties": False,
}
_BLOSC_CODEC: Schema = {
    **_object(
        "name configuration",
        name=_words("blosc"),
        configuration=_object(
            "cname",
            cname=_words("lz4", "zstd"),
            clevel=_integers(0, 9),
            shuffle=_words("noshuffle", "shuffle", "bitshuffle"),
            typesize=_integers(1, 8),
            blocksize=_integers(0, 2**31 - 1),
        ),
    ),
    "additionalProperties": False,
}
_CHECKSUM_CODEC: Schema = {**_object("name", name=_words("crc32c")), "additionalProperties": False}
_SECOND_CODEC: Schema = {"anyOf": [_CHECKSUM_CODEC, _BLOSC_CODEC]}
_METADATA: Schema = {
    **_object("zarr_format node_type shape data_type chunk_grid codecs"),
    "properties": {
        "zarr_format": {"const": 3},
        "node_type": {"const": "array"},
        "shape": {**_SIDES, "items": _integers(0, 2**40)},
        "data_type": _words(*DTYPE_BYTES),
        "chunk_grid": _object(
            "name configuration",
            name=_words("regular"),
            configuration=_object("chunk_shape", chunk_shape={**_SIDES, "items": _integers(1, 2**40)}),
        ),
        "chunk_key_encoding": _object(
            "name", name=_words("default"), configuration=_object(separator=_words("/")),
        ),
        "fill_value": {"type": ["number", "boolean", "string"], "maxLength": 20},
        "codecs": {"type": "array", "minItems": 1, "maxItems": 2, "prefixItems": [_BYTES_CODEC, _SECOND_CODEC]},
        "attributes": {
            "type": "object",
            "maxProperties": 16,
            "properties": {"crc32c": _CRC32C},
            "additionalProperties": {"type": ["number", "string", "boolean", "null"], "maxLength": 1000},
        },
        "storage_transformers": {"type": "array", "maxItems": 0},
        "dimension_names": _or_null({"type": "array", "maxItems": 4, "items": _or_null(_PLAIN)}),
    },
    # what Zarr's specification lets a reader pass over
    "additionalProperties": _object("must_understand", must_understand={"const": False}),
}  # fmt: skip
SCHEMAS: dict[str, Schema] = {"document": _DOCUMENT, "line": _LINE, "writer": _WRITER, "metadata": _METADATA}
