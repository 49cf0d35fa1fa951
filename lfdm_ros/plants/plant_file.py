"""Plants by name or file: a YAML file with the `type` of a plant, by default `fmu`, and the keys of that type."""

from pathlib import Path

from lfdm_ros import documents
from lfdm_ros.errors import InputError, quote, suggest
from lfdm_ros.plants.fmu_plant import FMU_PLANT
from lfdm_ros.plants.plant import PLANTS, PlantSimulator, register_plant
from lfdm_ros.vehicles import Vehicle

register_plant(FMU_PLANT)


def open_plant(source: str, vehicle: Vehicle) -> PlantSimulator:
    """Opens a plant.

    Args:
        source: a plant file, an FMU whose variables have the names of the models, or a registered type without required settings.
        vehicle: with the outline, sensors and actuators of the plant.

    Raises:
        InputError: no such file or type, or an error of the type.
    """
    path = Path(source)
    if source in PLANTS and not path.suffix:
        items: dict[str, object] = {"type": source}
    elif path.suffix in (".fmu", ".ssp"):
        items = {"fmu": path.name}
    elif path.suffix in (".yaml", ".yml") or path.is_file():
        content = documents.read_yaml(path)[0]
        if not isinstance(content, dict):
            raise InputError(f"{path}: expected a mapping with fmu, inputs and outputs, or type; found {quote(content)}")
        items = dict(content)
    else:
        raise InputError(f"plant {quote(source)}: no file and no registered plant{suggest(source, PLANTS)}; give a plant file (.yaml), an "
                         f"FMU or one of: {', '.join(PLANTS)}; models of this package are given as model")
    kind = items.pop("type", FMU_PLANT.name)
    return PlantSimulator(PLANTS.find(str(kind), f"{source}: type").make(items, source), vehicle, path.name)
