"""Format database URLs without user name and password, for messages and logs."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit


def redact_database_url(url: str) -> str:
    """Return the host, the database and the schema of a database URL, without user name and password."""
    parts = urlsplit(url)
    if "@" in url and "@" not in parts.netloc:
        return "the database"  # malformed: the parsed host may be part of the password
    options = parse_qs(parts.query)
    host = parts.netloc.rpartition("@")[2] or ",".join(options.get("host", []))
    schemas = options.get("search_path", [])
    return f"postgresql://{host}{parts.path}{''.join(f' ({name})' for name in schemas)}"
