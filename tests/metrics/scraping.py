"""A scrape of the metrics, parsed by Prometheus' own parser."""

from __future__ import annotations

from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

TIMEOUT_S = 30
HTTP = httpx.Client(timeout=TIMEOUT_S, limits=httpx.Limits(max_keepalive_connections=0))
"""The client of all tests, because every new client loads the certificates of the system. It keeps no connections."""


@dataclass(frozen=True)
class Scrape:
    """The samples of a scrape by name and labels."""

    text: str
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float]

    def value(self, name: str, **labels: str) -> float:
        """Return a sample; 0 if there is none."""
        return self.samples.get((name, tuple(sorted(labels.items()))), 0.0)

    def sum(self, name: str, **labels: str) -> float:
        """Sum the samples with some labels."""
        return sum(
            value
            for (of, having), value in self.samples.items()
            if of == name and labels.items() <= dict(having).items()
        )

    def counts(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Return the counters, which must never decrease."""
        endings = ("_total", "_count", "_bucket", "_sum")
        return {key: value for key, value in self.samples.items() if key[0].endswith(endings)}


def read(text: str) -> Scrape:
    """Parse a scrape."""
    samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, tuple(sorted(sample.labels.items()))
            assert key not in samples, f"{key} is duplicated"
            samples[key] = sample.value
    return Scrape(text, samples)


def scraped(http: str, client: httpx.Client | None = None, *, bearer: str = "") -> Scrape:
    """Scrape a server."""
    headers = {"authorization": f"Bearer {bearer}"} if bearer else {}
    answer = (client or HTTP).get(f"{http}/metrics", headers=headers, timeout=TIMEOUT_S)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return read(answer.text)
