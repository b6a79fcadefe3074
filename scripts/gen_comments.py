"""Generate comments.json, the comments for the server's OpenAPI document. With --check, write nothing."""

from __future__ import annotations

import json
import sys
from typing import Final

from contract_comments import ROOT, collect_comments, load_contract
from generated_page import write_or_check_page
from usage import show_help

COMMENTS: Final = ROOT / "server" / "nomemory" / "server" / "api" / "http" / "comments.json"

if __name__ == "__main__":
    show_help(__doc__)
    comments_by_name = {name: " ".join(comment.split()) for name, comment in collect_comments(load_contract()).items()}
    sys.exit(
        write_or_check_page(COMMENTS, json.dumps(comments_by_name, indent=0, ensure_ascii=False, sort_keys=True) + "\n")
    )
