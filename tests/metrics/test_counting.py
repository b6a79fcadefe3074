"""Histograms, the lag of an index, and the CPU time of processes over restarts."""

from __future__ import annotations

from nomemory.server.runtime.metrics.index_lag import IndexLag
from nomemory.server.runtime.metrics.process_registry import ProcessRegistry
from nomemory.server.runtime.metrics.samples import Histogram


def test_value_is_counted_in_the_first_bucket_with_a_sufficient_bound() -> None:
    distribution = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 9.0):
        distribution.add(value)
    assert (distribution.counts, distribution.total) == ([2, 2, 1], 14.0)


def test_lag_is_the_age_of_the_oldest_unapplied_change() -> None:
    clock = [0.0]
    lag = IndexLag(lambda: clock[0])
    for second, sequence in enumerate((10, 20, 20, 30)):
        clock[0] = float(second)
        lag.record_sequence(sequence)
    ages = {0: 3.0, 9: 3.0, 10: 2.0, 19: 2.0, 20: 0.0, 29: 0.0, 30: 0.0, 31: 0.0}
    assert {applied: lag.compute_lag_s(applied) for applied in ages} == ages
    clock[0] = 5.0
    assert lag.compute_lag_s(25) == 2.0


def test_cpu_time_accumulates_across_process_restarts() -> None:
    registry = ProcessRegistry()
    registry.record_start("vector-engine", 5)
    record = registry.records["vector-engine"]
    record.record_cpu_time(5, 7.0)
    registry.record_start("vector-engine", 6)
    registry.record_exit("vector-engine", 5)
    record.record_cpu_time(5, 99.0)
    assert (record.cpu_s, record.process_id, record.starts) == (7.0, 6, 2)
    record.record_cpu_time(6, 1.5)
    assert record.cpu_s == 8.5
    registry.record_exit("vector-engine", 6)
    assert (record.cpu_s, record.process_id) == (8.5, None)
