"""A sampler of your own, in one file: the affine-invariant ensemble of Goodman & Weare 2010, by name.

    export LFDM_PLUGINS=examples/ensemble_sampler.py
    lfdm calibrate hmmwv --bag acc --bag rr_1 --bag simp_ramp --sampler ensemble --option walkers=40 --out result
    lfdm sbc hmmwv --bag acc --bag rr_1 --bag simp_ramp --stage lateral --sampler ensemble --out checked

Each chain is an ensemble of walkers. Half of them move along lines to walkers of the other half, which needs neither gradient nor
covariance and does not see how stretched the posterior is (J. Goodman and J. Weare, Comm. App. Math. Comp. Sci. 5:65, 2010; in halves as
Foreman-Mackey et al. 2013, so that half the walkers of all chains are one call of the simulator).
"""

import time

import numpy as np

from lfdm_ros.samplers import Option, Sampler, SamplerProgress, SampleRun, register_sampler

STRETCH = 2.0  # a of Goodman & Weare, their value


def sample(problem, *, draws, chains, seed, report, walkers, tune, thin):
    """C chains of N draws; see lfdm_ros.samplers.sampler.Sample."""
    from lfdm_ros.samplers.starts import find_starts  # imports PyMC, which only a calibration needs

    began = time.perf_counter()
    start_seed, seed = seed.spawn(2)
    rng = np.random.default_rng(seed)
    walkers = 2 * max(walkers // 2, len(problem.density.names) + 1)  # in halves, each of more than D
    starts = find_starts(problem, chains * walkers, start_seed, report)
    # Where few points fit, several walkers get the same; walkers of one place would never leave it.
    apart = 0.1 * rng.standard_normal(starts.points.shape) @ np.linalg.cholesky(starts.covariance).T
    x = (starts.points + apart).reshape(chains, walkers, -1)
    evaluations, dimension = starts.evaluations + chains * walkers, x.shape[2]

    def density(points):
        return np.add(*problem.density(points.reshape(-1, dimension))).reshape(points.shape[:2])

    logp = density(x)
    kept, accepted = [], 0.0
    steps = tune + thin * -(-draws // walkers)
    for step in range(steps):
        halves = rng.permutation(walkers).reshape(2, -1)
        for moving, others in (halves, halves[::-1]):
            # eq. 7: the proposal lies on the line to another walker, z of density g(z) ~ 1 / sqrt(z) times as far from it.
            z = (1.0 + (STRETCH - 1.0) * rng.random((chains, len(moving)))) ** 2 / STRETCH
            partner = np.take_along_axis(x[:, others], rng.integers(len(others), size=(chains, len(moving)))[:, :, None], axis=1)
            proposal = partner + z[:, :, None] * (x[:, moving] - partner)
            new = density(proposal)
            with np.errstate(invalid="ignore"):  # a walker that began where the density is 0 is not moved to another such place
                accept = np.log(rng.random(new.shape)) < (dimension - 1.0) * np.log(z) + new - logp[:, moving]  # eq. 17
            x[:, moving] = np.where(accept[:, :, None], proposal, x[:, moving])
            logp[:, moving] = np.where(accept, new, logp[:, moving])
            accepted += accept.mean() / (2 * steps)
        evaluations += chains * walkers
        if step >= tune and (step - tune + 1) % thin == 0:
            kept.append(x.copy())
        if report is not None:  # raises KeyboardInterrupt where the run is to end
            done = (step + 1) / steps
            left = (time.perf_counter() - began) * (1.0 / done - 1.0)
            report(SamplerProgress(1.0, min(done, 0.99), left, evaluations, f"{evaluations} runs"))

    # Walker after walker, so that what remembers each other stands together, as in other chains.
    flat = np.stack(kept, axis=2).reshape(chains, -1, dimension)[:, :draws].reshape(-1, dimension)
    named = {name: values.reshape(chains, draws) for name, values in problem.density.constrain(flat).items()}
    return SampleRun(
        draws=named, log_likelihood=problem.density.log_likelihood(flat).reshape(chains, draws),
        point={name: float(named[name].mean()) for name in problem.unknowns}, point_is="posterior mean",
        evaluations=evaluations + len(flat), seconds=time.perf_counter() - began,
        statistics={"walkers": walkers, "acceptance": float(accepted)}, stored={},
        account=f"ensembles of {walkers} walkers, {tune} steps of tuning and {thin} for each draw, {100 * accepted:.0f} % accepted")


ENSEMBLE = Sampler(
    "ensemble", "affine-invariant ensembles of walkers", sample, (
        Option("walkers", 32, "walkers of each chain, at least twice as many as unknowns", 4, 10_000),
        Option("tune", 500, "steps that are not kept", 0, 1_000_000),
        Option("thin", 20, "steps from one draw of a walker to the next", 1, 10_000)),
    reading="Walkers of one chain learn from each other; the chains are independent, so R-hat says whether they were long enough.")
register_sampler(ENSEMBLE)
