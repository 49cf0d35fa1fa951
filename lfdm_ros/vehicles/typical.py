"""A vehicle from mass and wheelbase with typical values of its class.

Each value notes its source: given, a rule with its reference, or typical of the class. Sources: Gillespie, "Fundamentals of Vehicle
Dynamics" (cornering coefficients, braking, rolling resistance); Milliken and Milliken, "Race Car Vehicle Dynamics" (roll gradients, ride
frequencies, dynamic index k^2/(a b), racing tyres); NHTSA, rollover resistance ratings, static stability factor T/(2 h), and measured
inertias (Heydinger et al., SAE 1999-01-1336); the tables of `lfdm_ros.vehicles.tyre_size`; DART, a car of scale 1:10 whose tyres were
identified (config/vehicles/dart.yaml).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lfdm_ros.errors import InputError
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.models.motor import MAP_POINTS
from lfdm_ros.vehicles.vehicle import Vehicle

GIVEN = "given"


@dataclass(frozen=True)
class Typical:
    """Typical values of a vehicle class; ratios are dimensionless.

    Attributes:
        masses: range of the class [kg].
        front: share of the weight on the front axle. track, radius: relative to the wheelbase. stability: T/(2 h).
        index: k^2/(a b) of the yaw inertia. unsprung: mass of an axle's wheels relative to the total mass.
        roll: angle at 1 g [deg]. frequency: of the body on its springs [Hz].
        cornering, slip: stiffness per tyre load [1/rad, 1]. friction: coefficient on a dry road. rolling: coefficient.
        power: per mass [W/kg]. lock: angle of the road wheels [rad].
    """

    title: str
    masses: tuple[float, float]
    front: float
    track: float
    radius: float
    stability: float
    index: float
    unsprung: float
    roll: float
    frequency: float
    cornering: float
    slip: float
    friction: float
    rolling: float
    power: float
    lock: float


CLASSES: dict[str, Typical] = {
    "car": Typical("passenger car", (600.0, 2600.0), 0.56, 0.575, 0.118, 1.40, 0.95, 0.065, 5.0, 1.3, 13.0, 18.0,
                   0.95, 0.012, 75.0, 0.60),
    "suv": Typical("sport utility vehicle, pick-up or van", (1200.0, 4000.0), 0.54, 0.58, 0.135, 1.15, 0.95, 0.075, 6.5, 1.4, 11.0, 18.0,
                   0.90, 0.013, 65.0, 0.60),
    "racing": Typical("racing car on slicks", (300.0, 1500.0), 0.45, 0.55, 0.105, 2.60, 0.85, 0.08, 1.0, 3.0, 22.0, 28.0,
                      1.50, 0.015, 400.0, 0.30),
    "small": Typical("small electric car, scale 1:20 to 1:5", (0.3, 60.0), 0.50, 0.80, 0.17, 2.00, 0.90, 0.08, 3.0, 6.0, 8.0, 15.0,
                     0.80, 0.060, 40.0, 0.40),
}
_DAMPING = 0.3  # damping ratio of roll and suspension (Milliken)
_ROLL_SHARE = 0.57  # front share of the roll stiffness (Milliken)
_BRAKE_SHARE = 0.65  # front share of the braking (Gillespie)
_LAUNCH = 0.45  # share of the friction limit used at full throttle


def typical_vehicle(name: str, mass: float, wheelbase: float, kind: str = "car", given: Mapping[str, float] | None = None, *,
                    front_share: float | None = None, power: float | None = None) -> Vehicle:
    """Returns a vehicle with all parameters of single-track models, chassis of 8 to 24 degrees of freedom and Fiala's tyre.

    Args:
        mass: of the whole vehicle as driven [kg]. wheelbase: [m]. kind: key of CLASSES.
        given: known parameters, SI, by vehicle-file name; the rules use them.
        front_share: of the weight on the front axle. power: [W].

    Raises:
        InputError: no such class or parameter, or a value out of range.
    """
    if kind not in CLASSES:
        raise InputError(f"no class '{kind}'; choose one of: {', '.join(CLASSES)}")
    like, fixed = CLASSES[kind], dict(given or {})
    for label, value in (("mass", mass), ("wheelbase", wheelbase), ("front share", front_share), ("power", power)):
        if value is not None and not (math.isfinite(value) and value > 0.0):
            raise InputError(f"{label} must be above 0, not {value:g}")
    if front_share is not None and front_share >= 1.0:
        raise InputError(f"the front axle's share of the weight must be below 1, not {front_share:g}")
    values: dict[str, float] = {}
    sources: dict[str, str] = {}

    def put(key: str, value: float, source: str) -> float:
        values[key], sources[key] = (fixed[key], GIVEN) if key in fixed else (float(f"{value:.5g}"), source)
        return values[key]

    def of_class(text: str) -> str:
        return f"typical of a {like.title}: {text}"

    # -- Mass distribution -----------------------------------------------------------------------------------------------------
    share = like.front if front_share is None else front_share
    weight_source = of_class(f"{share:.0%} of the weight in front") if front_share is None else f"given: {share:.0%} of the weight in front"
    front_axle, rear_axle = (1.0 - share) * wheelbase, share * wheelbase  # of the whole vehicle's centre
    unsprung = [put(f"unsprung_mass_{axle}", like.unsprung * mass, of_class(f"{like.unsprung:.1%} of the mass at each axle"))
                for axle in ("front", "rear")]
    sprung = put("sprung_mass", mass - sum(unsprung), "given mass less the unsprung masses")
    if sprung <= 0.0:
        raise InputError(f"unsprung masses of {sum(unsprung):g} kg leave nothing of {mass:g} kg")
    # The unsprung masses are at the axles; the sprung mass's centre follows from the total weight distribution.
    ahead = (mass * front_axle - unsprung[1] * wheelbase) / sprung
    a = put("cg_to_front_axle", ahead, f"given wheelbase; {weight_source}; unsprung masses taken off")
    b = put("cg_to_rear_axle", wheelbase - a, f"given wheelbase; {weight_source}; unsprung masses taken off")
    track = put("track_front", like.track * wheelbase, of_class(f"{like.track:g} of the wheelbase"))
    put("track_rear", track, "as in front")
    height = put("cg_height", track / (2.0 * like.stability), of_class(f"static stability factor T/(2 h) of {like.stability:g} (NHTSA)"))
    put("yaw_inertia", like.index * mass * front_axle * rear_axle, f"rule: k^2/(a b) = {like.index:g} (Milliken; NHTSA)")
    put("pitch_inertia", 0.95 * values["yaw_inertia"], "rule: 0.95 of the yaw inertia (NHTSA)")
    roll_inertia = put("roll_inertia", sprung * (0.37 * track) ** 2, "rule: radius of gyration 0.37 of the track (NHTSA)")
    put("roll_yaw_inertia", 0.0, "symmetric")
    put("unsprung_load_share", 1.0, "consistent loads")

    # -- Suspension ------------------------------------------------------------------------------------------------------------
    drops = [put(f"roll_centre_drop_{axle}", part * height, of_class(f"roll centre at {1.0 - part:.2g} of the centre's height"))
             for axle, part in (("front", 0.88), ("rear", 0.80))]
    arm = (drops[0] * b + drops[1] * a) / wheelbase
    # In a steady turn K phi = m (a_y + g phi) arm.
    stiffness = sprung * GRAVITY * arm * (1.0 / math.radians(like.roll) + 1.0)
    damping = 2.0 * _DAMPING * math.sqrt(stiffness * (roll_inertia + sprung * arm**2))
    for axle, part in (("front", _ROLL_SHARE), ("rear", 1.0 - _ROLL_SHARE)):
        put(f"roll_stiffness_{axle}", part * stiffness, of_class(f"rolls by {like.roll:g} degrees at 1 g (Milliken), {part:.0%} here"))
        put(f"roll_damping_{axle}", part * damping, of_class(f"{_DAMPING:g} of critical (Milliken)"))
    for axle, part in (("front", b / wheelbase), ("rear", a / wheelbase)):
        corner = 0.5 * part * sprung
        spring = put(f"suspension_stiffness_{axle}", corner * (2.0 * math.pi * like.frequency) ** 2,
                     of_class(f"{like.frequency:g} Hz on its springs (Milliken)"))
        put(f"suspension_damping_{axle}", 2.0 * _DAMPING * math.sqrt(spring * corner), of_class(f"{_DAMPING:g} of critical (Milliken)"))

    # -- Wheels and tyres ------------------------------------------------------------------------------------------------------
    radius = put("wheel_radius", like.radius * wheelbase, of_class(f"{like.radius:g} of the wheelbase"))
    put("wheel_inertia", 0.6 * 0.015 * mass * radius**2, "rule: between disc and ring, of 1.5 % of the mass; without the driveline")
    loads = {"front": 0.5 * share * mass * GRAVITY, "rear": 0.5 * (1.0 - share) * mass * GRAVITY}
    of_tyre = "(DART)" if kind == "small" else "(Milliken)" if kind == "racing" else "(Gillespie; TMeasy's table)"
    for axle, load in loads.items():
        put(f"tyre_vertical_stiffness_{axle}", load / (0.06 * radius), of_class("6 % of the radius at the static load"))
        put(f"cornering_stiffness_{axle}", like.cornering * load, of_class(f"{like.cornering:g} times the static load {of_tyre}"))
        put(f"longitudinal_stiffness_{axle}", like.slip * load, of_class(f"{like.slip:g} times the static load {of_tyre}"))
        put(f"friction_{axle}", like.friction, of_class(f"on a dry road {of_tyre}"))
    put("friction_max", like.friction, of_class(f"on a dry road {of_tyre}"))
    put("friction_min", 0.85 * like.friction, of_class("0.85 of the largest, where the tyre slides"))
    put("friction_scale", 1.0, "reference road")
    put("rolling_resistance", like.rolling * radius, of_class(f"coefficient {like.rolling:g} times the radius"))

    # -- Drive, brakes, steering -------------------------------------------------------------------------------------------------
    watts = like.power * mass if power is None else power
    power_source = of_class(f"{like.power:g} W/kg") if power is None else f"given: {watts / 1000.0:g} kW"
    put("driveline_ratio", 1.0, "the map gives wheel torque; engine and gears are unknown")
    for key, value in _motor(watts, _LAUNCH * like.friction * mass * GRAVITY * radius).items():
        put(key, value, f"{power_source} at the wheels, all four driven; from standstill {_LAUNCH:g} of the friction")
    max_torque = like.friction * mass * GRAVITY * radius / 2.0
    for axle, part in (("front", _BRAKE_SHARE), ("rear", 1.0 - _BRAKE_SHARE)):
        put(f"brake_torque_{axle}", part * max_torque, f"rule: full braking at the friction limit, {part:.0%} here (Gillespie)")
    put("max_road_wheel_angle", like.lock, of_class("full lock"))
    for key, value in fixed.items():
        put(key, value, GIVEN)
    description = f"written from {mass:g} kg and a wheelbase of {wheelbase:g} m as a {like.title}: typical values are guesses"
    return Vehicle(name, values, description, sources, default_tyre="fiala")


def _motor(watts: float, torque: float) -> dict[str, float]:
    """Returns the table of a motor of constant torque, then constant power up to 6 times the base speed."""
    knee = watts / torque
    speeds = [0.0, knee, 1.6 * knee, 2.6 * knee, 4.2 * knee, 6.0 * knee]
    torques = [torque, torque, *(watts / speed for speed in speeds[2:-1]), 0.0]
    return {f"motor_{column}_{i}": table[i] for column, table in (("speed", speeds), ("torque", torques)) for i in range(MAP_POINTS)}
