"""Simulation-based calibration of a friction field's values, as `sbc` of a vehicle's parameters.

Truths are drawn from the priors of a recipe, a field of each is drawn at the places of a survey by the root of its dense covariance, seen
with its noise, forgotten, and inferred by SMC.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lfdm_ros.calibration import checkpoint
from lfdm_ros.calibration.checkpoint import result_key
from lfdm_ros.calibration.field_recipe import FieldRecipe
from lfdm_ros.calibration.field_run import STAGE
from lfdm_ros.calibration.sbc import GAUSSIAN, TOGETHER, Replications, score
from lfdm_ros.ground import DensePosterior, Observations
from lfdm_ros.inference.field_prior import FieldPriorDensity
from lfdm_ros.samplers import smc
from lfdm_ros.samplers.sampler import SMC, Evaluation


@dataclass(frozen=True)
class FieldDesign:
    """What is repeated (`sbc.Repeated`): a recipe, and where the field is seen, (n, 2) [m]; the recipe's survey by default."""

    recipe: FieldRecipe
    places: np.ndarray = field(repr=False)
    draws: int = 200
    seed: int = 1
    options: Mapping[str, float] = field(default_factory=dict)
    name: str = STAGE
    size: int = TOGETHER

    @property
    def title(self) -> str:
        """Of its figure."""
        return f"{self.recipe.path.stem}, {len(self.places)} places"

    @property
    def settings(self) -> Mapping[str, float]:
        """Of the sampler."""
        return SMC.having(self.options).settings

    @property
    def head(self) -> dict[str, Any]:
        """Its part of results.json."""
        return {"recipe": self.recipe.path.name, "sampler": SMC.name, "likelihood": GAUSSIAN, "seed": self.seed, "draws": self.draws,
                "settings": dict(self.settings), "places": len(self.places)}

    @cached_property
    def key(self) -> str:
        """Of all that a replication depends on."""
        return result_key({"recipe": self.recipe.text, "places": self.places.tolist(), "draws": self.draws, "seed": self.seed,
                           "settings": dict(self.settings)}, checkpoint.MADE_BY)

    def check(self) -> None:
        """Nothing that could go wrong together."""

    def block(self, replications: range) -> Replications:
        """Truths, surveys, posteriors."""
        began, recipe, count = time.perf_counter(), self.recipe, len(replications)
        seeds = [np.random.SeedSequence(self.seed, spawn_key=(0, number)).spawn(3) for number in replications]
        truths = {name: np.array([prior.frozen().rvs(random_state=np.random.default_rng([*own[0].generate_state(4), k]))
                                  for own in seeds]) for k, (name, prior) in enumerate(recipe.unknowns.items())}
        rngs = [np.random.default_rng(own[1]) for own in seeds]
        latent = np.array([self._seen({name: float(own[i]) for name, own in truths.items()}, rng) for i, rng in enumerate(rngs)])
        first_seen = Observations(self.places, latent[0], np.full(len(self.places), recipe.held.sigma_n))
        density = FieldPriorDensity(first_seen, recipe.unknowns, recipe.held)

        def evaluate(particles: np.ndarray, chains: Sequence[int]) -> Evaluation:
            return density.of(particles, np.repeat(latent[list(chains)], len(particles) // len(chains), axis=0))

        particles = density.draw_prior(self.size * self.draws, np.random.default_rng(np.random.SeedSequence(
            self.seed, spawn_key=(1, replications.start // self.size)))).reshape(self.size, self.draws, -1)
        first = replications.start % self.size
        found = smc.together(density, evaluate, particles[first:first + count], [own[2] for own in seeds],
                             steps=int(self.settings["steps"]), final_steps=int(self.settings["final_steps"]))
        u, z = np.empty((2, count, len(truths)))
        for i, own in enumerate(found):
            for v, (name, values) in enumerate(density.constrain(own).items()):
                u[i, v], z[i, v] = score(recipe.unknowns[name], values, truths[name][i], rngs[i])
        return Replications(tuple(truths), u, z, np.column_stack(list(truths.values())), 0, density.evaluations,
                            time.perf_counter() - began)

    def _seen(self, truth: Mapping[str, float], rng: np.random.Generator) -> np.ndarray:
        """What a survey of one field says (n,)."""
        prior = self.recipe.held.having(**truth)
        return np.asarray(DensePosterior(prior, self.places).draw(1, rng)[0] + prior.sigma_n * rng.standard_normal(len(self.places)))
