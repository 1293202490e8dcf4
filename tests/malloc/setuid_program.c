/* Says whether it has other rights than the user who started it, whether malloc is in the hard mode, and how many
   threads there are. */
#define _GNU_SOURCE
#include "malloc_test.h"

#include <dirent.h>
#include <malloc.h>
#include <sys/auxv.h>

int main(void) {
    char *volatile p = malloc(33);
    int hard = malloc_usable_size(p) == 33, threads = 0;
    free(p);
    DIR *d = opendir("/proc/self/task");
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;) threads += e->d_name[0] != '.';
    closedir(d);
    printf("secure %d hard %d threads %d\n", getauxval(AT_SECURE) != 0, hard, threads);
    return 0;
}
