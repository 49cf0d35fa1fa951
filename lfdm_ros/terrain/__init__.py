"""The ground: friction as a random field (paper 004). It knows nothing of ROS."""

from lfdm_ros.terrain.dense import DensePosterior
from lfdm_ros.terrain.embedding import Embedding
from lfdm_ros.terrain.field import FrictionField
from lfdm_ros.terrain.fitting import Fit, fit, log_likelihood
from lfdm_ros.terrain.grid import Grid
from lfdm_ros.terrain.link import FrictionLink
from lfdm_ros.terrain.observations import Observations
from lfdm_ros.terrain.posterior import FieldPosterior
from lfdm_ros.terrain.prior import FieldPrior
from lfdm_ros.terrain.tables import FieldTable

__all__ = ["DensePosterior", "Embedding", "FieldPosterior", "FieldPrior", "FieldTable", "Fit", "FrictionField", "FrictionLink", "Grid",
           "Observations", "fit", "log_likelihood"]
