/* A Lua state per request: it ends with the domain, without lua_close(). In a scope with frees, in one that keeps what
   is small until it ends, and in a domain that uses places again. */
#include <tslab/adapt.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>

static const char script[] = "local words = {}\n"
                             "for i = 1, 2000 do words[#words + 1] = 'word ' .. i end\n"
                             "return #table.concat(words, ' ')";

int main(void) {
    for (int round = 0; round < 3; round++) {
        EpochDomain *request = epoch_domain_create_ex(NULL, "request", round == 2 ? EPOCH_CHURN : 0);
        lua_State *L = lua_newstate(round == 1 ? slab_adapt_lua_keep : slab_adapt_lua, request);
        if (!L) return 1;
        luaL_openlibs(L);
        if (luaL_dostring(L, script) != LUA_OK) {
            fprintf(stderr, "%s\n", lua_tostring(L, -1));
            return 1;
        }
        if (lua_tointeger(L, -1) != 18892) return 1;
        printf("Lua: %d KiB by its own count, %zu KiB in the domain\n", lua_gc(L, LUA_GCCOUNT),
               epoch_domain_held(request) / 1024);
        if (epoch_domain_held(request) == 0) return 1;
        epoch_domain_destroy(request);
    }
    return 0;
}
