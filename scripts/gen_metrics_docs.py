"""Generate docs/metrics.md from the metrics catalog. With --check, only report whether the page is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from generated_page import write_or_check_page
from usage import show_help

from nomemory.server.runtime.metrics.catalog import CATALOG
from nomemory.server.runtime.metrics.family import MetricFamily

PAGE = Path(__file__).parent.parent / "docs" / "metrics.md"

HEAD = """# Metrics

A server exports Prometheus metrics. `scripts/gen_metrics_docs.py` generates this page from the metrics catalog.

## Endpoints

- If HTTP is enabled (`--http HOST:PORT`), the server exports metrics at `/metrics` on that address.
- `nomemory serve --metrics HOST:PORT` or `NOMEMORY_METRICS_LISTEN` exports metrics on a separate port, which is
  disabled by default. The separate port requires TLS and credentials, unless it is on a loopback address.

```yaml
scrape_configs:
  - job_name: nomemory
    authorization:
      credentials_file: /etc/prometheus/nomemory.token
    static_configs:
      - targets: ["127.0.0.1:9464"]
```

## Scrape credentials

| server | credentials that a scrape requires |
|---|---|
| no authentication, loopback address | none |
| authentication enabled | `NOMEMORY_METRICS_TOKEN`, or a key or certificate with the scope `admin` and no namespace |
| only `NOMEMORY_METRICS_TOKEN` set | that token |

The metrics token grants access to `/metrics` only. Prefer it to a key with the `admin` scope, which can also list
users. A user token does not permit scrapes. The server rejects unauthorized scrapes and counts them in
`nomemory_http_requests_rejected_total`.

## Labels and privacy

Labels and values never contain users, message content, queries, or names that a caller chose. Labels contain API
methods, error codes and reasons, and names of server components. The [audit log](operating.md#audit-log) records which
caller did what.

## Restarts and replicas

Counters start at 0 when the server restarts; `rate()` and `increase()` account for such resets. Scrape each
replica: Prometheus adds the label `instance`, and `sum()` aggregates over replicas. The label `process` names the
server process or one of its [workers](operating.md#processes).

Metrics do not include health checks and reflection calls. [Performance](performance.md#metrics-and-traces) shows the
cost of the metrics.

## Dashboard and alerts

- [deploy/grafana/nomemory.json](../deploy/grafana/nomemory.json): import this dashboard into Grafana and select the
  data source.
- [deploy/prometheus/alerts.yaml](../deploy/prometheus/alerts.yaml): add this file to `rule_files`. Each alert describes
  the remedy.

## Reference

A histogram has the series `_bucket`, `_sum` and `_count`. Each entry shows the type, the labels and the meaning; the
second line explains which values indicate a problem.

"""


def render_page() -> str:
    """Render docs/metrics.md."""
    return HEAD + "".join(map(_render_row, CATALOG))


def _render_row(family: MetricFamily) -> str:
    kind = ", ".join((family.kind, *(f"`{label}`" for label in family.labels)))
    return f"- `{family.name}` ({kind}): {family.meaning}\\\n  {family.advice}\n"


if __name__ == "__main__":
    show_help(__doc__)
    sys.exit(write_or_check_page(PAGE, render_page()))
