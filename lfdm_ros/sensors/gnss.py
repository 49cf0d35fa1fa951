"""Places in the plane as latitude and longitude, on the ellipsoid WGS 84 (NIMA TR8350.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

_A, _F = 6378137.0, 1.0 / 298.257223563  # semi-major axis [m], flattening
_B = _A * (1.0 - _F)
_E2 = _F * (2.0 - _F)  # first eccentricity squared


@dataclass(frozen=True)
class Datum:
    """Place of the plane's origin on the earth [deg, m above the ellipsoid]; x points to the east, y to the north."""

    latitude: float
    longitude: float
    altitude: float = 0.0

    def geodetic(self, x: float, y: float, z: float = 0.0) -> tuple[float, float, float]:
        """Computes latitude, longitude [deg] and altitude [m] of a place [m]: it stays in the tangent plane, above which the earth falls
        away."""
        sin_p, cos_p = math.sin(math.radians(self.latitude)), math.cos(math.radians(self.latitude))
        sin_l, cos_l = math.sin(math.radians(self.longitude)), math.cos(math.radians(self.longitude))
        across = _A / math.sqrt(1.0 - _E2 * sin_p**2)  # radius of curvature in the prime vertical
        # From the tangent plane to axes that turn with the earth.
        out = (across + self.altitude + z) * cos_p - y * sin_p
        return _geodetic(out * cos_l - x * sin_l, out * sin_l + x * cos_l,
                         ((1.0 - _E2) * across + self.altitude + z) * sin_p + y * cos_p)


def _geodetic(x: float, y: float, z: float) -> tuple[float, float, float]:
    """Computes geodetic coordinates by Bowring (Transformation from spatial to geographical coordinates, 1976), iterated to convergence."""
    p = math.hypot(x, y)
    reduced = math.atan2(_A * z, _B * p)
    for _ in range(5):
        latitude = math.atan2(z + _E2 / (1.0 - _E2) * _B * math.sin(reduced) ** 3, p - _E2 * _A * math.cos(reduced) ** 3)
        reduced = math.atan2(_B * math.sin(latitude), _A * math.cos(latitude))
    sin_p, cos_p = math.sin(latitude), math.cos(latitude)
    altitude = p * cos_p + z * sin_p - _A * math.sqrt(1.0 - _E2 * sin_p**2)  # without a pole where it cannot be had
    return math.degrees(latitude), math.degrees(math.atan2(y, x)), altitude
