#include "base/base.h"
#include "zones/emulated.h"
#include "zones/say.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define MAX_ZONES 65536u
#define BLOCK 4096u
#define LEAST_CAPACITY 16384u /* one slab */

static const struct parameter {
    const char *name;
    size_t offset;
    bool may_be_zero;
} parameters[] = {
    {"zones", offsetof(ts_emulated_parameters, zones), false},
    {"zone_size", offsetof(ts_emulated_parameters, zone_size), false},
    {"zone_capacity", offsetof(ts_emulated_parameters, zone_capacity), false},
    {"max_open", offsetof(ts_emulated_parameters, max_open), true},
    {"max_active", offsetof(ts_emulated_parameters, max_active), true},
};
#define PARAMETERS (sizeof parameters / sizeof parameters[0])

static bool refuse(const char *why, const char *text, size_t bytes) {
    ts_zones_say("%s: %.*s", why, (int)(bytes < 200 ? bytes : 200), text);
    errno = EINVAL;
    return false;
}

static bool parse_one(const char *text, size_t bytes, ts_emulated_parameters *out) {
    const char *equals = memchr(text, '=', bytes);
    if (!equals) return refuse("a parameter without a value", text, bytes);
    for (unsigned i = 0; i < PARAMETERS; i++) {
        const struct parameter *p = &parameters[i];
        if (strlen(p->name) != (size_t)(equals - text) || memcmp(p->name, text, strlen(p->name)) != 0) continue;
        uint64_t value;
        if (!ts_zones_number(equals + 1, text + bytes, &value) || (value == 0 && !p->may_be_zero))
            return refuse("not a value of this parameter", text, bytes);
        if (out->given >> i & 1) return refuse("a parameter that is given twice", text, bytes);
        memcpy((char *)out + p->offset, &value, sizeof value);
        out->given |= 1u << i;
        return true;
    }
    return refuse("no such parameter", text, (size_t)(equals - text));
}

static bool is_given(const ts_emulated_parameters *p, unsigned i) { return (p->given >> i & 1) != 0; }

/* What a file that is made now has. */
static void fill(ts_emulated_parameters *p) {
    if (!is_given(p, 0)) p->zones = 64;
    if (!is_given(p, 1)) p->zone_size = (uint64_t)4 << 20;
    if (!is_given(p, 2)) p->zone_capacity = p->zone_size;
}

static bool check(const ts_emulated_parameters *p) {
    ts_emulated_parameters f = *p;
    fill(&f);
    const char *wrong = NULL;
    if (f.zones > MAX_ZONES)
        wrong = "zones is more than 65536";
    else if (f.zone_size % BLOCK != 0 || f.zone_size < LEAST_CAPACITY || f.zone_size > (uint64_t)1 << 40)
        wrong = "zone_size is no multiple of 4K from 16K to 1024G";
    else if (f.zone_capacity % BLOCK != 0 || f.zone_capacity < LEAST_CAPACITY)
        wrong = "zone_capacity is no multiple of 4K from 16K on";
    else if (f.zone_capacity > f.zone_size)
        wrong = "zone_capacity is more than zone_size";
    else if (f.max_open > f.zones)
        wrong = "max_open is more than zones";
    else if (f.max_active > f.zones)
        wrong = "max_active is more than zones";
    else if (f.max_active != 0 && f.max_open > f.max_active)
        wrong = "max_open is more than max_active";
    if (!wrong) return true;
    ts_zones_say("%s", wrong);
    errno = EINVAL;
    return false;
}

bool ts_emulated_parse(const char *text, char *path, size_t path_bytes, ts_emulated_parameters *out) {
    *out = (ts_emulated_parameters){0};
    size_t name = strcspn(text, "?");
    if (name == 0) return refuse("emulated: without a file", text, strlen(text));
    if (name >= path_bytes) return ts_fail(ENAMETOOLONG);
    memcpy(path, text, name);
    path[name] = 0;
    for (const char *p = text + name; *p != 0;) {
        size_t bytes = strcspn(++p, "&");
        if (!parse_one(p, bytes, out)) return false;
        p += bytes;
    }
    return check(out);
}
