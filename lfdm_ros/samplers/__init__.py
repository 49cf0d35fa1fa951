"""Ways to the posterior of a density, all of one shape, `Sampler`; one of your own is registered by `register_sampler`."""

from lfdm_ros.samplers.sampler import Option, Problem, Sampler, SamplerProgress, SampleRun, register_sampler

__all__ = ["Option", "Problem", "SampleRun", "Sampler", "SamplerProgress", "register_sampler"]
