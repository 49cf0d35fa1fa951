"""Loops of the sensors for numba, imported only if their machine code is not cached: see `lfdm_ros.compiler.native`."""

import numpy as np
from numba import carray, njit

from lfdm_ros.sensors import ground_rays, rasteriser, rays


def _compiled(module, *names):
    return (njit(getattr(module, name), error_model="numpy") for name in names)


_cast, _beams_between = _compiled(rays, "cast", "beams_between")
_march, _height = _compiled(ground_rays, "march", "height")
haze, profile, extend, pixels, draw_ground, meet_heights, draw_circles, draw_walls, add_noise = _compiled(
    rasteriser, "haze", "profile", "extend", "pixels", "draw_ground", "meet_heights", "draw_circles", "draw_walls", "add_noise")


def cast(pose, centres, radii, circles, starts, ends, edges, along, beams, ranges, count):
    """Runs `rays.cast` on arrays by address; circles, edges, count: numbers of circles, edges and beams."""
    return _cast(_beams_between, carray(pose, (4,), dtype=np.float64), carray(centres, (circles, 2), dtype=np.float64),
                 carray(radii, (circles,), dtype=np.float64), carray(starts, (edges, 2), dtype=np.float64),
                 carray(ends, (edges, 2), dtype=np.float64), carray(along, (count, 2), dtype=np.float64),
                 carray(beams, (3,), dtype=np.float64), carray(ranges, (count,), dtype=np.float64))


def march(heights, lines, columns, numbers, eye, directions, ranges, count):
    """Runs `ground_rays.march` on arrays by address; lines, columns, count: numbers of nodes along y and x, and of beams."""
    return _march(_height, carray(heights, (lines, columns), dtype=np.float64), carray(numbers, (4,), dtype=np.float64),
                  carray(eye, (5,), dtype=np.float64), carray(directions, (count, 3), dtype=np.float64),
                  carray(ranges, (count,), dtype=np.float64))


def draw(eye, axes, rays, across, along, rows, columns, paint, paint_rows, paint_columns, place, grain, sky, heights, lines, nodes, grid,
          ranges, count, computed, slopes, peaks, bearings, circles, circle_count, walls, wall_count, firsts, first_count, image, depths):
    """Draws an image; all arrays by address, with their numbers of rows and columns."""
    eye, axes = carray(eye, (3,), dtype=np.float64), carray(axes, (3, 3), dtype=np.float64)
    rays, sky = carray(rays, (rows, columns, 2), dtype=np.float64), carray(sky, (2, 3), dtype=np.int64)
    across, along = carray(across, (columns, 2), dtype=np.float64), carray(along, (rows, 2), dtype=np.float64)
    image, depths = carray(image, (rows, columns, 3), dtype=np.uint8), carray(depths, (rows, columns), dtype=np.float64)
    if count:
        meet_heights(profile, _height, eye, axes, rays, carray(heights, (lines, nodes), dtype=np.float64),
                     carray(grid, (4,), dtype=np.float64), carray(ranges, (count,), dtype=np.float64),
                     carray(computed, (bearings,), dtype=np.uint8), carray(slopes, (bearings, count), dtype=np.float64),
                     carray(peaks, (bearings, count), dtype=np.float64), depths)
    draw_ground(haze, eye, axes, rays, carray(paint, (paint_rows, paint_columns, 3), dtype=np.uint8), carray(place, (3,), dtype=np.float64),
                carray(grain, (rasteriser.SIDE, rasteriser.SIDE), dtype=np.uint8), sky, count == 0, image, depths)
    draw_circles(haze, extend, pixels, eye, axes, rays, across, along, carray(circles, (circle_count, 8), dtype=np.float64), sky[0], image,
                 depths)
    return draw_walls(haze, extend, pixels, eye, axes, rays, across, along, carray(walls, (wall_count, 9), dtype=np.float64),
                      carray(firsts, (first_count,), dtype=np.int64), sky[0], image, depths)


def noise(values, size, gain, scale, random, count):
    """Runs `rasteriser.add_noise` on arrays by address."""
    return add_noise(carray(values, (size,), dtype=np.uint8), gain, scale, carray(random, (count,), dtype=np.uint8))
