"""Values by place inside the equations: the bicubic spline of an array by its number, sixteen coefficients a place.

Its derivatives are exact, since what is read does not change with the place but for the cell. Beyond the edges of the grid the nearest
point on them holds.
"""

from collections.abc import Sequence

from lfdm_ros.models.equations import Operations, Record, Scalar

# Two rows before the coefficients, which stand line after line from the lowest y, one more on each side than there are nodes: the first
# node, nodes of a unit of length, a number; nodes along x and y, numbers of a line, a number.
_ORIGIN, _SIZE, FIRST = 0.0, 4.0, 8.0
# In the array coefficients are divided by this: the weights here are 6 times those of cubic B-splines, along x and along y.
DIVISOR = 36.0


def head(x: float, y: float, spacing: float, nodes: tuple[int, int], numbers: tuple[float, float] = (0.0, 0.0)) -> tuple[float, ...]:
    """Returns the numbers before the coefficients.

    Args:
        x, y, spacing: of the first node, and between nodes [m].
        nodes: along x and y.
        numbers: two more, for the maker's use.
    """
    nx, ny = nodes
    return x, y, 1.0 / spacing, numbers[0], float(nx), float(ny), nx + 2.0, numbers[1]


def cell(m: Operations, place: Scalar, count: Scalar) -> tuple[Scalar, Scalar]:
    """Returns the cell, one of `count`, of a place in cells from the first node, and the way into it, at an edge for places beyond it."""
    inside = m.fmin(m.fmax(place, 0.0), count)
    number = m.fmin(m.floor(inside), count - 1.0)
    return number, inside - number


class GridSpline:
    """See the top of the file."""

    def __init__(self, m: Operations):
        self._m = m

    def prepare(self, number: Scalar) -> Record:
        """Reads the values that do not depend on the place; `numbers` are those of the array's head."""
        x, y, per_length, one = self._m.row(number, _ORIGIN)
        nx, ny, line, other = self._m.row(number, _SIZE)
        return Record(number=number, x=x, y=y, per_length=per_length, cells_x=nx - 1.0, cells_y=ny - 1.0, line=line, numbers=(one, other))

    def value(self, x: Scalar, y: Scalar, q: Record) -> Scalar:
        """Returns the value at a place; q is what `prepare` gave."""
        column, t = cell(self._m, (x - q.x) * q.per_length, q.cells_x)
        row, r = cell(self._m, (y - q.y) * q.per_length, q.cells_y)
        return _sum(_weights(t), self._lines(q, row, column, _weights(r)))

    def value_and_slopes(self, x: Scalar, y: Scalar, q: Record) -> tuple[Scalar, Scalar, Scalar]:
        """Returns the value and its derivatives along x and y [1/m], 0 across the edges beyond them."""
        along_x, along_y = (x - q.x) * q.per_length, (y - q.y) * q.per_length
        column, t = cell(self._m, along_x, q.cells_x)
        row, r = cell(self._m, along_y, q.cells_y)
        across, lines = _weights(t), self._lines(q, row, column, _weights(r))
        slopes = self._lines(q, row, column, _slopes(r, self._within(along_y, q.cells_y)))
        return (_sum(across, lines), _sum(_slopes(t, self._within(along_x, q.cells_x)), lines) * q.per_length,
                _sum(across, slopes) * q.per_length)

    def _within(self, place: Scalar, count: Scalar) -> Scalar:
        return self._m.where(place > 0.0, self._m.where(place < count, 1.0, 0.0), 0.0)

    def _lines(self, q: Record, row: Scalar, column: Scalar, along: Sequence[Scalar]) -> Sequence[Scalar]:
        # Along y first: what stands side by side in a row is summed side by side.
        first, lines = FIRST + row * q.line + column, (0.0,) * 4
        for k, weight in enumerate(along):
            lines = tuple(line + weight * near for line, near in zip(lines, self._m.row(q.number, first + k * q.line)))
        return lines


def _sum(weights: Sequence[Scalar], values: Sequence[Scalar]) -> Scalar:
    return sum(weight * value for weight, value in zip(weights, values))


def _weights(t: Scalar) -> tuple[Scalar, ...]:
    """Returns six times the weights of the four coefficients around a place at t in its cell."""
    s = 1.0 - t
    tt, ss = t * t, s * s
    return s * ss, 4.0 - 3.0 * tt * (1.0 + s), 4.0 - 3.0 * ss * (1.0 + t), t * tt


def _slopes(t: Scalar, within: Scalar) -> tuple[Scalar, ...]:
    """Returns the derivatives of the weights; within: 1, beyond an edge 0."""
    s, w = 1.0 - t, 3.0 * within
    return -w * s * s, w * t * (3.0 * t - 4.0), w * s * (4.0 - 3.0 * s), w * t * t
