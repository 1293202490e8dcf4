/* The commands of tslab, each in a file of its name. argv[0] is the command's own name. They return the exit code. */
#ifndef TSLAB_COMMANDS_H
#define TSLAB_COMMANDS_H

int command_top(int argc, char **argv);
/* Also the program stats_dump. */
int command_stats(int argc, char **argv);
int command_doctor(int argc, char **argv);
/* Returns only if the program was not started. */
int command_run(int argc, char **argv);
int command_record(int argc, char **argv);
/* Of a trace: where its boundaries are (tools/advise). */
int command_advise(int argc, char **argv);
/* Of a trace: its operations under several allocators (tools/replay). */
int command_replay(int argc, char **argv);
/* Returns only if it could not be started. */
int command_trace(int argc, char **argv);

#endif
