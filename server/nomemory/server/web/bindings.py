"""The contract's methods as HTTP has them: by the `google.api.http` annotations of their descriptors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from google.api import annotations_pb2
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor

from nomemory.server.faults import Fault, Reason


@dataclass(frozen=True, slots=True)
class Binding:
    """The way to call a method.

    Attributes:
        method: the method's descriptor.
        verb: `GET`, `POST` and so on.
        template: the path, in which `{user_id}` stands for a value of that field.
        literals: its parts that are none, by their places.
        variables: the fields that are in the path, by their places.
        has_body: whether the request is the body, but for what stands in the path. Else it is the query.
    """

    method: MethodDescriptor
    verb: str
    template: str
    literals: Mapping[int, bytes]
    variables: Mapping[int, str]
    has_body: bool

    def values(self, parts: list[bytes]) -> dict[str, bytes] | None:
        """Return the values of the fields that are in a path, which has as many parts; None: it is another path."""
        if any(parts[place] != literal for place, literal in self.literals.items()):
            return None
        return {name: parts[place] for place, name in self.variables.items()}


def path_of(method: MethodDescriptor) -> str:
    """Return a method's path over gRPC: `/nomemory.v1.QueryService/ListMessages`."""
    return f"/{method.containing_service.full_name}/{method.name}"


def methods_of(paths: Iterable[str]) -> Iterator[MethodDescriptor]:
    """Return the descriptors of methods by these paths."""
    for path in paths:
        service, _, name = path.removeprefix("/").partition("/")
        yield descriptor_pool.Default().FindServiceByName(service).methods_by_name[name]


def binding_of(method: MethodDescriptor) -> Binding:
    """Return the way to call a method.

    Raises:
        NotImplementedError: its annotation has what no other has.
    """
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    verb = rule.WhichOneof("pattern")
    if verb in {None, "custom"} or rule.body not in {"", "*"} or rule.response_body or rule.additional_bindings:
        raise NotImplementedError(method.full_name)
    template: str = getattr(rule, verb)
    parts = list(enumerate(template.split("/")))
    literals = {place: part.encode() for place, part in parts if not part.startswith("{")}
    variables = {place: part[1:-1] for place, part in parts if part.startswith("{")}
    return Binding(method, verb.upper(), template, literals, variables, bool(rule.body))


@dataclass(frozen=True, slots=True)
class Match:
    """A binding, and the values of the fields that are in the path."""

    binding: Binding
    values: Mapping[str, str]


class Routes:
    """The bindings by their paths.

    A path is taken apart before its parts are decoded: a slash within an id is `%2F`, and leads nowhere else.
    """

    def __init__(self, bindings: Iterable[Binding]) -> None:
        self._by_length: dict[int, list[Binding]] = defaultdict(list)
        for binding in sorted(bindings, key=lambda one: len(one.variables)):  # a literal goes before a variable
            self._by_length[binding.template.count("/")].append(binding)

    def match(self, verb: str, raw_path: bytes) -> Match | None:
        """Return what a request is for; None: nothing has this verb at this path.

        Raises:
            Fault: MALFORMED_REQUEST, a part of the path is not UTF-8.
        """
        for binding, values in self._at(raw_path):
            if binding.verb == verb:
                return Match(binding, {name: _text(part) for name, part in values.items()})
        return None

    def verbs(self, raw_path: bytes) -> list[str]:
        """Return the verbs that there are at a path."""
        return sorted({binding.verb for binding, _ in self._at(raw_path)})

    def _at(self, raw_path: bytes) -> Iterator[tuple[Binding, dict[str, bytes]]]:
        parts = [unquote_to_bytes(part) for part in raw_path.split(b"/")]
        for binding in self._by_length.get(len(parts) - 1, ()):
            if (values := binding.values(parts)) is not None:
                yield binding, values


def _text(part: bytes) -> str:
    try:
        return part.decode()
    except UnicodeDecodeError:
        raise Fault(Reason.ERROR_REASON_MALFORMED_REQUEST, "the path is not UTF-8") from None
