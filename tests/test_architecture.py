"""The rules of the layout, read from the imports: who may know whom, and what nobody may use."""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import scalemani

ROOT = Path(scalemani.__file__).parent
TREES = {
    str(path.relative_to(ROOT).with_suffix("")).replace("/", "."): ast.parse(path.read_text(encoding="utf-8"))
    for path in ROOT.rglob("*.py")
}
MODULES = sorted(name for name in TREES if not name.endswith("__init__"))

# Folders and files of the top level, in the order in which data go through them: each may import those before it.
ORDER = [
    *("errors", "words", "aliases", "progress", "storage", "cluster"),
    *("points", "neighbors", "graph", "geodesics", "kernel", "embedding", "projection"),
    *("parameters", "steps", "methods", "planning", "model", "fitting", "integrity", "report", "plot", "estimators"),
    *("anndata", "xarray", "formats", "demo", "terminal", "__main__", "engine"),
]  # fmt: skip
STAGES = ORDER[ORDER.index("points") : ORDER.index("parameters")]


@cache
def imports(name, *, top_level_only=False):
    """Every dotted name that a module imports, lazily or not."""
    tree = TREES[name]
    found = set()
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: imports are absolute"
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


@cache
def own(name):
    """The package's modules that a module imports."""
    inside = {dotted.removeprefix("scalemani.") for dotted in imports(name) if dotted.startswith("scalemani.")}
    return {module for module in MODULES for dotted in inside if dotted == module or dotted.startswith(f"{module}.")}


def room(name):
    """The folder of a module, or the module itself at the top level."""
    return name.partition(".")[0]


def each(names):
    """A claim about each of some modules, as one test: an item a module took longer to collect than to check."""

    def claim(function):
        def test():
            for name in names:
                try:
                    function(name)
                except AssertionError as error:
                    raise AssertionError(f"{name}: {error}") from error

        test.__name__, test.__doc__ = function.__name__, function.__doc__
        return test

    return claim


def users_of(*packages, top_level_only=False):
    """Modules that import any of some packages."""
    return {
        name
        for name in TREES
        for dotted in imports(name, top_level_only=top_level_only)
        if any(dotted == package or dotted.startswith(f"{package}.") for package in packages)
    }


def test_every_folder_has_its_place_and_says_in_three_lines_what_lives_there():
    assert {room(name) for name in MODULES} == set(ORDER)
    for folder in {room(name) for name in MODULES if "." in name}:
        said = ast.get_docstring(TREES[f"{folder}.__init__"]).splitlines()
        assert len([line for line in said if line]) == 3, folder
        assert "May import" in said[-1], folder
    assert len([name for name in TREES if "." not in name]) <= 15


@each(MODULES)
def test_a_module_imports_its_own_folder_and_those_before_it(name):
    later = {other for other in own(name) if ORDER.index(room(other)) > ORDER.index(room(name))}
    assert not later


def test_only_the_program_knows_the_command_line():
    assert {name for name in users_of("scalemani.terminal") if room(name) != "terminal"} <= {"__main__"}


def test_the_eigensolver_sees_neither_store_nor_cluster():
    assert own("kernel.eigensolver") == {"aliases", "kernel.blas"}
    assert own("kernel.blas") <= {"aliases"}


def test_nothing_is_imported_in_a_circle():
    """Each module's own imports, all the way down, don't lead back to it."""
    try:
        order = list(TopologicalSorter({name: own(name) - {name} for name in MODULES}).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
    assert len(order) == len(MODULES)


# ---- packages ----------------------------------------------------------------------------------


def test_zarr_is_imported_for_the_users_arrays_alone():
    """The run's own are plain files in Zarr's layout."""
    assert users_of("zarr") == {"storage.user_arrays"}


def test_obstore_is_imported_when_a_url_is_used():
    """An extra: paths of this machine do without."""
    assert users_of("obstore") <= {"storage.buckets"}
    assert users_of("obstore", top_level_only=True) == set()
    assert users_of("fsspec", "s3fs", "boto3") == set()


def test_only_storage_knows_of_what_kind_a_place_is():
    """Others are given one by `open_location`, and call its methods."""
    assert {room(name) for name in users_of("scalemani.storage.objects.ObjectPath")} == {"storage"}


def test_distributed_is_imported_in_one_file():
    assert users_of("distributed", "dask.distributed") == {"cluster.dask_cluster"}


def test_pynndescent_is_imported_only_when_it_runs():
    """It takes half a minute to import."""
    assert {room(name) for name in users_of("pynndescent")} <= {"neighbors"}
    assert users_of("pynndescent", top_level_only=True) == set()


def test_pictures_terminal_and_estimators_keep_their_packages_to_themselves():
    assert users_of("matplotlib") == {"report.drawing"}
    assert {room(name) for name in users_of("sklearn")} <= {"estimators"}
    assert {room(name) for name in users_of("click")} <= {"terminal"}
    assert users_of("rich") <= {"progress", "terminal.console"}


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, scalemani; print([m for m in ('numpy', 'sklearn', 'zarr', 'distributed') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent, check=True)
    assert done.stdout.strip() == "[]"


def test_the_path_that_geodesic_rows_had_still_leads_to_it():
    from scalemani.engine.shortest_paths import geodesic_rows as before

    from scalemani.geodesics import geodesic_rows

    assert before is geodesic_rows


# ---- what nobody may use -----------------------------------------------------------------------


def test_nothing_is_pickled():
    assert users_of("pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal", "_pickle") == set()


def calls(name):
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Call):
            function = node.func
            yield node, getattr(function, "id", None) or getattr(function, "attr", None), isinstance(function, ast.Name)


@each(MODULES)
def test_no_text_is_executed_and_no_pickle_is_allowed(name):
    for node, called, bare in calls(name):
        assert not (bare and called in {"eval", "exec", "compile", "__import__"}), f"line {node.lineno}: {called}"
        assert called not in {"system", "popen", "fork"}, f"line {node.lineno}: {called}"
        for keyword in node.keywords:
            assert not (keyword.arg == "allow_pickle" and getattr(keyword.value, "value", None) is not False)
            assert not (keyword.arg == "shell" and getattr(keyword.value, "value", None) is not False)


@each(MODULES)
def test_warnings_and_random_numbers_are_never_set_for_the_whole_process(name):
    """Libraries are quiet, and leave the user's state alone."""
    scoped = room(name) == "terminal" or any(called == "catch_warnings" for _, called, _ in calls(name))
    for node, called, bare in calls(name):
        assert called not in {"simplefilter", "filterwarnings", "basicConfig"} or scoped, f"line {node.lineno}"
        if called == "seed" and not bare:
            raise AssertionError(f"line {node.lineno}: seeds a shared generator")
        silent = called != "print" or not bare or any(keyword.arg == "file" for keyword in node.keywords)
        assert silent or name == "terminal.console", f"line {node.lineno}: prints"


# ---- form --------------------------------------------------------------------------------------

MOST_LINES = 500  # a lower cap turned growth into files: one idea was spread over three


@each(MODULES)
def test_a_file_has_a_docstring_and_at_most_five_hundred_lines(name):
    assert ast.get_docstring(TREES[name])
    lines = (ROOT / (name.replace(".", "/") + ".py")).read_text(encoding="utf-8").count("\n")
    assert lines <= MOST_LINES


MOST_LINES_IN_ALL = 41_450  # raised by what people see: the shell in words, plots, maps compared, ids, a map to explore


def test_the_package_does_not_grow():
    lines = [path.read_text(encoding="utf-8").count("\n") for path in ROOT.rglob("*.py")]
    assert sum(lines) <= MOST_LINES_IN_ALL


@each(MODULES)
def test_what_is_public_has_a_docstring(name):
    for node in TREES[name].body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{node.name} has none"


@each(MODULES)
def test_no_file_names_a_place_on_somebodys_machine(name):
    text = ast.unparse(TREES[name])
    assert not re.search(r"/(home|root|Users|work|mnt)/\w", text)


def test_tests_lie_where_what_they_test_lies():
    """In a folder of the package's folder's name; what is of the whole lies above."""
    files = [path.parent.name for path in Path(__file__).parent.glob("*/test_*.py")]
    assert {*files} <= {path.parent.name for path in ROOT.glob("*/__init__.py")} and len(files) > 50
