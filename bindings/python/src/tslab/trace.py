"""Reads a recording of `tslab record` (docs/trace-format.md).

    import tslab.trace
    trace = tslab.trace.open("program.trace")
    for event in trace.events():                # in the order of time, with the number of each object
        ...
    columns = trace.columns()                   # all events; NumPy arrays where NumPy is installed
    objects = trace.objects()                   # one row for each object: born, died, size, stacks

A trace that is cut off or damaged is read up to the damage, and `trace.damage` says where that is. This file needs
nothing else of the package. zstd: Python 3.14, the package zstandard, or the library libzstd.
"""
# mypy: ignore-errors
import builtins
import collections
import heapq
import struct
import zlib

try:
    import numpy
except ImportError:
    numpy = None

MAGIC, VERSION, HEAD = 0x54534C54, 1, struct.Struct("<IBBBBIIIIIIQII")
ABOUT, EVENTS, STACKS, TEXTS, MODULES, PROCESSES, SYMBOLS, END = range(1, 9)
(ALLOC, ALIGNED, SCOPED, FREE, OUT, IN) = range(1, 7)
(PROCESS_START, PROCESS_END, THREAD_START, THREAD_NAME, THREAD_END, SCOPE_CREATE, SCOPE_ENTER, SCOPE_LEAVE,
 SCOPE_RESET, SCOPE_CLOSE, SCOPE_END, WINDOW, LOST) = range(16, 29)
NAMES = {ALLOC: "alloc", ALIGNED: "alloc", SCOPED: "alloc", FREE: "free", OUT: "out", IN: "realloc",
         PROCESS_START: "process start", PROCESS_END: "process end", THREAD_START: "thread start",
         THREAD_NAME: "thread name", THREAD_END: "thread end", SCOPE_CREATE: "scope create",
         SCOPE_ENTER: "scope enter", SCOPE_LEAVE: "scope leave", SCOPE_RESET: "scope reset",
         SCOPE_CLOSE: "scope close", SCOPE_END: "scope end", WINDOW: "window", LOST: "lost"}
BIRTHS, DEATHS = (ALLOC, ALIGNED, SCOPED, IN), (FREE, OUT)
WITH_STACK = BIRTHS + (FREE, SCOPE_CREATE, SCOPE_ENTER)
WITH_ALIGN = (ALIGNED, SCOPED)
WITH_A = (SCOPED,) + tuple(k for k in range(PROCESS_START, WINDOW) if k != THREAD_NAME)
WITH_B = (PROCESS_START, THREAD_NAME, SCOPE_CREATE, WINDOW, LOST)
MOST_EVENTS, MOST_BYTES = 32768, 16 << 20

Module = collections.namedtuple("Module", "image start end offset base build_id path")
Process = collections.namedtuple("Process", "number parent image pid command")
Block = collections.namedtuple("Block", "offset thread process count first_ns last_ns stored plain codec crc")
Event = collections.namedtuple("Event", "time_ns kind process thread address size align stack scope text object "
                                        "born_ns birth_stack moved_from")
COLUMNS = ("time_ns", "kind", "address", "size", "align", "stack", "scope", "process", "thread")


class Unreadable(Exception):
    """It is no trace."""


class Damaged(Exception):
    """A block is not whole."""


# ---- compression ------------------------------------------------------------------------------------------------

def _find_expander():
    try:
        from compression import zstd
        return lambda data, plain: zstd.decompress(data)
    except ImportError:
        pass
    try:
        import zstandard
        return lambda data, plain: zstandard.ZstdDecompressor().decompress(data, max_output_size=plain)
    except ImportError:
        pass
    import ctypes
    try:
        library = ctypes.CDLL("libzstd.so.1")
    except OSError:
        return None
    library.ZSTD_decompress.restype = ctypes.c_size_t

    def expand(data, plain):
        out = ctypes.create_string_buffer(max(plain, 1))
        n = library.ZSTD_decompress(out, ctypes.c_size_t(plain), data, ctypes.c_size_t(len(data)))
        if n != plain:
            raise ValueError("zstd")
        return out.raw[:plain]
    return expand


_expander = []


def _expand(data, plain):
    if not _expander:
        _expander.append(_find_expander())
    if _expander[0] is None:
        raise Unreadable("it is compressed: install libzstd, or the package zstandard")
    try:
        out = _expander[0](data, plain)
    except Unreadable:
        raise
    except Exception:
        raise Damaged("a block is damaged (zstd)") from None
    if len(out) != plain:
        raise Damaged("a block is damaged (zstd)")
    return out


# ---- columns ----------------------------------------------------------------------------------------------------

class _Planes:
    """Reads columns one behind the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        if self.at >= len(self.data):
            raise Damaged("a block is damaged")
        self.at += 1
        return self.data[self.at - 1]

    def column(self, count):
        width = self.byte()
        if width > 8 or len(self.data) - self.at < width * count:
            raise Damaged("a block is damaged")
        first, self.at = self.at, self.at + width * count
        if numpy is not None:
            out = numpy.zeros((count, 8), numpy.uint8)
            planes = numpy.frombuffer(self.data, numpy.uint8, width * count, first).reshape(width, count)
            out[:, :width] = planes.T
            return out.view("<u8").reshape(count)
        planes = [self.data[first + k * count:first + (k + 1) * count] for k in range(width)]
        return [sum(plane[i] << 8 * k for k, plane in enumerate(planes)) for i in range(count)]


def _running_sum(values):
    """What was written as differences."""
    if numpy is not None:
        half = (values >> numpy.uint64(1)) ^ (numpy.uint64(0) - (values & numpy.uint64(1)))
        return numpy.cumsum(half, dtype=numpy.uint64)
    out, value = [], 0
    for v in values:
        value = (value + ((v >> 1) ^ -(v & 1))) & (1 << 64) - 1
        out.append(value)
    return out


def _is_in(kinds, of):
    if numpy is not None:
        return _table(of)[kinds]
    return [k in of for k in kinds]


def _table(of):
    table = numpy.zeros(256, bool)
    table[list(of)] = True
    return table


def _spread(mask, values, type_):
    """A column of all events: the values where the mask is true, 0 elsewhere."""
    if numpy is not None:
        out = numpy.zeros(len(mask), type_)
        out[mask] = values
        return out
    values = iter(values)
    return [next(values) if m else 0 for m in mask]


def _count(mask):
    return int(numpy.count_nonzero(mask)) if numpy is not None else sum(mask)


def _addresses(planes, births, deaths):
    birth = _running_sum(planes.column(_count(births)))
    back = planes.column(_count(deaths))
    far = back == 0 if numpy is not None else [b == 0 for b in back]
    death = _running_sum(planes.column(_count(far)))
    if numpy is not None:
        born = numpy.cumsum(births)[deaths]
        if numpy.any(back > born.astype("<u8")):
            raise Damaged("a block is damaged")
        out = numpy.zeros(len(births), "<u8")
        out[births] = birth
        found = numpy.zeros(len(back), "<u8")
        found[far] = death
        found[~far] = birth[(born[~far] - back[~far].astype(numpy.int64))]
        out[deaths] = found
        return out
    out, born, death, back = [], 0, iter(death), iter(back)
    for is_birth, is_death in zip(births, deaths):
        if is_birth:
            out.append(birth[born])
            born += 1
        elif is_death:
            n = next(back)
            if n > born:
                raise Damaged("a block is damaged")
            out.append(birth[born - n] if n else next(death))
        else:
            out.append(0)
    return out


def _columns_of(block, data):
    planes = _Planes(data)
    shift = planes.byte()
    kinds = planes.column(block.count)
    if any(k not in NAMES for k in (numpy.unique(kinds).tolist() if numpy is not None else set(kinds))):
        raise Damaged("a block is damaged")
    births, deaths = _is_in(kinds, BIRTHS), _is_in(kinds, DEATHS)
    time = planes.column(block.count)
    address = _addresses(planes, births, deaths)
    size = planes.column(_count(births))
    stacks = _is_in(kinds, WITH_STACK)
    stack = planes.column(_count(stacks))
    aligned = _is_in(kinds, WITH_ALIGN)
    align = planes.column(_count(aligned))
    with_a, with_b = _is_in(kinds, WITH_A), _is_in(kinds, WITH_B)
    a = _spread(with_a, planes.column(_count(with_a)), "<u8")
    b = _spread(with_b, planes.column(_count(with_b)), "<u8")
    if planes.at != len(data) or shift > 12:
        raise Damaged("a block is damaged")
    size = _spread(births, size, "<u8")
    scoped = _is_in(kinds, (SCOPED,) + tuple(range(SCOPE_CREATE, SCOPE_END + 1)))
    if numpy is not None:
        return {"time_ns": numpy.cumsum(time, dtype="<u8") + numpy.uint64(block.first_ns),
                "kind": kinds.astype(numpy.uint8),
                "address": numpy.where(with_a & ~scoped, a, address << numpy.uint64(shift)), "size": size + b,
                "align": numpy.where(_spread(aligned, align, "<u8") > 0,
                                     numpy.uint64(1) << _spread(aligned, align, "<u8"), 0).astype(numpy.uint32),
                "stack": _spread(stacks, stack, numpy.uint32), "scope": numpy.where(scoped, a, 0),
                "process": numpy.full(block.count, block.process, numpy.uint32),
                "thread": numpy.full(block.count, block.thread, numpy.uint32)}
    times, now = [], block.first_ns
    for t in time:
        now += t
        times.append(now)
    return {"time_ns": times, "kind": kinds,
            "address": [x if w and not s else y << shift for x, w, s, y in zip(a, with_a, scoped, address)],
            "size": [x + y for x, y in zip(size, b)],
            "align": [1 << x if x else 0 for x in _spread(aligned, align, None)],
            "stack": _spread(stacks, stack, None), "scope": [x if s else 0 for x, s in zip(a, scoped)],
            "process": [block.process] * block.count, "thread": [block.thread] * block.count}


# ---- the trace --------------------------------------------------------------------------------------------------

class Trace:
    def __init__(self, path):
        self.about, self.damage, self.texts = {}, None, [""]
        self.stack_address, self.stack_caller = [0], [0]
        self.modules, self.processes, self.symbols, self.blocks = [], [], [], []
        self.file = builtins.open(path, "rb")
        try:
            self._read_tables()
        except Unreadable:
            self.file.close()
            raise

    def close(self):
        self.file.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def __len__(self):
        """The events of the file; a realloc may be two."""
        return sum(b.count for b in self.blocks)

    def _read_tables(self):
        offset, has_end = 0, False
        while True:
            try:
                size, kind = self._read_block(offset)
            except Damaged as error:
                if not self.about:
                    raise Unreadable("it is no trace: %s" % error) from None
                self.damage = "byte %d: %s" % (offset, error)
                return
            if size == 0:
                break
            offset += size
            has_end |= kind == END
        if offset == 0:
            raise Unreadable("it is empty")
        if not has_end:
            self.damage = "byte %d: the recorder was killed, or still records; the rest is missing" % offset

    def _read_block(self, offset):
        self.file.seek(offset)
        raw = self.file.read(HEAD.size)
        if not raw:
            return 0, 0
        if len(raw) < HEAD.size:
            raise Damaged("the file ends within the head of a block")
        magic, version, kind, codec, _, stored, plain, count, thread, process, crc, first, took, check = \
            HEAD.unpack(raw)
        if magic != MAGIC:
            raise Damaged("no block begins here")
        if check != zlib.crc32(raw[:-4]):
            raise Damaged("the head of a block is damaged")
        if version != VERSION:
            raise Damaged("a block of another version of the format")
        if max(stored, plain) > MOST_BYTES or codec > 1 or (codec == 0 and stored != plain):
            raise Damaged("the head of a block contradicts itself")
        block = Block(offset, thread, process, count, first, first + took, stored, plain, codec, crc)
        if offset == 0 and kind != ABOUT:
            raise Damaged("it does not begin as a trace does")
        if kind == EVENTS:
            if not 0 < count <= MOST_EVENTS or thread == 0:
                raise Damaged("the head of a block of events contradicts itself")
            self.file.seek(0, 2)
            if self.file.tell() < offset + HEAD.size + stored:
                raise Damaged("the file ends within a block")
            self.blocks.append(block)
        else:
            self._take(kind, block, self._contents(block))
        return HEAD.size + stored, kind

    def _contents(self, block):
        self.file.seek(block.offset + HEAD.size)
        data = self.file.read(block.stored)
        if len(data) < block.stored:
            raise Damaged("the file ends within a block")
        if zlib.crc32(data) != block.crc:
            raise Damaged("a block is damaged (checksum)")
        return _expand(data, block.plain) if block.codec else data

    def _take(self, kind, block, data):
        if kind == STACKS:
            self._take_stacks(block, data)
        elif kind == TEXTS:
            texts = data.decode("utf-8", "replace").split("\0")
            if block.thread != len(self.texts) or len(texts) != block.count + 1:
                raise Damaged("a block of texts is damaged")
            self.texts += texts[:-1]
        elif kind in (ABOUT, END):
            for line in data.decode("utf-8", "replace").splitlines():
                key, _, value = line.partition("=")
                self.about[key] = value
        elif kind == SYMBOLS:
            self.symbols.append((block.process, data.decode("utf-8", "replace")))
        elif kind in (MODULES, PROCESSES):
            try:
                for line in data.decode("utf-8", "surrogateescape").splitlines():
                    self._take_line(kind, line)
            except ValueError:
                raise Damaged("a line is damaged") from None

    def _take_line(self, kind, line):
        if kind == MODULES:
            image, start, end, offset, base, build_id, path = line.split(" ", 6)
            self.modules.append(Module(int(image), int(start, 16), int(end, 16), int(offset, 16), int(base, 16),
                                       "" if build_id == "-" else build_id, path))
        else:
            number, parent, image, pid, command = map(int, line.split())
            self.processes.append(Process(number, None if parent == 0xFFFFFFFF else parent, image, pid,
                                          self.texts[command] if command < len(self.texts) else ""))

    def _take_stacks(self, block, data):
        planes = _Planes(data)
        first = len(self.stack_caller)
        if block.thread != first:
            raise Damaged("stacks are missing")
        back = planes.column(block.count)
        address = _running_sum(planes.column(block.count))
        for i, (b, a) in enumerate(zip(back, address)):
            if int(b) >= first + i:
                raise Damaged("a stack's caller is missing")
            self.stack_caller.append(first + i - int(b) if b else 0)
            self.stack_address.append(int(a))

    # -- stacks and modules

    def frames(self, stack):
        """The return addresses of a stack, innermost first."""
        out = []
        while stack and stack < len(self.stack_caller) and self.stack_caller[stack]:
            out.append(self.stack_address[stack])
            stack = self.stack_caller[stack]
        return out

    def image(self, stack):
        """The address space that a stack's frames are in: Process.image, Module.image."""
        while stack < len(self.stack_caller) and self.stack_caller[stack]:
            stack = self.stack_caller[stack]
        return self.stack_address[stack] if stack < len(self.stack_address) else 0

    def module_of(self, image, address):
        """None: code in no file."""
        for m in reversed(self.modules):
            if m.image == image and m.start <= address < m.end:
                return m
        return None

    # -- events

    def _load(self, block):
        try:
            return _columns_of(block, self._contents(block))
        except Damaged as error:
            self.damage = "byte %d: %s" % (block.offset, error)
            return None

    def _rows(self, thread, order):
        """A thread's events as tuples of COLUMNS, with the order of the heap before."""
        for block in self.blocks:
            if block.thread != thread:
                continue
            columns = self._load(block)
            if columns is None:
                yield (-1,)
                return
            lists = [c.tolist() if numpy is not None else c for c in (columns[k] for k in COLUMNS)]
            for row in zip(*lists):
                yield (row[0], order) + row

    def raw_events(self):
        """All events as the file has them, in the order of time: tuples of COLUMNS."""
        threads = sorted({b.thread for b in self.blocks})
        for row in heapq.merge(*(self._rows(t, i) for i, t in enumerate(threads)), key=lambda row: row[:2]):
            if row[0] < 0:
                return
            yield row[2:]

    def events(self):
        """All events in the order of time, as Event. Objects have numbers from 1, which a realloc keeps; 0: an object
        whose birth the trace does not have."""
        live, moving, last = {}, {}, 0
        for time_ns, kind, address, size, align, stack, scope, process, thread in self.raw_events():
            number = born = birth_stack = text = moved_from = 0
            if kind == OUT:
                moving[thread] = (address, live.pop((process, address), None))
                continue
            if kind == IN:
                moved_from, it = moving.pop(thread, (0, None))
                if it is not None:
                    number, before, born, birth_stack, scope = it
                    if size == 0 and address == moved_from:  # it failed
                        size = before
                    live[process, address] = (number, size, born, birth_stack, scope)
            elif kind in BIRTHS:
                last += 1
                number = last
                live[process, address] = (number, size, time_ns, stack, scope)
            elif kind == FREE:
                number, size, born, birth_stack, scope = live.pop((process, address), (0, 0, 0, 0, 0))
            elif kind in (PROCESS_START, THREAD_NAME, SCOPE_CREATE):
                text, size = size, 0
            yield Event(time_ns, NAMES[kind], process, thread, address, size, align, stack, scope,
                        self.texts[text] if text < len(self.texts) else "", number, born, birth_stack, moved_from)

    def columns(self):
        """All events as the file has them, in the order of time: {name of COLUMNS: array or list}."""
        if numpy is None:
            rows = list(zip(*self.raw_events()))
            return {k: list(rows[i]) if rows else [] for i, k in enumerate(COLUMNS)}
        parts = []
        for block in sorted(self.blocks, key=lambda b: (b.thread, b.offset)):
            columns = self._load(block)
            if columns is not None:
                parts.append(columns)
        if not parts:
            return {k: numpy.zeros(0, "<u8") for k in COLUMNS}
        whole = {k: numpy.concatenate([p[k] for p in parts]) for k in COLUMNS}
        order = numpy.argsort(whole["time_ns"], kind="stable")
        return {k: v[order] for k, v in whole.items()}

    def objects(self):
        """One row for each object, in the order of birth: {name: array or list}. died_ns 0: it lived at the end."""
        rows, place = collections.defaultdict(list), {}
        for e in self.events():
            if e.kind == "alloc":
                place[e.object] = len(rows["object"])
                for name, value in (("object", e.object), ("process", e.process), ("thread", e.thread),
                                    ("born_ns", e.time_ns), ("died_ns", 0), ("size", e.size), ("most_bytes", e.size),
                                    ("align", e.align), ("stack", e.stack), ("free_stack", 0), ("free_thread", 0),
                                    ("reallocs", 0), ("scope", e.scope)):
                    rows[name].append(value)
            elif e.object and e.kind == "realloc":
                i = place[e.object]
                rows["reallocs"][i] += 1
                rows["most_bytes"][i] = max(rows["most_bytes"][i], e.size)
            elif e.object and e.kind == "free":
                i = place.pop(e.object)
                rows["died_ns"][i], rows["free_stack"][i], rows["free_thread"][i] = e.time_ns, e.stack, e.thread
        if numpy is None:
            return dict(rows)
        return {k: numpy.array(v, "<u8") for k, v in rows.items()}


def open(path):  # noqa: A001 as gzip.open
    """Opens a trace. Unreadable: it is none; OSError: it cannot be opened."""
    return Trace(path)
