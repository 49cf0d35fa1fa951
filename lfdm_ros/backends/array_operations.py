"""The equations on NumPy arrays, many samples at once: slower than compiled code, and there without any."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from lfdm_ros.compiler.tables import rows

ARRAYS = SimpleNamespace(
    namespace=SimpleNamespace, where=np.where, sqrt=np.sqrt, fabs=np.abs, fmin=np.minimum, fmax=np.maximum,
    sin=np.sin, cos=np.cos, tanh=np.tanh, exp=np.exp, log=np.log, atan=np.arctan, atan2=np.arctan2, floor=np.floor, row=rows)
