"""Runs one function of a user's module, process(connection, config, header), for one scan (docs/python-steps.md).

The server starts this in a process of its own, with MRD messages in both directions on descriptor 3:

    python runner.py FOLDER MODULE FILE FUNCTION [TAKES GIVES]

with itself as descriptor 4, and as descriptor 5 a socket that brings a byte when the process has its limits, and ends
when it is to end. What the module may do is in a variable (confine.py). When the module is loaded, descriptor 3 brings
the config; of arrays, which TAKES and GIVES name, with descriptors of their memory and of a library for NumPy, for the
package echotrain (clients/python/echotrain/steps). That process starts a second one, which runs the module, and ends it
with all that it has started.

A process that waits for a scan (ECHOTRAIN_STEP_WARM) writes to descriptor 5 which files of FOLDER it has loaded.
"""

import ctypes
import importlib
import importlib.util
import json
import logging
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
import types

CONFIG_FILE, CONFIG_TEXT, HEADER, CLOSE, TEXT, ACQUISITION, IMAGE, WAVEFORM = 1, 2, 3, 4, 5, 1008, 1022, 1026
ACQUISITION_HEAD, IMAGE_HEAD, WAVEFORM_HEAD = 340, 198, 40
INT32 = 4  # the only pixel type whose numpy type ismrmrd has wrong: 'int' has 8 bytes
PIXELS = {1: "<u2", 2: "<i2", 3: "<u4", INT32: "<i4", 5: "<f4", 6: "<f8", 7: "<c8", 8: "<c16"}
LIFELINE = 5  # descriptor
END_S = 1  # for a module's processes to be gone after SIGKILL
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
WATCH_MS = 100  # between counts of a module's processes
FLUSH_BYTES = 1 << 16
FLUSH_S = 0.005  # results wait no longer for others, when more is sent


def descendants():
    """All processes that come from this one. Those whose parents have ended are among them, as this one adopts them."""
    children = {}
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):  # no process, or one that has just ended
            continue
        if name.isdigit():
            children.setdefault(parent, []).append(int(name))
    found = [os.getpid()]
    for each in found:
        found += children.get(each, [])
    return found[1:]


def end_all():
    """Kills what comes from this process, in whatever group and session; again for what was started meanwhile."""
    until = time.monotonic() + END_S
    while time.monotonic() < until:
        for each in descendants():
            try:
                os.kill(each, signal.SIGKILL)
            except OSError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:  # there are no more
            return
        time.sleep(0.002)


def wait_for(worker, lifeline, box):
    """How the worker has ended; None when the lifeline has ended before, or when it has started too many. Others that
    end meanwhile are reaped."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    poll.register(woken, select.POLLIN)
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == worker:
            return status
        if ended == 0:
            ready = [each for each, _ in poll.poll(WATCH_MS)]
            if lifeline in ready:
                return None
            if woken in ready:
                os.read(woken, 4096)
            if tasks_below(os.getpid()) > box["tasks"]:
                print(f"it runs more than {box['tasks']} processes and threads (python_tasks)", file=sys.stderr, flush=True)
                return None


def supervise(lifeline, box):
    """Returns in a process of its own, which is to run the module, and may do no more than that. This one waits for its
    end, or for that of the lifeline, then ends all that the module has started, and ends as the module did."""
    if not os.read(lifeline, 1):
        os._exit(1)
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # what makes a session of its own, and loses its parent, becomes ours
    ignored = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for each in ignored:  # which a module may send to its process group
        signal.signal(each, signal.SIG_IGN)
    parent, server = os.getpid(), os.getppid()
    worker = os.fork()
    if worker == 0:
        for each in ignored:
            signal.signal(each, signal.default_int_handler if each == signal.SIGINT else signal.SIG_DFL)
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it ended before it could be asked for
            os._exit(1)
        confine(box, (server, parent))
        return
    os.closerange(0, 2)
    os.closerange(3, lifeline)
    status = wait_for(worker, lifeline, box)
    end_all()
    remove(box)
    if status is None:
        os.killpg(0, signal.SIGKILL)  # what has multiplied faster than it could be ended
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) != signal.SIGKILL:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def remove(box):
    """Removes the module's temporary folder; the server may have ended, and does not."""
    if "folder" in box:
        try:
            os.rmdir(box["folder"])
        except OSError:
            import shutil

            shutil.rmtree(box["folder"], ignore_errors=True)


def make_constants():
    """The module `constants`, by the names that modules for FIRE use, for modules that bring none of their own."""
    made = types.ModuleType("constants", "Message numbers and logging levels.")
    made.MRD_MESSAGE_CONFIG_FILE, made.MRD_MESSAGE_CONFIG_TEXT = CONFIG_FILE, CONFIG_TEXT
    made.MRD_MESSAGE_METADATA_XML_TEXT, made.MRD_MESSAGE_CLOSE, made.MRD_MESSAGE_TEXT = HEADER, CLOSE, TEXT
    made.MRD_MESSAGE_ISMRMRD_ACQUISITION, made.MRD_MESSAGE_ISMRMRD_IMAGE = ACQUISITION, IMAGE
    made.MRD_MESSAGE_ISMRMRD_WAVEFORM = WAVEFORM
    for level in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"):
        setattr(made, f"MRD_LOGGING_{level}", f"{level:8}")
    return made


class Connection:
    """What a module sees of the scan: iterate over it for readouts, images and waveforms, until the scan has ended."""

    def __init__(self, stream):
        import ismrmrd
        import numpy

        self._mrd, self._np = ismrmrd, numpy
        self._stream = stream
        self._room = memoryview(bytearray(1 << 20))
        self._begin = self._end = 0  # of what has come and was not taken
        self._out = bytearray()
        self._flushed = time.monotonic()
        self._closed = False
        self._header = None
        self._receiving, self._sending = threading.Lock(), threading.RLock()
        self.is_exhausted = False
        self.header_xml = ""

    # --- for modules ------------------------------------------------------------------------------------------------

    @property
    def header(self):
        """The measurement's header (ismrmrd.xsd.ismrmrdHeader), or its text where that is no header."""
        if self._header is None:
            try:
                self._header = self._mrd.xsd.CreateFromDocument(self.header_xml)
            except Exception:  # whatever its XML parser throws; FIRE gives modules the text then
                self._header = self.header_xml
        return self._header

    def __iter__(self):
        while (item := self.next()) is not None:
            yield item

    def __next__(self):
        return self.next()

    def next(self):
        """The next ismrmrd.Acquisition, Image or Waveform; None when the scan has ended."""
        with self._receiving:
            while not self.is_exhausted:
                (number,) = struct.unpack("<H", self._take(2))
                if number == CLOSE:
                    self.is_exhausted = True
                elif number == HEADER:
                    self.header_xml = self._take_text()
                elif number == ACQUISITION:
                    return self._acquisition()
                elif number == IMAGE:
                    return self._image()
                elif number == WAVEFORM:
                    return self._waveform()
                else:
                    raise RuntimeError(f"message {number} has come, which no step gets")
        return None

    def send(self, item):
        """Sends an acquisition, an image, a waveform, or a list of these."""
        if isinstance(item, (list, tuple)):
            for each in item:
                self.send(each)
        elif isinstance(item, self._mrd.Acquisition):
            self.send_acquisition(item)
        elif isinstance(item, self._mrd.Waveform):
            self.send_waveform(item)
        else:
            self.send_image(item)

    def send_acquisition(self, acquisition):
        with self._sending:
            self._write(struct.pack("<H", ACQUISITION))
            acquisition.serialize_into(self._write)
            self._flush_if_due()

    def send_image(self, images):
        """Sends an image or a list of images; None among them is left out."""
        for image in images if isinstance(images, (list, tuple)) else [images]:
            if image is None:
                continue
            parts = []
            image.serialize_into(parts.append)
            if image.data_type == INT32 and image.data.dtype.itemsize != 4:
                parts[-1] = image.data.astype("<i4").tobytes()
            with self._sending:
                self._write(struct.pack("<H", IMAGE))
                for part in parts:
                    self._write(part)
                self.flush()

    def send_waveform(self, waveform):
        with self._sending:
            self._write(struct.pack("<H", WAVEFORM))
            waveform.serialize_into(self._write)
            self._flush_if_due()

    def send_text(self, contents):
        text = str(contents).encode() + b"\0"
        with self._sending:
            self._write(struct.pack("<HI", TEXT, len(text)) + text)
            self.flush()

    def send_logging(self, level, contents):
        """A line for the client and the server's log; `level` is one of constants.MRD_LOGGING_..."""
        self.send_text(f"{level} {contents}")

    def send_close(self):
        """Nothing more will be sent. Done after the function returns, too."""
        with self._sending:
            if not self._closed:
                self._write(struct.pack("<H", CLOSE))
                self.flush()
                self._closed = True

    def shutdown_close(self):
        """For modules that end by this; the server closes the connection itself."""
        self.send_close()

    def flush(self):
        """Sends what waits for more."""
        with self._sending:
            if self._out:
                self._stream.sendall(self._out)
                self._out = bytearray()
            self._flushed = time.monotonic()

    # --- bytes ------------------------------------------------------------------------------------------------------

    def _write(self, data):
        if self._closed:
            raise RuntimeError("nothing can be sent after send_close()")
        view = memoryview(data).cast("B")
        if view.nbytes >= FLUSH_BYTES:
            self.flush()
            self._stream.sendall(view)
        else:
            self._out += view

    def _flush_if_due(self):
        if len(self._out) >= FLUSH_BYTES or time.monotonic() - self._flushed > FLUSH_S:
            self.flush()

    def _receive(self, view):
        n = self._stream.recv_into(view)
        if n == 0:
            os._exit(1)  # the scan has broken off, and nobody waits for results
        return n

    def _take(self, n):
        """The next n bytes, at most FLUSH_BYTES, until the next call."""
        while self._end - self._begin < n:
            if self._begin + n > len(self._room):
                rest = self._end - self._begin
                self._room[:rest] = bytes(self._room[self._begin : self._end])
                self._begin, self._end = 0, rest
            if self._out:
                self.flush()
            self._end += self._receive(self._room[self._end :])
        begin, self._begin = self._begin, self._begin + n
        view = self._room[begin : begin + n]
        if self._begin == self._end:
            self._begin = self._end = 0
        return view

    def _take_into(self, view):
        """Fills `view` with the next bytes; large ones are not copied twice."""
        n = min(len(view), self._end - self._begin)
        view[:n] = self._room[self._begin : self._begin + n]
        self._begin += n
        if self._begin == self._end:
            self._begin = self._end = 0
        while n < len(view):
            if self._out:
                self.flush()
            n += self._receive(view[n:])

    def _take_bytes(self, n):
        data = bytearray(n)
        self._take_into(memoryview(data))
        return data

    def _take_text(self):
        (n,) = struct.unpack("<I", self._take(4))
        return self._take_bytes(n).split(b"\0", 1)[0].decode()

    def _take_array(self, shape, kind):
        array = self._np.empty(shape, kind)
        if array.size:
            self._take_into(memoryview(array.reshape(-1).view(self._np.uint8)))
        return array

    def _acquisition(self):
        head = self._mrd.AcquisitionHeader.from_buffer_copy(self._take(ACQUISITION_HEAD))
        samples = head.number_of_samples
        trajectory = self._take_array((samples, head.trajectory_dimensions), self._np.float32)
        data = self._take_array((head.active_channels, samples), self._np.complex64)
        return self._mrd.Acquisition(head, data=data, trajectory=trajectory)

    def _image(self):
        head = self._mrd.ImageHeader.from_buffer_copy(self._take(IMAGE_HEAD))
        (n,) = struct.unpack("<Q", self._take(8))
        attributes = self._take_bytes(n).rstrip(b"\0").decode()
        x, y, z = head.matrix_size
        pixels = self._take_array((head.channels, z, y, x), PIXELS[head.data_type])
        kind = head.data_type
        image = self._mrd.Image(head, attributes or None, **({} if kind == INT32 else {"data": pixels}))
        if kind == INT32:
            image.data[:] = pixels
        return image

    def _waveform(self):
        head = self._mrd.WaveformHeader.from_buffer_copy(self._take(WAVEFORM_HEAD))
        waveform = self._mrd.Waveform(head)
        waveform.data[:] = self._take_array((head.channels, head.number_of_samples), self._np.uint32)
        return waveform


def parse_config(text):
    """A JSON object as a dict, which is how FIRE gives modules their parameters; any other text as it is."""
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            pass
    return text


def load(module, file):
    """The module of that file, which the server has looked at, whatever else has its name."""
    package = [os.path.dirname(file)] if os.path.basename(file) == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(module, file, submodule_search_locations=package)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def tell_files(lifeline, folder):
    """Writes path, time of change and size of each file that modules of the folder were loaded from."""
    text = ""
    for each in list(sys.modules.values()):
        file = getattr(each, "__file__", None)
        if isinstance(file, str) and file.startswith(os.path.join(folder, "")):
            found = os.stat(file)
            text += f"{file}\0{found.st_mtime_ns}\0{found.st_size}\0"
    view = memoryview(os.fsencode(text) + b"\1")
    while view:
        view = view[os.write(lifeline, view) :]


def receive_start(stream):
    """The config and the descriptors of one scan."""
    head, with_it, _, _ = stream.recvmsg(4, socket.CMSG_SPACE(3 * 4))
    if not head:
        os._exit(0)  # nobody has wanted this process
    files = [number for _, _, what in with_it for (number,) in struct.iter_unpack("i", what)]
    for each in files:
        os.set_inheritable(each, False)
    (n,) = struct.unpack("<I", head)
    config = b""
    while len(config) < n:
        piece = stream.recv(n - len(config))
        if not piece:
            os._exit(1)
        config += piece
    return parse_config(config.decode()), files


def run(stream, folder, module, file, function, arrays, warm):
    sys.argv = [module]
    sys.path.insert(0, folder)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    stream.set_inheritable(False)
    os.set_inheritable(4, False)
    os.set_inheritable(LIFELINE, False)
    if not warm:
        os.close(LIFELINE)
    connection = None
    if not arrays:
        try:
            connection = Connection(stream)
        except ImportError as error:
            print(f"{sys.executable} lacks what every module needs (pip install ismrmrd): {error}", file=sys.stderr)
            return 1
        if importlib.util.find_spec("constants") is None:
            sys.modules["constants"] = make_constants()
    elif importlib.util.find_spec("echotrain") is None:
        print(f"{sys.executable} lacks the package echotrain, which steps of arrays need (pip install ./clients/python)",
              file=sys.stderr)  # fmt: skip
        return 1
    process = getattr(load(module, file), function, None)
    if not callable(process):
        print(f"module '{module}' has no function '{function}'", file=sys.stderr)
        return 1
    if arrays:
        from echotrain.steps.serve import serve
    if warm:
        tell_files(LIFELINE, folder)
        os.close(LIFELINE)
    config, files = receive_start(stream)
    if arrays:
        serve(stream, files, process, *arrays, config)
        return 0
    (number,) = struct.unpack("<H", connection._take(2))
    if number != HEADER:
        raise RuntimeError(f"message {number} has come in place of the header")
    connection.header_xml = connection._take_text()
    process(connection, config, connection.header)
    connection.send_close()
    return 0


def main():
    folder, module, file, function, *arrays = sys.argv[1:]
    warm = os.environ.pop("ECHOTRAIN_STEP_WARM", None) is not None
    box = json.loads(os.environ.pop("ECHOTRAIN_STEP_BOX"))
    supervise(LIFELINE, box)
    code = 1
    stream = socket.socket(fileno=3)
    try:
        code = run(stream, folder, module, file, function, arrays, warm)
    except SystemExit as end:
        if not isinstance(end.code, (int, type(None))):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException as error:
        inner = error.__traceback__.tb_next.tb_next if error.__traceback__.tb_next else None
        if line := hint(error, box):
            print(line, file=sys.stderr)
        traceback.print_exception(type(error), error, inner)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of the module do not keep the scan waiting


if __name__ == "__main__":
    main()
