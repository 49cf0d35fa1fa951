"""Values that no sensible sender or author would write."""

import math
from random import Random
from typing import Any

NUMBERS: tuple[float, ...] = (
    0.0, -0.0, 1.0, -1.0, 1e-320, 1e-30, 1e5, 1e6, 1e9, -1e9, 3.4028234663852886e38, 1e300, -1e300, 1.7976931348623157e308,
    math.inf, -math.inf, math.nan)
INTEGERS = (0, 1, -1, 127, 255, 256, -32768, 65535, 2**31 - 1, -(2**31), 2**32 - 1, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1)
TEXTS = (
    "", " ", "\n", "\0", "nan", "x" * 300, "x" * 100_000, "../../..", "/", "~", "%s%n{}{0}", "'\"", "äöü ☃", "\u202e", "-", "1e999", "true")
# As they stand in a YAML file, on the command line, or in a bag's metadata; some of them no reader of YAML survives by itself.
YAML_TEXTS = (
    "2001-13-45", "!!int abc", "!!timestamp x", "!!float x", "!!binary x", "!!python/object:os.system {}", "!!set {a, b}", "!!omap [a]",
    "9" * 5000, "-" + "9" * 400, "0x" + "f" * 400, "1e400", ".nan", ".inf", "-.inf", "1:99:99", "0o99", "~", "null", "yes", "{}", "[]",
    "[" * 5000, "{a: " * 2000, "[" * 300 + "]" * 300, "*nothing", "&a [*a]", "{<<: [1]}", "? [a]\n: b", "|", "\"", "'", "%", "@x", "`x`",
    "[&a [x,x,x,x,x,x,x,x,x], &b [*a,*a,*a,*a,*a,*a,*a,*a,*a], &c [*b,*b,*b,*b,*b,*b,*b,*b,*b], &d [*c,*c,*c,*c,*c,*c,*c,*c,*c], "
    "&e [*d,*d,*d,*d,*d,*d,*d,*d,*d], &f [*e,*e,*e,*e,*e,*e,*e,*e,*e], &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]]",
    "9**9**9**9 m", "m**(10**9)", "1/0", "m/s" * 200, "\t", "--- x", "...", "x: y: z", "\ufeff", "\x85")


def hostile_value(rng: Random) -> Any:
    """Returns a value for a place in a document."""
    return rng.choice((
        rng.choice(NUMBERS), rng.choice(INTEGERS), rng.choice(TEXTS), 10**rng.choice((30, 309, 4000)), None, True, False, [], {}, [[]],
        {"": None}, {1: 2}, [1.0, "x", None], "9**9**9**9 m", [0.0] * 2000))


def hostile_text(rng: Random) -> str:
    """Returns a text of YAML."""
    return rng.choice(YAML_TEXTS) if rng.random() < 0.7 else "".join(
        rng.choice(" \n-:[]{},&*!|>'\"%@`#?~0123456789eE.+xab") for _ in range(rng.choice((1, 4, 30))))
