/*
 * tslab trace info|export|import: a program in Python beside the tool, which this starts. Formats of others come and
 * go, and their libraries are Python's.
 */
#include "tslab/commands.h"
#include "tslab/launch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int command_trace(int argc, char **argv) {
    static const char *const places[] = {("../" TSLAB_SHARE_DIR "/trace"), "trace"};
    char self[PATH_MAX], script[PATH_MAX + 64] = "", python[] = "python3", bytes[] = "-B";
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        int length = snprintf(script, sizeof script, "%s/%s/tslab_trace_tool.py", self, places[i]);
        if (length > 0 && (size_t)length < sizeof script && access(script, R_OK) == 0) break;
        script[0] = 0;
    }
    if (!script[0]) return launch_fail(EXIT_CANNOT, "tslab_trace_tool.py is not found");
    char **arguments = calloc((size_t)argc + 4, sizeof *arguments);
    if (!arguments) return launch_fail(EXIT_CANNOT, "no memory");
    arguments[0] = python;
    arguments[1] = bytes;
    arguments[2] = script;
    for (int i = 1; i < argc; i++) arguments[i + 2] = argv[i];
    execvp(python, arguments);
    int code = launch_fail(EXIT_CANNOT, "python3: %s", strerror(errno));
    free(arguments);
    return code;
}
