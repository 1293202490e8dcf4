/* tslab run: a program with temporal-slab as its malloc. */
#ifndef TSLAB_RUN_H
#define TSLAB_RUN_H

/* argv[1] is "run". Returns only if the program was not started: an exit code. */
int ts_run(int argc, char **argv);

#endif
