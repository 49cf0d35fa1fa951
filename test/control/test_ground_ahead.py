"""The controller on slopes and soil that it knows of: its speed on a hill, its stops downhill, and what it asks of soft ground."""

import math
from dataclasses import replace

import numpy as np
import pytest

from lfdm_ros.control.controller import Controller
from lfdm_ros.control.safety.stops import Stops, curve_of, peak_of
from lfdm_ros.control.settings import Settings
from lfdm_ros.engine.closed_loop import PlantSettings, Run, drive
from lfdm_ros.ground.ground_file import load_ground
from lfdm_ros.ground.vehicle_on_ground import VehicleOnGround
from lfdm_ros.models.chassis import GRAVITY
from lfdm_ros.simulation import Pose, initial_state, load_scenario
from lfdm_ros.simulation.scenario import Scenario
from lfdm_ros.vehicles import Vehicle, load_vehicle

HMMWV = load_vehicle("hmmwv")
SETTINGS = Settings(use_limit_table=False, time_budget=0.0)


def on(spacing: float = 2.0, **content) -> VehicleOnGround:
    return VehicleOnGround(HMMWV, load_ground({"area": {"x": [-30, 300], "y": [-60, 160], "spacing": spacing}, "friction": 1.0, **content}))


def straight(speed: float, wanted: float, duration: float) -> Scenario:
    return Scenario("straight", Pose(speed=speed), None, duration, path=np.array([[0.0, 0.0], [290.0, 0.0]]), speed=wanted)


def test_a_speed_is_held_uphill() -> None:
    """12 m/s up 10 %: who knows of the hill is off by less than 0.1 m/s, who does not by more than 0.3."""
    hill = on(heights={"rise_x": 0.1})
    speeds = []
    for vehicle in (hill.vehicle, HMMWV):
        run = drive(hill.vehicle, straight(12.0, 12.0, 5.0), Controller(vehicle, SETTINGS, None),
                    PlantSettings("eighteen_dof", step=2e-3, lidar=None))
        speeds.append(run.column("vx")[-50:].mean())
    assert abs(speeds[0] - 12.0) < 0.1 and speeds[1] < 11.7


@pytest.mark.parametrize("rise", [-0.1, 0.0, 0.1])
def test_a_stop_is_as_long_as_the_slope_makes_it(rise: float) -> None:
    """Brakes at 3 m/s^2: v^2 / 2 (a + g sin), and a little more while the pedal comes down."""
    hill = on(heights={"rise_x": rise})
    vehicle = hill.vehicle.replace(rolling_resistance=0.0)
    stops, model, p = Stops(SETTINGS, vehicle), vehicle.model(SETTINGS.model), vehicle.parameters
    line = np.linspace(0.0, 200.0, 50)
    _, poses, speeds = stops.driven(curve_of(line, 0.0 * line, 0.0 * line), initial_state(model, vehicle, vx=15.0), (0.0, 0.0), None, 3.0)
    mass = p["sprung_mass"] + p["unsprung_mass_front"] + p["unsprung_mass_rear"]
    # The law takes the unloaded radius, and knows nothing of what turns in the wheels.
    radius = p["wheel_radius"] - 0.02
    share = mass / (mass + 4.0 * p["wheel_inertia"] / radius ** 2)
    deceleration = share * 3.0 * p["wheel_radius"] / radius + GRAVITY * math.sin(math.atan(rise))
    way = 0.5 * 15.0 ** 2 / deceleration
    assert speeds[-1] < 0.6 and 1.0 < poses[-1, 0] / way < 1.05


def test_tyres_hold_what_presses_on_the_slope() -> None:
    hill = on(heights={"rise_y": 0.3})
    peak = peak_of(hill.vehicle.model("driven_bicycle"), hill.vehicle)
    level = peak_of(HMMWV.model("driven_bicycle"), HMMWV)
    assert float(peak(20.0, 3.0, 0.4)[0]) == pytest.approx(float(level(0.0, 0.0, 0.0)[0]) * math.cos(math.atan(0.3)), rel=1e-6)


def test_soft_ground_is_entered_slowly() -> None:
    """The bend at 13 m/s on firm clay, with soft clay across it, which holds 2 m/s^2."""
    soft = on(1.0, soil="heavy_clay_25", soils=[{"soil": "clayey_soil_55", "polygon": [[75, -20], [140, -20], [140, 60], [75, 60]]}])

    bend = replace(load_scenario("curve"), initial=Pose(x=42.0, speed=13.0), duration=6.0)

    def driven(vehicle: Vehicle) -> Run:
        return drive(soft.vehicle, bend, Controller(vehicle, SETTINGS, None),
                     PlantSettings("eighteen_dof", "bekker_wong", 2e-3, lidar=None))

    informed, ignorant = driven(soft.vehicle), driven(HMMWV)

    def entry(run: Run) -> float:
        return float(run.column("vx")[np.argmax(run.column("x") > 75.0)])

    assert entry(informed) < entry(ignorant) - 1.5
    assert ignorant.outside > 5.0 and informed.outside < 0.3 * ignorant.outside


def test_no_more_is_planned_than_soil_can_carry() -> None:
    """From 3 to 12 m/s on soft clay: the speed that is planned for two seconds later, against that of the 18-DOF vehicle on soil."""
    soft = on(soil="clayey_soil_55")
    errors = []
    for vehicle in (soft.vehicle, HMMWV):
        planned = []

        def note(now, cycle, seen, planned=planned):
            if cycle.plan is not None:
                vx = cycle.plan.states[:, list(cycle.plan.names).index("vx")]
                planned.append((now + 2.0, np.interp(now + 2.0, cycle.plan.times, vx)))

        run = drive(soft.vehicle, straight(3.0, 12.0, 5.0), Controller(vehicle, SETTINGS, None),
                    PlantSettings("eighteen_dof", "bekker_wong", 2e-3, lidar=None), note)
        times, speeds = np.array(planned).T
        came = times < run.times[-1]
        errors.append(float(np.mean(speeds[came] - np.interp(times[came], run.times, run.column("vx")))))
    assert abs(errors[0]) < 1.2 and errors[1] > 3.0
