"""Writes the contract's comments for the server's description of itself. With --check it only compares them."""

from __future__ import annotations

import json
import sys
from typing import Final

from contract_comments import ROOT, comments, contract
from generated_page import keep
from usage import show_help

COMMENTS: Final = ROOT / "server" / "nomemory" / "server" / "api" / "http" / "comments.json"

if __name__ == "__main__":
    show_help(__doc__)
    found = {name: " ".join(comment.split()) for name, comment in comments(contract()).items()}
    sys.exit(keep(COMMENTS, json.dumps(found, indent=0, ensure_ascii=False, sort_keys=True) + "\n"))
