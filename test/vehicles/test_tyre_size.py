"""A tyre's force table from its size, against numbers worked out by hand."""

from itertools import pairwise

import pytest

from lfdm_ros.errors import InputError
from lfdm_ros.vehicles.tyre_size import LOAD_INDEX, SHAPES, TyreSize, load_of_index


def test_passenger_tyre_worked_by_hand():
    """245/40 on a rim of 457 mm, load index 97: 730 kg, so 7161.3 N; nominal load half of that, 3580.65 N."""
    tyre = TyreSize("passenger", load_of_index(97), 0.3266 - 0.2286).parameters()
    assert tyre["tyre_nominal_load"] == pytest.approx(3580.65, rel=1e-12)
    assert tyre["tyre_maximum_load"] == pytest.approx(12532.275, rel=1e-12)
    # 16 % of 0.098 m under 7161.3 N.
    assert tyre["tyre_vertical_stiffness_front"] == tyre["tyre_vertical_stiffness_rear"] == pytest.approx(7161.3 / 0.01568, rel=1e-12)
    by_hand = {"tmeasy_longitudinal_slope_nominal": 65791.22, "tmeasy_longitudinal_peak_force_double": 7802.95,
               "tmeasy_longitudinal_sliding_force_nominal": 2869.86, "tmeasy_longitudinal_peak_slip_nominal": 0.13913,
               "tmeasy_lateral_slope_double": 92029.15, "tmeasy_lateral_peak_force_double": 6543.07,
               "tmeasy_lateral_sliding_force_nominal": 2984.83, "tmeasy_lateral_sliding_slip_double": 1.0714}
    assert {name: tyre[name] for name in by_hand} == pytest.approx(by_hand, rel=2e-6)
    assert len(tyre) == 24


def test_truck_tyre_worked_by_hand():
    """Load index 108 is 1000 kg: nominal 4905 N."""
    tyre = TyreSize("truck", load_of_index(108), 0.4699 - 0.2095).parameters()
    by_hand = {"tyre_nominal_load": 4905.0, "tyre_vertical_stiffness_rear": 235455.07, "tmeasy_longitudinal_slope_nominal": 87193.24,
               "tmeasy_lateral_peak_force_double": 7124.81, "tmeasy_lateral_peak_slip_double": 0.33216}
    assert {name: tyre[name] for name in by_hand} == pytest.approx(by_hand, rel=2e-6)


@pytest.mark.parametrize("index, load", [(0, 45), (50, 190), (75, 387), (91, 615), (100, 800), (121, 1450), (150, 3350), (169, 5800),
                                         (200, 14000), (203, 15500), (279, 136000)])
def test_load_index(index, load):
    assert load_of_index(index) == pytest.approx(load * 9.81)


def test_load_index_rises_in_even_steps():
    """The standard is a geometric series, tenfold in 80 steps, rounded to even numbers."""
    assert len(LOAD_INDEX) == 280
    assert all(1.005 < after / before < 1.05 for before, after in pairwise(LOAD_INDEX))
    assert all(load == pytest.approx(45.0 * 10.0 ** (i / 80.0), rel=0.04) for i, load in enumerate(LOAD_INDEX))


@pytest.mark.parametrize("kind", SHAPES)
def test_slides_with_less_than_the_peak_at_more_slip(kind):
    tyre = TyreSize(kind, 1e4, 0.1).parameters()
    for axis in ("longitudinal", "lateral"):
        for load in ("nominal", "double"):
            peak, sliding, peak_slip, sliding_slip, slope = (tyre[f"tmeasy_{axis}_{quantity}_{load}"] for quantity in (
                "peak_force", "sliding_force", "peak_slip", "sliding_slip", "slope"))
            assert 0.0 < sliding < peak and 0.0 < peak_slip < sliding_slip and slope > peak / peak_slip


@pytest.mark.parametrize("arguments, word", [(("lorry", 1e4, 0.1), "passenger, truck"), (("truck", 0.0, 0.1), "load capacity"),
                                             (("truck", 1e4, -0.1), "section height"), (("truck", 1e4, 0.1, float("nan")), "pressure")])
def test_impossible_sizes_are_refused(arguments, word):
    with pytest.raises(InputError, match=word):
        TyreSize(*arguments)


@pytest.mark.parametrize("index", (-1, 280))
def test_load_index_out_of_the_table(index):
    with pytest.raises(InputError, match=f"load index {index} is outside 0 to 279"):
        load_of_index(index)
