"""What the adapter of PyMC relies on is there, in the releases that it was made for."""

import inspect
from importlib.metadata import version

import pytest
from pymc.smc.kernels import SMC_KERNEL
from pymc.step_methods.arraystep import GradientSharedStep
from pymc.step_methods.hmc.integration import CpuLeapfrogIntegrator, State

from lfdm_ros.inference import pymc_adapter


@pytest.mark.parametrize("package", sorted(pymc_adapter.MADE_FOR))
def test_it_was_made_for_this_release(package):
    found, known = version(package), pymc_adapter.MADE_FOR[package]
    look_at = "\n  ".join(f"{name}: {what}" for name, what in pymc_adapter.LOOK_AT.items())
    assert ".".join(found.split(".")[:2]) in known, (
        f"{package} {found}; lfdm_ros/inference/pymc_adapter.py was made for {' and '.join(known)}. Look there at:\n  {look_at}\nand where "
        "that holds and the tests of nuts, smc and model pass, add the release to MADE_FOR")


def test_what_it_relies_on_is_there():
    assert State._fields == ("q", "p", "v", "q_grad", "energy", "model_logp", "index_in_trajectory")
    assert list(inspect.signature(CpuLeapfrogIntegrator._step).parameters) == ["self", "epsilon", "state"]
    made = inspect.getsource(CpuLeapfrogIntegrator.__init__) + inspect.getsource(GradientSharedStep.__init__)
    for name in ("_pytensor_function", "_raveled_inputs", "_extra_vars_shared", "_logp_dlogp_func"):
        assert name in made
    assert callable(SMC_KERNEL._initialize_kernel)
