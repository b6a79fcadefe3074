"""Write the software bill of materials as a CycloneDX document: python scripts/sbom.py FILE.

The document lists the installed runtime dependencies of `nomemory` on this platform, including transitive ones, without
development tools. The same packages always result in the same document.
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
RequiredDistribution = tuple[str, frozenset[str]]
"""The canonical name of a distribution, and its requested extras."""


def main(file: Path) -> None:
    """Write the software bill of materials to a file.

    Raises:
        SystemExit: the software bill of materials does not match the CycloneDX schema.
    """
    text = render_document()
    if (error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise SystemExit(f"the generated document does not match the CycloneDX 1.6 schema: {error}")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    print(f"{file}: {len(find_dependency_closure())} distributions")


def render_document() -> str:
    """Return the software bill of materials as JSON."""
    needs = find_dependency_closure()
    components = {name: build_component(distribution(name)) for name in needs}
    product = components[PRODUCT]
    product.type = ComponentType.APPLICATION
    bom = Bom(
        metadata=BomMetaData(component=product), components=[components[name] for name in needs if name != PRODUCT]
    )
    for name, needed in needs.items():
        bom.register_dependency(components[name], [components[item] for item in sorted(needed)])
    bom.serial_number = uuid.uuid5(NAMESPACE, " ".join(sorted(str(item.purl) for item in components.values())))
    bom.metadata.timestamp = None  # type: ignore[assignment]  # optional, and would differ on each run
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def find_dependency_closure() -> dict[str, set[str]]:
    """Return the product and its transitive dependencies, each mapped to its direct dependencies, by canonical name."""
    dependencies: dict[str, set[str]] = {}
    pending: list[RequiredDistribution] = [(PRODUCT, frozenset())]
    seen: set[RequiredDistribution] = set()
    while pending:
        required = pending.pop()
        if required not in seen:
            seen.add(required)
            needed = list(iterate_requirements(required))
            dependencies.setdefault(required[0], set()).update(name for name, _ in needed)
            pending += needed
    return dict(sorted(dependencies.items()))


def iterate_requirements(required: RequiredDistribution) -> Iterator[RequiredDistribution]:
    """Yield the direct dependencies of a distribution on this platform."""
    name, extras = required
    for text in distribution(name).requires or []:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield canonicalize_name(requirement.name), frozenset(requirement.extras)


def build_component(package: Distribution) -> Component:
    """Return the CycloneDX component of a distribution."""
    name = canonicalize_name(package.name)
    purl = PackageURL("pypi", None, name, package.version)
    license_entry = read_license(package)
    return Component(
        name=name,
        version=package.version,
        type=ComponentType.LIBRARY,
        purl=purl,
        bom_ref=BomRef(str(purl)).value,
        licenses=[license_entry] if license_entry else [],
    )


def read_license(package: Distribution) -> LicenseExpression | DisjunctiveLicense | None:
    """Return the license that a distribution declares in its metadata."""
    metadata = package.metadata
    if "License-Expression" in metadata:
        return LicenseExpression(metadata["License-Expression"])
    classifiers = metadata.get_all("Classifier") or []
    names = [item.split(" :: ")[-1] for item in classifiers if item.startswith("License :: OSI")]
    text = " or ".join(names) or str(metadata.json.get("license", "")).strip()
    return DisjunctiveLicense(name=text.splitlines()[0]) if text else None


if __name__ == "__main__":
    show_help(__doc__)
    main(Path(sys.argv[1]))
