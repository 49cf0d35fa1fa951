"""The force table of a TMeasy tyre from its sidewall marking: load index or load capacity, width and rim.

Sources: the load index is the ETRTO/JATMA table (also ISO 4209-1, ISO 4000-1). The shape of the force table comes from Chrono's
ChTMeasyTire (tyres of 70 % section height for cars, 80 % for trucks), whose numbers are fitted to the tyres of Pacejka's book on a dry
road: `friction_scale` 1 is that road. At full load the deflection is 16 % of the section height.
"""

import math
from dataclasses import dataclass
from types import MappingProxyType

from lfdm_ros.errors import InputError

LOAD_GRAVITY = 9.81  # [m/s^2] converts the table's kg to N
DEFLECTION = 0.16  # at full load, share of the section height
PRESSURE_EXPONENT = 0.8  # load capacity is proportional to (pressure / design pressure)^0.8

# Load [kg] for load index 0 to 279.
LOAD_INDEX: tuple[float, ...] = (
    45, 46.5, 47.5, 48.7, 50, 51.5, 53, 54.5, 56, 58, 60, 61.5, 63, 65, 67, 69, 71, 73, 75, 77.5, 80, 82.5, 85, 87.5, 90, 92.5, 95, 97.5,
    100, 103, 106, 109, 112, 115, 118, 121, 125, 128, 132, 136, 140, 145, 150, 155, 160, 165, 170, 175, 180, 185, 190, 195, 200, 206, 212,
    218, 224, 230, 236, 243, 250, 257, 265, 272, 280, 290, 300, 307, 315, 325, 335, 345, 355, 365, 375, 387, 400, 412, 425, 437, 450, 462,
    475, 487, 500, 515, 530, 545, 560, 580, 600, 615, 630, 650, 670, 690, 710, 730, 750, 775, 800, 825, 850, 875, 900, 925, 950, 975, 1000,
    1030, 1060, 1090, 1120, 1150, 1180, 1215, 1250, 1285, 1320, 1360, 1400, 1450, 1500, 1550, 1600, 1650, 1700, 1750, 1800, 1850, 1900,
    1950, 2000, 2060, 2120, 2180, 2240, 2300, 2360, 2430, 2500, 2575, 2650, 2725, 2800, 2900, 3000, 3075, 3150, 3250, 3350, 3450, 3550,
    3650, 3750, 3875, 4000, 4125, 4250, 4375, 4500, 4625, 4750, 4875, 5000, 5150, 5300, 5450, 5600, 5800, 6000, 6150, 6300, 6500, 6700,
    6900, 7100, 7300, 7500, 7750, 8000, 8250, 8500, 8750, 9000, 9250, 9500, 9750, 10000, 10300, 10600, 10900, 11200, 11500, 11800, 12150,
    12500, 12850, 13200, 13600, 14000, 14500, 15000, 15500, 16000, 16500, 17000, 17500, 18000, 18500, 19000, 19500, 20000, 20600, 21200,
    21800, 22400, 23000, 23600, 24300, 25000, 25750, 26500, 27250, 28000, 29000, 30000, 30750, 31500, 32500, 33500, 34500, 35500, 36500,
    37500, 38750, 40000, 41250, 42500, 43750, 45000, 46250, 47500, 48750, 50000, 51500, 53000, 54500, 56000, 58000, 60000, 61500, 63000,
    65000, 67000, 69000, 71000, 73000, 75000, 77500, 80000, 82500, 85000, 87500, 90000, 92500, 95000, 97500, 100000, 103000, 106000,
    109000, 112000, 115000, 118000, 121000, 125000, 128500, 132000, 136000
)

# Force table of a tyre type: (value at nominal load, at twice that load); slopes and forces per newton of load, slips unscaled.
SHAPES = MappingProxyType({
    "passenger": MappingProxyType({
        "longitudinal_slope": (18.3741, 19.4669), "longitudinal_peak_force": (1.1292, 1.0896),
        "longitudinal_peak_slip": (0.13913, 0.13913), "longitudinal_sliding_force": (0.80149, 0.76917),
        "longitudinal_sliding_slip": (0.66667, 0.66667),
        "lateral_slope": (15.9826, 12.8509), "lateral_peak_force": (1.0009, 0.91367), "lateral_peak_slip": (0.14852, 0.18504),
        "lateral_sliding_force": (0.8336, 0.77336), "lateral_sliding_slip": (0.96524, 1.0714)}),
    "truck": MappingProxyType({
        "longitudinal_slope": (17.7764, 14.5301), "longitudinal_peak_force": (0.89965, 0.77751),
        "longitudinal_peak_slip": (0.10811, 0.12389), "longitudinal_sliding_force": (0.46183, 0.42349),
        "longitudinal_sliding_slip": (0.66667, 0.66667),
        "lateral_slope": (7.4013, 6.8505), "lateral_peak_force": (0.75876, 0.72628), "lateral_peak_slip": (0.33167, 0.33216),
        "lateral_sliding_force": (0.68276, 0.65319), "lateral_sliding_slip": (1.0296, 1.0296)}),
})


@dataclass(frozen=True)
class TyreSize:
    """Data sheet of a tyre; SI.

    Args:
        kind: "passenger" or "truck". capacity: load at design pressure [N]; see `load_of_index`.
        section_height: unloaded radius less rim radius [m].
        pressure_ratio: inflation pressure in use over the design pressure.

    Raises:
        InputError: an unknown kind, or a number that is not above 0.
    """

    kind: str
    capacity: float
    section_height: float
    pressure_ratio: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in SHAPES:
            raise InputError(f"unknown vehicle type '{self.kind}'; choose one of: {', '.join(SHAPES)}")
        for name, value in (("load capacity", self.capacity), ("section height (wheel radius less rim radius)", self.section_height),
                            ("pressure over design pressure", self.pressure_ratio)):
            if not (math.isfinite(value) and value > 0.0):
                raise InputError(f"tyre size: {name} must be above 0, not {value:g}")

    def parameters(self) -> dict[str, float]:
        """Returns the derived vehicle parameters: nominal and maximum load, vertical stiffness of both axles, and the force table."""
        nominal = 0.5 * self.capacity * self.pressure_ratio ** PRESSURE_EXPONENT
        stiffness = self.capacity / (DEFLECTION * self.section_height)
        table: dict[str, float] = {"tyre_vertical_stiffness_front": stiffness, "tyre_vertical_stiffness_rear": stiffness,
                                   "tyre_nominal_load": nominal, "tyre_maximum_load": 3.5 * nominal}
        for quantity, (single, double) in SHAPES[self.kind].items():
            slip = quantity.endswith("slip")
            table[f"tmeasy_{quantity}_nominal"] = single if slip else single * nominal
            table[f"tmeasy_{quantity}_double"] = double if slip else double * 2.0 * nominal
        return table


def load_of_index(index: int) -> float:
    """Returns the load [N] of a load index. Raises InputError: no such index."""
    if not 0 <= index < len(LOAD_INDEX):
        raise InputError(f"load index {index} is outside 0 to {len(LOAD_INDEX) - 1}")
    return LOAD_INDEX[index] * LOAD_GRAVITY
