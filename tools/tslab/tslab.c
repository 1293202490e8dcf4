/* tslab: a command line for programs that use temporal-slab. Called as stats_dump it is tslab stats. */
#include "common/options.h"
#include "common/target.h"
#include "tslab/commands.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *called;
    int (*run)(int argc, char **argv);
} COMMANDS[] = {{"top", "tslab top", command_top},          {"stats", "tslab stats", command_stats},
                {"doctor", "tslab doctor", command_doctor}, {"run", "tslab run", command_run},
                {"record", "tslab record", command_record}, {"advise", "tslab advise", command_advise},
                {"replay", "tslab replay", command_replay}, {"trace", "tslab trace", command_trace}};

static const char HELP[] =
    "usage: tslab top [OPTIONS] [PID|URL|CORE]         the epochs of a program by label, like top\n"
    "       tslab stats [OPTIONS] [PID|URL|CORE]       all figures\n"
    "       tslab doctor [OPTIONS] [PID|URL|CORE]...   what is wrong, with evidence and advice\n"
    "       tslab run [OPTIONS] PROGRAM [ARGUMENTS]    a program with temporal-slab as its malloc\n"
    "       tslab record [OPTIONS] PROGRAM [ARGUMENTS] what it allocates and frees\n"
    "       tslab advise [OPTIONS] FILE                of a recording: which allocations die together\n"
    "       tslab replay [OPTIONS] FILE                of a recording: the same under several allocators\n"
    "       tslab trace info | export | import ...     what such a file has, other formats\n"
    "       tslab help [COMMAND] | --help | -h | --version\n"
    "\n"
    "`tslab COMMAND --help` has the options.\n";

static bool is_help(const char *word) {
    return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int run_command(const char *name, int argc, char **argv) {
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++) {
        if (strcmp(name, COMMANDS[i].name) != 0) continue;
        option_command = COMMANDS[i].called;
        return COMMANDS[i].run(argc, argv);
    }
    return option_wrong("unknown command", name);
}

static int run(int argc, char **argv) {
    char help_option[] = "--help", *of_command[] = {argv[0], help_option, NULL};
    if (argc < 2) {
        fputs(HELP, stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 && argc > 2) return run_command(argv[2], 2, of_command);
    if (is_help(argv[1])) {
        fputs(HELP, stdout);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("tslab %s\n", slab_version());
        return EXIT_DONE;
    }
    return run_command(argv[1], argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL, *name = slash ? slash + 1 : argc > 0 ? argv[0] : "";
    if (strcmp(name, "stats_dump") != 0) return tool_end(run(argc, argv));
    tool_name = option_command = "stats_dump";
    return tool_end(command_stats(argc, argv));
}
