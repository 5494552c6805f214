"""The command line: what it prints, and that bad input ends in one line and status 2."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flash41 import bench, measure
from flash41.__main__ import main
from flash41.budget_report import ranges, scaled
from flash41.config import Config

DATA = Path(__file__).parent / "data"
CAPACITY = ["budget", "--context", "1M", "--sessions", "8", "--memory", "141GB"]


def run(capsys, *arguments) -> str:
    assert main([str(argument) for argument in arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_budget_prints_the_sum_and_the_source_layers(capsys):
    out = run(capsys, "budget")
    assert "720 + 170 = 890 B/token" in out
    lines = [line.split() for line in out.splitlines()]
    for layer, entry, index in (("2", "144", "34"), ("8", "144", "34"), ("14", "144", "34"), ("20", "288", "68")):
        assert any(line[:1] == [layer] and line[-2:] == [entry, index] for line in lines)
    assert "2,703,360 B" in out and "24,576 B" in out and "202,752 B" in out


@pytest.mark.parametrize("arguments", [["budget"], [*CAPACITY, "--all-layers"]])
def test_a_page_fits_into_80_columns(capsys, arguments):
    assert max(map(len, run(capsys, *arguments).splitlines())) <= 80


@pytest.mark.parametrize("path", sorted(DATA.glob("*.json")), ids=lambda path: path.stem)
def test_every_familys_table_fits_into_80_columns(capsys, path):
    out = run(capsys, "budget", "--config", path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
    assert max(map(len, out.splitlines()[2:])) <= 80


def test_all_layers_prints_forty_rows(capsys):
    out = run(capsys, "budget", "--all-layers")
    assert [line.split()[0] for line in out.splitlines() if line[:1].isdigit()][:40] == [str(n) for n in range(40)]


def test_capacity_says_what_fits_and_what_is_not_counted(capsys):
    out = run(capsys, *CAPACITY)
    for part in ("892,727,936 B", "7,141,823,488 B", "fits, to spare", "157", "19,800,305"):
        assert part in out
    _, missing = out.split("Not counted")
    for part in ("510,286,023,000 B", "activations", "pages", "528 B", "584 B", "3,200 B/token"):
        assert part in missing


def test_capacity_says_what_does_not_fit(capsys):
    out = run(capsys, "budget", "--context", "2Mi", "--memory", "1GB")
    assert "DOES NOT FIT, missing" in out and " 869,193,216 B" in out
    assert "longer than the 1,048,576 tokens" in out
    assert "longer than" not in run(capsys, "budget", "--context", "1Mi")


def test_where_every_layer_slides_the_cache_sets_no_limit(capsys):
    out = run(capsys, "budget", "--config", DATA / "mistral-7b-v0.1.json", "--memory", "10GB")
    assert "not limited by the cache" in out and "131,072 B/token until they hold 4,096 tokens" in out


def test_json_holds_everything_exactly(capsys):
    data = json.loads(run(capsys, *CAPACITY, "--json"))
    assert data["bytes_per_token"] == {"main": 720, "index": 170, "total": 890, "total_fraction": [890, 1]}
    assert len(data["layers"]) == 40 and data["layers"][20]["main_bytes_per_token"] == 288
    assert data["constants"]["total_bytes"] == 2_727_936
    assert data["capacity"]["max_sessions"] == 157 and data["capacity"]["fits"] is True
    assert data["ladder"][0]["bytes_per_token"] == 5_242_880
    assert {route["name"]: route["bytes_per_token"] for route in data["wrong_routes"]}["extra_rope"] == 980


def test_json_has_the_same_keys_for_every_model(capsys):
    ours = json.loads(run(capsys, "budget", "--json"))
    theirs = json.loads(run(capsys, "budget", "--json", "--config", DATA / "deepseek-v4-flash.json"))
    assert list(ours) == list(theirs)
    assert list(ours["layers"][0]) == list(theirs["layers"][0])
    assert theirs["bytes_per_token"]["total"] == 3514.25 and theirs["bytes_per_token"]["total_fraction"] == [14057, 4]
    assert ours["capacity"] is None and theirs["ladder"] == []


def test_config_and_dtype_reach_the_family(capsys):
    assert "224 KiB/token" in run(capsys, "budget", "--config", DATA / "qwen3-0.6b.json", "--dtype", "fp32")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: budget | count | bench | evaluate"),
        (["bugdet"], "invalid choice: 'bugdet'"),
        (["budget", "--contxt", "1M"], "unrecognized arguments: --contxt 1M"),
        (["budget", "--context"], "argument --context: expected one argument"),
        (["budget", "--context", "1X"], "--context '1X': allowed is a number, alone or with one of k, K, M"),
        (["budget", "--context", "0"], "--context '0': allowed is a whole number from 1"),
        (["budget", "--sessions", "two", "--context", "1M"], "--sessions 'two': allowed is a number"),
        (["budget", "--sessions", "3"], "--sessions 3: needs --context, --memory or both beside it"),
        (["budget", "--memory", "141Gb"], "--memory '141Gb': allowed is a number, alone or with one of B, kB"),
        (["budget", "--dtype", "fp8"], "--dtype 'fp8': DeepSeek-V4.1-Flash stores released records"),
        (["budget", "--config", "absent.json"], "absent.json: No such file or directory"),
        (["budget", "--config", str(DATA)], "Is a directory"),
        (["bench", "--rows", str(10**13)], "--rows 10000000000000: must be 1 … 262144"),
        (["bench", "--rows", "0"], "--rows 0: must be 1 … 262144"),
        (["bench", "--rounds", "6"], "--rounds 6: must be at least 7"),
        (["budget", "--config", str(DATA / "llama-2-7b.json"), "--dtype", "fp7"], "--dtype 'fp7': allowed are float32"),
    ],
)
def test_bad_input_ends_in_one_line_and_status_2(capsys, arguments, message):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("flash41: error: ") and err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize("changes", [{"text_config": None}, {"rope_theta": 10**400}, {"rope_scaling": {"factor": None}}], ids=lambda c: str(c)[:20])
def test_a_damaged_released_file_ends_in_one_line_too(capsys, tmp_path, changes):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(Config.flash().to_dict() | changes))
    assert main(["budget", "--json", "--config", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("flash41: error: ") and err.count("\n") == 1


def test_help_is_not_an_error(capsys):
    assert "--memory" in run(capsys, "budget", "--help")


def test_python_dash_m_returns_the_status():
    done = subprocess.run([sys.executable, "-m", "flash41", "budget", "--memory", "x"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == "" and "Traceback" not in done.stderr


def test_layer_numbers_are_written_as_ranges():
    assert ranges([3, 4, 5, 6, 7]) == "3-7"
    assert ranges([24, 28, 32, 36]) == "24, 28, 32, 36"
    assert ranges(list(range(0, 26, 2))) == "0 ... 24"
    assert ranges([1, 3, 5, 7, 9, 11]) == "1 ... 11"  # 16 letters would leave no space before the next column


def test_sizes_are_shown_in_both_families_of_units():
    assert scaled(890 * 2**20) == "933.2 MB = 890 MiB"
    assert scaled(999) == "999 B = 999 B"
    assert scaled(10**16) == "10,000 TB = 9,095 TiB"


def test_layers_that_do_the_same_share_a_line_and_sums_stand_below_their_parts(capsys):
    out = run(capsys, "budget", "--config", DATA / "llama-2-7b.json")
    assert [line.split()[:2] for line in out.splitlines() if line[:1].isdigit()][0] == ["0-31", "32"]
    _, once = run(capsys, "budget").split("Once per session, whatever its length\n")
    assert [line.split()[0] for line in once.splitlines()[:4]] == ["window", "open", "together", "drafter"]


# -- bench ---------------------------------------------------------------------------------------------------------


def test_bench_times_one_thread_and_a_ratio_above_1_means_that_ours_is_faster(capsys, monkeypatch):
    seconds = {"flash41": 1, "ml_dtypes": 3, "fast": 2, "plain": 8}
    monkeypatch.setattr(measure, "compare", lambda functions, *_, **__: {name: measure.Timing((seconds[name],), {}) for name in functions})
    with measure.threads(2):
        codecs = json.loads(run(capsys, "bench", "--rows", "1", "--only", "codecs", "--json"))
        model = json.loads(run(capsys, "bench", "--only", "model", "--json"))
    assert list(codecs) == ["codecs"] and list(model) == ["model"]
    assert codecs["codecs"]["conditions"]["threads"] == 1 and len(codecs["codecs"]["rows"]) == 6
    assert all((row["ratio"], row["flash41_ms"]) == (3, 1000) for row in codecs["codecs"]["rows"])
    assert [row["what"] for row in model["model"]["rows"]] == ["forward"] * 3 + ["decode"] * 3 + ["Sinkhorn"]
    assert all((row["ratio"], row["fast_ms"]) == (4, 2000) for row in model["model"]["rows"])


def test_bench_refuses_to_time_encoders_that_disagree(monkeypatch):
    encode, decode = bench.their_codec(bench.E4M3_E8M0)
    monkeypatch.setattr(bench, "their_codec", lambda fmt: (lambda x: encode(-x), decode))
    with pytest.raises(AssertionError, match="E4M3_E8M0: the two encoders disagree"):
        bench.codec(bench.E4M3_E8M0, 1, 7)
