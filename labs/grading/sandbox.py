"""An answer's own process, seen from outside: source and inputs go in, what it returned comes out, and how it ended."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from flash41.course.checks.calling import Outcome

from . import values

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LENGTH = struct.Struct(">Q")
KINDS = ("value", "starter", "error", "changed", "device")
MOST_OUTPUT = 1_000_000
VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "HOME", "SYSTEMROOT")  # no key or token of the instructor
PRIVATE = (".ssh", ".gnupg", ".aws", ".config", ".docker", ".kaggle", ".jupyter", ".local/share/keyrings")


@dataclass(frozen=True)
class Limits:
    """What one step of one student may use. package: whether answers may import the package (then importing is an answer)."""

    seconds: float = 30.0
    memory: int = 2 << 30
    package: bool = False


@dataclass
class Run:
    """What came of one answer: an outcome for every case that it finished, and why there are no more ("" if all is there)."""

    outcomes: list[Outcome] = field(default_factory=list)
    stopped: str = ""
    notes: list[str] = field(default_factory=list)


class Sandbox:
    """A worker that runs answers. `holds`: which walls this system allows. Use as a context, or close it."""

    def __init__(self, limits: Limits = Limits(), hidden: tuple[Path, ...] = ()):
        self.limits = limits
        self.folder = tempfile.mkdtemp(prefix="answer-")
        own = [ROOT / name for name in ("tests", "book", "_build", ".git")]
        own += [Path.home() / name for name in PRIVATE]
        own += [] if limits.package else [ROOT / "labs", installed()]
        needed = [Path(path).absolute() for path in (sys.prefix, sys.base_prefix, self.folder)]
        needed += [path.resolve() for path in needed]
        found = [Path(path).resolve() for path in (*own, *hidden)]
        self.hidden = [str(path) for path in found if not any(each.is_relative_to(path) for each in needed)]
        self.process, self.holds = None, []

    def start(self) -> None:
        """Start the worker where it does not run; a second or two."""
        if self.process and self.process.poll() is None:
            return
        variables = {name: os.environ[name] for name in VARIABLES if name in os.environ}
        variables |= {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(HERE / "worker.py"), json.dumps(self.hidden)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables, cwd=self.folder)  # fmt: skip
        self.holds = self._reply()[0]["holds"]

    def run(self, source: str, name: str, cases: list[tuple[dict, dict]], seconds: float | None = None) -> Run:
        """Execute the source and call its function `name` on every case (arguments, keywords)."""
        self.start()
        seconds = self.limits.seconds if seconds is None else seconds
        job = dict(source=source, name=name, cases=values.packed_cases(cases), seconds=seconds, memory=self.limits.memory,
                   folder=self._empty(), blocked=not self.limits.package, most_results=2 * values.MOST_BYTES)  # fmt: skip
        data = pickle.dumps(job)
        try:
            self.process.stdin.write(LENGTH.pack(len(data)) + data)
            self.process.stdin.flush()
            head, data = self._reply()
            self.holds = head.get("holds", self.holds)
        except (OSError, EOFError, ValueError):
            self.close()
            self.folder = tempfile.mkdtemp(prefix="answer-")
            return Run(stopped="it ended the process that runs answers")
        return self._judged(head, data, len(cases), seconds)

    def _judged(self, head: dict, data: bytes, count: int, seconds: float) -> Run:
        """The reply in words."""
        run = Run()
        try:
            found = values.unpacked(data)
        except values.Unreadable as error:
            return Run(stopped=str(error))
        for kind, value, note in found[:count]:
            if kind == "unloadable":
                return Run(stopped=f"its code cannot be executed: {note}")
            known = kind in KINDS
            run.outcomes.append(Outcome(kind, value, note) if known else Outcome("error", None, "its result cannot be read"))
        if head["printed"] > MOST_OUTPUT:
            run.notes.append(f"it printed {head['printed']:,} bytes; nobody reads them")
        starter = run.outcomes and run.outcomes[-1].kind == "starter"
        if len(run.outcomes) < count and not starter:
            gigabytes = f"{self.limits.memory / 2**30:.3g} GiB"
            run.stopped = {"time": f"it was stopped after {seconds:.3g} s: an endless loop?",
                           "memory": f"it took more than {gigabytes} of memory",
                           "results": f"its results have more than {2 * values.MOST_BYTES:,} bytes"}.get(
                               head["end"], f"its process ended (exit code {head['code']}) before it had returned")  # fmt: skip
        return run

    def _empty(self) -> str:
        """The throw-away folder, empty. With the files walled off, what is written there never reaches it."""
        if os.listdir(self.folder):
            shutil.rmtree(self.folder, ignore_errors=True)
            os.makedirs(self.folder, exist_ok=True)
        return self.folder

    def _reply(self) -> tuple[dict, bytes]:
        head, data = (LENGTH.unpack(self._exactly(LENGTH.size))[0] for _ in range(2))
        return json.loads(self._exactly(head)), self._exactly(data)

    def _exactly(self, size: int) -> bytes:
        data = self.process.stdout.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def close(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait()
            for pipe in (self.process.stdin, self.process.stdout):
                try:
                    pipe.close()
                except OSError:
                    pass
            self.process = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_) -> None:
        self.close()


def installed() -> Path:
    """Where the package lies that `import flash41` finds."""
    import flash41

    return Path(flash41.__file__).parent
