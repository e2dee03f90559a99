# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the selection of quiet rounds, with loops of given times."""

from functools import partial

from in_turn import MOST, in_turn, loop_seconds, ratio_text


def run(rounds, loops):
    """Runs two programs in turn; their results are the numbers of the round. Returns the
    `Rounds`."""
    calls = {"a": 0, "b": 0}

    def call(name):
        calls[name] += 1
        return calls[name]

    given = iter(loops)
    programs = {name: partial(call, name) for name in calls}
    return in_turn(programs, rounds, lambda: next(given))


def test_rounds_on_a_quiet_machine_are_all_used():
    rounds = run(2, [1, 1.05, 1, 1, 1.02, 1])
    assert rounds.values == {"a": (1, 2), "b": (1, 2)}
    assert rounds.quiet_share == "2 of 2 rounds were quiet (100 %)"


def test_disturbed_rounds_are_repeated():
    rounds = run(2, [1, 1, 1] + [1, 2, 1] + [1, 1, 1])
    assert rounds.values == {"a": (1, 3), "b": (1, 3)}
    assert (rounds.quiet, rounds.total) == (2, 3)


def test_a_faster_loop_shows_that_earlier_rounds_were_disturbed():
    rounds = run(1, [2, 2, 2])
    assert rounds.quiet == 1
    rounds = run(2, [2, 2, 2] + [1, 1, 1] + [1, 1, 1])
    assert rounds.values["a"] == (2, 3)


def test_number_of_rounds_is_limited():
    disturbed = [1, 2, 1]
    rounds = run(2, disturbed * MOST * 2)
    assert (rounds.quiet, rounds.total) == (0, MOST * 2)
    assert len(rounds.values["a"]) == MOST * 2, "without quiet rounds, all are used"


def test_ratio_is_that_of_each_round():
    assert ratio_text([2, 6, 12], [1, 2, 3]) == "3.00 (2.00 - 4.00)"


def test_loop_takes_time():
    assert loop_seconds() > 0
