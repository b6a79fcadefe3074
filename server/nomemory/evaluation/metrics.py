"""What a ranking is worth, judged by the labelled evidence alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Final

HIT_AT: Final = (1, 6)
RECALL_AT: Final = (6, 10, 20, 50)
NDCG_AT: Final = 10
SESSIONS_AT: Final = (5, 10)
DEPTH: Final = max(RECALL_AT)
"""How many messages a ranking is asked for."""


def ranking_metrics(ranked: Sequence[str], evidence: Collection[str]) -> dict[str, float]:
    """Judge a ranking, best first, of different messages. `evidence` is not empty.

    `hit@k`: whether one of the first k is evidence. `recall@k`: the share of the evidence among the first k. `full@6`:
    whether all of it is among the first six. `mrr`: one over the rank of the first evidence, 0 if there is none.
    `ndcg@10`: discounted gain, each evidence message worth the same (Järvelin and Kekäläinen 2002). All are 0 to 1.
    """
    hits = [message_id in evidence for message_id in ranked]
    recall = {k: sum(hits[:k]) / len(evidence) for k in RECALL_AT}
    return {
        **{f"hit@{k}": float(any(hits[:k])) for k in HIT_AT},
        **{f"recall@{k}": recall[k] for k in RECALL_AT},
        "full@6": float(recall[6] == 1),
        "mrr": 1 / (hits.index(True) + 1) if any(hits) else 0.0,
        f"ndcg@{NDCG_AT}": _gain(hits[:NDCG_AT]) / _gain([True] * min(len(evidence), NDCG_AT)),
    }


def session_metrics(
    ranked: Sequence[str], evidence: Collection[str], conversations: Mapping[str, str]
) -> dict[str, float]:
    """Judge a ranking by conversations, which is how many others report it; {} where the evidence names none.

    `session_recall@k` is the share of the evidence's conversations that are among the first k different ones of the
    ranking. A message without a conversation counts for none.
    """
    found = list(dict.fromkeys(conversations[one] for one in ranked if one in conversations))
    wanted = {conversations[one] for one in evidence if one in conversations}
    return {f"session_recall@{k}": len(wanted.intersection(found[:k])) / len(wanted) for k in SESSIONS_AT if wanted}


def precision(ranked: Sequence[str], evidence: Collection[str]) -> float:
    """Return the share of evidence among what was returned; 0 where nothing was."""
    return sum(message_id in evidence for message_id in ranked) / len(ranked) if ranked else 0.0


def _gain(hits: Sequence[bool]) -> float:
    return sum(1 / math.log2(rank + 1) for rank, hit in enumerate(hits, 1) if hit)
