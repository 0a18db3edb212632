"""Labels as classes: every list, array or column of them says the same, and what is no label is refused by its row."""

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from scalemani.errors import ScalemaniError
from scalemani.points.classes import read_labels

NUMBERS, WORDS = [3, 1, 1, 10, 3], ["c", "a", "a", "b", "c"]


@pytest.mark.parametrize(
    "y",
    [
        NUMBERS,
        tuple(NUMBERS),
        np.array(NUMBERS, np.int8),
        np.array(NUMBERS, np.uint64),
        np.array(NUMBERS, float),
        np.array(NUMBERS, object),
        np.ma.array(NUMBERS),
        pd.Series(NUMBERS, index=list("edcba")),
        pd.Series(NUMBERS, dtype="Int64"),
        pd.Categorical(NUMBERS, categories=[10, 3, 1, 7]),
        da.from_array(np.array(NUMBERS), chunks=2),
    ],
    ids=lambda y: f"{type(y).__name__}-{getattr(y, 'dtype', '')}",
)
def test_numbers_in_any_form_are_the_same_classes(y):
    found = read_labels(y)
    assert found.codes.tolist() == [1, 0, 0, 2, 1] and found.codes.dtype == np.int64
    assert found.names == ["1", "3", "10"], "sorted as numbers"


@pytest.mark.parametrize(
    "y",
    [
        WORDS,
        np.array(WORDS),
        np.array(WORDS, "S1"),
        np.array(WORDS, object),
        np.array(WORDS, np.dtypes.StringDType()),
        pd.Series(WORDS),
        pd.Series(WORDS, dtype="string"),
        pd.Series(WORDS, dtype="category"),
    ],
    ids=lambda y: f"{type(y).__name__}-{getattr(y, 'dtype', '')}",
)
def test_words_in_any_form_are_the_same_classes(y):
    found = read_labels(y)
    assert found.codes.tolist() == [2, 0, 0, 1, 2] and found.names == ["a", "b", "c"]


def test_truth_is_a_label():
    for y in ([True, False], np.array([True, False]), np.array([True, False], object)):
        assert read_labels(y).codes.tolist() == [1, 0] and read_labels(y).names == ["False", "True"]


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (np.ones((4, 1)), r"y has shape \(4, 1\).*y\.ravel\(\)"),
        ([[1], [2]], r"y has shape \(2, 1\).*y\.ravel\(\)"),
        (np.ones((4, 2)), r"y has shape \(4, 2\).*one list"),
        (pd.DataFrame({"y": [1, 2]}), r"y has shape \(2, 1\)"),
        (3, r"y has shape \(\)"),
        (sp.csr_array(np.eye(3)), "sparse"),
        ([1.0, 2.0, np.nan, np.nan], r"y is missing at row 2 \(2 of 4 labels\)"),
        (["a", "b", None], "y is missing at row 2"),
        (["a", np.nan, "b"], "y is missing at row 1"),
        ([0, 1, None], "y is missing at row 2"),
        (pd.Series([1, pd.NA, 2], dtype="Int64"), "y is missing at row 1"),
        (pd.Series(["a", None, "b"], dtype="string"), "y is missing at row 1"),
        (pd.Categorical(["a", "b", None]), "y is missing at row 2"),
        (np.ma.array([1, 2, 3], mask=[0, 0, 1]), r"y is masked at row 2 \(1 of 3 labels\)"),
        ([1, 1, 1], "y is '1' in all 3 rows; two classes or more"),
        (["same", "same"], "y is 'same' in all 2 rows"),
        ([], "y is empty"),
        ([0.0, 0.5, 1.0], r"continuous target \(0\.5 at row 1\); labels are needed"),
        ([0.0, np.inf], r"continuous target \(inf at row 1\)"),
        (np.array([0.5, 1.0], object), r"continuous target \(0\.5 at row 0\)"),
        ([1, "a"], "y holds 'a' at row 1; .*all of one kind"),
        ([1, 2j], r"y holds 2j at row 1"),
        ([1, [2, 3]], r"y holds \[2, 3\] at row 1"),
        ([1, 2**70], "too large to be told apart"),
        (np.array([1, 2j]), "y has dtype complex128"),
        (np.array(["2020-01-01", "2021-01-01"], "M8[D]"), "y has dtype datetime64"),
    ],
)
def test_what_is_no_label_is_refused_in_one_line(y, said):
    with pytest.raises(ScalemaniError, match=said) as raised:
        read_labels(y)
    assert "\n" not in str(raised.value)


def test_marks_follow_from_row_and_name_of_the_class_alone():
    digests = np.random.default_rng(0).integers(0, 2**63, (4, 2)).astype(np.uint64)
    digests[1] = digests[0]
    few, more = read_labels(["b", "c", "b", "c"]).marked(digests), read_labels(["b", "c", "b", "a"]).marked(digests)
    assert (few[:3] == more[:3]).all() and (few[3] != more[3]).all()
    assert len(np.unique(few, axis=0)) == 4 and (few != digests).all()


def test_another_number_of_labels_than_rows_is_refused():
    with pytest.raises(ScalemaniError, match="y has 3 labels and X has 4 rows"):
        read_labels([0, 1, 1]).marked(np.zeros((4, 2), np.uint64))
