"""Check every installed package against the advisory database.

If the database cannot be reached, the script reports that and exits with 0. (If a lookup fails, pip-audit
reports the package as free of advisories.)
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from usage import show_help

IGNORED: dict[str, str] = {}
"""Advisory ids that do not affect NoMemory, mapped to the reason."""

TIMEOUT_S = 300


def main() -> int:
    """Return 1 if a package has an advisory that is not in `IGNORED`, else 0."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.json")
        reason = run_audit(report)
        if not report.exists() or not report.stat().st_size:
            print(f"skipped: cannot query the advisory database ({reason})", file=sys.stderr)
            return 0
        packages = json.loads(report.read_text())["dependencies"]
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    if len(unknown) == len(packages):
        print(f"skipped: the advisory database has none of the {len(packages)} packages", file=sys.stderr)
        return 0
    if unknown:
        print(f"not in the advisory database: {', '.join(unknown)}", file=sys.stderr)
    lines = format_advisories(packages)
    for line in lines:
        print(line, file=sys.stderr)
    return int(bool(lines))


def run_audit(report: Path) -> str:
    """Write the pip-audit report; return the last line that pip-audit wrote to stderr."""
    ignored = [argument for advisory in IGNORED for argument in ("--ignore-vuln", advisory)]
    command = [sys.executable, "-m", "pip_audit", "--local", "--skip-editable", "--progress-spinner=off", *ignored]
    try:
        completed = subprocess.run(  # noqa: S603 - fixed arguments
            [*command, "--format=json", f"--output={report}"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no reply within {TIMEOUT_S} s"
    return (completed.stderr.strip().splitlines() or ["no output"])[-1]


def format_advisories(packages: list[dict[str, object]]) -> list[str]:
    """Return one line per advisory in a pip-audit report."""
    return [
        f"{package['name']} {package['version']}: {advisory['id']}, fixed in {advisory['fix_versions'] or 'no release'}"
        for package in packages
        if isinstance(vulnerabilities := package.get("vulns"), list)
        for advisory in vulnerabilities
    ]


if __name__ == "__main__":
    show_help(__doc__)
    sys.exit(main())
