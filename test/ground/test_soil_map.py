"""Soil by place: polygons, and vehicles whose wheels stand on what lies there."""

import numpy as np
import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.ground import SoilMap, SoilRegion, load_soil
from lfdm_ros.simulation import BatchRollout, Simulator, initial_state
from lfdm_ros.vehicles import load_vehicle

SAND, CLAY, LOOSE = load_soil("lete_sand"), load_soil("clayey_soil_55"), load_soil("dry_sand")
VEHICLE = load_vehicle("hmmwv")
SPEC = "eighteen_dof/bekker_wong/soil_map/motor"
BOX = np.array([[10.0, -20.0], [60.0, -20.0], [60.0, 0.0], [10.0, 0.0]])


def test_regions_cover_what_lies_inside_and_the_last_one_counts():
    ring = SoilMap(SAND, [SoilRegion([[0, 0], [10, 0], [10, 10], [0, 10]], CLAY), SoilRegion([[4, 4], [8, 4], [4, 8]], LOOSE)], 0.5)
    assert ring.at(1.0, 1.0) is CLAY and ring.at(4.8, 4.8) is LOOSE and ring.at(7.8, 7.8) is CLAY
    assert ring.at(-0.7, 5.0) is SAND and ring.at(1e6, -1e6) is SAND
    concave = SoilMap(SAND, [SoilRegion([[0, 0], [4, 0], [4, 4], [2, 1], [0, 4]], CLAY)])
    np.testing.assert_array_equal(concave.number_at([2.0, 2.0, 0.3, 3.7], [0.5, 3.0, 3.0, 3.0]), [1, 0, 1, 1])


def test_wheels_stand_on_the_soil_of_their_places():
    """A run over a border against one whose soil is looked up outside and given to each wheel before each step."""
    soils, x0 = SoilMap(SAND, [SoilRegion(BOX, CLAY)], 0.5), {"vx": 6.0, "x": 5.0, "y": 0.3}
    inside = Simulator(VEHICLE.replace(soil_map=soils.number), SPEC, 2e-3)
    given = Simulator(VEHICLE, "eighteen_dof/bekker_wong/given_soil/motor", 2e-3)
    for simulator in (inside, given):
        simulator.reset(**x0)
    names, p = [f.name for f in given.model.states], VEHICLE.parameters
    met = set()
    for _ in range(600):
        x, y, yaw = (given.state[names.index(name)] for name in ("x", "y", "yaw"))
        values = {}
        for wheel in ("fl", "fr", "rl", "rr"):
            px = p["cg_to_front_axle"] if wheel[0] == "f" else -p["cg_to_rear_axle"]
            py = 0.5 * p["track_front"] * (1.0 if wheel[1] == "l" else -1.0)
            soil = soils.at(x + px * np.cos(yaw) - py * np.sin(yaw), y + px * np.sin(yaw) + py * np.cos(yaw))
            met.add((wheel, soil.name))
            values |= {f"{name}_{wheel}": value for name, value in soil.parameters.items()}
        given.meet(**values)
        drive = (0.0, 0.3, 0.0)
        u = given.complete(drive)
        given.advance(u, u, 1)
        inside.advance(drive, drive, 1)
        np.testing.assert_allclose(inside.state, given.state, rtol=1e-7, atol=1e-9)
    assert {("fr", "lete_sand"), ("fr", "clayey_soil_55"), ("rr", "clayey_soil_55"), ("fl", "lete_sand")} <= met
    assert inside.state[names.index("sinkage_fr")] > 1.3 * inside.state[names.index("sinkage_fl")]


def test_each_vehicle_of_a_batch_may_have_its_own_map():
    maps = [SoilMap(soil) for soil in (SAND, CLAY, LOOSE)]
    vehicle = VEHICLE.replace(soil_map=maps[0].number)
    model, times = vehicle.model(SPEC), np.linspace(0.0, 1.0, 6)
    batch = BatchRollout(model=model, vehicle=vehicle, dt=2e-3, times=times, inputs=np.tile([0.0, 0.4, 0.0], (6, 1)),
                         parameters=("soil_map",), channels=["vx"])
    ends = batch.trajectories(np.array([[m.number] for m in maps]), initial_state(model, vehicle, vx=3.0))[:, -1, 0]
    for soil, end in zip((SAND, CLAY, LOOSE), ends):
        simulator = Simulator(VEHICLE.replace(**soil.parameters), "eighteen_dof/bekker_wong/soil/motor", 2e-3)
        simulator.reset(vx=3.0)
        simulator.advance((0.0, 0.4, 0.0), (0.0, 0.4, 0.0), 500)
        assert end == pytest.approx(simulator.state[[f.name for f in model.states].index("vx")], rel=1e-9)
    assert len(set(ends.tolist())) == 3


def test_bad_maps_are_one_line():
    with pytest.raises(InputError, match="region of soil 'dry_sand': give three corners"):
        SoilRegion([[0.0, 0.0], [1.0, 1.0]], LOOSE)
    with pytest.raises(InputError, match="region of soil 'dry_sand': give three corners"):
        SoilRegion([[0.0, 0.0], [1.0, 1.0], [np.nan, 2.0]], LOOSE)
    with pytest.raises(InputError, match="soil map: spacing 0 m must be above 0"):
        SoilMap(SAND, spacing=0.0)
    with pytest.raises(InputError, match=r"cells of 0\.001 m are more than 4000000"):
        SoilMap(SAND, [SoilRegion(BOX, CLAY)], spacing=1e-3)
