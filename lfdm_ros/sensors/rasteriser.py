"""Rasteriser of a camera: ground for each pixel, then obstacles within their bounding rectangles of pixels, with a depth buffer.

In float64 and without libm, so that images are bitwise equal on every processor. Plain Python, compiled by numba
(`lfdm_ros.sensors.loops_native`), with called functions as arguments.
"""

import math
from typing import Any

import numpy as np

NEAR = 0.05  # [m] near plane, along the optical axis
FAR = 1e9  # [m] of the sky
_GRAIN = 5.0  # cells of the ground's grain per metre
SIDE = 128  # of its square tile, a power of two
# Ambient light of a vertical surface, and share of direct light from the sun, in direction (0.6, 0.8).
_SHADE, _SUN, _SUN_X, _SUN_Y = 0.72, 0.28, 0.6, 0.8
_HAZE, _MAX_HAZE = 256.0 / 800.0, 154.0  # of 256: per metre, and maximum
_OFFSET = 2.0**40  # a multiple of SIDE that makes positions positive, so that truncation rounds down
_BACKGROUND = 1e-4  # slope of a ray below which it does not hit the ground
_GRAIN_FADES = 256.0 * 3.0  # of 256, times [m]: the grain's contrast decreases where pixels are larger than its cells


def haze(image: np.ndarray, row: int, column: int, red: int, green: int, blue: int, depth: float, air: np.ndarray) -> None:
    """Paints a pixel with a colour (0 to 255) at a depth [m], blended with the air's colour (3,). In integers, for speed."""
    share = int(min(depth * _HAZE, _MAX_HAZE))
    image[row, column, 0] = red + (share * (air[0] - red) >> 8)
    image[row, column, 1] = green + (share * (air[1] - green) >> 8)
    image[row, column, 2] = blue + (share * (air[2] - blue) >> 8)


def draw_ground(haze: Any, eye: np.ndarray, axes: np.ndarray, rays: np.ndarray, paint: np.ndarray, place: np.ndarray, grain: np.ndarray,
                sky: np.ndarray, level: bool, image: np.ndarray, depths: np.ndarray) -> int:
    """Paints sky and ground.

    Args:
        haze: the function of this module, or its compiled version.
        eye: x, y, z (3,) [m]; axes: directions to the right, down and forward (3, 3) in the axes of the map.
        rays: (h, w, 2), x to the right and y down of each pixel at a depth of 1.
        paint: colours of the ground (py, px, 3), extended beyond its edges; place: x, y of the centre of the first cell, spacing [m].
        grain: (SIDE, SIDE), mean 128; sky: integer colours at the horizon and at the zenith (2, 3).
        level: the ground is at height 0, and `depths` are written; otherwise they come from `meet_heights`.
        image: (h, w, 3) uint8; depths: (h, w) along the optical axis [m]; FAR: sky.
    """
    rows, columns = depths.shape
    last_y, last_x = paint.shape[0] - 1, paint.shape[1] - 1
    cells = 1.0 / place[2]
    first_x, first_y = 0.5 - place[0] * cells, 0.5 - place[1] * cells
    rx, ry, rz, ox, oy, oz, ax, ay, az = (axes[0, 0], axes[0, 1], axes[0, 2], axes[1, 0], axes[1, 1], axes[1, 2], axes[2, 0], axes[2, 1],
                                          axes[2, 2])
    eye_x, eye_y, near_z = eye[0], eye[1], -1.0 / eye[2]
    for row in range(rows):
        for column in range(columns):
            right, down = rays[row, column, 0], rays[row, column, 1]
            dz = az + right * rz + down * oz
            if level:
                depths[row, column] = 1.0 / (dz * near_z) if dz < -_BACKGROUND else FAR
            depth = depths[row, column]
            if depth == FAR:
                up = int(256.0 * min(max(2.0 * dz, 0.0), 1.0))
                for c in range(3):
                    image[row, column, c] = sky[0, c] + (up * (sky[1, c] - sky[0, c]) >> 8)
                continue
            x = eye_x + depth * (ax + right * rx + down * ox)
            y = eye_y + depth * (ay + right * ry + down * oy)
            i, j = min(max(int(x * cells + first_x), 0), last_x), min(max(int(y * cells + first_y), 0), last_y)
            rough = int(grain[int(y * _GRAIN + _OFFSET) & (SIDE - 1), int(x * _GRAIN + _OFFSET) & (SIDE - 1)]) - 128
            rough = rough * int(min(256.0, _GRAIN_FADES / depth)) >> 8
            haze(image, row, column, paint[j, i, 0] + rough, paint[j, i, 1] + rough, paint[j, i, 2] + rough, depth, sky[0])
    return 0


def meet_heights(profile: Any, height: Any, eye: np.ndarray, axes: np.ndarray, rays: np.ndarray, heights: np.ndarray, grid: np.ndarray,
                 ranges: np.ndarray, computed: np.ndarray, slopes: np.ndarray, peaks: np.ndarray, depths: np.ndarray) -> int:
    """Computes the depths at which rays hit ground with heights; FAR without a hit.

    Pixels of one bearing share a profile: slopes from the eye to the ground at `ranges`, and their running maximum, in which the slope of a
    ray is looked up. Bearings and ranges are measured on a square around the eye, to avoid angles.

    Args:
        profile, height: the function of this module and that of `ground_rays`, or their compiled versions.
        heights: (ny, nx) [m] at nodes; grid: x, y of the first, spacing, height below the eye [m]; ranges: (k,) [m], increasing, above 0.
        computed, slopes, peaks: work arrays of the profiles, (4 m,), (4 m, k), (4 m, k), of 4 sides with m bearings each; `computed` is 0.
            Others as in `draw_ground`.
    """
    rows, columns = depths.shape
    count, bearings = len(ranges), len(computed) // 4
    for column in range(columns):
        k = 0
        for below in range(rows):
            row = rows - 1 - below  # from below: the next hit is near the last
            right, down = rays[row, column, 0], rays[row, column, 1]
            dx = axes[2, 0] + right * axes[0, 0] + down * axes[1, 0]
            dy = axes[2, 1] + right * axes[0, 1] + down * axes[1, 1]
            dz = axes[2, 2] + right * axes[0, 2] + down * axes[1, 2]
            wide, far = abs(dy), abs(dx)
            if far >= wide:
                side, part, norm = 0 if dx > 0.0 else 1, dy, far
            else:
                side, part, norm = 2 if dy > 0.0 else 3, dx, wide
            norm = max(norm, 1e-12)
            bearing = side * bearings + min(int((part / norm + 1.0) * 0.5 * bearings), bearings - 1)
            if not computed[bearing]:
                computed[bearing] = 1
                profile(height, bearing, eye, heights, grid, ranges, slopes, peaks)
            slope = dz / norm
            while k > 0 and peaks[bearing, k - 1] >= slope:
                k -= 1
            while k < count and peaks[bearing, k] < slope:
                k += 1
            depths[row, column] = FAR
            if k == count:
                # Level ground beyond the last range.
                k -= 1
                z = slopes[bearing, k] * ranges[k]
                if slope < -_BACKGROUND and z < 0.0:
                    depths[row, column] = z / dz
                continue
            # Linear between two ranges: z = a + rise (r - near) = slope r.
            near, far, a = 0.0, ranges[k], grid[3] - eye[2]
            if k > 0:
                near = ranges[k - 1]
                a = slopes[bearing, k - 1] * near
            rise = (slopes[bearing, k] * far - a) / (far - near)
            depths[row, column] = min(max((a - rise * near) / (slope - rise), near), far) / norm
    return 0


def profile(height: Any, bearing: int, eye: np.ndarray, heights: np.ndarray, grid: np.ndarray, ranges: np.ndarray, slopes: np.ndarray,
            peaks: np.ndarray) -> None:
    """Computes the slopes from the eye to the ground along a bearing, and their running maximum; arguments as in `meet_heights`."""
    bearings = len(slopes) // 4
    side = bearing // bearings
    part = (bearing - side * bearings + 0.5) * 2.0 / bearings - 1.0
    along = 1.0 if side % 2 == 0 else -1.0
    dx, dy = (along, part) if side < 2 else (part, along)
    peak = -np.inf
    for k in range(len(ranges)):
        z = height(heights, grid, eye[0] + ranges[k] * dx, eye[1] + ranges[k] * dy)
        slopes[bearing, k] = (z - eye[2]) / ranges[k]
        peak = max(peak, slopes[bearing, k])
        peaks[bearing, k] = peak


def extend(box: tuple[float, float, float, float], eye: np.ndarray, axes: np.ndarray, x: float, y: float, z: float, p: float, q: float,
           w: float) -> tuple[float, float, float, float]:
    """Extends a box (minimum and maximum of right, then of down, at a depth of 1) by the visible part of a line from (x, y, z) to
    (p, q, w)."""
    x, y, z, p, q, w = x - eye[0], y - eye[1], z - eye[2], p - eye[0], q - eye[1], w - eye[2]
    ahead = axes[2, 0] * x + axes[2, 1] * y + axes[2, 2] * z
    other = axes[2, 0] * p + axes[2, 1] * q + axes[2, 2] * w
    if ahead < NEAR and other < NEAR:
        return box
    for end in range(2):
        t, depth = float(end), other if end else ahead
        if depth < NEAR:
            t, depth = (NEAR - ahead) / (other - ahead), NEAR
        u, v, h = x + t * (p - x), y + t * (q - y), z + t * (w - z)
        right = (axes[0, 0] * u + axes[0, 1] * v + axes[0, 2] * h) / depth
        down = (axes[1, 0] * u + axes[1, 1] * v + axes[1, 2] * h) / depth
        box = min(box[0], right), max(box[1], right), min(box[2], down), max(box[3], down)
    return box


def pixels(low: float, high: float, lines: np.ndarray) -> tuple[int, int]:
    """Returns the first column (or row), and the one after the last, that overlap `low` to `high`; lines: (n, 2), minimum and maximum of
    each."""
    first, end = 0, len(lines)
    while first < end and (lines[first, 1] < low or lines[first, 0] > high):
        first += 1
    while end > first and (lines[end - 1, 1] < low or lines[end - 1, 0] > high):
        end -= 1
    return first, end


def draw_circles(haze: Any, extend: Any, pixels: Any, eye: np.ndarray, axes: np.ndarray, rays: np.ndarray, across: np.ndarray,
                 along: np.ndarray, circles: np.ndarray, air: np.ndarray, image: np.ndarray, depths: np.ndarray) -> int:
    """Draws upright cylinders. across, along: minimum and maximum of right of each column (w, 2), of down of each row (h, 2), at a depth of
    1; circles: x, y, radius, heights of bottom and top [m], red, green, blue (n, 8). Others as in `draw_ground`."""
    for n in range(len(circles)):
        x, y, radius, low, high = circles[n, 0], circles[n, 1], circles[n, 2], circles[n, 3], circles[n, 4]
        box = (np.inf, -np.inf, np.inf, -np.inf)
        for corner in range(4):
            p, q = x + (radius if corner & 1 else -radius), y + (radius if corner & 2 else -radius)
            box = extend(box, eye, axes, p, q, low, p, q, high)
            if not corner & 1:
                box = extend(extend(box, eye, axes, p, q, low, x + radius, q, low), eye, axes, p, q, high, x + radius, q, high)
            if not corner & 2:
                box = extend(extend(box, eye, axes, p, q, low, p, y + radius, low), eye, axes, p, q, high, p, y + radius, high)
        cx, cy, bottom, top = x - eye[0], y - eye[1], low - eye[2], high - eye[2]
        apart = cx * cx + cy * cy - radius * radius
        if box[0] > box[1] or apart <= 0.0:
            continue
        first, end = pixels(box[0], box[1], across)
        begin, stop = pixels(box[2], box[3], along)
        for row in range(begin, stop):
            for column in range(first, end):
                right, down = rays[row, column, 0], rays[row, column, 1]
                dx = axes[2, 0] + right * axes[0, 0] + down * axes[1, 0]
                dy = axes[2, 1] + right * axes[0, 1] + down * axes[1, 1]
                square, ahead = dx * dx + dy * dy, dx * cx + dy * cy
                inside = ahead * ahead - square * apart
                if inside < 0.0:
                    continue
                dz = axes[2, 2] + right * axes[0, 2] + down * axes[1, 2]
                light = 1.0
                depth = (ahead - math.sqrt(inside)) / square
                z = depth * dz
                if z > top and dz < 0.0:  # passes over the edge: may hit the lid
                    depth = top / dz
                    u, v = depth * dx - cx, depth * dy - cy
                    if u * u + v * v > radius * radius:
                        continue
                elif bottom <= z <= top:
                    light = _SHADE + _SUN * ((depth * dx - cx) * -_SUN_X + (depth * dy - cy) * -_SUN_Y) / radius
                else:
                    continue
                if NEAR < depth < depths[row, column]:
                    depths[row, column] = depth
                    haze(image, row, column, int(light * circles[n, 5]), int(light * circles[n, 6]), int(light * circles[n, 7]), depth, air)
    return 0


def draw_walls(haze: Any, extend: Any, pixels: Any, eye: np.ndarray, axes: np.ndarray, rays: np.ndarray, across: np.ndarray,
               along: np.ndarray, walls: np.ndarray, firsts: np.ndarray, air: np.ndarray, image: np.ndarray, depths: np.ndarray) -> int:
    """Draws upright prisms: walls and lids. walls: x, y of the start, of the end, heights of bottom and top [m], red, green, blue (n, 9),
    grouped by prism; firsts: (p + 1,), the first wall of each prism, then n. Others as in `draw_circles`."""
    for prism in range(len(firsts) - 1):
        first_wall, end_wall = firsts[prism], firsts[prism + 1]
        # The lid comes after the last wall.
        for n in range(first_wall, end_wall + 1):
            lid = n == end_wall
            m = first_wall if lid else n
            bottom, top = walls[m, 4] - eye[2], walls[m, 5] - eye[2]
            box = (np.inf, -np.inf, np.inf, -np.inf)
            for k in range(first_wall if lid else n, end_wall if lid else n + 1):
                x, y, p, q, high = walls[k, 0], walls[k, 1], walls[k, 2], walls[k, 3], walls[k, 5]
                box = extend(box, eye, axes, x, y, high, p, q, high)
                if not lid:
                    box = extend(box, eye, axes, x, y, walls[k, 4], p, q, walls[k, 4])
                    box = extend(box, eye, axes, x, y, walls[k, 4], x, y, high)
                    box = extend(box, eye, axes, p, q, walls[k, 4], p, q, high)
            if box[0] > box[1] or (lid and top >= 0.0):
                continue
            x, y, ex, ey = walls[m, 0] - eye[0], walls[m, 1] - eye[1], walls[m, 2] - walls[m, 0], walls[m, 3] - walls[m, 1]
            facing = ey * x - ex * y
            normal = math.sqrt(ex * ex + ey * ey) * (1.0 if facing >= 0.0 else -1.0)
            light = 1.0 if lid else _SHADE + _SUN * (ey * _SUN_X - ex * _SUN_Y) / normal
            first, end = pixels(box[0], box[1], across)
            begin, stop = pixels(box[2], box[3], along)
            for row in range(begin, stop):
                for column in range(first, end):
                    right, down = rays[row, column, 0], rays[row, column, 1]
                    dx = axes[2, 0] + right * axes[0, 0] + down * axes[1, 0]
                    dy = axes[2, 1] + right * axes[0, 1] + down * axes[1, 1]
                    dz = axes[2, 2] + right * axes[0, 2] + down * axes[1, 2]
                    if lid:
                        if dz >= 0.0:
                            continue
                        depth, hit = top / dz, False
                        u, v = eye[0] + depth * dx, eye[1] + depth * dy
                        for k in range(first_wall, end_wall):
                            if (walls[k, 1] > v) != (walls[k, 3] > v) and u < walls[k, 0] + (v - walls[k, 1]) * (
                                    walls[k, 2] - walls[k, 0]) / (walls[k, 3] - walls[k, 1]):
                                hit = not hit
                    else:
                        # As in `rays.cast`: t = (e x p) / (e x d), w = (d x p) / (e x d).
                        cross = dy * ex - dx * ey
                        if cross == 0.0:
                            continue
                        depth, part = (y * ex - x * ey) / cross, (dx * y - dy * x) / cross
                        hit = -1e-12 <= part <= 1.0 + 1e-12 and bottom <= depth * dz <= top
                    if hit and NEAR < depth < depths[row, column]:
                        depths[row, column] = depth
                        haze(image, row, column, int(light * walls[m, 6]), int(light * walls[m, 7]), int(light * walls[m, 8]), depth, air)
    return 0


def add_noise(values: np.ndarray, gain: float, scale: float, noise: np.ndarray) -> int:
    """Multiplies values (n,) uint8 by a gain and adds noise: `scale` times the centred sum of four random bytes of `noise`, (4 n,) or (0,),
    which is nearly Gaussian within 3.5 standard deviations."""
    for k in range(len(values)):
        total = 0.0
        if len(noise):
            total = float(noise[4 * k]) + noise[4 * k + 1] + noise[4 * k + 2] + noise[4 * k + 3] - 510.0
        values[k] = int(min(max(gain * values[k] + scale * total + 0.5, 0.0), 255.0))
    return 0
