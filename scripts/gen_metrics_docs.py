"""Writes docs/metrics.md from the catalog of metrics. With --check it only tells whether the page is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from generated_page import keep

from nomemory.server.metrics.catalog import CATALOG
from nomemory.server.metrics.family import Family

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"

HEAD = """# Metrics

What a server tells Prometheus of itself. The tables below are generated from
`server/nomemory/server/metrics/catalog.py` by `scripts/gen_metrics_docs.py`.

## Where they are

- Where HTTP is served (`--http HOST:PORT`), at `/metrics` of that address.
- At a port of their own: `nomemory serve --metrics HOST:PORT`, or `NOMEMORY_METRICS`. There is nothing else at that
  port. It is off by default, and the rules of every other address hold: without credentials loopback only, beyond it
  TLS.

```yaml
scrape_configs:
  - job_name: nomemory
    authorization:
      credentials_file: /etc/prometheus/nomemory.token
    static_configs:
      - targets: ["127.0.0.1:9464"]
```

## Who may scrape

| server | what a scrape needs |
|---|---|
| checks no credentials, and is on loopback only | nothing |
| checks credentials | the token of `NOMEMORY_METRICS_TOKEN`, or a key or certificate with `admin`, no namespace |
| has `NOMEMORY_METRICS_TOKEN` and no other credentials | that token |

The token is good for `/metrics` and for nothing else: prefer it to a key with `admin`, which can list users. A user's
token never scrapes. Whoever is refused gets no figures, and is counted in `nomemory_http_refused_total`.

## What they do not tell

No user, no content, no query and no name that a caller has chosen is ever a label or a value. Labels are methods, codes
and reasons of the contract, and names of the server's own parts. Who did what is in the
[audit](operating.md#the-audit), what happened to one call in the log.

## Several processes

Whichever process answers a scrape tells of all of them. It asks the writer, and that asks the readers, for at most
`NOMEMORY_METRICS_COLLECT_S`. What people did is summed up over the processes; what a process has in hand has the label
`process`. When a reader is replaced its counts stay in the sums, as the last scrape saw them: what it counted between
that scrape and a crash is lost, and no sum goes down. When the server itself starts again all counts begin at 0, which
`rate()` and `increase()` know.

A call that an outer interceptor of a host ends by itself is not counted, nor are health and reflection. Counting costs
a call next to nothing ([measured](performance.md#what-metrics-cost)). Scrapes that come together share one answer.

## The dashboard and the alerts

- [deploy/grafana/nomemory.json](../deploy/grafana/nomemory.json): import it into Grafana and choose the data source.
- [deploy/prometheus/alerts.yaml](../deploy/prometheus/alerts.yaml): add it to `rule_files`. Each alert says what to do.

## All metrics

A histogram has `_bucket`, `_sum` and `_count`.
"""
TABLE = """
| metric | type | labels | what it is | when it is bad |
|---|---|---|---|---|
"""


def page() -> str:
    """Make the page."""
    return HEAD + TABLE + "".join(map(_row, CATALOG))


def _row(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} | {family.advice} |\n"


if __name__ == "__main__":
    sys.exit(keep(PAGE, page()))
