"""Looks up every installed package in the advisory database.

Without a way to the database it says so and passes: pip-audit itself calls packages that it could not look up clean.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from usage import show_help

IGNORED: dict[str, str] = {}
"""Advisories that do not concern NoMemory, each with the reason."""

TIMEOUT_S = 300


def main() -> int:
    """Return 1 if a package has an advisory that is not ignored, else 0."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.json")
        reason = run_audit(report)
        if not report.exists() or not report.stat().st_size:
            print(f"skipped: the advisory database could not be asked ({reason})", file=sys.stderr)
            return 0
        packages = json.loads(report.read_text())["dependencies"]
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    if len(unknown) == len(packages):
        print(f"skipped: the advisory database knows none of {len(packages)} packages", file=sys.stderr)
        return 0
    if unknown:
        print(f"not in the advisory database: {', '.join(unknown)}", file=sys.stderr)
    found = advisories(packages)
    for line in found:
        print(line, file=sys.stderr)
    return int(bool(found))


def run_audit(report: Path) -> str:
    """Write the report; where that fails, return why in a line."""
    ignored = [argument for advisory in IGNORED for argument in ("--ignore-vuln", advisory)]
    command = [sys.executable, "-m", "pip_audit", "--local", "--skip-editable", "--progress-spinner=off", *ignored]
    try:
        done = subprocess.run(  # noqa: S603 - a command of our own
            [*command, "--format=json", f"--output={report}"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "it did not answer in time"
    return (done.stderr.strip().splitlines() or ["it said nothing"])[-1]


def advisories(packages: list[dict[str, object]]) -> list[str]:
    """Return a line for each advisory of the packages of a report."""
    return [
        f"{package['name']} {package['version']}: {advisory['id']}, mended in {advisory['fix_versions'] or 'none yet'}"
        for package in packages
        if isinstance(found := package.get("vulns"), list)
        for advisory in found
    ]


if __name__ == "__main__":
    show_help(__doc__)
    sys.exit(main())
