"""The ground: friction as a random field (paper 004), soft soil (paper 001 section 3), heights. It knows nothing of ROS."""

from lfdm_ros.ground.dense import DensePosterior
from lfdm_ros.ground.embedding import Embedding
from lfdm_ros.ground.field import FrictionField
from lfdm_ros.ground.fitting import Fit, fit, log_likelihood
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.height import HeightMap
from lfdm_ros.ground.link import FrictionLink
from lfdm_ros.ground.observations import Observations
from lfdm_ros.ground.posterior import FieldPosterior
from lfdm_ros.ground.prior import FieldPrior
from lfdm_ros.ground.resistance import ResistanceMap
from lfdm_ros.ground.soil_map import SoilMap, SoilRegion
from lfdm_ros.ground.soil_wheel import Motion, Outcome, Settled, SoilWheel, outcome_of, settle
from lfdm_ros.ground.soils import Soil, load_soil, soil_names
from lfdm_ros.ground.tables import FieldTable, FrictionMap

__all__ = ["DensePosterior", "Embedding", "FieldPosterior", "FieldPrior", "FieldTable", "Fit", "FrictionField", "FrictionLink",
           "FrictionMap", "Grid", "HeightMap", "Motion", "Observations", "Outcome", "ResistanceMap", "Settled", "Soil", "SoilMap",
           "SoilRegion", "SoilWheel", "fit", "load_soil", "log_likelihood", "outcome_of", "settle", "soil_names"]
