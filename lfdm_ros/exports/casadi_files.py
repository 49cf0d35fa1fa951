"""Export of a vehicle as serialized CasADi functions, with a JSON file that describes their arguments."""

import json
from pathlib import Path
from typing import Any

from lfdm_ros.backends.portable import casadi_functions
from lfdm_ros.errors import prefixing
from lfdm_ros.exports.variables import Exported
from lfdm_ros.files import write_text


def write_casadi(export: Exported, folder: Path) -> list[Path]:
    """Writes step.casadi, rhs.casadi, outputs.casadi, without discrete states dae.casadi, and vehicle.json; returns the paths. Raises
    InputError: the model reads arrays; the folder cannot be written."""
    functions, model = casadi_functions(export.model), export.model

    def about(fields: Any) -> list[dict[str, Any]]:
        return [{"name": f.name, "unit": f.unit, "description": f.description} for f in fields]

    states = [{**row, "role": f.role, "rest": float(rest)} for row, f, rest in zip(about(model.states), model.states, export.rest)]
    parameters = [{**row, "value": float(value), "lower": f.lower if f.lower > -float("inf") else None,
                   "upper": f.upper if f.upper < float("inf") else None}
                  for row, f, value in zip(about(model.parameters), model.parameters, export.vehicle.vector(model))]
    inputs = [{**row, "lower": f.lower, "upper": f.upper, "default": f.default} for row, f in zip(about(model.inputs), model.inputs)]
    document = {"vehicle": export.vehicle.name, "model": model.name, "step": export.step, "states": states, "inputs": inputs,
                "outputs": about(model.outputs), "parameters": parameters,
                "functions": {name: [f.name_in(), f.name_out()] for name, f in functions.items()}}
    written = [folder / f"{name}.casadi" for name in functions]
    with prefixing(f"{folder}: the export cannot be written", OSError):
        folder.mkdir(parents=True, exist_ok=True)
        for path, function in zip(written, functions.values()):
            path.write_bytes(b"")  # raises with the reason, unlike CasADi
            function.save(str(path))
        write_text(folder / "vehicle.json", json.dumps(document, indent=1) + "\n")
    return [*written, folder / "vehicle.json"]
