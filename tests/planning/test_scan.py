"""A scan over numbers of neighbours: what it says of each is what a fit of it gives, and what it advises is sound."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from data import neighbor_graph, two
from scipy.spatial.distance import cdist

import scalemani
from scalemani import Isomap, scan
from scalemani.demo import swiss_roll
from scalemani.errors import ScalemaniError
from scalemani.neighbors.lists import even_lists
from scalemani.planning.scan import Scanned, recommended
from scalemani.report.scan import scan_page
from scalemani.terminal.commands import cli

ROLL = swiss_roll(1200, noise_variance=0.25, random_state=0)


@pytest.fixture(scope="module")
def scanned():
    return scan(ROLL.points, range(4, 17))


def test_on_the_roll_a_sound_k_is_recommended_and_why_not_12(scanned):
    assert 7 <= scanned.recommended <= 10
    assert "At k = 11 to 16, edges leap" in scanned.reason and "shortcuts='remove'" in scanned.reason
    leaping = {one.n_neighbors for one in scanned.ks if one.n_shortcuts}
    assert leaping == set(range(11, 17))
    before = next(one for one in scanned.ks if one.n_neighbors == 10)
    assert before.agreement < 0.5  # the map of 11 is another


@pytest.mark.parametrize("k", [8, 12])
def test_what_is_said_of_a_k_is_what_a_fit_gives(scanned, k):
    one = next(one for one in scanned.ks if one.n_neighbors == k)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Isomap(n_neighbors=k, n_components=5).fit(ROLL.points)
    s = model.spectrum_
    assert one.n_shortcuts == s["n_shortcuts"] and one.n_parts == s["n_components_of_graph"] == 1
    mass = s["negative_mass"] / s["trace_unshifted"]
    assert one.negative_mass == pytest.approx(mass, rel=0.25, abs=0.03)
    geodesic = model.geodesics(range(0, 1200, 10))
    for p in (1, 2, 5):
        embedded = cdist(model.embedding_[::10, :p], model.embedding_[:, :p])
        exact = 1 - np.corrcoef(geodesic.ravel(), embedded.ravel())[0, 1] ** 2
        assert one.residual_variances[p - 1] == pytest.approx(exact, rel=0.5, abs=0.002)


def test_parts_are_counted_and_the_largest_is_looked_at():
    found = scan(two(200), [3, 5])
    assert [one.n_parts for one in found.ks] == [2, 2] and found.ks[1].largest == 0.5
    assert found.recommended is None and "falls into parts" in found.reason
    joined = scan(two(200), [8], disconnected="join")
    assert joined.ks[0].n_parts == 2 and joined.ks[0].largest == 1.0


def test_distances_and_lists_give_the_same_as_points():
    points = ROLL.points[:500]
    first = scan(points, [6, 9], random_state=3)
    again = scan(cdist(points, points), [6, 9], metric="precomputed", random_state=3)
    for one, other in zip(first.ks, again.ks, strict=True):
        assert (one.n_shortcuts, one.n_parts) == (other.n_shortcuts, other.n_parts)
        np.testing.assert_allclose(one.residual_variances, other.residual_variances, rtol=1e-3)


def test_the_nearest_of_lists_are_the_lists_of_fewer():
    table = np.array([[1, 2, 3], [0, 2, 3], [1, 0, 3], [0, 1, 2]])
    lists = even_lists(table, np.arange(12.0).reshape(4, 3), "brute", 1.0, None)
    fewer = lists.nearest(2)
    assert fewer.indptr.tolist() == [0, 2, 4, 6, 8] and fewer.indices.tolist() == table[:, :2].ravel().tolist()
    assert fewer.left_out == 0 and lists.nearest(9).indices.tolist() == table.ravel().tolist()


def scanned_k(k, *, parts=1, shortcuts=0, agreement=1.0, mass=0.05):
    return Scanned(
        n_neighbors=k,
        n_parts=parts,
        largest=1.0,
        n_shortcuts=shortcuts,
        shortcut_flow=0.2 if shortcuts else 0.0,
        negative_mass=mass,
        mass_without=0.05 if shortcuts else mass,
        residual_variances=(0.1,),
        agreement=agreement,
    )


def test_the_middle_of_the_longest_run_of_maps_that_agree_is_recommended():
    """No k with parts or shortcuts is in a run, and none goes on where two maps differ."""
    found = [
        scanned_k(4, parts=3), scanned_k(5, agreement=0.5), scanned_k(6), scanned_k(7), scanned_k(8),
        scanned_k(9, agreement=0.9), scanned_k(10), scanned_k(11, shortcuts=2),
    ]  # fmt: skip
    k, why = recommended(found)
    assert k == 7 and "k = 6 to 9 give the same map" in why and "At k = 4 the graph falls into parts" in why
    assert "At k = 11, edges leap" in why and "2 edges leap, and 20.0 %" in why
    k, why = recommended([scanned_k(3, parts=2), scanned_k(4, shortcuts=1)])
    assert k is None and why.startswith("No k is recommended.") and "smaller" not in why
    assert recommended([scanned_k(8, shortcuts=1), scanned_k(25, shortcuts=9)])[1].endswith("Scan smaller k, too.")
    assert recommended([scanned_k(9, agreement=None)])[0] == 9


def test_a_k_whose_negative_mass_stands_out_is_not_recommended():
    """Many edges leap there, and no few of them."""
    bent = scanned_k(8, mass=0.4)
    k, why = recommended([scanned_k(5), bent, scanned_k(9, mass=0.4), scanned_k(10, mass=0.4)])
    assert k == 5 and "At k = 8 to 10 the negative mass is much larger" in why
    k, why = recommended([bent, scanned_k(9, mass=0.42)])
    assert k == 8 and "All maps have a negative mass of 0.4 or more" in why


def test_parts_that_are_joined_are_sound():
    found = scan(two(200), [8, 9, 10], disconnected="join")
    assert found.recommended == 9 and "falls into parts" not in found.reason


def test_where_too_many_edges_leap_the_scan_says_so():
    """The demo's roll: at 55 and 60 neighbours 72 and 124 edges leap, which are too many to be found."""
    found = scan(swiss_roll(1200, turns=1, even=True, random_state=0).points, range(5, 61, 5))
    assert 10 <= found.recommended <= 30
    assert "k = 5 to 35 give the same map" in found.reason and "At k = 55 and 60 the negative mass" in found.reason


@pytest.mark.parametrize(
    ("k", "how", "message"),
    [
        ([], {}, "no number in n_neighbors"),
        ([3, 0], {}, "0 among n_neighbors"),
        ([3, True], {}, "True among n_neighbors"),
        ([2.5], {}, "2.5 among n_neighbors"),
        (None, {}, "None among n_neighbors"),
        (5.0, {}, "5.0 among n_neighbors"),
        ([50], {}, "n_neighbors=50 needs at least 51 distinct rows"),
        ([3], {"metric": "geodesic"}, "given distances are final"),
        ([3], {"store": "x"}, "a parameter of scan: 'store'"),
        ([3], {"shortcuts": "remove"}, "a parameter of scan: 'shortcuts'"),
        ([3], {"metric": "nonsense"}, "metric"),
    ],
)
def test_what_a_scan_can_not_do_is_said(k, how, message):
    with pytest.raises(ScalemaniError, match=message):
        scan(np.random.default_rng(0).random((50, 3)), k, **how)


def test_a_finished_graph_has_no_neighbours_to_choose():
    with pytest.raises(ScalemaniError, match="X is a finished graph"):
        scan(neighbor_graph(ROLL.points[:100], 5), [3], metric="precomputed")


@pytest.mark.parametrize("X", [np.arange(4.0)[:, None], np.eye(5), np.zeros((3, 1)) + [[0], [0], [1]]])
def test_tiny_sets_are_scanned(X):
    found = scan(X, [1, 2] if len(np.unique(X, axis=0)) > 2 else [1], n_components=1)
    json.dumps(found.record(), allow_nan=False)
    str(found)


@pytest.mark.parametrize("scale", [1e-100, 1e-46, 1e37, 1e100])
def test_the_unit_of_the_points_does_not_matter(scale):
    first, again = (scan(ROLL.points[:300] * unit, [6, 8]).ks for unit in (1.0, scale))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_allclose(one.residual_variances, other.residual_variances, rtol=1e-3)


def test_more_axes_than_the_curve_has_are_compared():
    found = scan(np.random.default_rng(0).standard_normal((300, 8)), [8, 9], n_components=7)
    assert len(found.ks[0].residual_variances) == 5 and 0 < found.ks[0].agreement < 1


def test_progress_is_told():
    seen = []
    scan(ROLL.points[:300], [5, 6], progress=lambda *call: seen.append(call))
    assert [call for call in seen if call[0] == "scan"] == [("scan", 0, 2), ("scan", 1, 2), ("scan", 2, 2)]


# ---- as people see it --------------------------------------------------------------------------------


def test_the_table_has_a_line_for_each_k(scanned):
    lines = str(scanned).splitlines()
    assert lines[0].split()[:2] == ["k", "parts"] and "as next" in lines[0]
    assert [line.split()[0] for line in lines[1:14]] == [str(k) for k in range(4, 17)]
    assert lines[-1] == scanned.reason


def test_the_page_says_the_same(scanned):
    page = scan_page(scanned, "roll <x>")
    assert f"Take {scanned.recommended} neighbours." in page and "roll &lt;x&gt;" in page
    assert page.count("<img") == 1 and scanned.table()[1][7][2] in page
    wrong = [one for one in scanned.ks if one.n_shortcuts or one.n_parts > 1]
    sound = replace(scanned, ks=[one for one in scanned.ks if one not in wrong])
    assert (
        wrong and "Shaded numbers" in page and "Shaded" not in scan_page(sound, "roll")
    )  # where nothing is, nothing is said


def run(*words):
    return CliRunner().invoke(cli, ["scan", *map(str, words)], catch_exceptions=False)


def test_the_command_prints_it_and_writes_a_page(tmp_path, scanned):
    np.save(tmp_path / "x.npy", ROLL.points)
    found = run(tmp_path / "x.npy", "-k", "4:16", "--json", "-q")
    assert json.loads(found.output) == scanned.record()
    said = run(tmp_path / "x.npy", "--neighbors", "9:13:2", "--report", tmp_path / "s.html", "-q")
    assert said.exit_code == 0 and "--shortcuts remove" in said.output
    assert [line.split()[0] for line in said.output.splitlines()[1:4]] == ["9", "11", "13"]
    assert "Take 9 neighbours." in (tmp_path / "s.html").read_text()
    twice = run(tmp_path / "x.npy", "-k", "9", "-k", "7,8", "--json", "-q")
    assert [one["n_neighbors"] for one in json.loads(twice.output)["ks"]] == [7, 8, 9]
    with pytest.raises(ScalemaniError, match="exists"):
        run(tmp_path / "x.npy", "--report", tmp_path / "s.html")


@pytest.mark.parametrize("words", ["20:4", "0:5", "a", "4:", "4:9:0", "5,,6", "-3", "20:4:-4", "1:100000000000"])
def test_what_is_no_range_is_refused(tmp_path, words):
    np.save(tmp_path / "x.npy", ROLL.points[:50])
    found = CliRunner().invoke(cli, ["scan", str(tmp_path / "x.npy"), f"--neighbors={words}"])
    assert found.exit_code == 2 and "is no number from 1 on, nor FIRST:LAST" in found.output


def test_it_is_found_where_users_look():
    assert scalemani.scan is scan and "scan" in dir(scalemani)
