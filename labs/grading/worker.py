"""Runs answers, each in a process of its own. Started by sandbox.py; loads torch once, then forks for every answer.

Jobs come in on standard input, replies go out on standard output. Three processes: this one waits; for every job it forks a
warden, which forks the answer, watches its time, memory and output, and replies. Of the course it loads `calling` alone, as a
file: the package, its oracles and the expected results are not in these processes.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import linecache
import os
import pickle
import select
import signal
import struct
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
LENGTH = struct.Struct(">Q")


def loaded(path: Path):
    """A module out of a file, whatever package it stands in."""
    spec = importlib.util.spec_from_file_location(f"grading_{path.stem}", path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_exactly(size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


def reply(head: dict, data: bytes = b"") -> None:
    text = json.dumps(head).encode()
    write_all(1, LENGTH.pack(len(text)) + LENGTH.pack(len(data)) + text + data)


# -- the answer's process ------------------------------------------------------------------------------------------


def definition(source: str, name: str):
    """Execute an answer and return its function. Error messages show its lines."""
    file, space = f"<{name}>", {"__name__": name}
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), space)
    return space[name]


def answer(job: dict, fence, calling, values, results: int, output: int) -> None:
    """The life of the answer: seal, execute, call on every case, send what came of each."""
    cases = values.unpacked_cases(job["cases"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.dup2(results, 3)
    os.closerange(4, 4096)
    os.setsid()
    fence.seal(job["folder"], job["memory"], job["seconds"])
    os.environ.clear()
    os.environ.update(HOME=job["folder"], TMPDIR=job["folder"], PATH="/usr/bin:/bin", OMP_NUM_THREADS="1")
    if job["blocked"]:
        sys.meta_path.insert(0, fence_module.Blocked())
    else:
        sys.path.insert(0, str(HERE.parent))

    def send(kind, value=None, note=""):
        try:
            data = values.packed(kind, value, note)
        except Exception as error:
            data = values.packed("error", None, str(error) or f"its result cannot be read: {type(error).__name__}")
        write_all(3, data)

    try:
        function = definition(job["source"], job["name"])
        if not callable(function):
            raise TypeError(f"{job['name']} is a {type(function).__name__}, not a function")
    except BaseException as error:
        send("unloadable", None, f"{type(error).__name__}: {str(error)[:300]}")
        return
    for arguments, keywords in cases:
        try:
            outcome = calling.call(function, arguments, keywords)
        except BaseException as error:
            outcome = calling.Outcome("error", None, f"it raised {type(error).__name__}")
        send(outcome.kind, outcome.value, outcome.note)
        if outcome.kind == "starter":
            return


# -- the warden ----------------------------------------------------------------------------------------------------


def resident(process: int) -> int:
    """Bytes of memory that a process holds now; 0 where the system does not tell."""
    try:
        with open(f"/proc/{process}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def watched(process: int, results: int, output: int, job: dict) -> tuple[str, bytes, int]:
    """(how it ended, its results, bytes that it printed). Output is counted and thrown away."""
    until, looked, base = time.monotonic() + job["seconds"], 0.0, resident(os.getpid())
    open_ends, got, printed, size = {results, output}, [], 0, 0
    while results in open_ends:
        left = until - (now := time.monotonic())
        if left <= 0:
            return "time", b"".join(got), printed
        for end in select.select(list(open_ends), [], [], min(left, 0.05))[0]:
            part = os.read(end, 1 << 20)
            if not part:
                open_ends.discard(end)
            elif end == output:
                printed += len(part)
            else:
                got.append(part)
                size += len(part)
        if size > job["most_results"]:
            return "results", b"", printed
        if now - looked < 0.05:
            continue
        looked = now
        if resident(process) > base + job["memory"]:
            return "memory", b"".join(got), printed
    return "ended", b"".join(got), printed


def warden(job: dict, fence, calling, values) -> None:
    """Fork the answer, watch it, end it and all that it started, reply."""
    fence.own_processes()
    (results, results_in), (output, output_in) = os.pipe(), os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, 1 << 20)  # 100 MB pass in a hundred steps, not in thousands
    process = os.fork()
    if process == 0:
        code = 1
        try:
            answer(job, fence, calling, values, results_in, output_in)
            code = 0
        finally:
            os._exit(code)
    os.close(results_in), os.close(output_in)
    end, data, printed = watched(process, results, output, job)
    if end == "ended":  # it closed its results; it may still be alive
        for _ in range(20):
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                break
            time.sleep(0.005)
    if end != "ended" or not done:
        for kill, target in ((os.kill, process), (os.killpg, process)):
            try:
                kill(target, signal.SIGKILL)
            except OSError:
                pass
        _, status = os.waitpid(process, 0)
    elif "processes" not in fence.holds:
        try:
            os.killpg(process, signal.SIGKILL)  # what it left behind
        except OSError:
            pass
    reply({"end": end, "code": os.waitstatus_to_exitcode(status), "printed": printed, "holds": sorted(fence.holds)}, data)


def main() -> None:
    fence = fence_module.Fence()
    fence.leave()
    values, calling = loaded(HERE / "values.py"), loaded(HERE.parent / "flash41" / "course" / "checks" / "calling.py")
    values.torch.set_num_threads(1)
    fence.close(json.loads(sys.argv[1]))
    reply({"holds": sorted(fence.holds)})
    while True:
        try:
            job = pickle.loads(read_exactly(LENGTH.unpack(read_exactly(LENGTH.size))[0]))
        except EOFError:
            return
        process = os.fork()
        if process == 0:
            code = 1
            try:
                warden(job, fence, calling, values)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(process, 0)
        if status:
            reply({"end": "warden", "code": os.waitstatus_to_exitcode(status), "printed": 0})


if __name__ == "__main__":
    fence_module = loaded(HERE / "fence.py")
    main()
