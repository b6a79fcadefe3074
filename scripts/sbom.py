"""Lists what NoMemory runs on, as a CycloneDX document: python scripts/sbom.py FILE.

It has the distributions that `nomemory` needs, those that they need, and so on, in the versions that are installed, on
this platform. Tools for development are not in it. The same packages make the same document.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.bom_ref import BomRef
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from usage import show_help

PRODUCT = "nomemory"
NAMESPACE = uuid.UUID("8d1c6cf6-5b0f-5c38-9f3e-0a3f6c1f2b6d")
Wanted = tuple[str, frozenset[str]]
"""A distribution's canonical name, and the extras that somebody wants of it."""


def main(file: Path) -> None:
    """Write the document."""
    text = document()
    if JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is not None:
        raise SystemExit("what was made is no CycloneDX document")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    print(f"{file}: {len(closure())} distributions")


def document() -> str:
    """Return the document."""
    needs = closure()
    components = {name: component(distribution(name)) for name in needs}
    product = components[PRODUCT]
    product.type = ComponentType.APPLICATION
    bom = Bom(
        metadata=BomMetaData(component=product), components=[components[name] for name in needs if name != PRODUCT]
    )
    for name, needed in needs.items():
        bom.register_dependency(components[name], [components[item] for item in sorted(needed)])
    bom.serial_number = uuid.uuid5(NAMESPACE, " ".join(sorted(str(item.purl) for item in components.values())))
    bom.metadata.timestamp = None  # type: ignore[assignment]  # the schema does not ask for it, and it would differ each time
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def closure() -> dict[str, set[str]]:
    """Return the distributions that the product needs, itself among them, with what each needs, by canonical names."""
    found: dict[str, set[str]] = {}
    waiting: list[Wanted] = [(PRODUCT, frozenset())]
    seen: set[Wanted] = set()
    while waiting:
        wanted = waiting.pop()
        if wanted not in seen:
            seen.add(wanted)
            needed = list(requirements(wanted))
            found.setdefault(wanted[0], set()).update(name for name, _ in needed)
            waiting += needed
    return dict(sorted(found.items()))


def requirements(wanted: Wanted) -> Iterator[Wanted]:
    """Yield what a distribution needs on this platform."""
    name, extras = wanted
    for text in distribution(name).requires or []:
        one = Requirement(text)
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield canonicalize_name(one.name), frozenset(one.extras)


def component(of: Distribution) -> Component:
    """Describe a distribution."""
    name = canonicalize_name(of.name)
    purl = PackageURL("pypi", None, name, of.version)
    licence = licence_of(of)
    return Component(
        name=name,
        version=of.version,
        type=ComponentType.LIBRARY,
        purl=purl,
        bom_ref=BomRef(str(purl)).value,
        licenses=[licence] if licence else [],
    )


def licence_of(of: Distribution) -> LicenseExpression | DisjunctiveLicense | None:
    """Return what a distribution says of its licence, in a line."""
    told = of.metadata
    if "License-Expression" in told:
        return LicenseExpression(told["License-Expression"])
    named = [item.split(" :: ")[-1] for item in told.get_all("Classifier") or [] if item.startswith("License :: OSI")]
    text = " or ".join(named) or str(told.json.get("license", "")).strip()
    return DisjunctiveLicense(name=text.splitlines()[0]) if text else None


if __name__ == "__main__":
    show_help(__doc__)
    main(Path(sys.argv[1]))
