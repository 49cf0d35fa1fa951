"""Places as latitude and longitude: against the radii of curvature, and the way back through axes that turn with the earth."""

import math

import numpy as np
import pytest

from lfdm_ros.sensors import Datum

A, F = 6378137.0, 1.0 / 298.257223563
E2 = F * (2.0 - F)


def ecef(latitude, longitude, altitude):
    """Cartesian place by the definition of the ellipsoid."""
    p, lam = math.radians(latitude), math.radians(longitude)
    n = A / math.sqrt(1.0 - E2 * math.sin(p) ** 2)
    return np.array([(n + altitude) * math.cos(p) * math.cos(lam), (n + altitude) * math.cos(p) * math.sin(lam),
                     ((1.0 - E2) * n + altitude) * math.sin(p)])


@pytest.mark.parametrize(("latitude", "longitude", "altitude"), [
    (0.0, 0.0, 0.0), (48.1, 11.6, 520.0), (-33.9, 151.2, 30.0), (69.0, -179.99, -10.0), (89.9, 40.0, 0.0)])
@pytest.mark.parametrize(("x", "y"), [(0.0, 0.0), (3.0, -4.0), (1e4, 2e4), (-2e5, 1e5)])
def test_a_place_is_where_the_tangent_plane_says(latitude, longitude, altitude, x, y):
    datum = Datum(latitude, longitude, altitude)
    step = 1e-4  # [deg]
    north = ecef(latitude + step, longitude, altitude) - ecef(latitude - step, longitude, altitude)
    north /= np.linalg.norm(north)
    east = np.array([-math.sin(math.radians(longitude)), math.cos(math.radians(longitude)), 0.0])
    place = ecef(latitude, longitude, altitude) + x * east + y * north
    np.testing.assert_allclose(ecef(*datum.geodetic(x, y)), place, atol=1e-5)


def test_a_short_way_is_the_arc_by_the_radii_of_curvature():
    datum, sin2 = Datum(48.0, 11.0), math.sin(math.radians(48.0)) ** 2
    along = A * (1.0 - E2) / (1.0 - E2 * sin2) ** 1.5  # of the meridian
    latitude, longitude, altitude = datum.geodetic(0.0, 100.0)
    assert math.radians(latitude - 48.0) * along == pytest.approx(100.0, abs=1e-3) and longitude == pytest.approx(11.0, abs=1e-12)
    latitude, longitude, altitude = datum.geodetic(100.0, 0.0)
    across = A / math.sqrt(1.0 - E2 * sin2) * math.cos(math.radians(48.0))
    assert math.radians(longitude - 11.0) * across == pytest.approx(100.0, abs=1e-3)
    assert altitude == pytest.approx(100.0**2 / (2.0 * A), rel=0.01)  # the earth falls away
