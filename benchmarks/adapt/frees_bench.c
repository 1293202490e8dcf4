/*
 * The cost of frees in a request that ends with a scope: one document, or one state, a round.
 *
 *     frees_bench xml|lua|json malloc|frees|keep [ROUNDS]      for instructions: callgrind of two counts of rounds
 *     frees_bench --smoke                                      each once
 *
 * malloc: the C library's, each object freed. frees: in a scope, each object freed by the library. keep: in a scope,
 * and the library's frees do nothing (xml, json: the tree is dropped; lua: no lua_close()).
 */
#include <tslab/adapt.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MALLOC, FREES, KEEP };

static EpochDomain *begin(int how) {
    EpochDomain *d = how == MALLOC ? NULL : epoch_domain_create(NULL);
    if (d) epoch_domain_enter(d);
    return d;
}
static void end(EpochDomain *d) {
    if (d) epoch_domain_exit(d);
    epoch_domain_destroy(d);
}

#ifdef HAVE_LIBXML2
#include <libxml/parser.h>
static void xml_start(int how) {
    if (how != MALLOC) (void)slab_adapt_libxml2(SLAB_ADAPT_IN_DOMAINS);
    xmlInitParser();
}
static void xml_round(int how) {
    static char text[64 * 1024];
    if (!text[0]) {
        size_t at = (size_t)sprintf(text, "<list>");
        for (int i = 0; i < 400; i++)
            at += (size_t)sprintf(text + at, "<item n='%d'><name>name %d</name></item>", i, i);
        sprintf(text + at, "</list>");
    }
    EpochDomain *d = begin(how);
    xmlDocPtr document = xmlReadMemory(text, (int)strlen(text), "x.xml", NULL, 0);
    if (!document || xmlChildElementCount(xmlDocGetRootElement(document)) != 400) exit(1);
    if (how != KEEP) xmlFreeDoc(document);
    end(d);
}
#endif

#ifdef HAVE_JANSSON
#include <jansson.h>
static void json_start(int how) {
    if (how == FREES) slab_adapt_jansson(SLAB_ADAPT_IN_DOMAINS);
    slab_adapt_set(&slab_adapt_home_jansson, SLAB_ADAPT_IN_DOMAINS);
    if (how == KEEP) json_set_alloc_funcs(slab_adapt_jansson_malloc, slab_adapt_keep_all);
}
static void json_round(int how) {
    static char text[64 * 1024];
    if (!text[0]) {
        size_t at = (size_t)sprintf(text, "[0");
        for (int i = 0; i < 400; i++) at += (size_t)sprintf(text + at, ",{\"n\": %d, \"name\": \"name %d\"}", i, i);
        sprintf(text + at, "]");
    }
    EpochDomain *d = begin(how);
    json_t *document = json_loads(text, 0, NULL);
    if (!document || json_array_size(document) != 401) exit(1);
    if (how != KEEP) json_decref(document);
    end(d);
}
#endif

#ifdef HAVE_LUA
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
static void lua_start(int how) { (void)how; }
static void lua_round(int how) {
    static const char script[] = "local t = {} for i = 1, 400 do t[i] = {n = i, name = 'name ' .. i} end return #t";
    EpochDomain *d = begin(how);
    lua_State *L = how == MALLOC  ? luaL_newstate()
                   : how == FREES ? lua_newstate(slab_adapt_lua, d)
                                  : lua_newstate(slab_adapt_lua_keep, d);
    if (!L) exit(1);
    luaL_openlibs(L);
    if (luaL_dostring(L, script) != LUA_OK || lua_tointeger(L, -1) != 400) exit(1);
    if (how != KEEP) lua_close(L);
    end(d);
}
#endif

static const struct {
    const char *name;
    void (*start)(int how), (*round)(int how);
} works[] = {
#ifdef HAVE_LIBXML2
    {"xml", xml_start, xml_round},
#endif
#ifdef HAVE_JANSSON
    {"json", json_start, json_round},
#endif
#ifdef HAVE_LUA
    {"lua", lua_start, lua_round},
#endif
    {NULL, NULL, NULL},
};
static const char *const hows[] = {"malloc", "frees", "keep", NULL};

int main(int argc, char **argv) {
    bool smoke = argc == 2 && strcmp(argv[1], "--smoke") == 0, found = false;
    long rounds = argc > 3 ? strtol(argv[3], NULL, 10) : 1;
    for (int i = 0; works[i].name; i++) {
        for (int how = 0; hows[how]; how++) {
            if (!smoke && (argc < 3 || strcmp(argv[1], works[i].name) != 0 || strcmp(argv[2], hows[how]) != 0))
                continue;
            found = true;
            works[i].start(how);
            for (long n = 0; n < rounds; n++) works[i].round(how);
        }
    }
    if (!found) fprintf(stderr, "usage: frees_bench --smoke | xml|json|lua malloc|frees|keep [ROUNDS]\n");
    return found ? 0 : 2;
}
