"""The centre as a plain class: whatever happens to offers on their way, it holds what it should (F8)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from numpy.typing import NDArray
from toy_algorithms import Census

import daskfs
from daskfs.algorithms.substitution.asynchronous import Push, WorkerPart
from daskfs.algorithms.substitution.block import BlockOffer
from daskfs.algorithms.substitution.selected_set import SelectedSet
from daskfs.engine.asynchronous.centre import Attempt, Centre, VersionedView, rebuild_state, with_target
from daskfs.engine.asynchronous.driver import Ledger
from daskfs.protocol import ColumnBlock, Meta, State, copy_state, flatten

N, P, PER_BLOCK, K = 60, 32, 4, 4
BLOCKS = P // PER_BLOCK
TRUE = (1, 12, 18, 29)
ATTEMPT = Attempt(99, "of a group that is never whole")
LANES = st.integers(0, 2)
ANY = st.integers(0, 1 << 30)


class InMemory:
    """As much of a dataset as a centre needs."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self.X = np.asfortranarray(rng.normal(size=(N, P)))
        self.y = self.X[:, TRUE] @ [3.0, -3, 2, 2] + 0.1 * rng.normal(size=N)
        self.meta = Meta("dense", N, P, N * P, P - 1, None, 8 * N * PER_BLOCK, itemsize=8)

    def some(self, ids: Any) -> ColumnBlock:
        ids = np.asarray(ids, np.uint64)
        return ColumnBlock(ids, np.asfortranarray(self.X[:, ids]), self.y)

    def read(self, number: int, axis: str) -> ColumnBlock:
        return self.some(np.arange(number * PER_BLOCK, (number + 1) * PER_BLOCK))

    def columns(self, ids: Any) -> Iterator[ColumnBlock]:
        yield self.some(np.sort(ids))

    def targets(self) -> Iterator[NDArray[np.float64]]:
        yield self.y

    def weights(self) -> Iterator[NDArray[np.float32]]:
        return iter(())


DATA = InMemory()


def begun(algorithm: Any) -> State:
    return with_target(algorithm, DATA, algorithm.start(DATA.meta, seed=0))


def nominated(algorithm: Any, centre: Centre, number: int, lane: int = 0) -> State:
    _, offer = algorithm.work(None, view_of(centre, lane), DATA.read(number, "columns"), lane)
    return offer


def centre_version(centre: Centre) -> int:
    return int(centre.state()[0].version)


def seen_by(centre: Centre, lane: int = 0) -> VersionedView:
    """What the worker of a lane sees; lanes are given in the order in which workers come."""
    return [centre.join(f"worker {number}")[1] for number in range(lane + 1)][lane]


def view_of(centre: Centre, lane: int = 0) -> State:
    return seen_by(centre, lane).view


def test_a_worker_keeps_its_lane():
    centre = Centre(Census(), begun(Census()), workers=["a", "b"])
    assert [centre.join(who)[0] for who in ("b", "c", "a", "c", "d", "b")] == [1, 2, 0, 2, 3, 1]
    assert centre.state()[1] == ["a", "b", "c", "d"]


def test_a_view_comes_with_its_version_and_once():
    algorithm = daskfs.OnlineSubstitution(K, ridge=0.1).resolve(DATA.meta)
    centre = Centre(algorithm, begun(algorithm))
    lane, (version, view) = centre.join("me")
    assert (lane, view.sets[0].room) == (0, K)
    newer, changed = centre.offer(0, ATTEMPT, nominated(algorithm, centre, 0), known=version)
    assert newer > version
    assert changed.sets[0].room == K - PER_BLOCK
    assert (
        centre.offer(0, ATTEMPT, BlockOffer(newer, [], []), known=newer) is None
    )  # an offer of nothing changes nothing
    assert centre.end_group(0, ATTEMPT, 2, [], known=newer) is None
    assert (centre_version(centre), centre.report().held.tolist()) == (newer, [0, 1, 2, 3])
    newest, _ = centre.end_group(0, ATTEMPT, 2, [nominated(algorithm, centre, 1)], known=newer)
    assert centre.report().held.tolist() != [0, 1, 2, 3]
    assert newest == centre_version(centre) > newer


def test_a_group_is_whole_when_all_of_one_attempt_at_it_has_arrived():
    algorithm = Census()
    centre = Centre(algorithm, begun(algorithm))
    first, again, other = Attempt(3, "a"), Attempt(3, "b"), Attempt(5, "c")
    offer = nominated(algorithm, centre, 1)
    assert offer is not None
    centre.offer(0, first, copy_state(offer), known=-1)  # whose worker dies then
    centre.end_group(1, again, 2, [], known=-1)  # overtakes its offers
    assert centre.report().finished == []
    centre.offer(1, again, copy_state(offer), known=-1)
    assert centre.report().finished == []
    centre.end_group(0, other, 0, [], known=-1)  # had nothing to offer
    assert centre.report().finished == [5]
    centre.offer(1, again, copy_state(offer), known=-1)
    assert centre.report().finished == [3]  # without those of the report before
    assert centre.report().finished == []


def test_a_report_has_the_time_since_the_last_one():
    algorithm = Census()
    centre = Centre(algorithm, begun(algorithm))
    centre.end_group(0, Attempt(0, "a"), 0, [], known=-1)
    assert centre.report().merging > 0
    assert centre.report().merging == 0


def test_of_a_group_that_is_whole_only_its_number_is_kept():
    """A run may have very many."""
    algorithm = Census()
    centre = Centre(algorithm, begun(algorithm))
    for number in range(100):
        mark, offer = Attempt(number, "a"), nominated(algorithm, centre, number % BLOCKS)
        if offer is not None:
            centre.offer(0, mark, offer, known=-1)
        centre.end_group(0, mark, int(offer is not None), [], known=-1)
    assert not centre._arrived
    assert not centre._sent
    assert centre.report().finished == list(range(100))


@pytest.mark.parametrize("method", ["block", "async"])
def test_what_was_handed_out_stays_as_it_was(method):
    """It is sent from one thread while the next offer is accepted in another."""
    algorithm = daskfs.OnlineSubstitution(K, method=method, ridge=0.1).resolve(DATA.meta)
    centre = Centre(algorithm, begun(algorithm))
    own: State | None = None
    for number in range(BLOCKS):
        seen, state = view_of(centre), centre.state()[0]
        before = copy_state(seen), copy_state(state)
        own, offer = algorithm.work(own, seen, DATA.read(number, "columns"), 0)
        if offer is not None:
            centre.offer(0, ATTEMPT, offer, known=-1)
        for given, expected in zip((seen, state), before, strict=True):
            check_equal(given, expected)
    assert centre_version(centre) > 2


@pytest.mark.parametrize(("method", "field"), [("block", "started"), ("async", "target/known")])
def test_the_target_is_introduced_without_columns(method, field):
    algorithm = daskfs.OnlineSubstitution(K, method=method).resolve(DATA.meta)
    state = begun(algorithm)
    assert flatten(state)[field]
    assert not len(algorithm.held_features(state))
    again = with_target(algorithm, DATA, copy_state(state))
    check_equal(again, state)


def check_equal(state: State, expected: State) -> None:
    given, wanted = flatten(state), flatten(expected)
    assert given.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(given[name], value, err_msg=name)


def dense(folder: Path) -> daskfs.Dataset:
    daskfs.write_dataset(folder / "dense", DATA.X, DATA.y)
    return daskfs.open_dataset(folder / "dense")


def sparse_and_weighted(folder: Path) -> daskfs.Dataset:
    lines = [f"{y} {1 + row % 3} |n a:{x[0]} b:{x[1]}" for row, (y, x) in enumerate(zip(DATA.y, DATA.X, strict=True))]
    (folder / "rows.vw").write_text("\n".join(lines))
    daskfs.transpose(daskfs.ingest(folder / "rows.vw", folder / "rows", format="vw"), folder / "columns")
    return daskfs.open_dataset(folder / "columns")


@pytest.mark.parametrize("made", [dense, sparse_and_weighted])
def test_a_target_is_introduced_as_the_first_block_would_have_brought_it(tmp_path, made):
    dataset = made(tmp_path)
    algorithm = daskfs.OnlineSubstitution(2, ridge=0.1).resolve(dataset.meta)
    state = with_target(algorithm, dataset, algorithm.start(dataset.meta, seed=0))
    assert not len(algorithm.held_features(state))
    first = algorithm.update(algorithm.start(dataset.meta, seed=0), dataset.read(0, "columns"))
    for name in ("sets/0/target", "sets/0/row_weight", "target_mean", "weight"):
        np.testing.assert_array_equal(flatten(state)[name], flatten(first)[name], err_msg=name)


@pytest.mark.parametrize("blocks_before", [0, 2, BLOCKS])
def test_a_rebuilt_state_has_the_columns_of_the_lost_one(blocks_before):
    algorithm = daskfs.OnlineSubstitution(K, ridge=0.1).resolve(DATA.meta)
    state = begun(algorithm)
    for number in range(blocks_before):
        state = algorithm.update(state, DATA.read(number, "columns"))
    lost = copy_state(state)
    for number in range(BLOCKS):
        lost = algorithm.update(lost, DATA.read(number, "columns"))
    again = rebuild_state(algorithm, DATA, state, algorithm.held_features(lost))
    assert algorithm.held_features(again).tolist() == algorithm.held_features(lost).tolist() == list(TRUE)
    assert again.sets[0].objective == pytest.approx(lost.sets[0].objective)


def test_a_joint_set_settles_whatever_the_workers_have_found_and_although_a_centre_is_lost():
    algorithm = daskfs.OnlineSubstitution(K, method="async", passes=1).resolve(DATA.meta)
    state = begun(algorithm)
    for number in range(BLOCKS):
        state = algorithm.update(state, DATA.read(number, "columns"))
    state, go_on = algorithm.end_pass(state)
    assert go_on
    wrong = np.setdiff1d(np.arange(DATA.meta.n_features), list(TRUE))[:K]
    state.joint = wrong  # as if the workers had missed everything
    assert algorithm.visit_first(state).tolist() == wrong.tolist()
    for block in DATA.columns(algorithm.visit_first(state)):
        state = algorithm.update(state, block)
    assert algorithm.held_features(state).tolist() == wrong.tolist()

    def settle(centre: Centre, blocks: range) -> None:
        own = None
        for number in blocks:
            own, offer = algorithm.work(own, view_of(centre), DATA.read(number, "columns"), 0)
            for again in [offer] * 2 if offer is not None else []:
                centre.offer(0, ATTEMPT, again, known=-1)

    late = Push(0, 0, WorkerPart(np.zeros(len(state.u)), np.zeros(len(state.u))), np.empty(0, np.int64), 0)
    before = copy_state(state)
    centre = Centre(algorithm, copy_state(state))
    centre.offer(0, ATTEMPT, late, known=-1)  # of the last pass: ignored
    settle(centre, range(BLOCKS // 2))
    kept = centre.report().held
    centre = Centre(algorithm, rebuild_state(algorithm, DATA, before, kept))
    settle(centre, range(BLOCKS))
    state, _ = algorithm.end_pass(centre.state()[0])
    assert not len(algorithm.visit_first(state))
    assert sorted(algorithm.result(state).features.tolist()) == list(TRUE)
    assert len(algorithm.result(state).history) == 2


def test_columns_of_a_closed_set_are_collected_whatever_happens_to_offers():
    """They come twice and in any order, two become one, and a centre is lost half-way."""
    algorithm = daskfs.OnlineSubstitution(K, method="async", budget="faithful", passes=1).resolve(DATA.meta)
    state = begun(algorithm)
    for number in range(BLOCKS):
        state = algorithm.update(state, DATA.read(number, "columns"))
    state, go_on = algorithm.end_pass(state)
    assert not go_on
    ids = algorithm.revisit(state)
    assert len(ids) == K
    whole = copy_state(state)
    for block in DATA.columns(ids):
        whole = algorithm.update(whole, block)

    def offers(centre: Centre) -> list[State]:
        return [algorithm.work(None, view_of(centre), DATA.some([feature]), 0)[1] for feature in ids]

    centre = Centre(algorithm, copy_state(state))
    for offer in offers(centre)[:2] * 2:
        centre.offer(0, ATTEMPT, offer, known=-1)
    kept = centre.report().held
    assert kept.tolist() == ids[:2].tolist()
    centre = Centre(algorithm, rebuild_state(algorithm, DATA, copy_state(state), kept))
    third, last = offers(centre)[2:]
    centre.offer(0, ATTEMPT, algorithm.combine_offers(last, third, view_of(centre)), known=-1)
    given, _ = centre.state()
    assert given.final.ids.tolist() == whole.final.ids.tolist()
    for name in ("X", "mean", "norm"):
        columns, expected = getattr(given.final, name), getattr(whole.final, name)
        np.testing.assert_allclose(columns, expected, rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(algorithm.result(given).weights, algorithm.result(whole).weights)


class Unreliable(RuleBasedStateMachine):
    """A pass, as the driver sees it, whose workers, messages and centre come to harm.

    A group is one block. It is done when its offers have arrived and the centre has told what it holds; nothing else
    counts, so at the end everything that is not done is done again.
    """

    algorithm: Any = Census()

    def __init__(self) -> None:
        super().__init__()
        state = begun(self.algorithm)
        groups = {number: range(number, number + 1) for number in range(BLOCKS)}
        self.ledger = Ledger(copy_state(state), groups, self.algorithm.held_features(state))
        self.centre = Centre(self.algorithm, state)
        self.own: dict[int, State | None] = dict.fromkeys(range(3))
        self.views = {lane: view_of(self.centre, lane) for lane in range(3)}
        self.under_way: list[State] = []
        self.arrived: list[State] = []
        self.attempts = 0

    @rule(lane=LANES)
    def look(self, lane: int) -> None:
        self.views[lane] = view_of(self.centre, lane)

    @rule(lane=LANES, number=st.integers(0, BLOCKS - 1))
    def work(self, lane: int, number: int) -> None:
        self._send(self._offer(lane, number))

    @rule(lane=LANES)
    def rest(self, lane: int) -> None:
        if self.own[lane] is not None:
            self._send(self.algorithm.remaining_offer(self.own[lane]))

    @precondition(lambda self: len(self.under_way) > 1)
    @rule(lane=LANES)
    def become_one(self, lane: int) -> None:
        """As two offers do while the centre is busy; they are the last two, or one was on its way before."""
        later, earlier = self.under_way.pop(), self.under_way.pop()
        self.under_way.append(self.algorithm.combine_offers(earlier, later, self.views[lane]))

    @precondition(lambda self: self.under_way)
    @rule(which=ANY)
    def arrive(self, which: int) -> None:
        self._accept(self.under_way.pop(which % len(self.under_way)))

    @precondition(lambda self: self.arrived)
    @rule(which=ANY)
    def arrive_again(self, which: int) -> None:
        self._accept(self.arrived[which % len(self.arrived)])

    @precondition(lambda self: self.under_way)
    @rule(which=ANY)
    def get_lost(self, which: int) -> None:
        self.under_way.pop(which % len(self.under_way))

    @rule(lane=LANES, number=st.integers(0, BLOCKS - 1))
    def whole_group(self, lane: int, number: int) -> None:
        self.look(lane)
        self.attempts += 1
        mark = Attempt(number, str(self.attempts))
        offer, rest = self._offer(lane, number), self.algorithm.remaining_offer(self.own[lane])
        if offer is not None:
            self.arrived.append(copy_state(offer))
            self.centre.offer(lane, mark, copy_state(offer), known=-1)
        left = [] if rest is None else [copy_state(rest)]
        self.centre.end_group(lane, mark, int(offer is not None), left, known=-1)
        self.ledger.note(self.centre.report())
        assert number not in self.ledger.groups

    @rule(lane=LANES)
    def lose_worker(self, lane: int) -> None:
        self.own[lane] = None

    @rule()
    def lose_centre(self) -> None:
        """Offers to the old one go with it, and every group that goes on asks the new one first."""
        self.under_way, self.arrived = [], []
        state = rebuild_state(self.algorithm, DATA, copy_state(self.ledger.start), self.ledger.held)
        self.centre = Centre(self.algorithm, state)
        self.views = {lane: view_of(self.centre, lane) for lane in range(3)}

    def teardown(self) -> None:
        for number in list(self.ledger.groups):
            self.whole_group(0, number)
        assert self.ledger.position(BLOCKS) == BLOCKS
        self.check_end(self.centre.state()[0])

    def check_end(self, state: State) -> None:
        clean = begun(self.algorithm)
        for number in range(BLOCKS):
            clean = self.algorithm.update(clean, DATA.read(number, "columns"))
        for name in ("counted", "counted_in", "applied"):
            np.testing.assert_array_equal(getattr(state, name), getattr(clean, name), err_msg=name)

    def _offer(self, lane: int, number: int) -> State | None:
        block = DATA.read(number, "columns")
        self.own[lane], offer = self.algorithm.work(self.own[lane], self.views[lane], block, lane)
        return offer

    def _send(self, offer: State | None) -> None:
        if offer is not None:
            self.under_way.append(copy_state(offer))

    def _accept(self, offer: State) -> None:
        self.arrived.append(copy_state(offer))
        self.centre.offer(0, ATTEMPT, offer, known=-1)


class UnreliableSubstitution(Unreliable):
    """The set is sound at every moment; after one pass without harm, and a look at the rejected, it is the best."""

    algorithm = daskfs.OnlineSubstitution(K, ridge=0.1).resolve(DATA.meta)

    @invariant()
    def the_set_is_sound(self) -> None:
        state = self.centre.state()[0]
        for selected in state.sets:
            check_set(selected)

    def check_end(self, state: State) -> None:
        for number in range(BLOCKS):
            state = self.algorithm.update(state, DATA.read(number, "columns"))
        for block in DATA.columns(self.algorithm.revisit(state)):
            state = self.algorithm.update(state, block)
        for selected in state.sets:
            check_set(selected)
        assert set(state.sets[0].ids[1:].tolist()) == set(TRUE)


class UnreliableRace(UnreliableSubstitution):
    """Several sets side by side, each with rows held back."""

    algorithm = daskfs.OnlineSubstitution(K).resolve(DATA.meta)


def check_set(selected: SelectedSet) -> None:
    """Everything a set keeps up to date, taken afresh from the data."""
    fixed, k = selected.fixed, selected.k
    ids = selected.features
    assert k - fixed <= K
    assert len(set(ids.tolist())) == len(ids)
    centred = DATA.X[:, ids] - DATA.X[:, ids].mean(axis=0)
    X = np.column_stack([np.full(N, N**-0.5), centred / np.linalg.norm(centred, axis=0)])
    np.testing.assert_allclose(selected.X[:, :k], X, atol=1e-12)
    [target], [weights], row_weight = selected.target, selected.w, selected.row_weight  # of the only score
    w = weights[:k]
    penalty = np.r_[0.0, np.full(k - fixed, selected.ridge)]
    np.testing.assert_allclose(target, DATA.y - DATA.y.mean())
    missed = target - X @ w
    assert selected.objective == pytest.approx((row_weight @ missed**2 + penalty @ w**2) / 2)
    H = (X * row_weight[:, None]).T @ X + np.diag(penalty)
    np.testing.assert_allclose(selected.inverse[:k, :k] @ H, np.eye(k), atol=1e-7)
    np.testing.assert_allclose((X * row_weight[:, None]).T @ missed, penalty * w, atol=1e-7)  # at its minimum


class Pushes(RuleBasedStateMachine):
    """Asy-OS: u_C is the sum of the newest pushes of all lanes that arrived in time, to the last bit."""

    algorithm = daskfs.OnlineSubstitution(K, method="async", max_staleness=5).resolve(DATA.meta)

    def __init__(self) -> None:
        super().__init__()
        self.centre = Centre(self.algorithm, begun(self.algorithm))
        self.seen = dict.fromkeys(range(3), 0)
        self.number = dict.fromkeys(range(3), 0)
        self.pushes: list[Push] = []
        self.newest: dict[int, Push] = {}
        self.applied = self.refused = 0

    @rule(lane=LANES)
    def look(self, lane: int) -> None:
        self.seen[lane] = seen_by(self.centre, lane).version

    @rule(lane=LANES, seed=st.integers(0, 99))
    def push(self, lane: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.number[lane] += 1
        ids = np.sort(rng.choice(P, K, replace=False))
        u, z = (rng.integers(-99, 99, N).astype(float) for _ in range(2))  # sums of these are exact
        part = WorkerPart(u, z, 1.0, self.number[lane], ids, w=np.ones(K), norm=np.ones(K))
        self.pushes.append(Push(lane, self.seen[lane], part, ids, changes=1))

    @precondition(lambda self: self.pushes)
    @rule(which=ANY, again=st.booleans())
    def arrive(self, which: int, again: bool) -> None:
        which %= len(self.pushes)
        push = self.pushes[which] if again else self.pushes.pop(which)
        known = self.newest[push.worker].part.number if push.worker in self.newest else 0
        in_time = self.applied - push.version <= self.algorithm.params.max_staleness
        if push.part.number > known and in_time:
            self.newest[push.worker] = push
            self.applied += 1
        else:
            self.refused += 1
        self.centre.offer(push.worker, ATTEMPT, copy_state(push), known=-1)

    @invariant()
    def sums_are_exact(self) -> None:
        state = self.centre.state()[0]
        for name in ("u", "z"):
            expected = sum((getattr(push.part, name) for push in self.newest.values()), np.zeros(N))
            np.testing.assert_array_equal(getattr(state, name), expected)
        assert (state.version, state.late) == (self.applied, self.refused)
        assert state.staleness.sum() == self.applied
        assert not state.staleness[self.algorithm.params.max_staleness + 1 :].any()

    @invariant()
    def a_lane_sees_the_others(self) -> None:
        for lane in range(3):
            others = sum((push.part.u for number, push in self.newest.items() if number != lane), np.zeros(N))
            np.testing.assert_array_equal(view_of(self.centre, lane).others, others)


for machine, examples in ((Unreliable, 50), (UnreliableSubstitution, 25), (UnreliableRace, 10), (Pushes, 50)):
    machine.TestCase.settings = settings(max_examples=examples, stateful_step_count=30)
TestCensus = Unreliable.TestCase
TestSubstitution = UnreliableSubstitution.TestCase
TestRace = UnreliableRace.TestCase
TestPushes = Pushes.TestCase
