"""What every algorithm promises the engine, checked the same way for all of them.

An algorithm joins by a line in `CASES`; data are chosen by parametrisation.
"""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
import scipy.sparse as sp
from _pytest.mark.structures import ParameterSet
from distributed import Client, LocalCluster
from toy_runs import TIMES

import daskfs
from daskfs.engine import checkpoint
from daskfs.protocol import Algorithm, State, copy_state, flatten, restore
from daskfs.store.ingest import arrays

K = 6
CASES = {
    "block": daskfs.OnlineSubstitution(K),
    "block, one ridge": daskfs.OnlineSubstitution(K, ridge=0.1, passes=2),
    "block, logistic": daskfs.OnlineSubstitution(K, loss="logistic"),
    "block, softmax": daskfs.OnlineSubstitution(K, loss="softmax"),
    "block, squared hinge": daskfs.OnlineSubstitution(K, loss="squared_hinge"),
    "block, error control": daskfs.OnlineSubstitution(K, error_control="permuted"),
    "block, error control, squared": daskfs.OnlineSubstitution(K, error_control="permuted", loss="squared", passes=2),
    "paper": daskfs.OnlineSubstitution(K, method="paper"),
    "paper, logistic": daskfs.OnlineSubstitution(K, method="paper", loss="logistic"),
    "async": daskfs.OnlineSubstitution(K, method="async", workers=3),
    "async, faithful": daskfs.OnlineSubstitution(K, method="async", workers=2, budget="faithful", loss="squared_hinge"),
    "mission": daskfs.Mission(K, passes=6, width=2**10),
    "mission, softmax": daskfs.Mission(K, passes=6, width=2**10, loss="softmax"),
    "mission, counted and refitted": daskfs.Mission(K, passes=6, width=2**10, idf=True, refit=2, loss="squared_hinge"),
    "mission, error control": daskfs.Mission(K, passes=6, width=2**10, error_control="halves"),
    "mission, paper": daskfs.Mission(K, passes=12, width=2**10, method="paper", depth=5),
    "mission, paper, fading": daskfs.Mission(K, passes=12, width=2**10, method="paper", loss="squared", fading=0.1),
    "mission, hashing": daskfs.Mission(K, passes=12, width=2**10, method="hashing"),
    "mission, iht": daskfs.Mission(K, passes=12, method="iht"),
    "univariate": daskfs.Univariate(K),
}
OF_COLUMNS = list(CASES)
CASES |= {
    "random": daskfs.SparseRandomFeatures(rounds=3, per_round=40, max_features=100),
    "random, to the letter": daskfs.SparseRandomFeatures("laplacian", 2.0, 2, 30, screen=False, max_features=60),
    "random, chosen": daskfs.SparseRandomFeatures(rounds=2, per_round=20, n_select=K, max_features=50),
    "random, kept": daskfs.SparseRandomFeatures(
        rounds=2, per_round=20, n_select=K, max_features=50, keep=("x3", "x20")
    ),
    "random, logistic": daskfs.SparseRandomFeatures("perceptron", "auto", 2, 20, "logistic", max_features=40),
}
VARIANTS = {
    "block, one ridge",
    "block, logistic",
    "block, squared hinge",
    "block, error control",
    "paper, logistic",
    "async, faithful",
    "mission, softmax",
    "mission, paper, fading",
    "random, to the letter",
    "random, kept",
    "random, logistic",
}
"""Cases that take the way of another through the engine: `make test-all` runs them."""
CHUNKS = (2_000, 17_000, 10_000_000)  # bytes: a few columns or rows, some tens, all of them


CLASSES = {"softmax": (-2.5, 2.5)}  # where scores are cut into classes, by the loss


def problem(kind: str, cuts: tuple[float, ...]) -> tuple[np.ndarray | sp.csr_array, np.ndarray]:
    """Classes that six of eighty columns tell apart, five columns of no use among the others."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(160, 80)).astype(np.float32)
    score = X[:, 10:16] @ [3, -3, 2.5, 2.5, -2, 2]
    X[:, 20], X[:, 21] = 0, 4
    X[:, 22] = X[:, 10]
    if kind == "sparse":
        X[np.abs(X) < 0.5] = 0
    labels = np.array(["no", "yes", "very"])[np.digitize(score, cuts)]
    return (sp.csr_array(X) if kind == "sparse" else X), labels


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory):
    """A dataset laid out for an algorithm, by its kind and chunk size."""
    made: dict[tuple[str, str, int, tuple[float, ...]], daskfs.Dataset] = {}

    def get(algorithm: Algorithm, kind: str, chunk_bytes: int = CHUNKS[1]) -> daskfs.Dataset:
        cuts = CLASSES.get(getattr(algorithm, "loss", ""), (0.0,))
        key = algorithm.axis, kind, chunk_bytes, cuts
        if key not in made:
            folder = tmp_path_factory.mktemp("contract")
            X, y = problem(kind, cuts)
            if kind == "dense":
                daskfs.write_dataset(folder / "d.zarr", X, y, layout=algorithm.axis, chunk_bytes=chunk_bytes)
            elif algorithm.axis == "rows":
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(arrays, "BLOCK_ENTRIES", chunk_bytes // 8)
                    daskfs.write_dataset(folder / "d.zarr", X, y)
            else:
                daskfs.write_dataset(folder / "rows.zarr", X, y)
                daskfs.transpose(folder / "rows.zarr", folder / "d.zarr", block_entries=chunk_bytes // 8)
            made[key] = daskfs.open_dataset(folder / "d.zarr")
        return made[key]

    return get


def params(names: Iterable[str]) -> list[ParameterSet]:
    """Return cases as parameters of tests, with variants as slow tests."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name in VARIANTS else []) for name in names]


@pytest.fixture(params=params(CASES))
def algorithm(request: pytest.FixtureRequest) -> Algorithm:
    return CASES[request.param]


kinds = pytest.mark.parametrize("kind", ["dense", "sparse"])


def states(algorithm: Algorithm, dataset: daskfs.Dataset, passes: int = 1) -> Iterator[State]:
    """The state before the first block and after every block."""
    algorithm = algorithm.resolve(dataset.meta)
    state = algorithm.start(dataset.meta, seed=0)
    yield state
    for _ in range(passes):
        for block in dataset.blocks(axis=algorithm.axis):
            state = algorithm.update(state, block)
            yield state
        state, _ = algorithm.end_pass(state)


def pickled(state: State) -> bytes:
    """The values of a state as bytes, whichever objects hold them."""
    return pickle.dumps([(name, np.asarray(value).tobytes()) for name, value in flatten(state).items()])


def promised(algorithm: Algorithm, dataset: daskfs.Dataset) -> int:
    return algorithm.resolve(dataset.meta).nbytes(dataset.meta)


def differences(one: daskfs.Selection, other: daskfs.Selection) -> list[str]:
    """What is not the same bit for bit, but for the seconds that passed."""
    found = [
        f"{name}: {getattr(one, name)} and {getattr(other, name)}"
        for name in ("features", "weights", "intercept")
        if getattr(one, name).tobytes() != getattr(other, name).tobytes()
    ]
    columns = set(one.history) - {*TIMES}
    found += [name for name, numbers in one.statistics.items() if numbers.tobytes() != other.statistics[name].tobytes()]
    return found + [
        f"{name}: {one.history[name].values} and {other.history[name].values}"
        for name in columns
        if not np.array_equal(one.history[name], other.history[name], equal_nan=True)
    ]


@kinds
@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("name", params(OF_COLUMNS))
def test_exactly_k_named_features(name, datasets, kind):
    algorithm = CASES[name]
    dataset = datasets(algorithm, kind)
    selection = daskfs.select(dataset, algorithm)
    assert len(set(selection.features.tolist())) == K == len(selection.features) == len(selection.weights)
    assert selection.features.max() < dataset.n_features
    assert selection.names == dataset.names(selection.features)
    assert np.isfinite(selection.weights).all()
    assert "objective" in selection.history
    assert selection.score(dataset) > 0.65


@kinds
@pytest.mark.slow_but_cover(1)
@pytest.mark.parametrize("name", params(name for name in CASES if not name.startswith("async")))  # a block is a push
def test_the_size_of_chunks_does_not_matter(name, datasets, kind):
    algorithm = CASES[name]
    chosen = [daskfs.select(datasets(algorithm, kind, size), algorithm) for size in CHUNKS]
    assert len({datasets(algorithm, kind, size).n_blocks() for size in CHUNKS}) == 3
    assert len({frozenset(selection.features.tolist()) for selection in chosen}) == 1
    by_id = [selection.weights[np.argsort(selection.features)] for selection in chosen]
    for weights in by_id[1:]:
        np.testing.assert_allclose(weights, by_id[0], rtol=2e-3, atol=2e-4)


def test_same_seed_same_answer(algorithm, datasets):
    dataset = datasets(algorithm, "dense")
    assert differences(*(daskfs.select(dataset, algorithm, seed=3) for _ in range(2))) == []


@pytest.fixture(scope="module")
def one_worker() -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=40
        ) as c,
        Client(c, set_as_default=False) as client,
    ):
        yield client


def test_a_cluster_of_one_gives_the_serial_result(algorithm, datasets, one_worker):
    dataset = datasets(algorithm, "dense")
    on_it = daskfs.select(dataset, algorithm, client=one_worker)
    assert differences(on_it, daskfs.select(dataset, algorithm)) == []


def test_resumed_is_uninterrupted(algorithm, datasets, tmp_path, monkeypatch):
    dataset = datasets(algorithm, "dense")
    reports: list[object] = []
    whole = daskfs.select(dataset, algorithm, progress=reports.append)
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)

    class Stop(Exception):
        pass

    stops = {1, dataset.n_blocks() + 2, 2 * dataset.n_blocks() - 1}
    for blocks in sorted(number for number in stops if number < len(reports)):  # one pass ends before the others
        seen = iter(range(blocks))

        def stop(_, seen=seen):
            if next(seen, None) is None:
                raise Stop

        place = tmp_path / str(blocks)
        with pytest.raises(Stop):
            daskfs.select(dataset, algorithm, checkpoint=place, progress=stop)
        assert differences(daskfs.select(dataset, algorithm, checkpoint=place, resume=True), whole) == []


@pytest.mark.parametrize("name", params(name for name in CASES if name.startswith("block")))
def test_the_order_of_merging_does_not_matter(datasets, name):
    algorithm = CASES[name]
    dataset = datasets(algorithm, "dense")
    algorithm, lanes = algorithm.resolve(dataset.meta), []
    for lane in range(3):
        state = algorithm.start(dataset.meta, seed=0)
        for number in range(lane, dataset.n_blocks(), 3):
            state = algorithm.update(state, dataset.read(number))
        lanes.append(state)
    before = [pickle.dumps(copy_state(state)) for state in lanes]
    results = []
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        merged, _ = algorithm.end_pass(algorithm.merge([lanes[lane] for lane in order]))
        results.append(algorithm.result(merged))
    for other in results[1:]:
        assert other.features.tolist() == results[0].features.tolist()
        assert other.weights.tobytes() == results[0].weights.tobytes()
    flat = algorithm.merge(lanes)
    tree = algorithm.merge([algorithm.merge(lanes[:2]), lanes[2]])
    changes = sum(state.changes for state in lanes)
    assert [algorithm.end_pass(merged)[0].history[0, 1] for merged in (flat, tree)] == [changes, changes]
    assert [pickle.dumps(copy_state(state)) for state in lanes] == before  # they are the inputs of other tasks too


@kinds
@pytest.mark.slow_but_cover(1)
def test_the_state_is_flat_travels_and_does_not_grow(algorithm, datasets, kind):
    sizes = []
    is_random = isinstance(algorithm, daskfs.SparseRandomFeatures)  # which grows up to its promise
    passes = 4 if getattr(algorithm, "idf", False) else 2  # the first of them only counts
    for state in states(algorithm, datasets(algorithm, kind, CHUNKS[0]), passes):
        for name, value in flatten(state).items():
            assert isinstance(value, np.ndarray | int | float | bool | str), name
            assert not isinstance(value, np.ndarray) or value.dtype.kind in "biuf", name
        sizes.append(sum(np.asarray(value).nbytes for value in flatten(state).values()))
    assert pickled(restore(type(state), flatten(state))) == pickled(pickle.loads(pickle.dumps(state))) == pickled(state)
    half = len(sizes) // 2  # after a whole pass everything that fills up has been filled
    most = promised(algorithm, datasets(algorithm, kind, CHUNKS[0])) if is_random else 1.05 * max(sizes[:half])
    assert max(sizes[half:]) <= most


def test_memory_keeps_its_promise(algorithm, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 120)).astype(np.float32)
    daskfs.write_dataset(tmp_path / "tall.zarr", X, X[:, 5] > 0, layout=algorithm.axis, chunk_bytes=400_000)
    dataset = daskfs.open_dataset(tmp_path / "tall.zarr")
    algorithm = algorithm.resolve(dataset.meta)
    blocks = [dataset.read(number) for number in range(dataset.n_blocks())]
    state = algorithm.update(algorithm.start(dataset.meta, 0), blocks[0])  # kernels are loaded by now
    del state
    tracemalloc.start()
    state = algorithm.start(dataset.meta, 0)
    for block in blocks:
        state = algorithm.update(state, block)
    state, _ = algorithm.end_pass(state)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 1.1 * algorithm.nbytes(dataset.meta)


def test_blocks_stay_as_they_are(algorithm, datasets):
    dataset = datasets(algorithm, "dense")
    algorithm = algorithm.resolve(dataset.meta)
    blocks = [dataset.read(number) for number in range(dataset.n_blocks())]
    before = [block.X.tobytes() + block.y.tobytes() for block in blocks]
    state = algorithm.start(dataset.meta, seed=0)
    for block in blocks:
        state = algorithm.update(state, block)
    assert [block.X.tobytes() + block.y.tobytes() for block in blocks] == before


def test_a_result_leaves_the_state_as_it_is(algorithm, datasets):
    dataset = datasets(algorithm, "dense")
    algorithm = algorithm.resolve(dataset.meta)
    state, go_on = algorithm.start(dataset.meta, seed=0), True
    while go_on:
        for block in dataset.blocks(axis=algorithm.axis):
            state = algorithm.update(state, block)
        state, go_on = algorithm.end_pass(state)
    if len(ids := algorithm.revisit(state)):
        for block in dataset.columns(ids):
            state = algorithm.update(state, block)
    before = copy_state(state)
    first, second = algorithm.result(state), algorithm.result(state)
    assert pickled(before) == pickled(state)
    assert first.weights.tobytes() == second.weights.tobytes()
    assert repr(first.history) == repr(second.history)
