/* Runs a program; prints seconds of processor and the MiB that it had at most to standard error. For bench.py: what Python starts
   itself counts Python's own peak. usage: peak PROGRAM ARGUMENTS */
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

int main(int count, char **arguments) {
    struct rusage used;
    int status = 1;
    pid_t child = count > 1 ? fork() : -1;
    if (child == 0) {
        execvp(arguments[1], arguments + 1);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &used) != child) return 1;
    fprintf(stderr, "%.4f %.2f\n", seconds(used.ru_utime) + seconds(used.ru_stime), (double)used.ru_maxrss / 1024);
    return status != 0;
}
