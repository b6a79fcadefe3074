"""Generate docs/metrics.md from the metrics catalog. With --check, only report whether the page is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from generated_page import keep
from usage import show_help

from nomemory.server.runtime.metrics.catalog import CATALOG
from nomemory.server.runtime.metrics.family import Family

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"

HEAD = """# Metrics

What a server tells Prometheus of itself. `scripts/gen_metrics_docs.py` makes this page from the catalog of metrics.

## Where they are

- Where HTTP is served (`--http HOST:PORT`), at `/metrics` of that address.
- At a separate port: `nomemory serve --metrics HOST:PORT`, or `NOMEMORY_METRICS_LISTEN`. It is off by default. Like
  every other address, it requires TLS and credentials unless it is a loopback address.

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
token never scrapes. Whoever is refused gets no figures, and is counted in `nomemory_http_requests_rejected_total`.

## What they do not tell

No user, no content, no query and no name that a caller has chosen is ever a label or a value. Labels are methods, codes
and reasons of the contract, and names of the server's own parts. The [audit](operating.md#the-audit) has who did what.

## Restarts and replicas

When the server starts again, all counts begin at 0, which `rate()` and `increase()` know. Scrape each replica: the
label `instance` tells them apart, and `sum()` adds them up. `process` names the server or one of its
[workers](operating.md#processes).

Health and reflection are not counted. [Performance](performance.md#metrics-and-traces) says what counting costs.

## The dashboard and the alerts

- [deploy/grafana/nomemory.json](../deploy/grafana/nomemory.json): import it into Grafana and choose the data source.
- [deploy/prometheus/alerts.yaml](../deploy/prometheus/alerts.yaml): add it to `rule_files`. Each alert says what to do.

## All metrics

A histogram has `_bucket`, `_sum` and `_count`. Each entry gives the type and the labels, then what the metric is, and
in the second line what a bad value means.

"""


def page() -> str:
    """Return the page."""
    return HEAD + "".join(map(_row, CATALOG))


def _row(family: Family) -> str:
    kind = ", ".join((family.kind, *(f"`{label}`" for label in family.labels)))
    return f"- `{family.name}` ({kind}): {family.meaning}\\\n  {family.advice}\n"


if __name__ == "__main__":
    show_help(__doc__)
    sys.exit(keep(PAGE, page()))
