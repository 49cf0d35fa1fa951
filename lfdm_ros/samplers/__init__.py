"""Samplers of the posterior, with the common interface `Sampler`; `register_sampler` adds others."""

from lfdm_ros.samplers.sampler import Option, Problem, Sampler, SamplerProgress, SampleRun, register_sampler

__all__ = ["Option", "Problem", "SampleRun", "Sampler", "SamplerProgress", "register_sampler"]
