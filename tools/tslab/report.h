/* Statistics and findings of running programs, as text. Each returns the exit code. */
#ifndef TOOL_REPORT_H
#define TOOL_REPORT_H

/* The program stats_dump. */
int ts_stats_dump(int argc, char **argv);
/* tslab stats, tslab doctor: argv[1] is the command's name. */
int ts_stats(int argc, char **argv);
int ts_doctor_of(int argc, char **argv);

#endif
