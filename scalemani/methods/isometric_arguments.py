"""The parameters of isometric projection besides those of all methods."""

import math
from dataclasses import dataclass
from typing import Any

from scalemani.errors import ScalemaniError, unknown
from scalemani.parameters import Arguments, Option, Parameters, is_number, optional_count, parameter

LARGEST = 1e6  # ridge: the map is next to 0 long before


def _ridge(name: str, value: Any) -> None:
    usual = value is None or (isinstance(value, str) and value == "loo")
    if not usual and not (is_number(value) and 0 <= float(value) <= LARGEST):
        raise unknown(f"{name}=", value, ("loo",), f"None for the usual one, or a number from 0 to {LARGEST:g}")


def _distances(name: str, value: Any) -> None:
    if value not in (None, "stored", "recomputed"):
        raise unknown(f"{name}=", value, ("stored", "recomputed"), "None")


def positive(name: str, value: Any) -> None:
    """A positive number."""
    if not (is_number(value) and 0 < float(value) < math.inf):
        raise ScalemaniError(f"{name}={value!r}: a positive number is needed")


def positive_or_none(name: str, value: Any) -> None:
    """A positive number, or None."""
    if value is not None:
        positive(name, value)


def _number(name: str, value: Any) -> None:
    if not (is_number(value) and abs(float(value)) < math.inf):
        raise ScalemaniError(f"{name}={value!r}: a number is needed")


KERNELS = ("linear", "rbf", "poly", "sigmoid", "cosine", "precomputed")


@dataclass(eq=False, repr=False)
class IsometricArguments(Arguments):
    """The parameters that other methods lack."""

    ridge: float | str | None = parameter(
        None,
        Option(
            "Penalty that keeps the map from following noise, as a share of the features' largest variance; 0.001"
            " unless given, 0.0001 with a kernel. loo: the one that best predicts Isomap's map of rows that are "
            "left out in turn.",
            "number, word or none",
            metavar="loo|NUMBER",
        ),
        check=_ridge,
    )
    scale: str = parameter(
        "lstsq",
        Option(
            "For isometric-projection: axes as long as the distances say (lstsq, unless given), or all of length 1 "
            "(unit). For lle: whitened (unless given) or kernel. For laplacian-eigenmaps: resistance (unless given), "
            "ham or walk.",
            metavar="WORD",
        ),
        choices=("lstsq", "unit"),
    )
    kernel: str = parameter(
        "linear",
        Option(
            "For isometric-projection: the features in which the map is linear; linear (unless given), rbf, poly, "
            "sigmoid, cosine, or precomputed: POINTS are kernel values. For lle: none (unless given), linear, rbf, "
            "poly or precomputed.",
            "word or none",
            metavar="WORD",
        ),
        choices=KERNELS,
    )
    gamma: float | None = parameter(
        None,
        Option(
            "Of the kernels rbf, poly and sigmoid. Unless given: 1 over the squared median distance of some rows;"
            " of poly 1.",
            "number",
        ),
        check=positive_or_none,
    )
    degree: float = parameter(3.0, Option("Of the kernel poly.", "number"), check=positive)
    coef0: float = parameter(1.0, Option("Of the kernels poly and sigmoid.", "number"), check=_number)
    nystrom: int | None = parameter(
        None,
        Option("Use kernel values to N rows instead of all: for more than some thousand rows.", "integer", (), "N"),
        check=optional_count,
    )
    distances: str | None = parameter(
        None,
        Option(
            "Store all distances while the map is made, which --ridge loo needs, or find them as they are used "
            "(usual).",
            "word or none",
            metavar="stored|recomputed",
        ),
        check=_distances,
    )
    supervised: bool = parameter(True)
    keep_distances: bool = parameter(False)
    indefinite: str = parameter(
        "error",
        Option("If the kernel has negative eigenvalues on these rows: stop, or leave them out."),
        choices=("error", "drop"),
    )


@dataclass
class IsometricParameters(IsometricArguments, Parameters):
    """What a fit of it works with."""

    def check(self) -> None:
        """Also that parameters of kernels go with one.

        Raises ScalemaniError: One line: what was given, what is allowed.
        """
        super().check()
        for name in ("gamma", "nystrom"):
            given = getattr(self, name)
            without = ("linear", "precomputed", "cosine" if name == "gamma" else "")
            if self.kernel in without and given is not None:
                raise ScalemaniError(
                    f"{name}={given} with kernel={self.kernel!r}: it is for other kernels; leave it out"
                )
        if self.kernel == "precomputed" and (self.metric != "euclidean" or self.metric_params):
            raise ScalemaniError(
                f"metric={self.metric!r} with kernel='precomputed': X is kernel values, which say the distances "
                "between points; leave metric and metric_params out"
            )
        if self.landmarks is not None and (self.ridge == "loo" or self.distances is not None):
            what = "ridge='loo'" if self.ridge == "loo" else f"distances={self.distances!r}"
            raise ScalemaniError(f"{what} with landmarks: not all distances are found then; leave one of them out")
        for what, needs in (("ridge='loo'", self.ridge == "loo"), ("keep_distances=True", self.keep_distances)):
            if needs and self.distances == "recomputed":
                raise ScalemaniError(f"{what} with distances='recomputed': it needs them stored; leave distances out")

    @property
    def stores(self) -> bool:
        """Whether D is stored while the map is made."""
        asked = self.distances == "stored" or self.ridge == "loo" or self.keep_distances
        return asked and self.landmarks is None
