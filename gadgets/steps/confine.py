"""Takes from a step's process what its module has no use for. The build puts this before runner.py.

Landlock(7) bounds what it may open, and whom it may signal or trace; seccomp(2) what it may ask of the kernel; both
hold for all that it starts. To be called while the process has one thread: threads that run already stay free.
"""

import ctypes
import os
import resource
import struct
import sys
import threading

# Rights of Landlock, by the version in which the kernel has had them first (linux/landlock.h).
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_FILE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 5
MAKE_CHAR, MAKE_REG, MAKE_BLOCK, TRUNCATE, IOCTL_DEV = 1 << 6, 1 << 8, 1 << 11, 1 << 14, 1 << 15
HANDLED = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF}
BIND_OR_CONNECT_TCP, SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 3, 3  # since versions 4 and 6
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READ = EXECUTE | READ_FILE | READ_DIR

# Not all of /etc: tokens may be there.
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/proc", "/sys") + tuple(
    f"/etc/{name}"
    for name in ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "passwd", "group", "nsswitch.conf",
                 "hosts", "host.conf", "resolv.conf", "gai.conf", "services", "protocols", "localtime", "timezone",
                 "mime.types", "fonts", "OpenCL", "alternatives", "magic", "locale.alias", "os-release",
                 "ssl/certs", "ssl/openssl.cnf", "ca-certificates", "pki/tls")
)  # fmt: skip
DEVICES = ("null", "zero", "full", "random", "urandom")

# Numbers of system calls on x86-64, by what a step gets for them.
REFUSED = (
    "101 310 311 312 438 440 "  # ptrace, process_vm_readv, _writev, kcmp, pidfd_getfd, process_madvise
    "155 161 165 166 272 308 428 429 430 431 432 433 442 467 179 443 "  # other roots, mounts, namespaces, quotas
    "246 320 169 167 168 163 175 176 313 172 173 154 "  # other kernels, swap, acct, modules, ports, segments
    "159 164 227 305 170 171 153 103 "  # clocks, names, terminals, the kernel's log
    "321 298 323 248 249 250 300 304 200"  # bpf, perf, userfaultfd, keys, fanotify, files by handle, tkill
)
UNKNOWN = "425 426 427 435 437"  # io_uring, which makes sockets; clone3 and openat2, whose flags lie in memory
PRETENDED = "90 91 92 93 94 260 268 452 132 235 261 280"  # chmod, chown, utime and the like, which Landlock leaves free
UNSUPPORTED = "188 189 197 198 463 466"  # attributes of files
EPERM, ENOSYS, ENOTSUP = 1, 38, 95
ALLOW, FAIL, KILL = 0x7FFF0000, 0x00050000, 0x80000000
LOAD, EQUAL, AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06  # of a filter


def made_filter(landlock, network, guarded):
    """The filter's instructions; `guarded`: the server and the process between, not to be signalled."""
    out = []

    def add(code, value, if_true=0, if_false=0):
        out.append(struct.pack("<HBBI", code, if_true, if_false, value & 0xFFFFFFFF))

    def refuse(numbers, error):
        for number in numbers.split():
            add(EQUAL, int(number), 0, 1)
            add(RETURN, FAIL | error)

    def look(numbers, argument, tests, mask=None):
        """Refuses a call by the lower half of one of its arguments."""
        for number in numbers.split():
            add(EQUAL, int(number), 0, 2 * len(tests) + 2 + (mask is not None))
            add(LOAD, 16 + 8 * argument)
            if mask is not None:
                add(AND, mask)
            for code, value in tests:
                add(code, value, 0, 1)
                add(RETURN, FAIL | EPERM)
            add(RETURN, ALLOW)

    add(LOAD, 4)
    add(EQUAL, 0xC000003E, 1, 0)  # x86-64
    add(RETURN, KILL)
    add(LOAD, 0)
    add(AT_LEAST, 0x40000000, 0, 1)  # calls of x32
    add(RETURN, FAIL | ENOSYS)
    refuse(REFUSED, EPERM)
    refuse(UNKNOWN, ENOSYS)
    refuse(PRETENDED, 0)
    refuse(UNSUPPORTED, ENOTSUP)
    look("56", 0, [(ANY_BIT, 0x7E020000)])  # clone into namespaces
    look("62 129 234 297 434", 0, [(EQUAL, each) for each in (-1, *guarded, -guarded[0])])  # signals
    look("302", 0, [(AT_LEAST, 1)])  # limits of other processes
    if landlock < 3:
        refuse("76", EPERM)  # truncate; and open() to read that does the same
        look("2", 1, [(EQUAL, os.O_TRUNC)], os.O_ACCMODE | os.O_TRUNC)
        look("257", 2, [(EQUAL, os.O_TRUNC)], os.O_ACCMODE | os.O_TRUNC)
    if not network:
        refuse("41", EPERM)  # socket
        look("53", 1, [(EQUAL, 2)], 15)  # socketpair of datagrams, which may go elsewhere
    add(RETURN, ALLOW)
    return b"".join(out)


def call(libc, what, number, *arguments):
    if libc.syscall(ctypes.c_long(number), *arguments) < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"a step's sandbox cannot be set up: {what}: {os.strerror(error)}")


def use_landlock(libc, version, network, readable, writable):
    handled = HANDLED[min(version, 5)]
    words = [handled, 0 if network else BIND_OR_CONNECT_TCP, SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS]
    words = words[: 1 + (version >= 4) + (version >= 6)]
    rules = libc.syscall(ctypes.c_long(444), struct.pack(f"<{len(words)}Q", *words), ctypes.c_size_t(8 * len(words)), 0)
    if rules < 0:
        raise OSError(ctypes.get_errno(), "a step's sandbox cannot be set up: landlock_create_ruleset")
    anything = handled & ~(MAKE_CHAR | MAKE_BLOCK)
    device = WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
    folders = [(each, READ) for each in (*SYSTEM, *readable)] + [(each, anything) for each in writable]
    folders += [(f"/dev/{name}", device) for name in DEVICES]
    if os.path.exists("/dev/nvidiactl"):
        folders += [(f"/dev/{name}", device | READ_DIR) for name in os.listdir("/dev") if name.startswith("nvidia")]
    # For locks and arrays of processes that work together; without a list, as other steps have theirs there.
    folders.append(("/dev/shm", READ_FILE | WRITE_FILE | MAKE_REG | REMOVE_FILE | TRUNCATE))
    for place, rights in folders:
        try:
            file = os.open(place, os.O_PATH | os.O_CLOEXEC)
        except OSError:  # there is none
            continue
        rights &= handled if os.path.isdir(place) else handled & OF_FILES
        call(libc, place, 445, rules, 1, struct.pack("<Qi", rights, file), 0)
        os.close(file)
    call(libc, "landlock_restrict_self", 446, rules, 0)
    os.close(rules)


def drop_capabilities(libc):
    for each in range(64):
        libc.prctl(24, each, 0, 0, 0)  # PR_CAPBSET_DROP
    call(libc, "capset", 126, struct.pack("<II", 0x20080522, 0), bytes(24))


def tasks_of_this_user():
    """Processes and threads that the kernel counts for RLIMIT_NPROC, as far as they are seen from here."""
    user, found = os.getuid(), 0
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/status") as file:
                fields = dict(line.split(":", 1) for line in file)
            if int(fields["Uid"].split()[0]) == user:
                found += int(fields["Threads"])
        except (OSError, KeyError, ValueError):  # no process
            continue
    return found


def limit_tasks(most):
    """A bound for what multiplies faster than it is watched. Root has none."""
    if os.getuid() == 0:
        return
    before = resource.getrlimit(resource.RLIMIT_NPROC)
    bound = tasks_of_this_user() + 8 * most
    if before[1] != resource.RLIM_INFINITY and before[1] <= bound:
        return
    resource.setrlimit(resource.RLIMIT_NPROC, (bound, before[1]))
    try:
        trial = threading.Thread(target=int)
        trial.start()
        trial.join()
    except RuntimeError:  # this user has more processes, in other containers
        resource.setrlimit(resource.RLIMIT_NPROC, before)
        return
    resource.setrlimit(resource.RLIMIT_NPROC, (bound, bound))


def confine(box, guarded):
    """`box`: what the server wants (step_box.cc); `guarded`: the server and the process between, not to be signalled."""
    limit_tasks(box["tasks"])
    bytes_of_file = box["file_mib"] << 20
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    if most == resource.RLIM_INFINITY or most > bytes_of_file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_of_file, bytes_of_file))
    if "folder" not in box:
        return
    folder = box["folder"]
    os.environ.update(HOME=folder, TMPDIR=folder)
    os.chdir(folder)
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0:
        drop_capabilities(libc)
    if libc.prctl(38, 1, 0, 0, 0) != 0:  # PR_SET_NO_NEW_PRIVS
        raise OSError("a step's sandbox cannot be set up: PR_SET_NO_NEW_PRIVS")
    if box["landlock"] > 0:
        libraries = [each for each in os.environ.get("LD_LIBRARY_PATH", "").split(":") if each]
        folders = [each for each in box["read"] if os.path.isdir(each)]
        linked = [entry.path for each in folders for entry in os.scandir(each) if entry.is_symlink()]
        readable = {sys.prefix, sys.exec_prefix, sys.base_prefix, *filter(None, sys.path), *libraries, *box["read"], *linked}
        use_landlock(libc, box["landlock"], box["network"], readable - {"/"}, [folder, *box["write"]])
    if box["seccomp"]:
        program = made_filter(box["landlock"], box["network"], guarded)
        held = ctypes.create_string_buffer(program, len(program))
        call(libc, "seccomp", 317, 1, 0, struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(held)))


def hint(error, box):
    """A line about what a step may do, if that is what has ended it."""
    if "folder" not in box:
        return None
    while error is not None and not (isinstance(error, OSError) and error.errno in (1, 13)):
        error = error.__cause__ or error.__context__
    if error is None:
        return None
    network = "" if box["network"] else ", and has no network"
    return (f"a step reads Python's folders and its own, writes to its temporary folder{network} "
            "(options python_read, python_write, python_network)")  # fmt: skip


def tasks_below(process):
    """The number of processes and threads that come from `process`."""
    found, waiting = 0, [process]
    while waiting:
        each = waiting.pop()
        try:
            threads = os.listdir(f"/proc/{each}/task")
        except OSError:
            continue
        found += len(threads) if each != process else 0
        for thread in threads:
            try:
                with open(f"/proc/{each}/task/{thread}/children") as file:
                    waiting += [int(child) for child in file.read().split()]
            except OSError:
                continue
    return found
