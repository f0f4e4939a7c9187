"""Blocks in threads give what blocks in turn give, bit for bit, and an error reaches the caller."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import calibrant
from calibrant import threads


@pytest.mark.parametrize("processors", [1, 3])
def test_results_come_in_the_order_of_the_blocks(monkeypatch, processors):
    monkeypatch.setattr(threads, "_processors", lambda: processors)
    found = threads.each_block(lambda rows: (rows.start, rows.stop), 1_003, 10)
    assert found == [(start, min(start + 10, 1_003)) for start in range(0, 1_003, 10)]


def test_a_temperature_has_the_same_bits_whatever_the_number_of_processors(monkeypatch):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(40), 70_000)
    y = (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1).clip(max=39)
    fits = []
    for processors in (1, 3):
        monkeypatch.setattr(threads, "_processors", lambda count=processors: count)
        fits.append(calibrant.fit("temperature", p, y, kind="probability"))
    assert fits[0] == fits[1]


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch):
    monkeypatch.setattr(threads, "_processors", lambda: 2)

    def refuse(rows):
        msg = f"row {rows.start}"
        raise ValueError(msg)

    with pytest.raises(ValueError, match="row 0"):
        threads.each_block(refuse, 1_000, 10)


def test_of_errors_in_several_threads_the_first_block_s_is_raised(monkeypatch):
    monkeypatch.setattr(threads, "_processors", lambda: 2)
    meet = threading.Barrier(2)  # so that both threads have a block with an error

    def refuse(rows):
        if rows.start >= 500:
            meet.wait()
            msg = f"row {rows.start}"
            raise ValueError(msg)

    with pytest.raises(ValueError, match="row 500"):
        threads.each_block(refuse, 1_000, 10)


def test_an_interrupt_of_the_caller_stops_the_other_threads(monkeypatch):
    monkeypatch.setattr(threads, "_processors", lambda: 2)
    caller, seen = threading.get_ident(), []
    stopped = threading.Event()

    def interrupt(rows):
        if threading.get_ident() == caller:
            stopped.set()
            raise KeyboardInterrupt
        stopped.wait()
        seen.append(rows.start)

    with pytest.raises(KeyboardInterrupt):
        threads.each_block(interrupt, 100_000, 10)
    assert len(seen) < 10_000
