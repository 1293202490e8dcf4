/* A library that takes most of the room that the loader keeps for the thread storage of late libraries. */
_Thread_local char greedy_block[1400] __attribute__((tls_model("initial-exec")));

char *greedy_touch(void) { return greedy_block; }
