"""The software bill of materials (CycloneDX 1.5, JSON) of requirements.txt, or its licences as a table:

    python -m lfdm_lab.sbom > sbom.json
    python -m lfdm_lab.sbom --licences

For this environment: versions and hashes of the locked files, licences as declared by the installed packages.
"""

import argparse
import importlib.metadata
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from lfdm_ros import __version__
from lfdm_ros.environment import PINNED
from lfdm_ros.resources import share_directory

_LICENCE = re.compile(r"^License :: (?:OSI Approved :: )?(.+)$")


def components(lock: str) -> Iterator[dict[str, Any]]:
    """Yields a CycloneDX component for each package of a lock whose marker holds here."""
    from packaging.markers import Marker

    found: dict[str, Any] | None = None
    for line in lock.splitlines():
        if match := PINNED.match(line):
            if found:
                yield found
            name, version, marker = match.groups()
            found = None if marker and not Marker(marker).evaluate() else {
                "type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name.lower().replace('_', '-')}@{version}",
                "bom-ref": f"{name}=={version}", "hashes": [], "licenses": [{"license": {"name": _licence(name)}}]}
        elif found and (match := re.match(r"^ +--hash=sha256:([0-9a-f]{64})", line)):
            found["hashes"].append({"alg": "SHA-256", "content": match[1]})
    if found:
        yield found


def bill(lock: str) -> dict[str, Any]:
    """Returns the bill of materials of a lock."""
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": {"component": {
        "type": "application", "name": "lfdm-ros", "version": __version__, "bom-ref": "lfdm-ros",
        "licenses": [{"license": {"id": "Apache-2.0"}}]}}, "components": [*components(lock)]}


def licences(parts: Mapping[str, Any]) -> str:
    """Returns a table of a bill's packages by licence, those without one last."""
    by_licence: dict[str, list[str]] = {}
    for part in parts["components"]:
        by_licence.setdefault(part["licenses"][0]["license"]["name"], []).append(part["name"])
    rows = sorted(by_licence.items(), key=lambda item: (item[0] == "unknown", item[0].lower()))
    return "\n".join(["| licence | packages |", "| --- | --- |", *(f"| {licence} | {', '.join(names)} |" for licence, names in rows)])


def _licence(name: str) -> str:
    """Returns the declared licence of an installed package: SPDX expression, short text, classifiers, or package.xml of a ROS package."""
    manifest = Path(sys.prefix, "share", name.removeprefix("ros-").replace("-", "_"), "package.xml")
    if name.startswith("ros-") and manifest.is_file():
        return " AND ".join(element.text or "" for element in ElementTree.parse(manifest).getroot().iter("license"))
    try:
        metadata = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
    classified = [match[1] for text in metadata.get_all("Classifier") or () if (match := _LICENCE.match(text))]
    text = (metadata["License"] or "").strip()
    declared = metadata["License-Expression"] or (text if 0 < len(text) <= 60 and "\n" not in text else "")
    return declared if declared and declared != "UNKNOWN" else ", ".join(classified) or "unknown"


def main() -> int:
    """Prints the bill or the table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m lfdm_lab.sbom", description=(__doc__ or "").partition(":\n")[0])
    parser.add_argument("--licences", action="store_true", help="print a table of licences instead")
    parser.add_argument("--lock", type=Path, help="file of pinned requirements (default: the package's own)")
    args = parser.parse_args()
    document = bill((args.lock or share_directory() / "requirements.txt").read_text(encoding="utf-8"))
    print(licences(document) if args.licences else json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
