"""What the numbers of any run mean and what to do, in plain words: notices, and sentences beside the charts."""

from collections.abc import Iterator, Mapping
from typing import Any

from scalemani.methods.words import Account, Notice, Words
from scalemani.neighbors.lists import LEAST_RECALL
from scalemani.words import count, number, percent


def setting(value: Any) -> str:
    """A parameter's value as it is given.

    >>> setting(None), setting(10), setting(1e-06), setting({"p": 3}), setting("union")
    ('none', '10', '1e-06', 'p = 3', 'union')
    """
    if isinstance(value, dict):
        return ", ".join(f"{name} = {setting(item)}" for name, item in value.items()) or "none"
    return "none" if value is None else str(value)


def dimension_in_words(dimension: Mapping[str, Any]) -> str:
    """Estimates of the dimension, as :func:`scalemani.embedding.dimension.suggested_dimension` gives them."""
    names = {
        "correlation": "(correlation dimension, by how fast the number of near pairs grows; too low where it is high)",
        "hypersphere": "(by the shape of their distribution, compared with a sphere's)",
    }
    parts = [
        f"{dimension[key]['dimension']:.2f} ± {dimension[key]['standard_error']:.2f} {name}"
        for key, name in names.items()
        if dimension.get(key) is not None
    ]
    if not parts:
        return "There are too few distances to estimate the dimension of the data from."
    agreed = f" Both suggest {count(dimension['suggested'], 'axis', 'axes')}." if dimension.get("agree") else ""
    return f"Estimated from geodesic distances, the data has the dimension {' or '.join(parts)}.{agreed}"


def which_to_follow(caution: str, *, curve: bool) -> str:
    """Which of the answers counts when they disagree; `curve` says that residual variance by axes is among them."""
    if not curve:
        return f"{caution}If these answers disagree, the residual variance of a fit with more axes decides."
    return (
        f"{caution}If these answers disagree, trust the residual variance: take the number of axes at which it stops "
        "falling, or 1 if it never falls."
    )


LARGE_RESIDUAL = 0.1  # residual variance with all axes


def notices(
    words: Words, spectrum: Account, tol: float, residual_variance: float | None, idle: int, n_axes: int
) -> list[Notice]:
    """What a reader of the map has to know: warnings, then remarks.

    words: Of the method.
    spectrum: ``spectrum_`` of the model.
    residual_variance: With all axes.
    idle: Axes on which every point is at 0.
    """
    found = [
        *_about_the_graph(spectrum),
        *words.notices(spectrum, tol, idle=bool(idle)),
        *_about_the_axes(idle, n_axes),
        *_about_the_fit(residual_variance, words.loose(spectrum)),
    ]
    return sorted(found, key=lambda notice: not notice.warning)


def _about_the_graph(s: Account) -> Iterator[Notice]:
    dropped = s["n_distinct"] - s["n_vertices"]
    if dropped > 0:
        yield Notice(
            f"{count(dropped, 'point')} of {s['n_distinct']:,} {'is' if dropped == 1 else 'are'} not in the map.",
            [
                "The neighbour graph is in several parts, and only the largest is embedded. More neighbours, or "
                "--disconnected join where a method takes it, bring the others in.",
            ],
        )
    if s.get("n_bridges") and s.get("n_classes"):
        yield Notice(
            f"Classes were in several parts, which were joined by {count(s['n_bridges'], 'bridge')}.",
            ["Distances across a bridge are those of a gap. More neighbours may join the parts by data."],
        )
    elif s.get("n_bridges"):
        yield Notice(
            f"The graph was in several parts, joined by {count(s['n_bridges'], 'bridge')}.",
            [
                "The distance across a bridge is that of a gap, not of the data. So how the parts lie to each other "
                "means little. More neighbours may join them by data.",
            ],
        )
    if s.get("n_shortcuts"):
        edges = count(s["n_shortcuts"], "edge")
        if s["shortcuts_removed"]:
            were = "was" if s["n_shortcuts"] == 1 else "were"
            headline = f"{edges} that leapt from one part of the data to another {were} taken out."
            advice = "With fewer neighbours there may be none: scalemani scan shows it."
        else:
            leap = "leaps" if s["n_shortcuts"] == 1 else "leap"
            headline = f"{edges} of the graph {leap} from one part of the data to another."
            advice = (
                f"They make {percent(s['shortcut_harm'])} of the sampled distances too short, and the map is bent. Use "
                "--shortcuts remove, or fewer neighbours: scalemani scan says how many."
            )
        yield Notice(headline, [advice], warning=not s["shortcuts_removed"])
    recall = s.get("knn_recall")
    if recall is not None and recall < LEAST_RECALL:
        yield Notice(
            f"The neighbour search found {percent(recall)} of the true neighbours in a sample.",
            ["Missing neighbours lengthen paths. --knn exact finds all."],
        )


def _about_the_axes(idle: int, p: int) -> Iterator[Notice]:
    if idle:
        yield Notice(
            f"{count(idle, 'axis', 'axes')} of {p} {'carries' if idle == 1 else 'carry'} nothing.",
            [
                "Every point is at 0 there: the data has no further directions, or none above the constant's share. "
                f"Ask for {count(max(p - idle, 1), 'axis', 'axes')} or fewer.",
            ],
        )


def _about_the_fit(residual_variance: float | None, loose: str) -> Iterator[Notice]:
    if loose and residual_variance is not None and residual_variance > LARGE_RESIDUAL:
        yield Notice(f"Residual variance is {number(residual_variance, 3)} with all axes.", [loose])
