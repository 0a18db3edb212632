"""Kinds of damage to a store: each takes its folder, a way to choose, and a store of another run; says what it did.

Whatever is chosen, bytes of the store change. `pick(options)` chooses one of a list: hypothesis in the long tests, a
fixed choice in the named ones. A kind that a store has no place for (a line of the ledger where there is none) flips a
bit.
"""

import json
import re
import shutil
from pathlib import Path

from scalemani.storage import arrays as small_arrays
from scalemani.storage.arrays import read as read_small
from scalemani.storage.files import open_location
from scalemani.storage.folders import PARTIAL

DOCUMENTS = ("zarr.json", "document.json")


def tree(store):
    """Every file of a store, by its name below it."""
    store = Path(store)
    return {str(file.relative_to(store)): file.read_bytes() for file in sorted(store.rglob("*")) if file.is_file()}


def rows_of(names):
    """Rows of tiles that some files of a store are of."""
    found = (re.fullmatch(r"distances/c/(\d+)(?:/.*)?|ledger/(\d+)\.json", name) for name in names)
    return {int(match[1] or match[2]) for match in found if match}


def changed(before, after):
    """Names of files that differ between two trees."""
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def _groups(store):
    """Files by what they are: few documents must not be lost among many tiles."""
    groups = {}
    for name in sorted(tree(store)):
        top = name.split("/")[0]
        kind = "document" if name in DOCUMENTS else top if top in ("ledger", "distances") else "array"
        kind += " metadata" if name.endswith("/zarr.json") else ""
        groups.setdefault(kind, []).append(name)
    return groups


def any_file(store, pick, wanted=lambda name: True):
    """One of the files, of each group as often; None where none is wanted."""
    groups = [list(filter(wanted, names)) for names in _groups(store).values()]
    groups = [names for names in groups if names]
    return pick(pick(groups)) if groups else None


def arrays(store):
    """Folders of arrays, D's too."""
    return sorted(place.parent for place in Path(store).glob("*/zarr.json"))


def flip(store, pick, other):
    """One bit; every fourth time of the last byte, which may be padding."""
    name = any_file(store, pick)
    content = bytearray((store / name).read_bytes())
    at = len(content) - 1 if pick([0, 1, 2, 3]) == 0 else pick(range(len(content)))
    content[at] ^= 1 << pick(range(8))
    (store / name).write_bytes(content)
    return f"{name} at {at}"


def truncate(store, pick, other):
    name = any_file(store, pick)
    content = (store / name).read_bytes()
    kept = pick(range(1, len(content)))
    (store / name).write_bytes(content[:kept])
    return f"{name} to {kept}"


def empty(store, pick, other):
    name = any_file(store, pick)
    (store / name).write_bytes(b"")
    return name


def delete(store, pick, other):
    name = any_file(store, pick)
    (store / name).unlink()
    return name


def zero(store, pick, other):
    """As a file system does after a crash: the length stays."""
    name = any_file(store, pick, lambda name: any((store / name).read_bytes()))
    content = (store / name).read_bytes()
    begin = pick([0, len(content) // 2])
    new = content[:begin] + bytes(len(content) - begin)
    (store / name).write_bytes(new if new != content else bytes(len(content)))
    return f"{name} from {begin}"


def append(store, pick, other):
    name = any_file(store, pick)
    more = pick([b"\0", b"\n", b" ", b"\0" * 4096, b"{}"])
    (store / name).write_bytes((store / name).read_bytes() + more)
    return f"{name} {more[:4]!r}"


def swap_files(store, pick, other):
    """Two of one group: two tiles, two lines, two arrays' chunks."""
    groups = [names for names in _groups(store).values() if len({(store / name).read_bytes() for name in names}) > 1]
    names = pick(groups)
    first = pick(names)
    content = (store / first).read_bytes()
    second = pick([name for name in names if (store / name).read_bytes() != content])
    (store / first).write_bytes((store / second).read_bytes())
    (store / second).write_bytes(content)
    return f"{first} and {second}"


def swap_arrays(store, pick, other):
    """Folders of two arrays, which are whole each."""
    there = arrays(store)
    first = pick(there)
    second = pick([place for place in there if tree(place) != tree(first)])
    between = store / "between"
    first.rename(between)
    second.rename(first)
    between.rename(second)
    return f"{first.name} and {second.name}"


def of_another_run(store, pick, other):
    """A file of the same name: a tile, a line, a chunk, a document."""
    theirs = tree(other)
    name = any_file(store, pick, lambda name: name in theirs and theirs[name] != (store / name).read_bytes())
    if name is None:
        return flip(store, pick, other)
    (store / name).write_bytes(theirs[name])
    return name


def tile_of_another_run(store, pick, other):
    """What a backup that was put back in the wrong place does."""
    theirs = tree(other)
    name = any_file(store, pick, lambda name: name.startswith("distances/c/") and name in theirs)
    if name is None or theirs[name] == (store / name).read_bytes():
        return of_another_run(store, pick, other)
    (store / name).write_bytes(theirs[name])
    return name


def line_of_another_row(store, pick, other):
    names = sorted(name for name in tree(store) if name.startswith("ledger/"))
    if len(names) < 2:
        return flip(store, pick, other)
    first = pick(names)
    second = pick([name for name in names if name != first])
    (store / first).write_bytes((store / second).read_bytes())
    return f"{first} from {second}"


def delete_folder(store, pick, other):
    name = pick(sorted(str(place.relative_to(store)) for place in store.rglob("*") if place.is_dir()) or [None])
    if name is None:
        return delete(store, pick, other)
    shutil.rmtree(store / name)
    return name


def white_space(store, pick, other):
    """As an editor leaves a JSON file: the same values."""
    name = any_file(store, pick, lambda name: name.endswith(".json"))
    text = (store / name).read_text()
    new = json.dumps(json.loads(text), indent=pick([1, 2, 4]))
    (store / name).write_text(new if new != text else new + "\n")
    return name


def number(store, pick, other):
    """The last digit of a number of a JSON file, and nothing else of its text."""
    name = any_file(store, pick, lambda name: name.endswith(".json"))
    text = (store / name).read_text()
    found = pick(list(re.finditer(r"(?<=[:\[,\s])-?\d[\d.]*(?=[,\]}\s])", text)))
    at = found.end() - 1
    (store / name).write_text(text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :])
    return f"{name}: {found[0]} of {text[max(0, found.start() - 24) : found.start()]!r}"


def array_written_anew(store, pick, other):
    """One number changed by a program that makes all checksums of the array anew, and knows nothing of the document.

    Not of pieces of a search, which the document does not know before the search is done.
    """
    known = json.loads((store / "document.json").read_text())["arrays"]
    there = [place.name for place in arrays(store) if place.name != "distances" and place.name in known]
    there = [name for name in there if read_small(open_location(store), name, None).size]
    if not there:
        return flip(store, pick, other)
    name = pick(there)
    array = read_small(open_location(store), name, None)
    at = pick(range(array.size))
    array.flat[at] = not array.flat[at] if array.dtype == bool else array.flat[at] + 1
    small_arrays.write(open_location(store), name, array)
    return f"{name}[{at}]"


def half_json(store, pick, other):
    """A write that was cut short, by a program that does not rename."""
    name = any_file(store, pick, lambda name: name.endswith(".json"))
    content = (store / name).read_bytes()
    (store / name).write_bytes(content[: len(content) // 2])
    return name


def stray(store, pick, other):
    """A file that no run makes, or that a killed one was making."""
    folder = pick([store, *sorted(place for place in store.rglob("*") if place.is_dir())])
    name = pick(["0" + "a" * 31 + PARTIAL, ".nfs0000", "copy of zarr.json", "Thumbs.db"])
    (folder / name).write_bytes(b"anything")
    return str((folder / name).relative_to(store))


def copy_damaged(store, pick, other):
    """The second copy of the document alone: emptied, halved or an older one's text."""
    place = store / "document.json"
    content = place.read_bytes()
    place.write_bytes(pick([b"", content[: len(content) // 2], content.replace(b'"seed":0', b'"seed":1')]))
    return "document.json"


KINDS = {
    kind.__name__: kind
    for kind in (
        *(flip, truncate, empty, delete, zero, append, swap_files, swap_arrays, of_another_run, tile_of_another_run),
        *(line_of_another_row, delete_folder, white_space, number, array_written_anew, half_json, stray, copy_damaged),
    )
}
