"""The command line: `flash41 budget`, `flash41 count`, `flash41 bench`, `flash41 evaluate`, or the same after `python -m`."""

from __future__ import annotations

import argparse
import json
import os
import sys

from . import budget_report, families
from .budget import budget
from .capacity import BYTE_UNITS, TOKEN_UNITS, capacity, parse_size
from .config import Config

EPILOG = "1M = 10^6 tokens, 1Mi = 2^20 tokens; MB = 10^6 B, MiB = 2^20 B"


class Parser(argparse.ArgumentParser):
    """Wrong arguments end in one line on stderr, not in a page of usage."""

    def error(self, message: str):
        raise ValueError(message)


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; returns the exit status: 0, or 2 for arguments or files that cannot be used."""
    argv = sys.argv[1:] if argv is None else list(argv)
    try:
        known = argv[:1] and argv[0] in ("bench", "count", "evaluate")
        arguments = _module_parser(argv[0]).parse_args(argv[1:]) if known else _parser().parse_args(argv)
        return arguments.run(arguments) or 0
    except BrokenPipeError:  # the reader of a pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError) as error:
        print(f"flash41: error: {_one_line(error)}", file=sys.stderr)
        return 2
    except SystemExit as stop:  # --help
        return int(stop.code or 0)


def _one_line(error: Exception) -> str:
    text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
    return " ".join(text.split())


def _parser() -> Parser:
    parser = Parser(prog="flash41", description="Tools of the course 890 Bytes.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="budget | count | bench | evaluate")
    _add_budget(commands)
    commands.add_parser("count", help="Parameters, active parameters and bytes of the release, counted.")
    commands.add_parser("bench", help="The codecs beside ml_dtypes, the fast path beside the plain one, timed on this machine.")
    commands.add_parser("evaluate", help="What the small trained model has learned, measured from its checkpoint.")
    return parser


def _add_budget(commands) -> None:
    about = "What one token adds to the cache, layer by layer, and what fits into a memory."
    parser = commands.add_parser("budget", help=about, description=about, epilog=EPILOG, allow_abbrev=False)
    add = parser.add_argument
    add("--config", metavar="FILE", help="a Hugging Face config.json; default: DeepSeek-V4.1-Flash as released")
    add("--dtype", help="stored type of keys and values, where the family leaves it open (default: the file's)")
    add("--context", metavar="TOKENS", help="tokens per session, e.g. 128Ki or 1M")
    add("--sessions", metavar="N", help="sessions kept at the same time (default: 1)")
    add("--memory", metavar="BYTES", help="memory that is free for the cache, e.g. 141GB or 80GiB")
    add("--all-layers", action="store_true", help="one line per layer")
    add("--json", action="store_true", help="everything as JSON")
    parser.set_defaults(run=_budget)


def _budget(arguments: argparse.Namespace) -> int:
    found, config = _source(arguments)
    fit = _fit(found, arguments)
    if arguments.json:
        print(json.dumps(budget_report.as_dict(found, fit, config), indent=2))
    else:
        print(budget_report.page(found, fit, all_layers=arguments.all_layers))
    return 0


def _source(arguments: argparse.Namespace):
    """The budget, and the configuration where the architecture has a ladder."""
    if arguments.config is None:
        if arguments.dtype is not None:
            raise ValueError(f"--dtype {arguments.dtype!r}: DeepSeek-V4.1-Flash stores released records; leave it out")
        return budget(Config.flash()), Config.flash()
    found = families.load(arguments.config, arguments.dtype)
    return found, Config.from_json(arguments.config) if found.model_type == "deepseek_v41" else None


def _fit(found, arguments: argparse.Namespace):
    asked = {"--context": (arguments.context, TOKEN_UNITS), "--sessions": (arguments.sessions, {"": 1})}
    asked["--memory"] = (arguments.memory, BYTE_UNITS)
    context, sessions, memory = (None if text is None else parse_size(text, name, units) for name, (text, units) in asked.items())
    if context is None and memory is None:
        if sessions is not None:
            raise ValueError(f"--sessions {sessions}: needs --context, --memory or both beside it")
        return None
    return capacity(found, context=context, sessions=sessions or 1, memory=memory)


def _module_parser(name: str) -> Parser:
    """The arguments of `bench` and `count` are known to their modules, which are loaded only when they are asked for."""
    from importlib import import_module

    module = import_module(f".{name}", __package__)
    parser = Parser(prog=f"flash41 {name}", description=module.__doc__, allow_abbrev=False)
    module.add_arguments(parser)
    parser.set_defaults(run=module.main)
    return parser


if __name__ == "__main__":
    sys.exit(main())
