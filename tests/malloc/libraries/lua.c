/* A state of its own for each request. */
#include "captured.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

static const char script[] = "local n = ...\n"
                             "local t = {}\n"
                             "for i = 1, 500 do t[i] = { name = 'part ' .. i, price = i + n % 7 } end\n"
                             "table.sort(t, function(a, b) return a.price > b.price end)\n"
                             "local s = {}\n"
                             "for _, v in ipairs(t) do s[#s + 1] = v.name:upper() end\n"
                             "return #table.concat(s, ',')\n";

static lua_State *run(unsigned request) {
    lua_State *state = luaL_newstate();
    CHECK(state != NULL);
    luaL_openlibs(state);
    CHECK(luaL_loadstring(state, script) == LUA_OK);
    lua_pushinteger(state, (lua_Integer)request);
    CHECK(lua_pcall(state, 1, 1, 0) == LUA_OK && lua_tointeger(state, -1) > 3000);
    return state;
}

static void serve(unsigned request) { lua_close(run(request)); }
static void drop(unsigned request) { (void)run(request); }
static void begin(void) {}
static void end(void) {}

const library tested = {begin, serve, drop, end};
