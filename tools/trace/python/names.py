"""Names of the frames of a trace: by addr2line (binutils) in the files, and by the perf maps that the trace has."""
import bisect
import collections
import os
import struct
import subprocess

Frame = collections.namedtuple("Frame", "function file line")  # line 0: not known; file "": not known
NOTE_BUILD_ID, PT_NOTE, AT_ONCE = 3, 4, 500


def build_id(path):
    """Hexadecimal; "": it has none, or cannot be read."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            if head[:5] != b"\x7fELF\x02" or head[5] != 1:
                return ""
            offset, = struct.unpack_from("<Q", head, 32)
            size, count = struct.unpack_from("<HH", head, 54)
            for i in range(count):
                file.seek(offset + i * size)
                kind, _, at, _, _, length = struct.unpack_from("<IIQQQQ", file.read(56))
                if kind != PT_NOTE or length > 1 << 16:
                    continue
                file.seek(at)
                notes, k = file.read(length), 0
                while k + 12 <= len(notes):
                    name, value, note = struct.unpack_from("<III", notes, k)
                    k += 12 + (name + 3 & ~3)
                    if note == NOTE_BUILD_ID and notes[k - 4:k] == b"GNU\0":
                        return notes[k:k + value].hex()
                    k += value + 3 & ~3
    except (OSError, struct.error):
        pass
    return ""


def _lines_of(path, addresses):
    """{address: [Frame], the innermost first}, by addr2line."""
    found = {}
    for first in range(0, len(addresses), AT_ONCE):
        part = addresses[first:first + AT_ONCE]
        try:
            answer = subprocess.run(["addr2line", "-aCfipe", path, *map(hex, part)], capture_output=True, text=True,
                                    errors="replace", stdin=subprocess.DEVNULL)
        except OSError:
            return found
        address = None
        for line in answer.stdout.splitlines():
            if line.startswith("0x"):
                text, _, line = line.partition(": ")
                address = int(text, 16)
            else:
                line = line.replace(" (inlined by) ", "", 1)
            function, _, place = line.rpartition(" at ")
            file, _, number = place.split(" (discriminator")[0].rpartition(":")
            if function and not function.startswith("??"):
                found.setdefault(address, []).append(
                    Frame(function, "" if file.startswith("?") else file, int(number) if number.isdigit() else 0))
    return found


def _functions_of(path):
    """[(start, end)] of the functions that the symbol tables name, in order."""
    ranges = set()
    for table in ((), ("-D",)):
        try:
            answer = subprocess.run(["nm", "-S", "--defined-only", *table, path], capture_output=True, text=True,
                                    errors="replace", stdin=subprocess.DEVNULL)
        except OSError:
            continue
        for line in answer.stdout.splitlines():
            words = line.split()
            if len(words) >= 4 and words[2] in "tTwWiuV":
                start = int(words[0], 16)
                ranges.add((start, start + int(words[1], 16)))
    return sorted(ranges)


def _drop_wrong(path, lines):
    """Where a file has no lines, addr2line names the nearest function before the address, which may have ended."""
    ranges = None
    for address, frames in list(lines.items()):
        if any(f.file for f in frames):
            continue
        if ranges is None:
            ranges = _functions_of(path)
        i = bisect.bisect_right(ranges, (address, 1 << 64)) - 1
        if not any(start <= address < end for start, end in ranges[max(0, i - 8):i + 1]):
            del lines[address]
    return lines


class Map:
    """A perf map."""

    def __init__(self, text):
        self.parts = {}
        for line in text.splitlines():
            words = line.split(" ", 2)
            try:
                self.parts[int(words[0], 16)] = (int(words[1], 16), words[2])
            except (ValueError, IndexError):
                continue
        self.starts = sorted(self.parts)

    def name(self, address):
        i = bisect.bisect_right(self.starts, address) - 1
        if i >= 0 and address - self.starts[i] < self.parts[self.starts[i]][0]:
            return self.parts[self.starts[i]][1]
        return None


class Names:
    """names[stack] is the list of Frame of a node's own frame, the innermost first; at least one."""

    def __init__(self, trace):
        self.trace, self.known = trace, {}
        maps = [(p.image, Map(text)) for number, text in trace.symbols
                for p in trace.processes if p.number == number]
        wanted = collections.defaultdict(list)
        image_of = [0] * len(trace.stack_caller)
        for node in range(1, len(trace.stack_caller)):
            caller = trace.stack_caller[node]
            image_of[node] = image_of[caller] if caller else trace.stack_address[node]
            if not caller:
                continue
            address = trace.stack_address[node] - 1  # in the call, which is before the return address
            name = next((m.name(address) for image, m in maps if image == image_of[node] and m.name(address)), None)
            module = None if name else trace.module_of(image_of[node], address)
            if module is None:
                self.known[node] = [Frame(name or "%#x" % address, "", 0)]
            else:
                wanted[module].append((address - module.base, node))
        for module, places in wanted.items():
            lines = {}
            if os.path.isfile(module.path) and (not module.build_id or build_id(module.path) == module.build_id):
                lines = _drop_wrong(module.path, _lines_of(module.path, sorted({a for a, _ in places})))
            for address, node in places:
                self.known[node] = lines.get(address) or [Frame("%s+%#x" % (os.path.basename(module.path), address), "", 0)]

    def stack(self, stack):
        """All frames of a stack, the innermost first."""
        out = []
        while stack in self.known:
            out += self.known[stack]
            stack = self.trace.stack_caller[stack]
        return out
