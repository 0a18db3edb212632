"""The parameters of LLE, Laplacian eigenmaps and raw stress, besides those of all methods."""

from dataclasses import dataclass
from typing import Any

from scalemani.errors import ScalemaniError
from scalemani.methods.isometric_arguments import positive, positive_or_none
from scalemani.parameters import (
    Arguments,
    Option,
    Parameters,
    check_tol,
    is_number,
    metric_name,
    optional_count,
    parameter,
    plain,
)

KERNELS = ("linear", "rbf", "poly")


def _kernel(name: str, value: Any) -> None:
    if callable(value):
        plain(value)  # its name, by which a store tells it from others
    elif value is not None and not (isinstance(value, str) and value in (*KERNELS, "precomputed")):
        from scalemani.errors import unknown

        raise unknown(f"{name}=", value, (*KERNELS, "precomputed"), "None or a function of two blocks of rows")


def not_negative(name: str, value: Any) -> None:
    """A number from 0 on."""
    if not (is_number(value) and 0 <= float(value) < 1e300):
        raise ScalemaniError(f"{name}={value!r}: a number from 0 on is needed")


def _not_negative_or_none(name: str, value: Any) -> None:
    if value is not None:
        not_negative(name, value)


def _yes_or_no(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ScalemaniError(f"{name}={value!r}: True or False is needed")


def _check_landmarks(asked: Parameters) -> None:
    """Refuse landmarks with a metric of rows that is not the Euclidean one."""
    from scalemani.neighbors.metrics import GIVEN_METRICS

    metric, p = asked.metric, (asked.metric_params or {}).get("p", 2)
    euclidean = metric in ("euclidean", "l2", *GIVEN_METRICS) or (metric == "minkowski" and p == 2)
    if asked.landmarks is not None and not euclidean:
        raise ScalemaniError(
            f"landmarks with metric={metric_name(metric)!r}: points are rebuilt from landmarks by their Euclidean "
            "geometry; use metric='euclidean', or leave landmarks out"
        )


@dataclass(eq=False, repr=False)
class LLEArguments(Arguments):
    """The parameters that other methods lack."""

    reg: float = parameter(
        1e-3,
        Option("Ridge of the weights; a larger one makes the weights of a point's neighbours more alike.", "number"),
        check=not_negative,
    )
    kernel: Any = parameter(None, check=_kernel)  # noqa: RUF009, it is a field
    gamma: float | None = parameter(None, check=positive_or_none)
    degree: float = parameter(3.0, check=positive)
    coef0: float = parameter(1.0, check=not_negative)
    scale: str = parameter("whitened", choices=("whitened", "kernel"))


@dataclass
class LLEParameters(LLEArguments, Parameters):
    """What a fit of it works with."""

    def check(self) -> None:
        """Also that lists have one length, and that no bridges are asked for.

        Raises ScalemaniError: One line: what was given, what is allowed.
        """
        super().check()
        _check_landmarks(self)
        if self.radius is not None:
            raise ScalemaniError(f"radius={self.radius}: lists of one length are needed; give n_neighbors instead")
        if self.kernel not in (None, "linear") and (self.metric != "euclidean" or self.metric_params):
            raise ScalemaniError(
                f"metric={self.metric!r} with kernel={self.kernel!r}: neighbours are the kernel's; leave metric out"
            )
        if self.knn == "nndescent" and (callable(self.kernel) or self.kernel == "precomputed"):
            raise ScalemaniError(
                f"knn='nndescent' with kernel={self.kernel!r}: it can't search by this kernel; use 'exact' or 'auto'"
            )
        if self.disconnected == "join":
            raise ScalemaniError("disconnected='join': bridges are in no neighbour list; use 'error' or 'largest'")
        if self.landmarks is not None and self.kernel not in (None, "linear"):
            raise ScalemaniError(f"kernel={self.kernel!r} with landmarks: leave one of them out")
        if self.gamma is not None and self.kernel not in ("rbf", "poly"):
            raise ScalemaniError(
                f"gamma={self.gamma} with kernel={self.kernel!r}: it is for other kernels; leave it out"
            )


@dataclass(eq=False, repr=False)
class LaplacianArguments(Arguments):
    """The parameters that other methods lack."""

    weights: str = parameter(  # as in embedding.laplacian.WEIGHTS, which would import SciPy
        "binary",
        Option("Each edge weighs 1 (binary), or exp(-d²/(2 sigma²)) where its length is d (gaussian)."),
        choices=("binary", "gaussian"),
    )
    sigma: float | None = parameter(
        None,
        Option("Of gaussian weights; the median length of an edge unless given.", "number"),
        check=positive_or_none,
    )
    scale: str = parameter("resistance", choices=("resistance", "ham", "walk"))
    normalized: bool = parameter(
        False,
        Option("Take eigenvectors of the normalised Laplacian, those of the random walk.", "flag"),
        check=_yes_or_no,
    )
    alpha: float | None = parameter(
        None,
        Option("Make a diffusion map, with this much of the points' density divided out; 1 is all of it.", "number"),
        check=_not_negative_or_none,
    )
    time: float = parameter(1.0, Option("Of a diffusion map: steps of the random walk.", "number"), check=not_negative)


@dataclass
class LaplacianParameters(LaplacianArguments, Parameters):
    """What a fit of it works with."""

    def check(self) -> None:
        """Also that parameters go together.

        Raises ScalemaniError: One line: what was given, what is allowed.
        """
        super().check()
        _check_landmarks(self)
        if self.sigma is not None and self.weights == "binary":
            raise ScalemaniError(f"sigma={self.sigma} with weights='binary': it is for 'gaussian'; leave it out")
        if self.alpha is not None and (self.normalized or self.landmarks is not None or self.scale != "resistance"):
            raise ScalemaniError(
                f"alpha={self.alpha} with normalized, landmarks or a scale: a diffusion map has none of these; leave "
                "them out"
            )
        if self.alpha is None and self.time != 1:
            raise ScalemaniError(
                f"time={self.time} without alpha: it is for a diffusion map; give alpha, or leave it out"
            )
        if self.normalized and self.scale != "resistance":
            raise ScalemaniError(f"scale={self.scale!r} with normalized=True: it has one scale; leave one of them out")


@dataclass(eq=False, repr=False)
class StressArguments(Arguments):
    """The parameters that differ from those of other methods."""

    tol: float = parameter(1e-5, check=check_tol)
    start_points: int | None = parameter(
        None,
        Option("Start from the map of N points, instead of a map of all by classical scaling.", "integer", (), "N"),
        check=optional_count,
    )


@dataclass
class StressParameters(StressArguments, Parameters):
    """What a fit of it works with."""

    def check(self) -> None:
        """Also that it starts from enough points, and not from landmarks.

        Raises ScalemaniError: One line: what was given, what is allowed.
        """
        super().check()
        asked, least = self.start_points, self.n_components + 2
        if asked is not None and self.landmarks is not None:
            raise ScalemaniError(f"start_points={asked} with landmarks, from which it starts: leave one of them out")
        if asked is not None and asked < least:
            raise ScalemaniError(
                f"start_points={asked}: {self.n_components} axes need {least} points or more to start from"
            )
