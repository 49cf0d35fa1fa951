"""What a run on a full disk comes to; the runs themselves are by command, `lfdm fuzz graph`."""

import pytest

from lfdm_ros.errors import InputError, RunError
from lfdm_ros.stacks import attack


@pytest.mark.parametrize("others, expected", [([], InputError), (["controller: on_state: KeyError: 'x'"], RunError)])
def test_a_disk_that_refuses_is_a_refusal_and_what_fails_beside_it_is_not(tmp_path, monkeypatch, others, expected):
    def run_stack(*_, **__):
        raise RunError([f"cannot write to {tmp_path}: File too large", *others], {})

    monkeypatch.setattr(attack, "run_stack", run_stack)
    monkeypatch.setattr(attack, "alone", lambda: None)
    monkeypatch.setattr(attack.resource, "setrlimit", lambda *_: None)
    monkeypatch.setattr(attack.signal, "signal", lambda *_: None)
    monkeypatch.setenv("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4")
    with pytest.raises(expected, match="File too large"):
        attack.full_disk_run("simulator", tmp_path, {})
