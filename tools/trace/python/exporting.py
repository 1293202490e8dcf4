"""Exports of a trace: folded stacks, a profile of pprof, a file of DHAT, tables of Parquet."""
import collections
import gzip
import json
import os
import re

from names import Names

Site = collections.namedtuple("Site", "objects bytes left left_bytes lives most most_bytes at_peak at_peak_bytes")


def sites(trace):
    """{stack of the birth: Site}. `left` lived at the end; `lives`: sum of their times; `most`: at once;
    `at_peak`: when the most bytes of all sites lived. A realloc counts as the end of the object and another one."""
    ever = collections.defaultdict(lambda: [0] * 7)  # objects bytes live live_bytes lives most most_bytes
    live, at_peak, now, peak, end, changed = {}, {}, 0, 0, 0, {}
    for e in trace.events():
        end = e.time_ns
        if e.object and e.kind in ("realloc", "free"):
            stack, size, born = live.pop(e.object)
            s = ever[stack]
            s[2] -= 1
            s[3] -= size
            s[4] += e.time_ns - born
            changed[stack] = None
            if now > peak:  # a peak is behind: only changes since the last one are noted
                peak = now
                at_peak.update((k, (ever[k][2] + (k == stack), ever[k][3] + size * (k == stack))) for k in changed)
                changed = {stack: None}
            now -= size
        if e.object and e.kind in ("alloc", "realloc"):
            live[e.object] = (e.stack, e.size, e.time_ns)
            s = ever[e.stack]
            s[0] += 1
            s[1] += e.size
            s[2] += 1
            s[3] += e.size
            s[5] = max(s[5], s[2])
            s[6] = max(s[6], s[3])
            now += e.size
            changed[e.stack] = None
    if now > peak:
        at_peak.update((k, (ever[k][2], ever[k][3])) for k in changed)
    for stack, _, born in live.values():
        ever[stack][4] += end - born
    return {k: Site(s[0], s[1], s[2], s[3], s[4], s[5], s[6], *at_peak.get(k, (0, 0))) for k, s in ever.items()}, end


def folded(trace, out):
    """A line for each stack: the outermost function first, then the bytes that it allocated."""
    names, total = Names(trace), collections.Counter()
    for stack, site in sites(trace)[0].items():
        words = [f.function.replace(";", ":").replace("\n", " ") for f in reversed(names.stack(stack))]
        total[";".join(words) or "(no stack)"] += site.bytes
    for line, size in sorted(total.items()):
        out.write("%s %d\n" % (line, size))


# ---- DHAT ---------------------------------------------------------------------------------------------------------

def dhat(trace, out):
    names, (all_sites, end) = Names(trace), sites(trace)
    frames, points = {"[root]": 0}, []
    for stack, s in all_sites.items():
        texts = ["%s (%s:%d)" % (f.function, f.file, f.line) if f.file else f.function for f in names.stack(stack)]
        texts = ["0x0: " + t for t in texts or ["(no stack)"]]
        points.append({"tb": s.bytes, "tbk": s.objects, "tl": s.lives // 1000, "mb": s.most_bytes, "mbk": s.most,
                       "gb": s.at_peak_bytes, "gbk": s.at_peak, "eb": s.left_bytes, "ebk": s.left,
                       "fs": [frames.setdefault(t, len(frames)) for t in texts]})
    json.dump({"dhatFileVersion": 2, "mode": "heap", "verb": "Allocated", "bklt": True, "bkacc": False, "tu": "us",
               "Mtu": "s", "tuth": 100, "cmd": trace.about.get("command", ""),
               "pid": trace.processes[0].pid if trace.processes else 0, "te": end // 1000, "pps": points,
               "ftbl": list(frames)}, out)
    out.write("\n")


# ---- pprof --------------------------------------------------------------------------------------------------------

def _messages():
    """The classes of profile.proto, by the library protobuf."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "profile.proto"), encoding="utf-8") as file:
        text = re.sub(r"//.*", "", file.read())
    field = descriptor_pb2.FieldDescriptorProto
    kinds = {"int64": field.TYPE_INT64, "uint64": field.TYPE_UINT64, "bool": field.TYPE_BOOL, "string": field.TYPE_STRING}
    proto = descriptor_pb2.FileDescriptorProto(name="tslab_profile.proto", package="tslab.pprof", syntax="proto3")
    for name, body in re.findall(r"message (\w+) \{(.*?)\}", text, re.S):
        message = proto.message_type.add(name=name)
        for repeated, kind, key, number in re.findall(r"(repeated )?(\w+) (\w+) = (\d+);", body):
            f = message.field.add(name=key, number=int(number),
                                  label=field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL)
            if kind in kinds:
                f.type = kinds[kind]
            else:
                f.type, f.type_name = field.TYPE_MESSAGE, ".tslab.pprof." + kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tslab.pprof.Profile"))


class _Profile:
    def __init__(self, trace):
        self.trace, self.names, self.message = trace, Names(trace), _messages()()
        self.texts, self.functions, self.locations, self.mappings = {"": 0}, {}, {}, {}

    def text(self, words):
        return self.texts.setdefault(words, len(self.texts))

    def function(self, frame):
        key = (frame.function, frame.file)
        if key not in self.functions:
            self.functions[key] = len(self.functions) + 1
            name = self.text(frame.function)
            self.message.function.add(id=self.functions[key], name=name, system_name=name, filename=self.text(frame.file))
        return self.functions[key]

    def mapping(self, node, address):
        module = self.trace.module_of(self.trace.image(node), address)
        if module is None:
            return 0
        if module not in self.mappings:
            self.mappings[module] = len(self.mappings) + 1
            self.message.mapping.add(id=self.mappings[module], memory_start=module.start, memory_limit=module.end,
                                     file_offset=module.offset, filename=self.text(module.path),
                                     build_id=self.text(module.build_id), has_functions=True, has_filenames=True,
                                     has_line_numbers=True, has_inline_frames=True)
        return self.mappings[module]

    def location(self, node):
        if node not in self.locations:
            self.locations[node] = len(self.locations) + 1
            address = self.trace.stack_address[node] - 1
            location = self.message.location.add(id=self.locations[node], address=address,
                                                 mapping_id=self.mapping(node, address))
            for frame in self.names.known[node]:
                location.line.add(function_id=self.function(frame), line=frame.line)
        return self.locations[node]

    def stack(self, stack):
        out = []
        while stack in self.names.known:
            out.append(self.location(stack))
            stack = self.trace.stack_caller[stack]
        return out


def pprof(trace, out):
    p = _Profile(trace)
    all_sites, end = sites(trace)
    for kind, unit in (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")):
        p.message.sample_type.add(type=p.text(kind), unit=p.text(unit))
    for stack, s in all_sites.items():
        p.message.sample.add(location_id=p.stack(stack), value=[s.objects, s.bytes, s.left, s.left_bytes])
    p.message.default_sample_type = p.text("alloc_space")
    p.message.time_nanos = int(trace.about.get("start_realtime_ns", 0))
    p.message.duration_nanos = end
    p.message.comment.append(p.text("command: " + trace.about.get("command", "")))
    p.message.string_table.extend(p.texts)
    out.write(gzip.compress(p.message.SerializeToString(deterministic=True)))


# ---- Parquet ------------------------------------------------------------------------------------------------------

def parquet(trace, path, name):
    """A row for each object. The functions of its stack are one text, the innermost first."""
    import pyarrow
    import pyarrow.parquet
    names, rows = Names(trace), trace.objects()
    texts, first = {}, {}
    for stack in {int(s) for key in ("stack", "free_stack") for s in rows.get(key, ())}:
        frames = [f.function for f in names.stack(stack)]
        texts[stack], first[stack] = ";".join(frames), frames[0] if frames else ""
    count = len(rows.get("object", ()))

    def repeated(text):
        return pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * count, pyarrow.int32()), [text])

    def named(key, table):
        values = list(dict.fromkeys(table.values()))
        place = {v: i for i, v in enumerate(values)}
        return pyarrow.DictionaryArray.from_arrays(
            pyarrow.array([place[table[int(s)]] for s in rows.get(key, ())], pyarrow.int32()),
            pyarrow.array(values, pyarrow.string()))

    numbers = {k: pyarrow.array([int(x) for x in v], pyarrow.uint64()) for k, v in rows.items() if "stack" not in k}
    died = pyarrow.array([int(x) or None for x in rows.get("died_ns", ())], pyarrow.uint64())
    command = trace.about.get("command", "")
    table = pyarrow.table({
        "trace": repeated(name), "host": repeated(trace.about.get("host", "")), "command": repeated(command),
        "start": pyarrow.array([int(trace.about.get("start_realtime_ns", 0))] * count, pyarrow.timestamp("ns")),
        **numbers, "died_ns": died, "site": named("stack", first), "stack": named("stack", texts),
        "free_stack": named("free_stack", texts)})
    pyarrow.parquet.write_table(table, path, compression="zstd")
