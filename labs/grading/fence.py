"""What an answer's process may not do, as far as the system allows: no network, no writing, no other processes, no solutions.

Linux offers all of it without privileges (namespaces); where it refuses a part, a weaker guard takes its place and `Fence.holds`
says so. Limits on memory, file size and CPU time work everywhere.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NEW_FILES, NEW_IPC, NEW_USER, NEW_PROCESSES, NEW_NETWORK = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
READ_ONLY, PRIVATE, RECURSIVE, MOUNT_SETATTR = 1, 1 << 18, 1 << 14, 442
NO_NEW_PRIVILEGES, DIE_WITH_PARENT, CAPSET = 38, 1, {"x86_64": 126, "aarch64": 91}
LIBC = ctypes.CDLL(None, use_errno=True)


def _done(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


def unshare(flags: int) -> None:
    """Leave the namespaces of the parent. Raises OSError where the system refuses, AttributeError where it has none."""
    _done(LIBC.unshare(flags), "unshare")


def mount(kind: str, target: str, options: str = "", flags: int = 0) -> None:
    """Mount an empty file system (tmpfs, proc) over a folder."""
    _done(LIBC.mount(kind.encode(), target.encode(), kind.encode(), flags, options.encode()), f"mount on {target}")


class Fence:
    """The fence around a worker. `holds` names what stands: "network", "files", "processes"."""

    def __init__(self):
        self.holds: set[str] = set()

    def leave(self) -> None:
        """Before torch starts a thread: own users, files and network."""
        user, group = os.getuid(), os.getgid()
        try:
            unshare(NEW_USER | NEW_FILES | NEW_NETWORK | NEW_IPC)
        except (OSError, AttributeError):
            return
        self.holds.add("network")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            try:
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
            except OSError:
                pass

    def close(self, hidden: list[str]) -> None:
        """When everything is loaded: hide folders with answers and make the rest read-only."""
        if "network" not in self.holds:
            return
        try:
            _done(LIBC.mount(None, b"/", None, PRIVATE | RECURSIVE, None), "private mounts")
            for folder in hidden:
                if os.path.isdir(folder):
                    mount("tmpfs", folder, "size=4k,mode=755")
            attributes = (ctypes.c_uint64 * 4)(READ_ONLY, 0, 0, 0)
            _done(LIBC.syscall(MOUNT_SETATTR, -100, b"/", 0x8000, attributes, ctypes.sizeof(attributes)), "read-only")
            self.holds.add("files")
        except OSError:
            pass

    def own_processes(self) -> None:
        """The next child sees no process but its own, and takes them along when it ends."""
        if "files" in self.holds:
            try:
                unshare(NEW_PROCESSES)
                self.holds.add("processes")
            except OSError:
                pass

    def seal(self, folder: str, memory: int, seconds: float) -> None:
        """In the child, before the answer is read: a folder to work in, limits, and no way back."""
        if "files" in self.holds:
            unshare(NEW_FILES)
            mount("tmpfs", folder, "size=64m,mode=700")
            if "processes" in self.holds:
                try:
                    mount("proc", "/proc", flags=READ_ONLY)
                except OSError:
                    mount("tmpfs", "/proc", "size=4k")
        os.chdir(folder)
        limits(memory, seconds)
        if sys.platform == "linux":
            LIBC.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
            if self.holds and os.uname().machine in CAPSET:
                LIBC.syscall(CAPSET[os.uname().machine], (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
            die_with_parent()
        if "network" not in self.holds:
            no_sockets()


def die_with_parent() -> None:
    """End this process when the one that started it ends."""
    if sys.platform == "linux":
        LIBC.prctl(DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def limits(memory: int, seconds: float) -> None:
    """Data on top of what torch takes, CPU time as a backstop, small files, no core dumps."""
    wanted = {"RLIMIT_DATA": data_size() + memory, "RLIMIT_CPU": int(seconds) + 5, "RLIMIT_FSIZE": 64 << 20, "RLIMIT_CORE": 0}
    if os.getuid():
        wanted["RLIMIT_NPROC"] = 512
    for name, value in wanted.items():
        try:
            resource.setrlimit(getattr(resource, name), (value, value))
        except (AttributeError, ValueError, OSError):
            pass


def data_size() -> int:
    """Bytes of data that this process has mapped already."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmData"))
    except (OSError, StopIteration):
        return 4 << 30


def no_sockets() -> None:
    """The guard where there is no network namespace: Python's own sockets do not open."""
    import socket

    def refuse(*_, **__):
        raise PermissionError("there is no network while answers are graded")

    socket.socket.connect = socket.socket.bind = refuse
    socket.create_connection = socket.getaddrinfo = refuse


class Blocked(MetaPathFinder, Loader):
    """`import flash41…` in an answer. What a notebook imports for show is there and does nothing; the rest raises."""

    FOR_SHOW = ("flash41", "flash41.course", "flash41.course.checks", "flash41.course.plots")

    def find_spec(self, name, path=None, target=None):
        if name in self.FOR_SHOW:
            return ModuleSpec(name, self, is_package=True)
        if name.split(".")[0] == "flash41":
            raise ImportError(f"{name} is not there while answers are graded: the answer has to be your own")
        return None

    def create_module(self, spec):
        module = ModuleType(spec.name)
        shown = spec.name.rsplit(".")[-1] in ("checks", "plots")

        def attribute(name):
            if shown and not name.startswith("__"):
                return lambda *_, **__: None
            raise AttributeError(f"{spec.name}.{name} is not there while answers are graded")

        module.__getattr__ = attribute
        return module

    def exec_module(self, module):
        pass
