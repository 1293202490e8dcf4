/* Preloaded by plan_test.py: loads TOOLS_EARLY in its constructor, before the malloc has started. */
#include <dlfcn.h>
#include <stdlib.h>

__attribute__((constructor)) static void load(void) {
    if (!dlopen(getenv("TOOLS_EARLY"), RTLD_NOW)) abort();
}
