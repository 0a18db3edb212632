"""What a choice of kernel and neighbours found: three errors of each plane as a table and in words, and the planes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalemani.aliases import F64, I64
from scalemani.errors import ScalemaniError
from scalemani.words import aligned

CLEAR = 2.0  # standard errors by which a plane is worse and not only unlucky

_LEGEND = (
    "In %: errors of a linear SVM with C = {C:g} on {n:,} labelled rows. training: on its own rows. SVM alone: on\n"
    "{folds} folds, in a plane that has seen all rows. held out: on each fold, placed in a plane of the other rows."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Tried:
    """One kernel with one number of neighbours.

    name: Of the kernel.
    parameters: Of :class:`scalemani.LLE`.
    training, alone, held_out: Shares of the labelled rows that the SVM has wrong; NaN without a plane.
    plane (n, p): Whitened coordinates of all rows; svm: What tells the labelled ones apart there.
    wrong (n_labelled,): Rows that were wrong when they were held out.
    warnings: What the fit of all rows warned of.
    failure: Why there is no plane.
    """

    name: str
    n_neighbors: int
    parameters: dict[str, Any]
    training: float = np.nan
    alone: float = np.nan
    held_out: float = np.nan
    plane: F64 | None = field(default=None, repr=False)
    svm: Any = None
    wrong: NDArray[np.bool_] | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()
    failure: str | None = None

    @property
    def held_out_error(self) -> float:
        """The standard error of `held_out`."""
        return self.error(self.held_out)

    def error(self, share: float) -> float:
        """The standard error of a share of the labelled rows."""
        return np.nan if self.wrong is None else float(np.sqrt(share * (1 - share) / len(self.wrong)))


@dataclass(frozen=True, eq=False)
class Choice:
    """What :func:`scalemani.choose_kernel` found.

    tried: One :class:`Tried` for each kernel and number of neighbours, as they were given.
    best: That with the fewest errors of held-out rows; of equals the first.
    codes (n,): Class of each row among `classes`, -1 without a label.
    """

    tried: tuple[Tried, ...]
    best: Tried
    codes: I64
    classes: NDArray[Any]
    folds: int
    C: float

    @property
    def as_good(self) -> list[Tried]:
        """Others that are worse than the best by less than two standard errors of the difference, row by row."""
        assert self.best.wrong is not None
        found = []
        for one in self.tried:
            if one is not self.best and one.wrong is not None:
                more, less = int((one.wrong & ~self.best.wrong).sum()), int((self.best.wrong & ~one.wrong).sum())
                spread = more + less - (more - less) ** 2 / len(one.wrong)
                found += [one] if more - less <= CLEAR * np.sqrt(spread) else []
        return found

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headings, and a row of text for each that was tried; errors in %."""
        rows = []
        for one in self.tried:
            cells = [f"{100 * share:.1f} ± {100 * one.error(share):.1f}" for share in (one.alone, one.held_out)]
            cells.insert(0, f"{100 * one.training:.1f}")
            rows.append([one.name, str(one.n_neighbors), *(["no plane", "", ""] if one.failure else cells)])
        return ["kernel", "k", "training", "SVM alone", "held out"], rows

    def __str__(self) -> str:
        legend = _LEGEND.format(folds=self.folds, C=self.C, n=int((self.codes >= 0).sum()))
        return "\n".join([*(line.rstrip() for line in aligned(*self.table())), legend, "", *self._said()])

    def _said(self) -> Iterator[str]:
        """The advice, what the best's fit warned of, and why others have no plane."""
        best, others = self.best, len(self.as_good)
        share = f"{100 * best.held_out:.1f} %"
        yield f"Take {best.name} with {best.n_neighbors} neighbours: {share} of held-out rows are wrong."
        if others:
            yield (
                f"Of the other planes {others} may be as good: they are worse by at most {CLEAR:g} standard errors of "
                "the difference."
            )
        yield from (f"Its fit warned: {sentence}" for sentence in best.warnings)
        for failure in dict.fromkeys(one.failure for one in self.tried if one.failure):
            where = "; ".join(f"{one.name}, k = {one.n_neighbors}" for one in self.tried if one.failure == failure)
            yield f"No plane with {where}: {failure}"

    def draw(self, path: Any = None) -> Any:
        """The planes as a picture: a row for each kernel, a column for each number of neighbours.

        The SVM's line is solid, its margins are dashed, and what it has wrong is ringed; rows without a label are grey.

        path: Of a file to write, whose end says the kind: .png, .svg or .pdf. Returns matplotlib's Figure.
        """
        from scalemani.report.drawing import kind_of_picture, picture
        from scalemani.report.planes import Plane, planes_figure

        if self.best.plane is None or self.best.plane.shape[1] != 2:
            raise ScalemaniError("planes are drawn of two axes; choose with n_components=2")
        kind, shown = None if path is None else kind_of_picture(path), []
        for one in self.tried:
            said = "no plane" if one.failure else f"{100 * one.held_out:.1f} % wrong held out"
            shown.append(Plane(f"{one.name}\nk = {one.n_neighbors}: {said}", one.plane, self.codes, one.svm))
        names = [str(one).removesuffix(".0") for one in self.classes]
        figure = planes_figure(shown, names, len({one.n_neighbors for one in self.tried}))
        if kind is not None:
            Path(path).write_bytes(picture(figure, kind))
        return figure
