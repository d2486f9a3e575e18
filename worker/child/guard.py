"""Stands between a worker and its child, and lets nothing of the child outlive either of them.

``guard.py PARENT_PID CONTAINMENT TASKS [hide=PATH | keep=PATH | gives_way] ... -- COMMAND ...``.
Run as a file, so that it needs no package on the path; it sleeps in the kernel while the child
measures. It imports little: one stands before each command of git, which takes a millisecond.

``process_group``: the guard is a subreaper, so whatever the child starts stays below it, in other
sessions too. When the child ends, or the worker dies, it kills all of that.

``pid_namespace``: the guard starts a first process of a new PID namespace, and that one the child.
The kernel kills the whole namespace with its first process, which dies with the guard, which dies
with the worker; nothing in there can prevent it. What is to be hidden, such as the token of the
worker, is not there for the child; what is to be kept is, also below what is hidden.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from typing import NoReturn

CANNOT_START = 127
"""As a shell says it."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REC, MS_SLAVE = 0x2, 0x4, 0x8, 0x4000, 0x80000
MS_BIND = 0x1000
PR_CAPBSET_READ, PR_CAPBSET_DROP = 23, 24
CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 10, 14, 23, 24})
"""Those that root keeps in a namespace: of files, users and signals, to bind small ports, to lock
memory, to set priorities and limits. With others (CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_NET_RAW ...)
it would take a mount away or listen to the worker's requests. Other users have none anyway."""
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
AWAITED = frozenset({signal.SIGCHLD, signal.SIGIO, *FORWARDED})
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
FIRST_TO_DIE = 1000
"""A child's oom_score_adj: when memory is short, the kernel ends it and not its worker."""
STUCK_S = 5.0
"""A process that lives so long after SIGKILL waits inside a driver; the worker reports it."""
FEWEST_TASKS = 301
"""The kernel accepts no smaller pid_max."""
PID_MAX_IS_PRIVATE = (6, 14)
"""The first Linux with a pid_max for each namespace; older ones have one for the machine."""

GIVES_WAY, LAST_IN_LINE = "gives_way", 19
"""The word that asks for the niceness with which builds run beside a measurement."""

libc = ctypes.CDLL(None, use_errno=True)


def main() -> NoReturn:
    """Run the command under guard, then end as it ended."""
    parent, containment, tasks, *rest = sys.argv[1:]
    places, command = rest[: rest.index("--")], rest[rest.index("--") + 1 :]
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    try:
        if GIVES_WAY in places:
            os.setpriority(os.PRIO_PROCESS, 0, LAST_IN_LINE)
        if containment == "pid_namespace":
            status = in_namespace(int(parent), int(tasks), places, command)
        else:
            status = in_group(int(parent), command)
    except OSError as error:
        refuse(f"Cannot contain {command[0]} in a {containment}: {error}.")
    end_as(status)


def in_group(parent: int, command: list[str]) -> int:
    """Run the command with this process as the heir of all orphans; returns its wait status."""
    check(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    check(libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0))
    me = os.getpid()
    child = os.fork()
    if child == 0:
        become(command, me)
    status = await_child(child, parent)
    end_descendants()
    return status


def in_namespace(parent: int, tasks: int, places: list[str], command: list[str]) -> int:
    """Run the command in a PID namespace of its own; returns its wait status."""
    unshare_pids()
    check(libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0))
    if os.getppid() != parent:  # it went before the kernel was asked
        sys.exit(1)
    import socket  # noqa: PLC0415 - a group needs none

    mine, theirs = socket.socketpair()
    fcntl.fcntl(mine, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(mine, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    first = os.fork()
    if first == 0:
        mine.close()
        be_first(theirs, tasks, places, command)
    theirs.close()
    return await_namespace(first, mine)


def unshare_pids() -> None:
    """Give this process's next child a new PID namespace; without privilege in a user namespace.

    The user namespace maps this user to itself and nobody else: files keep their owner.
    """
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(CLONE_NEWPID) == 0:
        return
    check(libc.unshare(CLONE_NEWUSER | CLONE_NEWPID))
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{user} {user} 1")
    write("/proc/self/gid_map", f"{group} {group} 1")


def be_first(guard: socket.socket, tasks: int, places: list[str], command: list[str]) -> NoReturn:
    """Be the namespace's first process: run the command, tell the guard how it ended, and end.

    Ending is what kills all others of the namespace.
    """
    try:
        check(libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0))
        with suppress(BlockingIOError):
            guard.settimeout(0)
            if not guard.recv(1):  # the guard went before the kernel was asked
                os._exit(1)
        os.setsid()
        mount_proc()
        hide(named(places, "hide="), named(places, "keep="))
        limit_tasks(tasks)
        limit_capabilities()
        me = os.getpid()
        child = os.fork()
        if child == 0:
            become(command, me)
        status = await_child(child, os.getppid())
        guard.sendall(status.to_bytes(4, "little"))
    except OSError as error:
        refuse(f"Cannot set a PID namespace up: {error}.")
    os._exit(0)


def mount_proc() -> None:
    """Let /proc show this namespace: Python, PyTorch and NVML look themselves up there."""
    check(libc.unshare(CLONE_NEWNS))
    # Elsewhere neither the new /proc nor what is hidden may show. In a chroot / is no mount point:
    # there each mount below it is kept apart by itself.
    if libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None) != 0:
        for point in mount_points():
            check(libc.mount(b"none", point, None, MS_SLAVE, None))
    check(libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None))


def mount_points() -> list[bytes]:
    """Return the paths of all mounts, as this process reaches them."""
    lines = read("/proc/self/mountinfo").splitlines()
    # The fifth field; the kernel writes blanks and backslashes as three octal digits.
    return [line.split()[4].decode("unicode_escape").encode("latin-1") for line in lines]


def named(places: list[str], role: str) -> list[str]:
    """The places of a role, as they are reached without links."""
    return [os.path.realpath(place[len(role) :]) for place in places if place.startswith(role)]


def hide(hidden: list[str], kept: list[str]) -> None:
    """Hide the files and folders ``hidden``, except for the folders ``kept`` within them.

    A whole folder is covered by a mount: a file that is written anew would lose a mount of its own.
    """
    here = ""
    with suppress(FileNotFoundError):
        here = os.getcwd()  # noqa: PTH109
    for place in filter(os.path.exists, hidden):
        if not os.path.isdir(place):  # noqa: PTH112
            check(libc.mount(b"/dev/null", os.fsencode(place), None, MS_BIND, None))
            continue
        inside = [one for one in kept if one.startswith(f"{place}/") and os.path.isdir(one)]  # noqa: PTH112
        cover(place, {one: os.open(one, os.O_PATH | os.O_DIRECTORY) for one in inside})
    os.chdir("/")  # whoever stands in a folder still sees what is under a mount
    with suppress(OSError):
        os.chdir(here)


def cover(place: str, kept: dict[str, int]) -> None:
    """Mount an empty folder in memory over ``place``; the open folders ``kept`` stay visible in it.

    It has some room, because it may cover a container's home.
    """
    flags, room = MS_NOSUID | MS_NODEV, b"mode=0700,size=16m,nr_inodes=4096"
    check(libc.mount(b"tmpfs", os.fsencode(place), b"tmpfs", flags, room))
    for path, handle in kept.items():
        os.makedirs(path, exist_ok=True)  # noqa: PTH103
        source = f"/proc/self/fd/{handle}".encode()
        check(libc.mount(source, os.fsencode(path), None, MS_BIND | MS_REC, None))
        os.close(handle)


def limit_capabilities() -> None:
    """Drop root's capabilities that measuring does not need, as far as this process may."""
    for number in range(64):
        held = libc.prctl(PR_CAPBSET_READ, number, 0, 0, 0) == 1
        if held and number not in CAPABILITIES:
            with suppress(PermissionError):
                check(libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0))


def limit_tasks(tasks: int) -> None:
    """Have the kernel refuse further processes and threads, where the limit is the namespace's."""
    release = os.uname().release.split(".")
    if (int(release[0]), int(release[1])) < PID_MAX_IS_PRIVATE:
        return
    with suppress(OSError):
        limit = str(max(tasks, FEWEST_TASKS))
        write("/proc/sys/kernel/pid_max", limit)


def become(command: list[str], parent: int) -> NoReturn:
    """Turn this process into the command, in a session of its own."""
    try:
        check(libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0))
        if os.getppid() != parent:
            os._exit(1)
        os.setsid()
        keep_niceness()
        write("/proc/self/oom_score_adj", str(FIRST_TO_DIE))
        for number in IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, AWAITED)
        os.execvp(command[0], command)  # noqa: S606 - no shell is the point
    except OSError as error:
        refuse(f"Cannot start {command[0]}: {error.strerror}.")


def keep_niceness() -> None:
    """Let this process's niceness count beside other sessions too: Linux may group by session."""
    if (niceness := os.getpriority(os.PRIO_PROCESS, 0)) > 0:
        with suppress(OSError):
            write("/proc/self/autogroup", str(niceness))


def await_child(child: int, parent: int) -> int:
    """Wait for the child's end, collect orphans, pass signals on; returns its wait status.

    If the parent goes, so does the child.
    """
    if os.getppid() != parent:
        os.kill(child, signal.SIGKILL)
    while True:
        number = signal.sigwaitinfo(AWAITED).si_signo
        if os.getppid() != parent:
            os.kill(child, signal.SIGKILL)
        elif number in FORWARDED:
            send(child, number)
        for pid, status in ended():
            if pid == child:
                return status


def await_namespace(first: int, status_socket: socket.socket) -> int:
    """Wait for the namespace's first process and pass signals on; returns the child's wait status.

    The first process ends only after all others, and one of them may be stuck in a driver. So the
    child's status comes through a socket, whose data raise SIGIO.
    """
    while True:
        number = signal.sigwaitinfo(AWAITED).si_signo
        if number in FORWARDED:
            os.kill(first, number)
        gone = dict(ended())
        status = b""
        with suppress(BlockingIOError):
            status = status_socket.recv(4)
        if status:
            give_up_at = time.monotonic() + STUCK_S
            while first not in gone and time.monotonic() < give_up_at:
                signal.sigtimedwait({signal.SIGCHLD}, 0.1)
                gone = dict(ended())
            return int.from_bytes(status, "little")
        if first in gone:  # it was killed, and with it the child
            return gone[first]


def ended() -> Iterator[tuple[int, int]]:
    """Collect the children that have ended: their ids and wait statuses."""
    with suppress(ChildProcessError):
        while (child := os.waitpid(-1, os.WNOHANG))[0]:
            yield child


def end_descendants() -> None:
    """Kill all descendants of this process, which inherits orphans."""
    give_up_at = time.monotonic() + STUCK_S
    while time.monotonic() < give_up_at:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:  # no child, so no descendant either
            return
        for pid in descendants():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def descendants() -> set[int]:
    """Everything that descends from this process."""
    parents = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        with suppress(OSError):
            if name.isdecimal():
                raw = read(f"/proc/{name}/stat")
                # The command name stands in brackets and may itself hold spaces and brackets.
                parents[int(name)] = int(raw[raw.rindex(b")") + 2 :].split()[1])
    family = {os.getpid()}
    while born := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= born
    return family - {os.getpid()}


def send(child: int, number: int) -> None:
    """Signal the child and its group; just forked, it may not lead one yet."""
    try:
        os.killpg(child, number)
    except ProcessLookupError:
        with suppress(ProcessLookupError):
            os.kill(child, number)


def end_as(status: int) -> NoReturn:
    """End this process with the child's exit code, or by the signal that ended the child."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the child has left its own
        with suppress(OSError):
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        os.kill(os.getpid(), -code)
    os._exit(code)


def refuse(sentence: str) -> NoReturn:
    """End because the command could not be started."""
    os.write(2, sentence.encode() + b"\n")
    os._exit(CANNOT_START)


def read(path: str) -> bytes:
    """Return the content of a file of the kernel."""
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read()


def write(path: str, text: str) -> None:
    """Write to a file of the kernel."""
    with open(path, "w", encoding="ascii") as file:  # noqa: PTH123
        file.write(text)


def check(answer: int) -> None:
    """Turn a failed system call into an exception.

    Raises:
        OSError: ``answer`` says that it failed.
    """
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


if __name__ == "__main__":
    main()
