"""The decision whether to go on waiting, over made-up looks: no cluster, no clock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskfs.engine.cluster.watchdog import Answer, Patience, Verdict, Watchdog

PATIENCE = Patience(40)


class Look(NamedTuple):
    """What one look finds."""

    answered: bool = True
    echoes: bool = True
    """Whether the echo of the look before has arrived."""
    ended: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset({"a", "b"})
    workers: int = 2
    unheard: frozenset[str] = frozenset()
    """Workers that miss heartbeats."""
    seconds: float = PATIENCE.every
    """Since the look before."""


def verdicts(looks: Iterable[Look], within: float = PATIENCE.value) -> list[tuple[float, Verdict]]:
    """The time of each look, and what it led to, up to the first that ends the wait."""
    watchdog, now, heard, given = Watchdog(PATIENCE, within), 1000.0, 0, []
    for number, look in enumerate(looks, 1):
        now += look.seconds
        heard = number - 1 if look.echoes else heard
        answer = Answer(number, look.workers, look.ended, look.unheard) if look.answered else None
        given.append((now - 1000.0, watchdog.look(now, answer, heard, look.pending)))
        if given[-1][1] != Verdict.WAIT:
            break
    return given


@pytest.mark.parametrize(
    ("look", "verdict"),
    [
        (Look(answered=False, seconds=PATIENCE.every + PATIENCE.answer), Verdict.SILENT),
        (Look(echoes=False), Verdict.RECONNECT),
        (Look(ended=frozenset("a")), Verdict.RECONNECT),
        (Look(workers=0), Verdict.NO_WORKERS),
        (Look(unheard=frozenset("w")), Verdict.DROP_WORKERS),
        (Look(pending=frozenset()), Verdict.NO_VALUE),
    ],
)
def test_what_stays_wrong_ends_the_wait_in_time(look, verdict):
    seconds, last = verdicts([look] * 300)[-1]
    assert last == verdict
    longest = {
        Verdict.SILENT: 60,
        Verdict.RECONNECT: 20,
        Verdict.NO_WORKERS: PATIENCE.workerless + 2 * PATIENCE.every,
        Verdict.DROP_WORKERS: 50,  # the heartbeats that a worker has missed before take five more
        Verdict.NO_VALUE: 610,
    }
    assert seconds <= longest[verdict]  # three times in vain is a minute


def test_a_sound_wait_may_last_for_ever():
    assert {verdict for _, verdict in verdicts([Look()] * 10_000)} == {Verdict.WAIT}


def test_tasks_that_end_one_after_the_other_are_no_sign_of_a_deaf_stream():
    looks = [Look(ended=frozenset({str(n)}), pending=frozenset({str(n), str(n + 1)})) for n in range(1000)]
    assert {verdict for _, verdict in verdicts(looks)} == {Verdict.WAIT}


def test_workers_that_are_silent_in_turns_are_not_dropped():
    looks = [Look(unheard=frozenset("vw"[number // 3 % 2])) for number in range(1000)]
    assert {verdict for _, verdict in verdicts(looks)} == {Verdict.WAIT}


def test_a_worker_is_given_up_once():
    watchdog = Watchdog(PATIENCE)
    for number in range(1, 20):
        answer = Answer(number, 2, unheard=frozenset("wv" if number % 5 else "w"))
        if watchdog.look(3.0 * number, answer, number - 1, "a") == Verdict.DROP_WORKERS:
            break
    assert watchdog.give_up() == ["w"]
    assert watchdog.give_up() == []


SILENT = Look(unheard=frozenset("w"))


@pytest.mark.parametrize(
    "look", [Look(answered=False), Look(echoes=False), Look(workers=0), Look(ended=frozenset("b")), SILENT]
)
def test_what_was_wrong_for_a_while_is_forgotten(look):
    looks = ([look] * 3 + [Look()]) * 100
    assert {verdict for _, verdict in verdicts(looks)} == {Verdict.WAIT}


@pytest.mark.parametrize("look", [Look(answered=False), Look(echoes=False), Look(workers=0), SILENT])
def test_a_process_that_was_stopped_for_a_day_does_not_blame_the_others(look):
    looks = [Look(), look._replace(seconds=86400.0), Look()]
    assert {verdict for _, verdict in verdicts(looks)} == {Verdict.WAIT}


@given(
    st.lists(
        st.builds(
            Look,
            st.booleans(),
            st.booleans(),
            st.frozensets(st.sampled_from("ab")),
            st.frozensets(st.sampled_from("ab")),
            st.integers(0, 2),
            st.frozensets(st.sampled_from("vw")),
            st.floats(0, 1e6),
        )
    )
)
def test_no_verdict_without_that_much_time_awake(looks):
    given = verdicts(looks)
    if given and given[-1][1] != Verdict.WAIT:
        needed = {
            Verdict.SILENT: PATIENCE.silent,
            Verdict.RECONNECT: PATIENCE.deaf,
            Verdict.NO_WORKERS: PATIENCE.workerless,
            Verdict.DROP_WORKERS: PATIENCE.silent,
            Verdict.NO_VALUE: PATIENCE.value,
        }
        longest_step = PATIENCE.every + PATIENCE.answer
        assert given[-1][0] >= needed[given[-1][1]]
        assert (len(given) - 1) * longest_step >= needed[given[-1][1]]
