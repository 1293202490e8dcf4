#include "common/options.h"

#include "common/target.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const char *option_command = "tslab";

static int next(int argc, char **argv, const char *letters, const struct option *known) {
    opterr = 0;
    return getopt_long(argc, argv, letters, known, NULL);
}
int option_next(int argc, char **argv, const struct option *known) { return next(argc, argv, ":h", known); }
int option_next_before_operands(int argc, char **argv, const struct option *known) {
    return next(argc, argv, "+:h", known);
}

const char *option_text(char **argv) { return argv[optind - 1]; }

int option_wrong(const char *what, const char *argument) {
    say("%s '%s'; see %s --help", what, argument, option_command);
    return EXIT_USAGE;
}

int option_bad(int c, char **argv) {
    return option_wrong(c == ':' ? "no value behind" : "unknown option", option_text(argv));
}

bool number_of(const char *text, unsigned long least, unsigned long *out) {
    char *end;
    errno = 0;
    *out = strtoul(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && errno == 0 && *end == 0 && *out >= least;
}

bool seconds_of(const char *text, double *out) {
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    return errno == 0 && end != text && *end == 0 && *out >= 0.05 && *out <= 86400;
}

bool bytes_of_text(const char *text, unsigned long long *out) {
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10), most = SIZE_MAX;
    if (text[0] < '0' || text[0] > '9' || errno != 0) return false;
    const char *units = "kmg", *unit = *end ? strchr(units, *end | 32) : NULL;
    if (unit) most >>= 10 * (unit - units + 1);
    *out = n <= most && unit ? n << 10 * (unit - units + 1) : n;
    return n <= most && *(unit ? end + 1 : end) == 0;
}
