/* A host that runs each script in a Lua state of its own. */
#include <lauxlib.h>
#include <lualib.h>

#include "common.h"

static const char script[] = "local t = {} for i = 1, 60 do t[i] = {name = 'n' .. i, size = i * 2} end "
                             "local s = 0 for _, v in ipairs(t) do s = s + v.size + #v.name end return s";

FUNCTION static lua_Integer run_script(void) {
    lua_State *state = luaL_newstate();
    if (!state) {
        abort();
    }
    luaL_openlibs(state);
    lua_Integer result = luaL_dostring(state, script) ? -1 : lua_tointeger(state, -1);
    lua_close(state);
    return result;
}

int main(void) {
    lua_Integer sum = 0;
    for (unsigned i = 0; i < 200; i++) {
        sum += run_script();
    }
    printf("%lld\n", (long long)sum);
    return 0;
}
