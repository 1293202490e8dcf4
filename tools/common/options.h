/* The command line: options by getopt_long, numbers, and the message about a wrong one. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <getopt.h>
#include <stdbool.h>

/* The next option of a command, whose own name is argv[0]; -1: there is none, and optind is that of the first
   operand. '?': it is not known; ':': it has no value. Nothing is said of that yet. */
int option_next(int argc, char **argv, const struct option *known);
/* As option_next, but operands end the options. */
int option_next_before_operands(int argc, char **argv, const struct option *known);
/* That option as it was given. */
const char *option_text(char **argv);
/* The command as it is called: "tslab top". Reports the error, and returns the exit code. */
extern const char *option_command;
int option_wrong(const char *what, const char *argument);
/* Of an option for which option_next has returned '?' or ':'. */
int option_bad(int c, char **argv);

/* All of the text, in decimal; false: it is none, or less than that. */
bool number_of(const char *text, unsigned long least, unsigned long *out);
#define SECONDS_WANTED "not a number of seconds from 0.05 to 86400:"
bool seconds_of(const char *text, double *out);
/* As the library reads its variables: 65536, 64K, 64M, 1G. */
bool bytes_of_text(const char *text, unsigned long long *out);

#endif
