"""Classification of every outcome of a case."""

import os
import signal
import sys
import time

import pytest

from lfdm_lab.fuzzing import ANSWER, HANG, LOST, REFUSED, TRACEBACK, Case, CaseResult, attempt, run_cases
from lfdm_ros.errors import InputError


def says(text, status):
    print(text, file=sys.stderr)
    return status


def raises(error):
    raise error


@pytest.mark.parametrize("work, outcome, words", [
    (lambda: {"messages": 3}, ANSWER, ""),
    (lambda: raises(InputError("file.yaml: missing key 'a'")), REFUSED, "missing key"),
    (lambda: says("x" * 5000, 2), TRACEBACK, "5000 characters"),
    (lambda: raises(KeyError("a")), TRACEBACK, "KeyError: 'a'"),
    (lambda: raises(SystemExit(2)), TRACEBACK, "no output"),
    (lambda: says("lfdm bag: no bag at x", 2), REFUSED, "no bag at x"),
    (lambda: says("a\nb\nc\nd", 2), TRACEBACK, "4 lines"),
    (lambda: says("", 2), TRACEBACK, "no output"),
    (lambda: says("Traceback (most recent call last):\nValueError: x", 0), TRACEBACK, "ValueError: x"),
    (lambda: says("what", -11), TRACEBACK, "exit status -11"),
    (lambda: os.kill(os.getpid(), signal.SIGSEGV), TRACEBACK, "SIGSEGV"),
    (lambda: bytearray(1 << 36), TRACEBACK, "MemoryError"),
])
def test_an_outcome_has_its_name(work, outcome, words):
    found = attempt(work, 60.0)
    assert found.outcome == outcome and words in found.text


def test_a_hanging_case_is_killed_with_its_children():
    began = time.monotonic()
    found = attempt(lambda: os.system("sleep 1000"), 1.0)
    assert found.outcome == HANG and time.monotonic() - began < 30.0
    assert "in <lambda>" in found.text  # where it was


def test_an_endless_computation_is_killed():
    found = attempt(lambda: [None for _ in iter(int, 1)], 1.0)
    assert found.outcome == HANG and "in <lambda>" in found.text


def test_failures_are_reported_with_their_seed_and_counted():
    told = []
    cases = [Case(1, "good", lambda: 0), Case(2, "bad", lambda: raises(ValueError("x"))),
             Case(3, "short", lambda: 0, judge=lambda found: CaseResult(LOST, "2 of 3"))]
    tally = run_cases("bags", cases, told.append)
    summary = tally.summary()
    assert {key: summary[key] for key in ("kind", "cases", "answer", "refused", "traceback", "hang", "lost")} == {
        "kind": "bags", "cases": 3, "answer": 1, "refused": 0, "traceback": 1, "hang": 0, "lost": 1}
    assert told == ["seed 2: traceback: bad: ValueError: x", "seed 3: lost: short: 2 of 3"]
    assert [failure["seed"] for failure in summary["failures"]] == [2, 3]
