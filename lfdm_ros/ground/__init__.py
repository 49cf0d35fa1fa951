"""The ground: friction as a random field (paper 004), soft soil (paper 001 section 3), heights; independent of ROS."""

from lfdm_ros.ground.fitting import Fit, fit, log_likelihood
from lfdm_ros.ground.friction_field import FrictionField, FrictionLink
from lfdm_ros.ground.grid import Grid
from lfdm_ros.ground.maps import FieldTable, FrictionMap, HeightMap, ResistanceMap
from lfdm_ros.ground.posterior import DensePosterior, Embedding, FieldPosterior
from lfdm_ros.ground.prior import FieldPrior, Observations
from lfdm_ros.ground.soil_wheel import Settled, SoilWheel, WheelMotion, WheelOutcome, outcome_of, settle
from lfdm_ros.ground.soils import SoilMap, SoilProperties, SoilRegion, load_soil, soil_names

__all__ = [
    "DensePosterior", "Embedding", "FieldPosterior", "FieldPrior", "FieldTable", "Fit", "FrictionField", "FrictionLink", "FrictionMap",
    "Grid", "HeightMap", "Observations", "ResistanceMap", "Settled", "SoilMap", "SoilProperties", "SoilRegion", "SoilWheel", "WheelMotion",
    "WheelOutcome", "fit", "load_soil", "log_likelihood", "outcome_of", "settle", "soil_names"
]
