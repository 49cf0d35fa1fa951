"""A little of `lfdm fuzz`, with fixed seeds: nothing but answers and lines. By command there is as much of it as one wants."""

import json

import pytest

from lfdm_ros.cli.main import main


@pytest.mark.parametrize("kind, seeds", [("bags", 40), ("files", 150)])
def test_nothing_but_answers_and_lines(tmp_path, capsys, kind, seeds):
    status = main(["fuzz", kind, "--seeds", str(seeds), "--limit", "300", "--json", str(tmp_path / "counts.json")])
    counts = json.loads((tmp_path / "counts.json").read_text())
    assert status == 0, counts["failures"]
    assert (counts["kind"], counts["cases"], counts["answer"] + counts["refused"]) == (kind, seeds, seeds)
    assert counts["answer"] and counts["refused"] and not counts["failures"]


def test_a_failure_is_exit_1_and_its_seed_repeats_it(tmp_path, capsys, monkeypatch):
    from lfdm_lab.cli import fuzz_cases

    def broken(path):
        raise KeyError(path)

    monkeypatch.setattr("lfdm_ros.bags.bag_info", broken)
    assert main(["fuzz", "bags", "--seed", "5", "--keep", str(tmp_path / "kept")]) == 1
    out = capsys.readouterr().out
    assert "seed 5: traceback" in out and "KeyError" in out and "lfdm fuzz bags --seed 5" in out
    assert (tmp_path / "kept" / "bag_5").is_dir()
    assert fuzz_cases.FILE_KINDS


@pytest.mark.parametrize("arguments, words", [
    (["bags", "--seeds", "0"], "--seeds 0"), (["files", "--of", "poem"], "poem"), (["graph", "--duration", "0"], "--duration 0"),
    (["bags", "--limit", "0"], "--limit 0"), (["bags", "--json", "/no/such/x.json"], "no folder")])
def test_bad_usage_is_one_line(capsys, arguments, words):
    assert main(["fuzz", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_fuzz_writes_damaged_copies(tmp_path, capsys):
    from lfdm_lab.fuzzing import good_bag

    good_bag(tmp_path / "good", seconds=0.4)
    assert main(["fuzz", "copies", str(tmp_path / "good"), "--seeds", "3", "--out", str(tmp_path / "bad")]) == 0
    assert sorted(path.name for path in (tmp_path / "bad").iterdir()) == ["1", "2", "3"]
    assert capsys.readouterr().out.count("\n") == 3
    assert main(["bag", "fuzz", str(tmp_path / "good"), "--out", str(tmp_path / "bad")]) == 2
    error = capsys.readouterr().err
    assert "bad: File exists" in error and "lfdm bag fuzz is lfdm fuzz copies now" in error
