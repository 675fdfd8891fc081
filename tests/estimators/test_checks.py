"""scikit-learn's own checks, every one of them for every estimator."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import fields

import pytest
import sklearn.feature_selection
from _pytest.mark.structures import ParameterSet
from sklearn.utils.estimator_checks import parametrize_with_checks

import daskfs
import daskfs.sklearn
from daskfs.sklearn import (
    MissionClassifier,
    MissionRegressor,
    MissionSelector,
    OnlineSubstitutionClassifier,
    OnlineSubstitutionRegressor,
    OnlineSubstitutionSelector,
    SelectKBest,
    SparseRandomFeaturesClassifier,
    SparseRandomFeaturesRegressor,
    SparseRandomFeaturesTransformer,
    VarianceThreshold,
)

SMALL = {"rounds": 2, "per_round": 20, "max_features": 50}
DROP_INS = [SelectKBest(), VarianceThreshold()]
OF_ALGORITHMS = [
    OnlineSubstitutionSelector(),
    OnlineSubstitutionClassifier(),
    OnlineSubstitutionRegressor(),
    MissionSelector(width=2**10),
    MissionClassifier(width=2**10),
    MissionRegressor(width=2**10),
    SparseRandomFeaturesClassifier(**SMALL),
    SparseRandomFeaturesRegressor(**SMALL),
    SparseRandomFeaturesTransformer(**SMALL),
]
ESTIMATORS = [*OF_ALGORITHMS, *DROP_INS]
# The check wants weights to do to 1e-9 what repeated and removed rows do, with twice as many columns as rows.
WHY_WEIGHTS = {
    "OnlineSubstitution": "a ridge is for columns of unit norm over the rows as they are, and races on rows held back "
    "by their numbers; what weights do is tested in test_weights.py",
    "Mission": "it learns row by row, and one step of twice the weight is not two steps; as SGDClassifier",
    "SparseRandomFeatures": "inputs are scaled by the range and the distances of all rows, whatever their weights",
}
WHY_ROWS = "features are float32 sums, whose last bit depends on how many rows BLAS is given; the check allows 1e-7"


def expected_failures(estimator):
    algorithm = next((name for name in WHY_WEIGHTS if type(estimator).__name__.startswith(name)), None)
    if algorithm is None:
        return {}
    checks = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
    expected = dict.fromkeys(checks, WHY_WEIGHTS[algorithm])
    if algorithm == "SparseRandomFeatures":
        expected["check_methods_subset_invariance"] = WHY_ROWS
    return expected


ALL = parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)


def checks() -> list[ParameterSet]:
    """Return every check for every estimator; slow unless it is that estimator's turn among those of its algorithm."""
    groups: dict[str, dict[str, list[ParameterSet]]] = {}
    for case in map(ParameterSet.extract_from, ALL.args[1]):
        estimator, check = case.values
        name = type(estimator).__name__
        algorithm = next((algorithm for algorithm in WHY_WEIGHTS if name.startswith(algorithm)), name)
        groups.setdefault(ALL.kwargs["ids"](check), {}).setdefault(algorithm, []).append(case)
    return [
        case if place == turn % len(same) else case._replace(marks=[*case.marks, pytest.mark.slow])
        for turn, of_a_check in enumerate(groups.values())
        for same in of_a_check.values()
        for place, case in enumerate(same)
    ]


@pytest.mark.filterwarnings("ignore")  # checks give hopeless data on purpose, and that is remarked upon
@pytest.mark.parametrize(("estimator", "check"), checks(), ids=ALL.kwargs["ids"])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def test_every_estimator_is_checked():
    assert sorted(type(estimator).__name__ for estimator in ESTIMATORS) == sorted(daskfs.sklearn.__all__)


@pytest.mark.slow
def test_the_check_that_needs_an_environment_of_its_own():
    """check_array_api_input is left out unless scipy was imported with this variable set."""
    names = [type(estimator).__name__ for estimator in ESTIMATORS]
    program = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import daskfs.sklearn\n"
        "from sklearn.utils.estimator_checks import check_array_api_input\n"
        f"for name in {names}:\n"
        "    kind = getattr(daskfs.sklearn, name)\n"
        f"    small = {SMALL} if 'Random' in name else {{}}\n"
        "    check_array_api_input(name, kind(**small), 'numpy', expect_only_array_outputs=False)\n"
        "    print(name)\n"
    )
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == names, done.stderr


ALGORITHMS = {
    "OnlineSubstitution": daskfs.OnlineSubstitution,
    "Mission": daskfs.Mission,
    "SparseRandomFeatures": daskfs.SparseRandomFeatures,
}
ELSEWHERE = {
    "n_select",
    "loss",
    "per_class",
    "groups",
    "balanced",
}  # these mean something else, or are only where they mean something


@pytest.mark.parametrize("estimator", OF_ALGORITHMS, ids=lambda estimator: type(estimator).__name__)
def test_parameters_are_those_of_the_algorithm(estimator):
    algorithm = next(kind for name, kind in ALGORITHMS.items() if type(estimator).__name__.startswith(name))
    defaults = type(estimator)().get_params()
    expected = {field.name: field.default for field in fields(algorithm)}
    assert (defaults.pop("random_state"), defaults.pop("missing")) == (0, "error")
    assert defaults.keys() - expected.keys() == set()
    assert expected.keys() - defaults.keys() <= ELSEWHERE
    assert {name: value for name, value in defaults.items() if value != expected[name]}.keys() <= ELSEWHERE
    documented = type(estimator).__doc__
    assert "(those of" not in documented
    assert all(f"\n{name}\n    " in documented for name in [*defaults, "missing", "random_state"])


@pytest.mark.parametrize("estimator", DROP_INS, ids=lambda estimator: type(estimator).__name__)
def test_parameters_of_drop_ins_are_those_of_scikit_learn(estimator):
    theirs = getattr(sklearn.feature_selection, type(estimator).__name__)()
    defaults = {name: getattr(value, "__name__", value) for name, value in theirs.get_params().items()}
    assert estimator.get_params() == defaults


def test_daskfs_itself_does_not_wait_for_scikit_learn():
    program = "import daskfs, sys; print([name for name in sys.modules if name.partition('.')[0] == 'sklearn'])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout.strip() == "[]"
