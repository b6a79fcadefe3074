"""Sums over the lives of processes, lags, CPU time."""

from __future__ import annotations

from nomemory.server.metrics import catalog
from nomemory.server.metrics.meters import IndexLag, Meters, Roster, role_of
from nomemory.server.metrics.samples import Distribution, Samples, Totals


def counted(process: str, calls: int) -> Samples:
    meters = Meters(process)
    for _ in range(calls):
        meters.observe(catalog.CALLS, 0.002, "ListMessages", "grpc", "OK")
        meters.count(catalog.ERRORS, "ListMessages", "grpc", "INTERNAL")
    return meters.samples()


def calls_in(samples: Samples) -> int:
    distribution = samples.values[catalog.CALLS.name]["ListMessages", "grpc", "OK"]
    assert isinstance(distribution, Distribution)
    return sum(distribution.counts)


def test_what_a_replaced_process_has_counted_stays_in_the_sum() -> None:
    totals = Totals()
    totals.note("writer", 1, counted("writer", 3))
    totals.note("reader-1", 2, counted("reader-1", 5))
    assert calls_in(totals.sum({"writer", "reader-1"})) == 8
    totals.note("reader-1", 3, counted("reader-1", 1))
    assert calls_in(totals.sum({"writer", "reader-1"})) == 9
    assert totals.sum(()).values[catalog.ERRORS.name]["ListMessages", "grpc", "INTERNAL"] == 9


def test_of_a_process_that_is_not_heard_only_the_counts_are_told() -> None:
    totals = Totals()
    totals.note("reader-1", 2, counted("reader-1", 5))
    told = totals.sum(())
    assert calls_in(told) == 5
    assert catalog.QUEUE.name not in told.values


def test_asking_twice_counts_once() -> None:
    totals = Totals()
    totals.note("writer", 1, counted("writer", 3))
    assert calls_in(totals.sum({"writer"})) == calls_in(totals.sum({"writer"})) == 3


def test_a_value_falls_into_the_bucket_whose_bound_it_does_not_exceed() -> None:
    distribution = Distribution((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 9.0):
        distribution.note(value)
    assert (distribution.counts, distribution.total) == ([2, 2, 1], 14.0)


def test_a_lag_is_the_age_of_the_oldest_change_that_is_missing() -> None:
    clock = [0.0]
    lag = IndexLag(lambda: clock[0])
    for second, sequence in enumerate((10, 20, 20, 30)):
        clock[0] = float(second)
        lag.note(sequence)
    ages = {0: 3.0, 9: 3.0, 10: 2.0, 19: 2.0, 20: 0.0, 29: 0.0, 30: 0.0, 31: 0.0}
    assert {applied: lag.behind_s(applied) for applied in ages} == ages
    clock[0] = 5.0
    assert lag.behind_s(25) == 2.0


def test_cpu_time_goes_on_where_a_process_was_replaced() -> None:
    roster = Roster()
    roster.began("reader-1", 5)
    entry = roster.entries["reader-1"]
    entry.used(5, 7.0)
    roster.began("reader-1", 6)
    roster.ended("reader-1", 5)
    entry.used(5, 99.0)
    assert (entry.cpu_s, entry.process_id, entry.starts) == (7.0, 6, 2)
    entry.used(6, 1.5)
    assert entry.cpu_s == 8.5
    roster.ended("reader-1", 6)
    assert (entry.cpu_s, entry.process_id) == (8.5, None)


def test_the_role_of_a_process_has_no_number() -> None:
    roles = {"reader-12": "reader", "writer": "writer", "vector-engine-2": "vector-engine"}
    assert {name: role_of(name) for name in roles} == roles
