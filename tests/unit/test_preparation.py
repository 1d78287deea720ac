"""What is learnt from the training table treats every later table alike."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from isopivot.data import (
    FileError,
    Preparation,
    PreparationOptions,
    Table,
    read_table,
    write_table,
)

EPS = np.finfo(np.float64).eps


def table_of(columns, name="t.csv", lines=True):
    frame = pd.DataFrame(columns)
    numbers = np.arange(len(frame)) + 2 if lines else None
    return Table(frame, tuple(map(str, frame.columns)), name, numbers)


def learn(cells, /, **options):
    return Preparation.learn(table_of(cells), PreparationOptions(**options))


def refusal(action, *args, **options):
    """Call what must fail; return the message, which must be one line with a remedy."""
    with pytest.raises(FileError, match=r".+") as caught:
        action(*args, **options)
    message = str(caught.value)
    assert message.isprintable()
    assert ";" in message
    return message


PEOPLE = {
    "who": ["ann", "bob", "cid", "dee"],
    "age": [30, 40, 50, 60],
    "height": [1.5, 1.6, 1.7, 1.8],
    "colour": ["red", "blue", "red", "green"],
    "class": ["x", "y", "x", "y"],
}


# Ids, labels, selection


def test_ids_and_labels_are_no_features():
    plan = learn(PEOPLE, id="who", label="class", drop=["colour"])
    done = plan.apply(table_of(PEOPLE), label=True)
    assert plan.feature_names == ("age", "height")
    assert done.ids.tolist() == PEOPLE["who"]
    assert done.id_name == "who"
    assert done.labels.tolist() == PEOPLE["class"]
    assert done.notices == ()
    np.testing.assert_array_equal(done.X, np.column_stack([PEOPLE["age"], PEOPLE["height"]]))


def test_rows_without_ids_are_numbered_from_0():
    done = learn({"a": [1.0, 2.0]}).apply(table_of({"a": [5.0, 6.0, 7.0]}))
    assert done.id_name == "row"
    assert done.ids.tolist() == [0, 1, 2]
    assert done.labels is None


def test_the_order_of_asked_columns_is_kept():
    plan = learn(PEOPLE, columns=["height", "age"])
    assert plan.feature_names == ("height", "age")
    assert plan.apply(table_of(PEOPLE)).X[0].tolist() == [1.5, 30.0]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [([1, 2, 1, 2], "i"), ([0.5, 1.5, 0.5, 1.5], "f"), (["1a"] * 4, "U"), ([True] * 4, "b")],
)
def test_labels_are_what_the_file_has(tmp_path, labels, kind):
    path = tmp_path / "t.csv"
    write_table(path, pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "label": labels}))
    table = read_table(path)
    done = Preparation.learn(table, PreparationOptions(label="label")).apply(table, label=True)
    assert done.labels.dtype.kind == kind
    assert done.labels.tolist() == labels


def test_the_label_may_be_absent_later_unless_it_is_asked_for():
    plan = learn({"a": [1.0, 2.0], "class": ["x", "y"]}, label="class")
    later = table_of({"a": [3.0]})
    done = plan.apply(later)
    assert done.labels is None
    assert done.notices == ()
    assert "no label column 'class'" in refusal(plan.apply, later, label=True)
    assert "without labels" in refusal(learn({"a": [1.0]}).apply, later, label=True)


def test_an_absent_id_falls_back_to_row_numbers():
    plan = learn({"a": [1.0, 2.0], "who": ["x", "y"]}, id="who")
    done = plan.apply(table_of({"a": [3.0, 4.0]}))
    assert (done.id_name, done.ids.tolist()) == ("row", [0, 1])
    assert done.notices == ("t.csv has no id column 'who'; rows are numbered from 0",)


@pytest.mark.parametrize("role", ["id", "label"])
def test_missing_ids_and_labels_are_refused(role):
    columns = {"a": [1.0, 2.0, 3.0], "b": ["x", None, "y"]}
    plan = learn({"a": [1.0], "b": ["x"]}, **{role: "b"})
    message = refusal(plan.apply, table_of(columns), label=role == "label")
    assert f"row 2 (line 3 of the file) has no {role} in column 'b'" in message


def test_columns_are_matched_by_name_and_others_ignored_aloud():
    plan = learn({"a": [1.0], "b": [2.0], "unused": [0.0]}, drop=["unused"])
    done = plan.apply(table_of({"extra": [9.0], "b": [4.0], "unused": [8.0], "a": [3.0]}))
    assert done.X.tolist() == [[3.0, 4.0]]
    assert len(done.notices) == 1
    assert "'extra'" in done.notices[0]


def test_missing_columns_are_named():
    plan = learn({"length": [1.0], "width": [2.0], "depth": [3.0]})
    message = refusal(plan.apply, table_of({"Length": [1.0], "depth": [3.0]}))
    assert "lacks 2 of the 3 columns" in message
    assert "'length', 'width'; add them or rename; did you mean 'Length'?" in message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": ["agee"]}, "no column 'agee', named by --columns; did you mean 'age'?"),
        ({"drop": ["zzz"]}, "named by --drop; it has 'who', 'age'"),
        ({"id": "Who"}, "named by --id or --label; did you mean 'who'?"),
        ({"label": "klass"}, "did you mean 'class'?"),
        ({"id": "who", "label": "who"}, "both --id and --label"),
        ({"columns": ["age", "age"]}, "--columns names 'age' more than once"),
        (
            {"columns": ["age", "who"], "id": "who"},
            "--columns names 'who', which is the id or the label",
        ),
        ({"columns": ["age"], "drop": ["age"]}, "no column left"),
        ({"scale": "log"}, "choose one of none, standardize, unit-box"),
        ({"impute": "mean"}, "choose median or drop"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, words):
    assert words in refusal(learn, PEOPLE, **options)


# Cells that are no numbers


def test_the_first_text_is_named_with_the_remedies():
    message = refusal(learn, {"a": [1.0, 2.0], "b": ["1", "x"]})
    assert "t.csv: column 'b' holds 'x' in row 2 (line 3 of the file)" in message
    for remedy in ("--one-hot", "--drop 'b'", "--columns"):
        assert remedy in message


def test_rows_of_files_without_lines_are_counted_from_1():
    table = table_of({"b": ["x"]}, lines=False)
    assert "in row 1 (counting from 1)" in refusal(Preparation.learn, table)


DATES = ["2024-01-31", "31.1.2024", "1/31/24 12:30", "12:30:00", "31-Jan-2024", "2024-01-31T12Z"]


@pytest.mark.parametrize("date", DATES)
def test_dates_are_to_be_dropped_not_made_columns(date):
    message = refusal(learn, {"a": [date, "2024"]})
    assert "--drop 'a' leaves it out; dates and times" in message
    assert "--one-hot" not in message


@pytest.mark.parametrize(
    ("cells", "remedy"),
    [
        ([f"person {i}" for i in range(30)], "; --drop 'a'"),
        (["1.2.3-4", "red"] * 15, "; --one-hot"),
        ([f"{i},5" for i in range(30)], "; mend the column, or leave it out by --drop 'a'"),
        (["oops", *(str(i) for i in range(300))], "; mend the column"),
    ],
)
def test_the_remedy_fits_the_texts(cells, remedy):
    message = refusal(learn, {"a": cells})
    assert remedy in message
    assert message.count("--one-hot") == remedy.count("--one-hot")


def test_a_decimal_comma_is_recognised():
    assert "decimal point, not a comma" in refusal(learn, {"a": ["1,5", "2,5"]})


@pytest.mark.parametrize(
    "values",
    [
        pd.to_datetime(["2020-01-01", "2020-01-02"]),
        [datetime.date(2020, 1, 1)] * 2,
        pd.to_timedelta([1, 2], unit="s"),
        [1 + 2j, 3j],
    ],
    ids=["timestamp", "date", "timedelta", "complex"],
)
def test_dates_and_the_like_are_refused(values):
    assert "is not a number" in refusal(learn, {"a": [1.0, 2.0], "when": values})


def test_dates_and_lists_have_no_categories():
    dates = {"when": pd.to_datetime(["2020-01-01"])}
    assert "neither numbers nor categories" in refusal(learn, dates, one_hot=True)
    lists = {"a": pd.Series([[1], [2]], dtype=object)}
    assert "holds lists" in refusal(learn, lists, one_hot=True)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ([True, False], [1, 0]),
        (pd.Series([True, False], dtype="boolean"), [1, 0]),
        (pd.Series([3, 4], dtype="Int64"), [3, 4]),
        (pd.Series([3, 4], dtype="category"), [3, 4]),
        (["3", "4.5"], [3, 4.5]),
        (pd.Series([2**70, -1], dtype=object), [2.0**70, -1]),
        (["18446744073709551615", "-2"], [2.0**64, -2]),
        (np.array([2**53 + 1, 1]), [2.0**53, 1]),
        (np.array([1, 2], dtype=np.float32), [1, 2]),
    ],
)
def test_every_way_to_hold_numbers_gives_numbers(column, values):
    table = table_of({"a": column})
    X = Preparation.learn(table).apply(table).X
    assert X.dtype == np.float64
    assert X.ravel().tolist() == values


@pytest.mark.parametrize(
    "column",
    [
        [True, None],
        pd.Series([True, None], dtype="boolean"),
        pd.Series([1, None], dtype="Int64"),
        [1.0, np.nan],
        pd.Series(["1", None], dtype=object),
    ],
)
def test_every_way_to_miss_a_number_is_a_gap(column):
    table = table_of({"a": column})
    assert "column 'a' has no value in row 2 (line 3" in refusal(Preparation.learn, table)
    done = Preparation.learn(table, PreparationOptions(impute="drop")).apply(table)
    assert (done.X.tolist(), done.rows.tolist()) == ([[1.0]], [0])


def test_text_where_numbers_were_learnt_is_refused():
    plan = learn({"a": [1.0]})
    message = refusal(plan.apply, table_of({"a": ["1", "many"]}))
    assert "learnt as numbers but holds 'many' in row 2 (line 3 of the file)" in message


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("impute", [None, "median", "drop"])
def test_infinity_is_refused(value, impute):
    columns = {"a": [1.0, 2.0], "b": [1.0, value]}
    words = f"column 'b' holds {value} in row 2 (line 3 of the file)"
    assert words in refusal(learn, columns, impute=impute)
    plan = learn({"a": [1.0], "b": [1.0]}, impute=impute)
    assert words in refusal(plan.apply, table_of(columns))


# Gaps


GAPPY = {"a": [1.0, np.nan, 5.0, 100.0], "b": [1.0, 2.0, np.nan, 4.0]}


def test_gaps_are_refused_with_both_remedies():
    message = refusal(learn, GAPPY)
    assert "column 'a' has no value in row 2 (line 3 of the file) (2 missing in all)" in message
    assert "--impute median" in message
    assert "--drop-missing" in message


def test_medians_are_those_of_the_training_table():
    plan = learn(GAPPY, impute="median")
    done = plan.apply(table_of({"a": [np.nan, 7.0], "b": [np.nan, np.nan]}))
    assert done.X.tolist() == [[5.0, 2.0], [7.0, 2.0]]
    assert done.notices == ("t.csv: 3 missing values filled by medians",)


def test_dropped_rows_keep_numbers_ids_and_labels_right():
    columns = {**GAPPY, "who": list("wxyz"), "class": [1, 2, 3, 4]}
    plan = learn(columns, impute="drop", id="who", label="class")
    done = plan.apply(table_of(columns), label=True)
    assert done.rows.tolist() == [0, 3]
    assert done.ids.tolist() == ["w", "z"]
    assert done.labels.tolist() == [1, 4]
    assert done.X.tolist() == [[1.0, 1.0], [100.0, 4.0]]
    assert done.notices == ("t.csv: 2 of 4 rows left out for missing values",)
    assert learn(GAPPY, impute="drop").apply(table_of(GAPPY)).ids.tolist() == [0, 3]


def test_dropped_rows_do_not_count_for_the_scale():
    plan = learn({"a": [0.0, 2.0, 1e9], "b": [1.0, 2.0, np.nan]}, impute="drop", scale="unit-box")
    assert plan.divisors[0] == 2.0


def test_nothing_left_is_refused():
    assert "in every row" in refusal(learn, {"a": [1.0, np.nan], "b": [np.nan, 1.0]}, impute="drop")
    message = refusal(learn, {"a": [1.0, 2.0], "b": [np.nan, np.nan]}, impute="median")
    assert "no value at all in 'b'" in message


def test_a_median_of_the_largest_numbers_is_finite():
    big = np.finfo(np.float64).max
    plan = learn({"a": [big, big, np.nan]}, impute="median")
    assert plan.fills == (big,)


# One-hot


def test_texts_become_sorted_columns():
    plan = learn(PEOPLE, id="who", label="class", one_hot=True)
    assert plan.feature_names == ("age", "height", "colour=blue", "colour=green", "colour=red")
    X = plan.apply(table_of(PEOPLE)).X
    assert X[:, 2:].tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert X[:, 0].tolist() == PEOPLE["age"]


def test_unknown_texts_are_all_zeros_and_noted():
    plan = learn({"colour": ["red", "blue"]}, one_hot=True)
    done = plan.apply(table_of({"colour": ["red", "pink", "black"]}))
    assert done.X.tolist() == [[0, 1], [0, 0], [0, 0]]
    assert len(done.notices) == 1
    assert "'colour' holds texts unknown to the model in 2 rows, first in row 2" in done.notices[0]


def test_a_missing_text_takes_the_most_frequent():
    plan = learn({"colour": ["red", "blue", "red", None]}, one_hot=True, impute="median")
    assert plan.apply(table_of({"colour": [None, "blue"]})).X.tolist() == [[0, 1], [1, 0]]
    assert "has no value" in refusal(learn, {"colour": ["red", None]}, one_hot=True)


@pytest.mark.parametrize("dtype", [object, "string", "category"])
def test_texts_of_every_type_are_categories(dtype):
    plan = learn({"a": pd.Series(["u", "v"], dtype=dtype)}, one_hot=True)
    assert plan.feature_names == ("a=u", "a=v")


def test_categories_that_look_like_numbers_are_found_again():
    plan = learn({"a": ["1", "2", "many"]}, one_hot=True)
    for later in ([1, 2], [1.0, 2.0], ["1", "2"]):
        assert plan.apply(table_of({"a": later})).X.tolist() == [[1, 0, 0], [0, 1, 0]]
    gap = learn({"a": ["1", "2", "many"]}, one_hot=True, impute="drop")
    assert gap.apply(table_of({"a": [2.0, np.nan]})).X.tolist() == [[0, 1, 0]]


def test_numeric_columns_have_no_categories():
    plan = learn({"a": [1, 2], "b": [True, False]}, one_hot=True)
    assert plan.feature_names == ("a", "b")


def test_too_many_texts_are_refused():
    texts = ["1.5", *(f"t{j}" for j in range(1500))]
    message = refusal(learn, {"a": texts}, one_hot=True)
    assert "1501 different texts" in message
    assert "the first is 't0' in row 2" in message


def test_features_of_one_name_are_refused():
    columns = {"a": ["b"], "a=b": [1.0]}
    assert "more than one feature 'a=b'" in refusal(learn, columns, one_hot=True)


# Scale


FLOATS = st.floats(-1e150, 1e150, allow_subnormal=False)
MATRICES = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=8), elements=FLOATS
)


def matrix_table(X):
    return table_of({f"x{j}": X[:, j] for j in range(X.shape[1])})


@given(X=MATRICES)
def test_standardized_columns_have_mean_0_and_deviation_1(X):
    plan = Preparation.learn(matrix_table(X), PreparationOptions(scale="standardize"))
    Z = plan.apply(matrix_table(X)).X
    for j in range(X.shape[1]):
        if np.ptp(X[:, j]) == 0.0:
            np.testing.assert_array_equal(Z[:, j], 0.0)
            continue
        # Rounding of the mean is relative to the values, and divided by the deviation.
        slack = 16 * len(X) * EPS * (1.0 + np.abs(X[:, j]).max() / plan.divisors[j])
        assert abs(Z[:, j].mean()) <= slack
        if slack < 0.1:
            assert abs(Z[:, j].std() - 1.0) <= 4 * slack


@given(X=MATRICES)
def test_the_unit_box_is_filled_by_the_training_rows(X):
    plan = Preparation.learn(matrix_table(X), PreparationOptions(scale="unit-box"))
    Z = plan.apply(matrix_table(X)).X
    constant = np.ptp(X, axis=0) == 0.0
    np.testing.assert_array_equal(Z.min(axis=0), 0.0)
    np.testing.assert_array_equal(Z.max(axis=0), np.where(constant, 0.0, 1.0))


@pytest.mark.parametrize("scale", ["standardize", "unit-box"])
def test_constant_columns_are_only_shifted(scale):
    plan = learn({"a": [0.1] * 7, "b": np.arange(7.0)}, scale=scale)
    assert plan.divisors[0] == 1.0
    done = plan.apply(table_of({"a": [0.1, 3.1], "b": [0.0, 1.0]}))
    assert done.X[:, 0].tolist() == [0.0, 3.0]


@pytest.mark.parametrize("scale", ["standardize", "unit-box"])
def test_scaling_comes_after_one_hot_and_gaps(scale):
    columns = {"a": [1.0, 3.0, np.nan, 5.0], "c": ["u", "v", "u", "u"]}
    plan = learn(columns, scale=scale, impute="median", one_hot=True)
    X = np.array([[1, 1, 0], [3, 0, 1], [3, 1, 0], [5, 1, 0]], dtype=float)
    if scale == "standardize":
        expected = (X - X.mean(axis=0)) / X.std(axis=0)
    else:
        expected = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    np.testing.assert_allclose(plan.apply(table_of(columns)).X, expected, atol=8 * EPS)


def test_what_overflows_when_scaled_is_refused():
    big = np.finfo(np.float64).max
    message = refusal(learn, {"a": [big, -big]}, scale="unit-box")
    assert "too large to scale" in message
    plan = learn({"a": [0.0, 1e-5]}, scale="unit-box", impute="drop")
    message = refusal(plan.apply, table_of({"a": [np.nan, 1.0, big]}))
    assert "row 3 (line 4 of the file)" in message


# Sparse tables


def sparse_table(dense):
    dense = np.asarray(dense)
    names = tuple(f"x{j}" for j in range(dense.shape[1]))
    return Table(sparse.csr_array(dense), names, "s.npz")


def test_sparse_tables_stay_sparse():
    table = sparse_table([[0, 1, 0], [2, 0, 3]])
    done = Preparation.learn(table).apply(table)
    assert isinstance(done.X, sparse.csr_array)
    assert done.X.dtype == np.float64
    np.testing.assert_array_equal(done.X.toarray(), [[0, 1, 0], [2, 0, 3]])
    assert not np.shares_memory(done.X.data, table.values.data)


def test_sparse_columns_can_be_chosen_and_be_labels():
    table = sparse_table([[0, 1, 0], [2, 0, 3]])
    options = PreparationOptions(columns=["x2", "x0"], label="x1")
    done = Preparation.learn(table, options).apply(table, label=True)
    np.testing.assert_array_equal(done.X.toarray(), [[0, 0], [3, 2]])
    assert done.labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scale": "standardize"}, "would fill its zeros; use no --standardize"),
        ({"scale": "unit-box"}, "would fill its zeros; use no --standardize"),
        ({"impute": "median"}, "leave --impute out"),
    ],
)
def test_what_would_fill_a_sparse_table_is_refused(options, words):
    table = sparse_table(np.eye(3))
    assert words in refusal(Preparation.learn, table, PreparationOptions(**options))
    plan = Preparation.learn(matrix_table(np.eye(3)), PreparationOptions(**options))
    assert words in refusal(plan.apply, table)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_sparse_cells_must_be_finite(value):
    dense = np.zeros((4, 3))
    dense[0, 0], dense[2, 1] = 1.0, value
    message = refusal(Preparation.learn, sparse_table(dense))
    assert f"column 'x1' holds {value} in row 3 (counting from 1)" in message


def test_a_sparse_table_fits_a_preparation_learnt_from_a_dense_one_and_back():
    dense = np.eye(3)
    for first, second in [(sparse_table, matrix_table), (matrix_table, sparse_table)]:
        X = Preparation.learn(first(dense)).apply(second(dense)).X
        np.testing.assert_array_equal(X.toarray() if sparse.issparse(X) else X, dense)


# Purity


@pytest.mark.parametrize("options", [{}, {"scale": "standardize"}, {"impute": "median"}])
def test_apply_changes_nothing_and_shares_nothing(options):
    values = np.arange(12.0).reshape(4, 3)
    frame = pd.DataFrame(values, columns=["a", "b", "c"], copy=False)
    table = Table(frame, ("a", "b", "c"))
    plan = Preparation.learn(table, PreparationOptions(**options))
    before = plan.to_state()
    X = plan.apply(table).X
    assert X.flags.c_contiguous
    assert X.dtype == np.float64
    X[:] = -1.0
    np.testing.assert_array_equal(frame.to_numpy(), np.arange(12.0).reshape(4, 3))
    assert Preparation.from_state(before) == plan


def test_the_notices_of_reading_are_passed_on():
    table = Table(pd.DataFrame({"x0": [1.0]}), ("x0",), notices=("read oddly",))
    assert Preparation.learn(table).apply(table).notices == ("read oddly",)


# State


NAMES = st.lists(st.text(max_size=5), min_size=1, max_size=4, unique=True)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def preparations(draw):
    columns = draw(NAMES)
    texts = st.none() | NAMES.map(sorted).map(tuple)
    categories = tuple(draw(texts) for _ in columns)
    n_features = sum(1 if c is None else len(c) for c in categories)
    impute = draw(st.sampled_from([None, "median", "drop"]))
    scale = draw(st.sampled_from(["none", "standardize", "unit-box"]))
    n_scaled = 0 if scale == "none" else n_features
    fills = [
        draw(FINITE) if c is None else float(draw(st.integers(0, len(c) - 1))) for c in categories
    ]
    return Preparation(
        id_name=draw(st.none() | st.text(max_size=5)),
        label_name=draw(st.none() | st.text(max_size=5)),
        columns=tuple(columns),
        ignored=tuple(draw(st.lists(st.text(max_size=5), max_size=3, unique=True))),
        categories=categories,
        impute=impute,
        fills=tuple(fills) if impute == "median" else (),
        scale=scale,
        offsets=tuple(draw(FINITE) for _ in range(n_scaled)),
        divisors=tuple(draw(st.floats(1e-300, 1e300)) for _ in range(n_scaled)),
    )


def is_plain(tree):
    if isinstance(tree, dict):
        return all(type(key) is str and is_plain(value) for key, value in tree.items())
    if isinstance(tree, list):
        return all(map(is_plain, tree))
    if isinstance(tree, np.ndarray):
        return tree.dtype == np.float64
    return tree is None or type(tree) in (str, int, float, bool)


@given(plan=preparations())
def test_a_preparation_comes_back_from_its_state(plan):
    state = plan.to_state()
    assert is_plain(state)
    back = Preparation.from_state(state)
    assert back == plan
    assert back.feature_names == plan.feature_names


def test_a_learnt_preparation_comes_back_from_its_state():
    columns = {**PEOPLE, "age": [30, None, 50, 60]}
    options = {"id": "who", "label": "class", "one_hot": True, "impute": "median"}
    plan = learn(columns, **options, scale="standardize")
    back = Preparation.from_state(plan.to_state())
    assert back == plan
    np.testing.assert_array_equal(back.apply(table_of(columns)).X, plan.apply(table_of(columns)).X)


def good_state():
    plan = learn(
        {"a": [1.0, 2.0], "c": ["u", "v"]}, one_hot=True, impute="median", scale="unit-box"
    )
    return plan.to_state()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id_name", 3),
        ("label_name", ["a"]),
        ("columns", []),
        ("columns", ["a", "a"]),
        ("columns", ["a", 1]),
        ("columns", ["a"]),
        ("columns", "ac"),
        ("ignored", None),
        ("ignored", ["a", 1]),
        ("categories", [None]),
        ("categories", None),
        ("categories", [None, ["v", "u"]]),
        ("categories", [None, []]),
        ("categories", [None, ["u", "u"]]),
        ("categories", [None, ["u", 1]]),
        ("categories", [None, ["u", "v", "w"]]),
        ("impute", "mean"),
        ("impute", None),
        ("impute", ["median"]),
        ("scale", "log"),
        ("scale", "none"),
        ("scale", None),
        ("scale", np.array(["none"])),
        ("fills", np.array([1.0])),
        ("fills", np.array([1.0, 2.0])),
        ("fills", np.array([1.0, 0.5])),
        ("fills", np.array([1.0, -1.0])),
        ("fills", np.array([np.nan, 0.0])),
        ("fills", [1.0, 0.0]),
        ("offsets", np.zeros(2)),
        ("offsets", np.array([0.0, 0.0, np.inf])),
        ("offsets", np.zeros(3, dtype=np.float32)),
        ("offsets", np.zeros((3, 1))),
        ("divisors", np.zeros(3)),
        ("divisors", -np.ones(3)),
        ("divisors", None),
    ],
)
def test_a_damaged_state_is_refused(key, value):
    state = good_state()
    Preparation.from_state(state)
    with pytest.raises(ValueError, match="preparation"):
        Preparation.from_state({**state, key: value})


@pytest.mark.parametrize("tree", [None, [], {}, "state", {"columns": ["a"]}])
def test_a_state_with_other_entries_is_refused(tree):
    with pytest.raises(ValueError, match="a preparation has the entries"):
        Preparation.from_state(tree)
    with pytest.raises(ValueError, match="a preparation has the entries"):
        Preparation.from_state({**good_state(), "more": 1})
