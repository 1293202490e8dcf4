/*
 * lua_states: a request makes a Lua state, runs a script in it, and drops the state.
 *
 * malloc: lua_close() frees object by object. temporal-slab: the state allocates in a domain, whose end drops the state
 * without lua_close(). Lua's own garbage collection runs in both.
 */
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <tslab/tslab.h>

#include "case.h"

#define TOOL "lua_states"

static const char script[] =
    "local rows = {}\n"
    "for i = 1, 400 do\n"
    "  rows[i] = { id = i, name = 'row ' .. i, tags = { 'a' .. i % 7, 'b' .. i % 11 } }\n"
    "end\n"
    "table.sort(rows, function(x, y) return x.name < y.name end)\n"
    "local out = {}\n"
    "for i, row in ipairs(rows) do\n"
    "  out[#out + 1] = string.format('%d:%s:%s', row.id, row.name:upper(), table.concat(row.tags, '/'))\n"
    "end\n"
    "return table.concat(out, '\\n')\n";

static void *by_malloc(void *unused, void *pointer, size_t old_size, size_t size) {
    (void)unused, (void)old_size;
    if (size != 0) return realloc(pointer, size);
    free(pointer);
    return NULL;
}

static void *by_domain(void *domain, void *pointer, size_t old_size, size_t size) {
    (void)old_size; /* for a new object it is Lua's type of it */
    if (pointer == NULL) return size != 0 ? epoch_domain_alloc(domain, size) : NULL;
    if (size != 0) return slab_alloc_resize(pointer, size);
    (void)slab_release(pointer);
    return NULL;
}

static uint64_t serve(const Case *run) {
    bool tslab = run->allocator == WL_TSLAB;
    /* Lua frees and allocates all the time: a churn epoch uses its slots again. */
    EpochDomain *domain = tslab ? epoch_domain_create_ex(NULL, "lua", EPOCH_CHURN) : NULL;
    lua_State *state = lua_newstate(tslab ? by_domain : by_malloc, domain);
    if (state == NULL) wl_die(BENCH_EXIT_FAILED, TOOL, "no state");
    luaL_requiref(state, "_G", luaopen_base, 1);
    luaL_requiref(state, LUA_TABLIBNAME, luaopen_table, 1);
    luaL_requiref(state, LUA_STRLIBNAME, luaopen_string, 1);
    lua_settop(state, 0);
    if (luaL_loadstring(state, script) != LUA_OK || lua_pcall(state, 0, 1, 0) != LUA_OK)
        wl_die(BENCH_EXIT_FAILED, TOOL, "%s", lua_tostring(state, -1));
    size_t length;
    const char *result = lua_tolstring(state, -1, &length);
    uint64_t digest = case_hash(CASE_HASH_START, result, length);
    if (tslab)
        epoch_domain_destroy(domain);
    else
        lua_close(state);
    return digest;
}

int main(int argc, char **argv) {
    Case *run = case_begin(argc, argv, TOOL, "A Lua state for each request: made, run, dropped.");
    case_same(run, serve(run));
    case_start(run);
    while (case_goes_on(run)) {
        uint64_t begin_ns = bench_now_ns();
        uint64_t digest = serve(run);
        bench_hist_add(&run->latencies, bench_now_ns() - begin_ns);
        case_same(run, digest);
    }
    return case_finish(run);
}
