"""Traces from the files of other recorders, and the writer for them."""
import gzip
import json
import struct
import subprocess
import zlib

import tslab_trace as trace

TEXT_BYTES = 8 << 20


def _planes(values):
    width = 0
    while any(v >> 8 * width for v in values) and width < 8:
        width += 1
    return bytes([width]) + b"".join(bytes(v >> 8 * k & 255 for v in values) for k in range(width))


def _fold(difference):
    return 2 * difference if difference >= 0 else -2 * difference - 1


def _fold_all(values):
    out, before = [], 0
    for v in values:
        out.append(_fold(v - before))
        before = v
    return out


class Writer:
    """Writes a trace of one process and one thread: births and deaths in the order of time."""

    def __init__(self, path, about):
        self.file = open(path, "wb")
        self.nodes, self.fresh, self.symbols, self.events = {}, [], [], []
        self._block(trace.ABOUT, "".join("%s=%s\n" % (k, str(v).replace("\n", " ")) for k, v in about.items()).encode())
        command = about.get("command", "").encode()
        self._block(trace.TEXTS, command + b"\0", 1, 1)
        self._block(trace.PROCESSES, b"0 4294967295 1 %d 1\n" % about.get("pid", 0))
        self.root = self.node(0, 1)

    def _block(self, kind, data, count=0, thread=0, first=0, last=0):
        codec, stored = 0, data
        try:
            import zstandard
            if len(data) > 64:
                codec, stored = 1, zstandard.ZstdCompressor().compress(data)
        except ImportError:
            pass
        head = struct.pack("<IBBBBIIIIIIQI", trace.MAGIC, trace.VERSION, kind, codec, 0, len(stored), len(data), count,
                           thread, 0, zlib.crc32(stored), first, last - first)
        self.file.write(head + struct.pack("<I", zlib.crc32(head)) + stored)

    def node(self, caller, address):
        key = (caller, address)
        if key not in self.nodes:
            self.nodes[key] = len(self.nodes) + 1
            self.fresh.append(key)
        return self.nodes[key]

    def name(self, address, name):
        """The function of a return address."""
        self.symbols.append("%x 1 %s\n" % (address - 1, name.replace("\n", " ")))

    def birth(self, time_ns, address, size, stack):
        self._event((trace.ALLOC, time_ns, address, size, stack))

    def death(self, time_ns, address):
        self._event((trace.FREE, time_ns, address, 0, 0))

    def _event(self, event):
        if len(self.events) == trace.MOST_EVENTS or (self.events and event[1] - self.events[0][1] > 0xFFFFFFFF):
            self.flush()
        self.events.append(event)

    def flush(self):
        if self.fresh:
            first = len(self.nodes) - len(self.fresh) + 1
            back = [first + i - caller if caller else 0 for i, (caller, _) in enumerate(self.fresh)]
            self._block(trace.STACKS, _planes(back) + _planes(_fold_all([a for _, a in self.fresh])), len(self.fresh), first)
            self.fresh = []
        if not self.events:
            return
        events, self.events = self.events, []
        births = [e for e in events if e[0] == trace.ALLOC]
        deaths = [e for e in events if e[0] == trace.FREE]
        times = [e[1] for e in events]
        data = b"\0" + b"".join(map(_planes, (
            [e[0] for e in events], [0] + [b - a for a, b in zip(times, times[1:])],
            _fold_all([e[2] for e in births]), [0] * len(deaths), _fold_all([e[2] for e in deaths]),
            [e[3] for e in births], [e[4] for e in events], [], [], [])))
        self._block(trace.EVENTS, data, len(events), 2, times[0], times[-1])

    def close(self, lines):
        self.flush()
        text = "".join(self.symbols)
        while text:
            end = len(text) if len(text) < TEXT_BYTES else text.rindex("\n", 0, TEXT_BYTES) + 1
            self._block(trace.SYMBOLS, text[:end].encode())
            text = text[end:]
        self._block(trace.END, lines.encode())
        self.file.close()


# ---- heaptrack ----------------------------------------------------------------------------------------------------

def _lines(path):
    if path.endswith(".zst"):
        p = subprocess.run(["zstd", "-dc", path], stdout=subprocess.PIPE, check=True)
        return p.stdout.decode("utf-8", "replace").splitlines()
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


def heaptrack(path, out):
    """Of a file that heaptrack has interpreted: version 3. It has no addresses, no threads, and the time in steps of
    10 ms. A free there names the size and stack of its object: it is taken for the newest of those."""
    lines = _lines(path)
    if not lines or not lines[0].startswith("v ") or lines[0].split()[2:3] not in (["2"], ["3"]):
        raise trace.Unreadable("it is no file of heaptrack 1.2 or later")
    version = int(lines[0].split()[2])
    command = next((line[2:] for line in lines if line.startswith("X ")), "")
    w = Writer(out, {"recorder": "heaptrack", "command": command, "imported": path})
    texts, ips, nodes, infos, live = [""], [0], [w.root], [], {}
    now = step = last = address = 0
    for line in lines:
        kind, _, rest = line.partition(" ")
        if kind == "s":
            texts.append(rest.partition(" ")[2] if version >= 3 else rest)
        elif kind == "i":
            words = [int(x, 16) for x in rest.split()]
            ips.append(words[0])
            if len(words) > 2 and words[2]:
                w.name(words[0], texts[words[2]])
        elif kind == "t":
            ip, parent = (int(x, 16) for x in rest.split())
            nodes.append(w.node(nodes[parent], ips[ip]))
        elif kind == "a":
            infos.append(tuple(int(x, 16) for x in rest.split()))
        elif kind == "c":
            now, step = int(rest, 16) * 1000000, 0
        elif kind in "+-" and rest:
            info = int(rest, 16)
            last, step = max(last, now + step), step + 1
            if kind == "+":
                address += 16
                live.setdefault(info, []).append(address)
                w.birth(last, address, infos[info][0], nodes[infos[info][1]])
            elif live.get(info):
                w.death(last, live[info].pop())
    w.close("status=0\n")


# ---- DHAT ---------------------------------------------------------------------------------------------------------

def dhat(path, out):
    """DHAT has sums for each stack: objects, bytes, times of life. So the objects are of equal sizes and lives, and begin
    at equal distances: a model with these sums, and no recording. The trace says so: synthetic=dhat."""
    with open(path, encoding="utf-8") as file:
        data = json.load(file)
    if data.get("dhatFileVersion") != 2 or data.get("mode") != "heap":
        raise trace.Unreadable("it is no file of DHAT, version 2, of a heap")
    w = Writer(out, {"recorder": "dhat", "command": data["cmd"], "pid": data["pid"], "imported": path,
                     "synthetic": "dhat", "time_unit": data["tu"]})
    for text in data["ftbl"]:
        if text.startswith("0x"):
            place, _, words = text.partition(": ")
            w.name(int(place, 16), words)
    events, address = [], 0
    for point in data["pps"]:
        stack = w.root
        for frame in reversed(point["fs"]):
            text = data["ftbl"][frame]
            if text.startswith("0x"):
                stack = w.node(stack, int(text.split(":")[0], 16))
        count, left, end = point["tbk"], point.get("ebk", 0), max(1, data["te"])
        life = point.get("tl", 0) // count if count else 0
        for i in range(count):
            size = point["tb"] * (i + 1) // count - point["tb"] * i // count
            born = end - life if count == 1 else i * max(0, end - life) // count
            address += 16
            events.append((born, 0, address, size, stack))
            if i < count - left:
                events.append((born + life, 1, address, 0, 0))
    for time_ns, is_death, at, size, stack in sorted(events):
        if is_death:
            w.death(time_ns, at)
        else:
            w.birth(time_ns, at, size, stack)
    w.close("status=0\n")
