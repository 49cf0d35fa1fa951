"""Settings of the controller: each declared once, with unit, range and description. Nodes, files and help are derived from them."""

from dataclasses import dataclass

from lfdm_ros.control.command_limits import CommandLimits
from lfdm_ros.errors import InputError
from lfdm_ros.models import SLOTS, Model, get_model
from lfdm_ros.models.declaration import INPUTS
from lfdm_ros.parameters import Exposed, setting

SOLVERS = ("hpipm", "piqp", "ipopt")


@dataclass(frozen=True)
class Settings(CommandLimits):
    """Settings of the controller. Raises InputError: a value is out of its range; the message names it."""

    # -- Problem ------------------------------------------------------------------------------------------------------
    model: str = setting("driven_bicycle", "", "prediction model, by its name in the registry")
    solver: str = setting("hpipm", "", "solver: hpipm, piqp (one step of sequential quadratic programming a cycle), ipopt (to "
                                       "convergence, slow)", choices=SOLVERS)
    period: float = setting(0.02, "s", "control period", 0.005, 0.5)
    near_stages: int = setting(20, "1", "stages of the near phase", 2, 200)
    near_step: float = setting(0.05, "s", "length of a near stage", 0.005, 0.5)
    far_stages: int = setting(20, "1", "stages of the far phase", 0, 200)
    far_step: float = setting(0.15, "s", "length of a far stage", 0.01, 1.0)
    substeps: int = setting(2, "1", "integration steps in a stage", 1, 20)
    iterations: int = setting(1, "1", "linearisations a cycle; 1 is the real-time iteration", 1, 100, live=True)
    cold_iterations: int = setting(8, "1", "linearisations in a cycle without a plan to start from", 1, 200, live=True)
    obstacles: int = setting(4, "1", "nearest obstacles in a stage, half of them on its left, half on its right", 0, 32)
    terms: str = setting("", "", "further costs and constraints of plug-ins by name, separated by commas; name=number sets its weight or "
                                 "penalty")

    # -- Cost ---------------------------------------------------------------------------------------------------------
    weight_lateral: float = setting(2.0, "1/m^2", "distance from the path", 0.0, 1e4, live=True, power=-2)
    weight_heading: float = setting(2.0, "1/rad^2", "heading against the path's", 0.0, 1e4, live=True)
    weight_speed: float = setting(0.08, "s^2/m^2", "speed against the reference", 0.0, 1e4, live=True, power=-2)
    weight_sideslip: float = setting(0.1, "s^2/m^2", "lateral velocity of the rear axle", 0.0, 1e4, live=True, power=-2)
    weight_steering: float = setting(0.2, "1", "steering away from straight ahead", 0.0, 1e4, live=True)
    weight_pedal: float = setting(0.02, "1", "throttle and brake", 0.0, 1e4, live=True)
    weight_steering_rate: float = setting(0.5, "s^2", "rate of the steering", 1e-6, 1e4, live=True)
    weight_pedal_rate: float = setting(0.1, "s^2", "rate of throttle and brake", 1e-6, 1e4, live=True)
    weight_terminal: float = setting(1.0, "s", "errors of the last state, as their duration", 0.0, 100.0, live=True)
    weight_time: float = setting(0.5, "1/s", "time from the end of the horizon to the goal, at the highest speed", 0.0, 1e4, live=True)
    goal_lateral: float = setting(0.05, "1", "factor on weight_lateral on a route to a goal, which need not be followed exactly", 0.0, 10.0,
                                  live=True)

    # -- Limits -------------------------------------------------------------------------------------------------------
    largest_throttle: float = setting(1.0, "1", "largest throttle", 0.0, 1.0, live=True)
    largest_brake: float = setting(0.5, "1", "largest brake; beyond, wheels lock and the vehicle loses its steering or spins", 0.01, 1.0,
                                   live=True)
    load_margin: float = setting(0.15, "1", "smallest load of each wheel, share of its static load", 0.0, 0.9, live=True)
    friction_use: float = setting(0.85, "1", "share of the friction circle that the plan may use", 0.05, 1.5, live=True)
    obstacle_margin: float = setting(0.4, "m", "distance to keep from obstacles", 0.0, 10.0, live=True, power=1)
    obstacle_growth: float = setting(0.1, "m/s", "growth of that distance with the time ahead", 0.0, 5.0, live=True, power=1)
    obstacle_sigmas: float = setting(0.0, "1", "standard deviations of its velocity by which a moving obstacle grows with the time ahead, "
                                     "for the plan", 0.0, 5.0, live=True)
    stop_margin: float = setting(0.15, "m", "distance to keep from obstacles on the stop along each plan; with a corridor at most "
                                            "half of path_margin", 0.0, 10.0, live=True, power=1)
    path_margin: float = setting(0.1, "m", "distance to keep from obstacles on a path with a corridor, instead of those two", 0.0, 10.0,
                                 live=True, power=1)
    sight: float = setting(100.0, "m", "range of the obstacle sensor; the speed allows a stop within it", 1.0, 1e4, live=True)
    sight_braking: float = setting(5.0, "m/s^2", "deceleration of a stop within sight", 0.1, 20.0, live=True)
    hidden_speed: float = setting(0.0, "m/s", "assumed speed of traffic that obstacles beside a path may hide: 1.5 for pedestrians, 5 for "
                                              "cyclists, more for cars; 0: as the scenario says", 0.0, 30.0, live=True)
    traffic_side: str = setting("right", "", "side of the road on which traffic keeps; evasions before oncoming traffic try it first",
                                choices=("right", "left"), live=True)
    path_lateral_acceleration: float = setting(4.0, "m/s^2", "lateral acceleration of the reference speed in bends", 0.1, 20.0, live=True)
    path_acceleration: float = setting(3.0, "m/s^2", "acceleration of the reference speed along the path", 0.1, 20.0, live=True)
    path_braking: float = setting(3.5, "m/s^2", "deceleration of the reference speed along the path", 0.1, 20.0, live=True)
    reverse_speed: float = setting(1.5, "m/s", "speed in reverse, on paths with changes of direction, if the route is blocked; 0: never",
                                   0.0, 3.0, live=True, power=1)
    reverse_unseen: bool = setting(False, "", "also reverse into unobserved places: only if they are monitored otherwise",
                                   live=True)

    penalty_obstacle: float = setting(300.0, "1/m", "cost of violating the distance to an obstacle, for a second", 0.0, 1e7,
                                      live=True, power=-1)
    penalty_load: float = setting(60.0, "1", "cost of a wheel load below its margin, share of the static, a second", 0.0, 1e7, live=True)
    penalty_friction: float = setting(20.0, "1", "cost of leaving the friction circle, for a second", 0.0, 1e7, live=True)
    penalty_steering: float = setting(20.0, "1", "cost of exceeding the steering limit, as share of it, for a second", 0.0, 1e7, live=True)
    penalty_corridor: float = setting(100.0, "1/m", "cost of leaving the corridor, for a second", 0.0, 1e7, live=True, power=-1)
    penalty_speed: float = setting(5.0, "s/m", "cost of exceeding the speed limit, for a second", 0.0, 1e7, live=True, power=-1)

    # -- Time ---------------------------------------------------------------------------------------------------------
    compensate: bool = setting(True, "", "predict the state through its age and the actuation delay", live=True)
    learning_time: float = setting(0.1, "s", "time constant with which the prediction estimates the model error; 0: never",
                                   0.0, 10.0)
    time_budget: float = setting(0.015, "s", "wall-clock time of a cycle after which its plan is late and the last one is used; 0: no "
                                             "limit, for bit-reproducible simulation", 0.0, 10.0, live=True)
    state_timeout: float = setting(0.6, "s", "age of the state from which on it is stale", 0.01, 10.0, live=True)
    plan_timeout: float = setting(0.5, "s", "age of the last good plan from which on the vehicle brakes along it", 0.01, 4.0, live=True)
    route_period: float = setting(0.1, "s", "time between two route searches", 0.01, 5.0, live=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.obstacles % 2:
            raise InputError(f"setting obstacles is {self.obstacles}; give an even number, half for each side")
        self.require(get_model(self.model))

    def require(self, model: Model) -> None:
        """Checks that a model fits the stages. Raises InputError: too long steps for it (also due to parts of the vehicle), more inputs
        than a driver's, or wheels on soil."""
        if len(model.inputs) > len(INPUTS):
            raise InputError(f"setting model: {model.name} takes its ground as inputs; the controller plans on the plane, or on a ground "
                             "that is computed in the step: name another one")
        tyres = [part for part in model.name.split("/") if part in SLOTS["tyre"]]
        soft = next((tyre for tyre in tyres if "soil" in SLOTS["tyre"][tyre].needs), None)
        if soft:
            raise InputError(f"setting model: {model.name}: steps of {model.largest_step:g} s with {soft} are too many to plan with; "
                             "choose driven_bicycle or eight_dof/fiala, which meet soil as friction and resistance")
        longest = max(self.near_step, self.far_step if self.far_stages else 0.0) / self.substeps
        if longest > model.largest_step + 1e-9:
            raise InputError(f"setting substeps is {self.substeps}, {longest:.3g} s each; {model.name} takes at "
                             f"most {model.largest_step:g} s a step: choose driven_bicycle, eight_dof with fiala, or shorter steps")

    @property
    def stages(self) -> int:
        """Stages of the horizon."""
        return self.near_stages + self.far_stages


SETTINGS = Exposed(Settings)
