"""gdb commands that show temporal-slab's view: of a pointer, a slab, an epoch, a heap, a handle.

    (gdb) source tslab-gdb.py
    (gdb) tslab ptr EXPRESSION      what a pointer is: live, free, stale, interior, not ours; its epoch, class, owner
    (gdb) tslab slab EXPRESSION     a slab, by its unit number or an address in it, with a map of its slots
    (gdb) tslab epochs              the open and draining epochs
    (gdb) tslab epoch ID | LABEL    an epoch: its blocks, slabs, spans, live objects
    (gdb) tslab heaps               what each thread owns
    (gdb) tslab heap NUMBER         a heap: its blocks, retained units, queue of foreign frees
    (gdb) tslab handle EXPRESSION   a handle taken apart, and whether it is accepted
    (gdb) tslab allocators          the allocators, committed and retained memory

Works on a running program and on a core file; it reads, and calls nothing. The library needs its debug information (-g,
which the release build has). Figures of threads that are inside of an operation may be half changed.
"""

import types

import gdb

# The numbers of the library's layout, by their names in src/core/api/layout.h: Region reads them.
L = types.SimpleNamespace()
EPOCH_STATES = {0: "ACTIVE", 1: "CLOSING", 2: "CLOSED"}
HEAP_STATES = {0: "starting", 1: "live", 2: "of an ended thread", 3: "lost in a fork"}
KINDS = {"NONE": "never used", "CHURN": "churn", "SCOPE": "scope", "SPAN": "span", "RETIRED": "retired",
         "FINE": "churn, FINE", "CUT": "cut into pieces"}


class Problem(Exception):
    """Said to the user in one line."""


def value(name):
    found = gdb.lookup_static_symbol(name) or gdb.lookup_global_symbol(name)
    if found is None:
        try:
            return gdb.parse_and_eval(name)
        except gdb.error:
            raise Problem("%s is not known: is the program linked with tslab, and tslab built with -g?" % name) from None
    return found.value()


def kind(name):
    try:
        return gdb.lookup_type(name)
    except gdb.error:
        raise Problem("type %s is not known: is tslab built with -g?" % name) from None


def at(address, type_name):
    return gdb.Value(address).cast(kind(type_name).pointer()).dereference()


def number(v):
    return int(v)


def address_of(pointer):
    return int(pointer.cast(gdb.lookup_type("unsigned long")))


def bytes_at(address, size):
    """Pages that were never written are not in every core file: they are zero."""
    try:
        return bytes(gdb.selected_inferior().read_memory(address, size))
    except gdb.MemoryError:
        return bytes(size)


def read(address, size):
    return int.from_bytes(bytes_at(address, size), BYTE_ORDER)


def byte_order():
    return "big" if "big" in gdb.execute("show endian", to_string=True) else "little"


BYTE_ORDER = "little"


class Region:
    """ts_region, read once per command."""

    def __init__(self):
        global BYTE_ORDER
        BYTE_ORDER = byte_order()
        layout = value("ts_layout")
        vars(L).update((f.name, number(layout[f.name])) for f in layout.type.fields())
        r = value("ts_region")
        p = r["part"][0]
        self.base, self.units = address_of(p["base"]), number(p["units"])
        self.marked = number(p["limit"]) // L.UNIT_ENTRIES
        self.live_words, self.scope_maps = address_of(p["live"]), address_of(p["scope_bits"])
        self.generations = address_of(r["generation"])
        self.unit_words, self.slabs = address_of(p["unit"]), address_of(p["slab"])
        self.wide, self.lines = address_of(r["wide"]), address_of(r["lines"])
        self.piece_words, self.pieces = address_of(r["piece_word"]), address_of(r["piece"])
        far = r["part"][1]
        self.far_base, self.far_units = address_of(far["base"]), number(far["units"])
        self.far_marked = number(far["limit"]) * 16 // (1 << L.FAR_SHIFT)
        last = 2  # the table of allocators lies behind all else
        self.reserved = address_of(r["table"][last]) + number(r["table_capacity"][last]) * 4096 - self.base
        if self.base == 0:
            raise Problem("nothing was allocated with tslab yet")
        sizes = value("ts_class_bytes")
        self.class_bytes = [number(sizes[i]) for i in range(sizes.type.range()[1] + 1)]
        table = value("ts_epochs")
        self.epoch_bits = number(table["index_bits"])

    def locate(self, p):
        """(unit, offset in the unit), or None."""
        o = p - self.base
        if 0 <= o < self.units * L.UNIT_BYTES:
            return o >> L.UNIT_SHIFT, o & (L.UNIT_BYTES - 1)
        o = p - self.far_base
        if 0 <= o < self.far_marked * (1 << L.FAR_SHIFT):
            return self.units + (o >> L.FAR_SHIFT), o & ((1 << L.FAR_SHIFT) - 1)
        return None

    def slab_at(self, unit, offset):
        """The number of the slab there: a piece's, if the unit is cut."""
        if not self.is_cut(unit):
            return unit
        return L.PIECE | unit * L.PIECES | offset // L.PIECE_BYTES & ~(self.word(unit) & L.UNIT_LONG)

    def is_cut(self, slab):
        return self.word(slab) & L.UNIT_CUT == L.UNIT_CUT

    def unit_of(self, slab):
        return (slab & ~L.PIECE) // L.PIECES if slab & L.PIECE else slab

    def first_offset(self, slab):
        return slab % L.PIECES * L.PIECE_BYTES if slab & L.PIECE else 0

    def name(self, slab):
        return "piece %d of unit %d" % (slab % L.PIECES, self.unit_of(slab)) if slab & L.PIECE else "unit %d" % slab

    def address(self, slab):
        return self.unit_address(self.unit_of(slab)) + self.first_offset(slab)

    def unit_address(self, unit):
        return self.base + unit * L.UNIT_BYTES if unit < self.units else self.far_base + (unit - self.units) * (1 << L.FAR_SHIFT)

    def word(self, slab):
        return read(self.piece_words + (slab & ~L.PIECE) * 8 if slab & L.PIECE else self.unit_words + slab * 8, 8)

    def record(self, slab):
        """Where it is, and its bytes."""
        if slab & L.PIECE:
            return self.pieces + (slab & ~L.PIECE) * L.PIECE_RECORD_BYTES, L.PIECE_RECORD_BYTES
        return self.slabs + slab * L.SLAB_BYTES, L.SLAB_BYTES

    def slab(self, slab):
        return at(self.record(slab)[0], "ts_slab")

    def granule(self, unit, entry):
        """Number of the granule that an entry of the unit lies in (region.h)."""
        return entry if self.is_fine(unit) else entry >> 2

    def is_fine(self, unit):
        return (self.word(unit) >> 36) % (L.CHURN_BLOCK_ALIGN // 64) < L.FINE_LINES_END

    def live(self, unit):
        """The live bits of a churn slab, as a number of 1024 bits."""
        return sum(read(self.live_words + unit * 128 + 8 * i, 8) << (64 * i) for i in range(16))

    def generation(self, unit, entry):
        """What a slot's own lives add to the generation of its slab."""
        return read(self.generations + (unit * L.UNIT_ENTRIES + entry) * 2, 2) if self.word(unit) & L.UNIT_HANDLED else 0

    def scope_bits(self, slab):
        """Start and freed bits, as two numbers of 1024 bits; of a piece also others', but none of its neighbours'."""
        where = self.scope_maps + self.unit_of(slab) * 512 + (256 if slab & L.PIECE and slab % 2 else 0)
        words = [read(where + 8 * i, 8) for i in range(32)]
        return [sum(w << (64 * i) for i, w in enumerate(half)) for half in (words[:16], words[16:])]

    def foreign_pending(self, slab, scope, entry):
        if scope or self.is_fine(slab):
            words, index = self.wide + self.unit_of(slab) * L.WIDE_BYTES, entry
        else:
            words, index = address_of(self.slab(slab)["foreign"].address), self.granule(slab, entry)
        x = read(words + (index >> 5) * 8, 8)
        return bool(x >> (index & 31) & 1) and x >> L.FOREIGN_TAG_SHIFT == number(self.slab(slab)["tag"])

    def block(self, word):
        """(block, class or None) of a UNIT word."""
        line = self.lines + (word >> 36) * 64
        if word & L.UNIT_SCOPE:
            return at(line, "ts_block"), None
        block = at(line & ~(L.CHURN_BLOCK_ALIGN - 1), "ts_churn_block")
        bins = address_of(block["bin"].address)
        return block["b"], (line - bins) // kind("ts_bin").sizeof


def era(block):
    return number(block["key"]) & L.UNIT_ERA_MASK


def label_text(epoch):
    """The label lies in atomic words, as its bytes. While a thread stopped in the middle of a new one, the turn of those epochs is odd,
    and the label that was there before is the whole one."""
    turns, index = value("label_turns"), number(epoch["record"]["index"])
    turn = turns[index % (turns.type.range()[1] + 1)]
    field = turn["before"] if number(turn["turn"]) % 2 and number(turn["of"]) == index else epoch["label"]
    data = gdb.selected_inferior().read_memory(int(field.address), field.type.sizeof).tobytes()
    return data.split(b"\0")[0].decode("utf-8", "replace")


def label_of(epoch):
    text = label_text(epoch)
    return '"%s"' % text if text else "without a label"


def epoch_text(epoch):
    return "epoch %#x (%s, %s)" % (number(epoch["record"]["id"]), label_of(epoch),
                                   EPOCH_STATES.get(number(epoch["state"]), "?"))


def epoch_by_index(index):
    table = value("ts_epochs")
    if not 0 < index < number(table["high"]):
        return None
    return at(address_of(table["base"]) + index * number(table["stride"]), "ts_epoch")


def epoch_of_block(block):
    pointer = block["epoch"]
    if address_of(pointer) == 0:
        return None
    epoch = at(address_of(pointer), "ts_epoch")
    return epoch if number(epoch["record"]["id"]) else None


def owner_text(block):
    heap = at(address_of(block["heap"]), "ts_heap")
    return "heap %d (%s)" % (number(heap["id"]), HEAP_STATES.get(number(heap["state"]), "?"))


# ---- the kind of a place --------------------------------------------------------------------------------------------


class Place:
    """The object at an address. state: live, free, stale, interior, not ours."""

    def __init__(self, state, text, start=None, size=None, epoch=None, block=None, unit=None, generation=None):
        self.state, self.text, self.start, self.size = state, text, start, size
        self.epoch, self.block, self.unit, self.generation = epoch, block, unit, generation


def span_around(r, unit):
    """The first unit of the span that a unit lies inside of. A span's first unit is the nearest below with a word."""
    first, end = unit, 0 if unit < r.units else r.units
    while first > end:
        word = r.word(first)
        if word:
            slab = r.slab(first)
            if word & L.UNIT_SPAN and unit < first + number(slab["u"]["span"]["units"]):
                return first
            return None
        first -= 1
    return None


def look(r, p):
    where = r.locate(p)
    if where is None:
        inside = r.base <= p < r.base + r.reserved
        return Place("not ours", "in the metadata of tslab" if inside else "outside of tslab's region")
    unit, offset = where
    unit = r.slab_at(unit, offset)
    word = r.word(unit)
    if word == 0 and unit & L.PIECE:
        return Place("free", "%s is in no scope" % r.name(unit), unit=unit)
    if word == 0:
        first = span_around(r, unit)
        if first is None:
            return Place("free", "unit %d is in no slab" % unit, unit=unit)
        return look_span(r, p, first)
    if word & L.UNIT_ZOMBIE:
        return Place("stale", "its slab has ended, and waits on a queue of foreign frees", unit=unit)
    if word & L.UNIT_SPAN:
        return look_span(r, p, unit)
    block, cls = r.block(word)
    if era(block) != word & L.UNIT_ERA_MASK:
        return Place("stale", "its epoch has ended", unit=unit)
    found = look_scope(r, p, unit, offset, block) if word & L.UNIT_SCOPE else look_churn(r, p, unit, offset, cls)
    found.block, found.epoch, found.unit = block, epoch_of_block(block), unit
    return found


def look_span(r, p, unit):
    slab = r.slab(unit)
    start, size = r.unit_address(unit), number(slab["u"]["span"]["bytes"])
    epoch = epoch_by_index(number(slab["queue_next"]))
    state = "live" if p == start else "interior"
    return Place(state, "span of %d bytes" % size, start, size, epoch, None, unit, number(slab["gen"]))


def look_churn(r, p, unit, offset, cls):
    size = r.class_bytes[cls]
    slot = offset // size
    text = "slot %d of class %d (%d bytes)" % (slot, cls, size)
    if slot >= L.UNIT_BYTES // size:
        return Place("free", "behind the last slot of its slab (class %d)" % cls)
    start = p - offset + slot * size
    entry = slot * size // 16
    lives = r.generation(unit, entry)
    generation = number(r.slab(unit)["gen"]) + lives
    if not r.live(unit) >> entry & 1:
        return Place("free", text + (", retired" if lives > L.SLOT_GEN_MAX else ""), start, size, generation=generation)
    if r.foreign_pending(unit, False, entry):
        return Place("free", text + ", freed by another thread than its owner", start, size, generation=generation)
    return Place("live" if p == start else "interior", text, start, size, generation=generation)


def scope_end(r, unit, block):
    """Entries used in a scope slab."""
    end = number(r.slab(unit)["end"])
    if end:
        return end
    scope = at(address_of(block.address), "ts_scope_block")
    if number(scope["current"]) != unit:
        return 0
    return ((number(scope["bump"]) >> L.BUMP_SHIFT) - r.unit_address(r.unit_of(unit))) % (1 << L.ADDRESS_BITS) // 16


def look_scope(r, p, unit, offset, block):
    started, freed = r.scope_bits(unit)
    end, entry = scope_end(r, unit, block), offset // 16
    if entry >= end:
        return Place("free", "not yet used in its scope slab")
    first = entry
    while first > 0 and not started >> first & 1:
        first -= 1
    last = first + 1
    while last < end and not started >> last & 1:
        last += 1
    start, size = p - offset + first * 16, (last - first) * 16
    text = "object of %d bytes in a scope slab" % size
    generation = number(r.slab(unit)["gen"])
    if freed >> first & 1:
        return Place("free", text, start, size, generation=generation)
    if r.foreign_pending(unit, True, first):
        return Place("free", text + ", freed by another thread than its owner", start, size, generation=generation)
    return Place("live" if p == start else "interior", text, start, size, generation=generation)


def say_place(r, p, place):
    print("%#x: %s: %s" % (p, place.state, place.text))
    if place.state == "interior":
        print("  %d bytes into the object at %#x" % (p - place.start, place.start))
    if place.epoch is not None:
        print("  in " + epoch_text(place.epoch))
    if place.block is not None:
        print("  %s of %s" % (r.name(place.unit), owner_text(place.block)))


# ---- blocks, epochs, heaps ----------------------------------------------------------------------------------------------


def bin_live(b):
    """Live objects by a bin's counters: allocations from the magazine and frees into it cancel out."""
    direct = number(b["direct_frees"])
    freed = direct // 256 + (0 if direct % 256 else number(b["top"]) % 256)
    claims = number(b["claims"])
    from_words = claims // 256 + (claims % 256 - bin(number(b["word"])).count("1") if claims % 256 else 0)
    return from_words - freed


def block_live(r, block):
    """Live objects by the block's counters."""
    if number(block["scope"]):
        scope = at(address_of(block.address), "ts_scope_block")
        allocs, bump = number(scope["allocs"]), number(scope["bump"])
        count = bump % L.BUMP_TURN if allocs % 2 == bump // L.BUMP_TURN % 2 else 0
        return allocs // 2 + count - number(scope["frees"])
    churn = at(address_of(block.address), "ts_churn_block")
    return sum(bin_live(churn["bin"][i]) for i in range(len(r.class_bytes)))


def say_block(r, block, of_epoch):
    name = "scope block" if number(block["scope"]) else "churn block"
    whose = owner_text(block)
    if not of_epoch:
        epoch = epoch_of_block(block)
        dead = era(block) != number(block["era"])
        whose = "of an epoch that has ended" if dead or epoch is None else "of " + epoch_text(epoch)
    print("  %s at %#x: %d live in %d slabs, %s" % (name, address_of(block.address), block_live(r, block), number(block["slabs"]),
                                                    whose))
    if number(block["scope"]):
        return
    churn = at(address_of(block.address), "ts_churn_block")
    for i, bytes_ in enumerate(r.class_bytes):
        b = churn["bin"][i]
        live = bin_live(b)
        if live or number(b["slabs"]):
            print("    class %d (%d bytes): %d live, %d slabs, %d of them full" % (i, bytes_, live, number(b["slabs"]),
                                                                                number(b["full"]) % (1 << L.FULL_BITS)))


def all_epochs():
    table = value("ts_epochs")
    for index in range(1, number(table["high"])):
        epoch = epoch_by_index(index)
        if number(epoch["record"]["id"]):
            yield epoch


def blocks_of(epoch):
    pointer = epoch["blocks"]
    while address_of(pointer):
        yield pointer.dereference()
        pointer = pointer["epoch_next"]


def epoch_live(r, epoch):
    return sum(block_live(r, b) for b in blocks_of(epoch)) + number(epoch["span_allocated"]) - number(epoch["span_freed"])


def say_epoch(r, epoch):
    print(epoch_text(epoch))
    print("  %s epoch of allocator %#x, open since %d ns, %d live objects" % (
        "scope" if number(epoch["flags"]) & 2 else "churn", number(at(address_of(epoch["allocator"]), "ts_allocator")["token"]),
        number(epoch["open_since_ns"]), epoch_live(r, epoch)))
    for block in blocks_of(epoch):
        say_block(r, block, True)
    unit = number(epoch["spans"])
    while unit:
        slab = r.slab(unit)
        print("  span at %#x: %d bytes" % (r.unit_address(unit), number(slab["u"]["span"]["bytes"])))
        unit = number(slab["next"])


def all_heaps():
    pointer = value("all_heaps")
    while address_of(pointer):
        heap = at(address_of(pointer), "ts_heap")
        yield heap
        pointer = heap["next"]


def heap_blocks(heap):
    share = heap["shares"]
    while address_of(share):
        pointer = share["blocks"]
        while address_of(pointer):
            yield pointer.dereference()
            pointer = pointer["heap_next"]
        share = share["heap_next"]


def thread_of(heap):
    """gdb's number of the thread whose storage the heap points to, if it can be told."""
    tls = address_of(heap["tls"])
    if tls == 0:
        return ""
    before = gdb.selected_thread()
    found = ""
    try:
        for thread in gdb.selected_inferior().threads():
            thread.switch()
            try:
                if address_of(gdb.parse_and_eval("&ts_thread")) == tls:
                    found = ", thread %d" % thread.num
            except gdb.error:
                break
    finally:
        if before is not None and before.is_valid():
            before.switch()
    return found


def queue_of(r, heap):
    units, unit = [], number(heap["queue"])
    while unit and unit not in units:
        units.append(unit)
        unit = number(r.slab(unit)["queue_next"])
    return units


def say_heap_line(r, heap):
    blocks = list(heap_blocks(heap))
    print("heap %d: %s%s, %d blocks, %d live objects" % (number(heap["id"]), HEAP_STATES.get(number(heap["state"]), "?"),
                                                         thread_of(heap), len(blocks), sum(block_live(r, b) for b in blocks)))


def say_heap(r, heap):
    say_heap_line(r, heap)
    for block in heap_blocks(heap):
        say_block(r, block, False)
    share = heap["shares"]
    while address_of(share):
        s = share.dereference()
        print("  share of allocator %#x: %d retained units" % (number(s["token"]), number(s["retained"]["count"])))
        share = s["heap_next"]
    queue = queue_of(r, heap)
    if queue:
        print("  slabs with foreign frees: %s" % ", ".join(r.name(u) for u in queue))


def kind_text(number_of_kind):
    return next((text for name, text in KINDS.items() if getattr(L, "KIND_" + name) == number_of_kind), "?")


# ---- a slab ---------------------------------------------------------------------------------------------------------------


def say_slab(r, slab):
    unit, address = r.unit_of(slab), r.address(slab)
    if unit >= (r.marked if unit < r.units else r.units + r.far_marked):
        print("unit %d at %#x, never used" % (unit, address))
        return
    record, word = r.slab(slab), r.word(slab)
    if not any(bytes_at(*r.record(slab))):
        print("%s at %#x, never used" % (r.name(slab), address))
        say_place(r, address, look(r, address))
        return
    names = ("FOREIGN", "ZOMBIE", "SCOPE", "SPAN", "HANDLED")
    flags = ["CUT"] if r.is_cut(slab) else [name for name in names if word & getattr(L, "UNIT_" + name)]
    print("%s at %#x, last used as: %s" % (r.name(slab), address, kind_text(number(record["kind"]))))
    print("  UNIT word %#x%s, generation %d, tag %d%s" % (word, " " + " ".join(flags) if flags else "", number(record["gen"]),
                                                     number(record["tag"]), ", a handle was made" if number(record["handled"]) else ""))
    if r.is_cut(slab):
        for i in range(L.PIECES):
            piece = L.PIECE | slab * L.PIECES | i
            place = look(r, r.address(piece))
            if place.block is not None:
                print("  piece %d: %s" % (i, epoch_text(place.epoch) if place.epoch is not None else "no epoch"))
        return
    place = look(r, address)
    if place.block is None:
        say_place(r, address, place)
        return
    epoch = epoch_of_block(place.block)
    print("  %s of %s" % (owner_text(place.block), epoch_text(epoch) if epoch is not None else "no epoch"))
    if word & L.UNIT_SCOPE:
        say_scope_map(r, slab, place.block)
    else:
        say_churn_map(r, slab, r.block(word)[1], record)


def say_map(marks):
    for i in range(0, len(marks), 64):
        print("  %4d %s" % (i, "".join(marks[i:i + 64])))


def say_churn_map(r, unit, cls, slab):
    size, live, marks = r.class_bytes[cls], r.live(unit), []
    for slot in range(L.UNIT_BYTES // size):
        entry = slot * size // 16
        mark = "#" if live >> entry & 1 else "x" if r.generation(unit, entry) > L.SLOT_GEN_MAX else "."
        if mark == "#" and r.foreign_pending(unit, False, entry):
            mark = "f"
        marks.append(mark)
    print("  class %d: %d slots of %d bytes, %d live, %d in its free bitmap" % (cls, len(marks), size, marks.count("#") + marks.count("f"),
                                                                            number(slab["free_count"])))
    print("  # live, . free, x retired, f freed by another thread")
    say_map(marks)


def say_scope_map(r, slab, block):
    started, freed = r.scope_bits(slab)
    first, end, marks = r.first_offset(slab) // 16, scope_end(r, slab, block), []
    for entry in range(first, end):
        mark = "-"
        if started >> entry & 1:
            mark = "." if freed >> entry & 1 else "f" if r.foreign_pending(slab, True, entry) else "#"
        marks.append(mark)
    print("  scope slab: %d of %d bytes used, %d live objects" % (len(marks) * 16, L.PIECE_BYTES if slab & L.PIECE else L.UNIT_BYTES, marks.count("#") + marks.count("f")))
    print("  # live, . freed, - goes on, f freed by another thread; 16 bytes each")
    say_map(marks)


# ---- a handle -----------------------------------------------------------------------------------------------------------------


def say_handle(r, handle):
    unit, generation, entry = handle >> 42, handle >> 18 & 0xffffff, handle >> 8 & 1023
    cls, fmt = handle >> 2 & 63, handle & 3
    outer = fmt < L.HANDLE_FORMAT  # the bits of class and format are the region's
    far = cls == L.HANDLE_FAR and not outer
    if outer:
        unit += (fmt << 6 | cls) * L.NEAR_UNITS
    elif far:
        unit, entry = r.units + (entry << 22 | unit), 0
    print("handle %#x: unit %d, generation %d, entry %d, %s" % (
        handle, unit, generation, entry, "region %d" % (fmt << 6 | cls) if outer else "class %s, format %d" % (
            {L.COUNT_SCOPE: "scope", L.COUNT_SPAN: "span", L.HANDLE_FAR: "span of the FAR part"}.get(cls, cls), fmt)))
    end = r.units + r.far_marked if far else r.marked if outer else r.units
    if fmt > L.HANDLE_FORMAT or (outer and unit < L.NEAR_UNITS) or unit >= end or unit == 0 or generation == 0:
        print("  never was a handle")
        return
    p = r.unit_address(unit) + entry * 16
    place = look(r, p)
    unit = r.slab_at(unit, entry * 16)
    word = r.word(unit)
    of_span = L.HANDLE_FAR if far else L.COUNT_SPAN
    actual = of_span if word & L.UNIT_SPAN else L.COUNT_SCOPE if word & L.UNIT_SCOPE else r.block(word)[1] if word else None
    good = (place.state == "live" and place.generation & 0xffffff == generation and (outer or actual == cls) and
            number(r.slab(unit)["handled"]))
    print("  accepted" if good else "  stale")
    if good:
        say_place(r, p, place)
    elif place.generation is not None:
        print("  the place is in generation %d now, and %s" % (place.generation & 0xffffff, place.state))


# ---- commands -------------------------------------------------------------------------------------------------------------------


def evaluated(text, what="an expression", kind="unsigned long"):
    """The number that an expression is."""
    if not text:
        raise Problem("%s is missing" % what)
    try:
        return int(gdb.parse_and_eval(text).cast(gdb.lookup_type(kind)))
    except gdb.MemoryError:
        raise
    except gdb.error as error:
        raise Problem('"%s" is no number and no pointer: %s' % (text, str(error).rstrip("."))) from None


class Tslab(gdb.Command):
    """Shows what temporal-slab knows: tslab ptr, slab, epochs, epoch, heaps, heap, handle, allocators."""

    def __init__(self):
        super().__init__("tslab", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)


class Sub(gdb.Command):
    def __init__(self, name, function, text):
        self.__doc__ = text
        self.function = function
        super().__init__("tslab " + name, gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        try:
            self.function(Region(), argument.strip())
        except Problem as problem:
            raise gdb.GdbError("tslab: %s" % problem)
        except gdb.MemoryError as error:
            raise gdb.GdbError("tslab: what this needs is not in memory, or not in the core file: %s" % error)


def ptr_command(r, argument):
    p = evaluated(argument)
    say_place(r, p, look(r, p))


def slab_command(r, argument):
    n = evaluated(argument)
    where = r.locate(n)
    if where is not None:
        n = r.slab_at(*where) if n != r.unit_address(where[0]) else where[0]
    elif n >= r.units + r.far_marked or n == 0:
        raise Problem("%#x is neither the number of a unit nor an address in the region" % n)
    say_slab(r, n)


def epochs_command(r, argument):
    for epoch in all_epochs():
        print("%s: %d live objects" % (epoch_text(epoch), epoch_live(r, epoch)))


def epoch_command(r, argument):
    if not argument:
        raise Problem("an epoch's id or label is missing")
    label = argument.strip('"')
    found = [e for e in all_epochs() if label_text(e) == label]
    if not found:
        try:
            wanted = evaluated(argument)
        except (Problem, gdb.MemoryError):
            raise Problem('no open epoch has the label "%s"' % label) from None
        found = [e for e in all_epochs() if number(e["record"]["id"]) == wanted]
        if not found:
            index, past = wanted & ((1 << r.epoch_bits) - 1), wanted >> r.epoch_bits
            entry = epoch_by_index(index)
            if entry is not None and past and past < number(entry["record"]["era"]):
                print("epoch %#x has ended; its entry has been used %d times since" % (wanted, number(entry["record"]["era"]) - past))
                return
            raise Problem("there is no epoch %#x" % wanted)
    for epoch in found:
        say_epoch(r, epoch)


def heaps_command(r, argument):
    for heap in all_heaps():
        say_heap_line(r, heap)


def heap_command(r, argument):
    n = evaluated(argument)
    for heap in all_heaps():
        if n in (number(heap["id"]), address_of(heap.address)):
            say_heap(r, heap)
            return
    raise Problem("there is no heap %d" % n)


def handle_command(r, argument):
    say_handle(r, evaluated(argument, "a handle", "unsigned long long"))


def allocators_command(r, argument):
    table = value("ts_allocators")
    for index in range(1, number(table["high"])):
        a = at(address_of(table["base"]) + index * number(table["stride"]), "ts_allocator")
        if not number(a["record"]["id"]):
            continue
        retained = number(a["retained"]["count"]) + number(a["span_retained_units"])
        share = a["shares"]
        while address_of(share):
            retained += number(share["retained"]["count"]) + number(share["span_units"])
            share = share["allocator_next"]
        print("allocator %#x: %d KiB committed, %d KiB of them retained, rolling epoch %#x" % (
            number(a["token"]), number(a["committed_units"]) * 16, retained * 16, number(a["current_epoch"])))


Tslab()
Sub("ptr", ptr_command, "What a pointer is: live, free, stale, interior or not ours; its epoch, class and owner.")
Sub("slab", slab_command, "A slab by its unit number or an address in it, with a map of its slots.")
Sub("epochs", epochs_command, "The open and draining epochs.")
Sub("epoch", epoch_command, "An epoch by its id or label.")
Sub("heaps", heaps_command, "What each thread owns, in a line each.")
Sub("heap", heap_command, "A heap by its number or address.")
Sub("handle", handle_command, "A handle taken apart, and whether it is accepted.")
Sub("allocators", allocators_command, "The allocators and their memory.")
