/*
 * The file of an emulated device changes behind the library's back: the file system is full, the file is cut, its
 * length is limited, its descriptors are the program's. Calls fail; no signal ends the program, and objects in memory
 * stay.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support.h"

#include "proc.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SMALL "zones=16&zone_size=1M"

/* Runs it in a child of fork, whose standard error is kept in `said`. */
static char said[4096];
static void in_child(void (*fn)(void *)) {
    int status = sup_child(fn, NULL, SUP_CHILD_SECONDS, said, sizeof said);
    SUP_CHECK(status == 0, "status %#x: %s", (unsigned)status, said);
}

/* ---- full ------------------------------------------------------------------------------------------------------- */

static char mounted[PATH_MAX];

static void write_own(const char *file, const char *text) {
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    SUP_CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0, "%s: %s", file,
              strerror(errno));
}

/* Namespaces of its own. In one for users, files can be made by those alone that it knows. */
static bool unshare_mounts(void) {
    char user[32], group[32];
    snprintf(user, sizeof user, "0 %u 1", (unsigned)geteuid());
    snprintf(group, sizeof group, "0 %u 1", (unsigned)getegid());
    if (unshare(CLONE_NEWNS) == 0) return true;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    write_own("/proc/self/setgroups", "deny");
    write_own("/proc/self/uid_map", user);
    write_own("/proc/self/gid_map", group);
    return true;
}

/* A file system of the test's own, of one megabyte. false: this user may not have one. */
static bool mount_small(void) {
    snprintf(mounted, sizeof mounted, "%s.d", zt_path());
    if (!unshare_mounts()) return false;
    (void)mkdir(mounted, 0700);
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", mounted, "tmpfs", 0, "size=1048576,mode=0700") == 0;
}

static const char *in_mounted(const char *name) {
    static char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", mounted, name);
    return path;
}

/* Takes the free space but for so many bytes. */
static void fill_up(off_t but) {
    static const char block[4096];
    int fd = open(in_mounted("filler"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    off_t bytes = 0;
    SUP_CHECK(fd >= 0, "%s", strerror(errno));
    while (write(fd, block, sizeof block) > 0) bytes += (off_t)sizeof block;
    SUP_CHECK(errno == ENOSPC && bytes > but, "%s", strerror(errno));
    SUP_CHECK(ftruncate(fd, bytes - but) == 0 && close(fd) == 0, "%s", strerror(errno));
}

static SlabZones *open_in_mounted(const char *parameters) {
    char where[PATH_MAX + 128];
    snprintf(where, sizeof where, "emulated:%s?%s", in_mounted("device"), parameters);
    return slab_zones_open(where, NULL);
}

static void full(void *skipped) {
    if (!mount_small()) {
        (void)fprintf(stderr, "no file system");
        return;
    }
    (void)skipped;
    /* Its table takes a megabyte. */
    fill_up(8192);
    ZT_ERRNO(open_in_mounted("zones=65536&zone_size=1M"), ENOSPC);
    (void)unlink(in_mounted("device"));
    fill_up(0);
    ZT_ERRNO(open_in_mounted(SMALL), ENOSPC);

    (void)unlink(in_mounted("filler"));
    SlabZones *zones = open_in_mounted(SMALL);
    SUP_CHECK(zones != NULL, "%s", strerror(errno));
    SlabAllocator *a = slab_allocator_create();
    zt_epoch e = zt_fill(a, EPOCH_CHURN, 100, 1000, 1);
    fill_up(0);
    ZT_ERRNO(epoch_spill(a, e.id, zones), EIO);
    SUP_CHECK(epoch_state(a, e.id) == EPOCH_CLOSING && zt_is_right(&e), "lost");
    (void)unlink(in_mounted("filler"));
    SUP_CHECK(epoch_spill(a, e.id, zones) && zt_reads_right(&e, 1), "%s", strerror(errno));
    SUP_CHECK(epoch_load(a, e.id) && zt_is_right(&e), "%s", strerror(errno));
    slab_allocator_free(a);
    SUP_CHECK(slab_zones_close(zones), "%s", strerror(errno));
}

/* ---- cut -------------------------------------------------------------------------------------------------------- */

static void cut(off_t to) {
    (void)unlink(zt_path());
    SlabZones *zones = zt_open(SMALL);
    SlabAllocator *a = slab_allocator_create();
    zt_epoch away = zt_fill(a, EPOCH_CHURN, 100, 1000, 1), here = zt_fill(a, EPOCH_CHURN, 100, 1000, 2);
    SUP_CHECK(epoch_spill(a, away.id, zones), "%s", strerror(errno));
    SUP_CHECK(truncate(zt_path(), to) == 0, "%s", strerror(errno));
    char byte;
    ZT_ERRNO(epoch_load(a, away.id), EIO);
    ZT_ERRNO(slab_zones_read(a, away.object[0].handle, &byte, 1) >= 0, EIO);
    SUP_CHECK(epoch_state(a, away.id) == EPOCH_SPILLED, "it has come back");
    ZT_ERRNO(epoch_spill(a, here.id, zones), EIO);
    SUP_CHECK(epoch_state(a, here.id) == EPOCH_CLOSING && zt_is_right(&here), "lost");
    SUP_CHECK(epoch_destroy(a, away.id), "%s", strerror(errno));
    SUP_CHECK(zt_stats(zones).spilled_epochs == 0, "it is still away");
    slab_allocator_free(a);
    SUP_CHECK(slab_zones_close(zones), "%s", strerror(errno));
    struct stat st;
    SUP_CHECK(stat(zt_path(), &st) == 0 && st.st_size == to, "the file has grown again");
    zt_forget(&away);
    zt_forget(&here);
}

/* ---- limited ---------------------------------------------------------------------------------------------------- */

static void limit_files(rlim_t bytes) {
    SUP_CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){bytes, RLIM_INFINITY}) == 0, "%s", strerror(errno));
}

static void limited(void *unused) {
    (void)unused;
    (void)unlink(zt_path());
    limit_files((rlim_t)1 << 20);
    ZT_ERRNO(slab_zones_open(zt_where(SMALL), NULL), EFBIG);
    limit_files(RLIM_INFINITY);
    SlabZones *zones = zt_open(SMALL);
    SlabAllocator *a = slab_allocator_create();
    zt_epoch e = zt_fill(a, EPOCH_CHURN, 100, 1000, 1);
    limit_files((rlim_t)1 << 20);
    ZT_ERRNO(epoch_spill(a, e.id, zones), EIO);
    SUP_CHECK(epoch_state(a, e.id) == EPOCH_CLOSING && zt_is_right(&e), "lost");
    slab_allocator_free(a);
    SUP_CHECK(slab_zones_close(zones), "%s", strerror(errno));
}

/* ---- descriptors ------------------------------------------------------------------------------------------------ */

/* The numbers of the device's file. */
static unsigned own_descriptors(int out[8]) {
    char path[PATH_MAX], link[PATH_MAX];
    unsigned found = 0;
    DIR *dir = opendir("/proc/self/fd");
    SUP_CHECK(dir != NULL, "%s", strerror(errno));
    for (struct dirent *e; found < 8 && (e = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        ssize_t n = readlink(path, link, sizeof link - 1);
        if (n <= 0) continue;
        link[n] = 0;
        if (strcmp(link, zt_path()) == 0) out[found++] = atoi(e->d_name);
    }
    (void)closedir(dir);
    return found;
}

static void are_the_programs(const int *fd, unsigned count, const struct stat *file) {
    for (unsigned i = 0; i < count; i++) {
        struct stat st;
        SUP_CHECK(fstat(fd[i], &st) == 0 && st.st_ino == file->st_ino && st.st_size == file->st_size,
                  "descriptor %d: %s", fd[i], strerror(errno));
    }
}

static void descriptors(void *unused) {
    int fd[8];
    struct stat file;
    (void)unused;
    (void)unlink(zt_path());
    SlabZones *zones = zt_open(SMALL);
    SlabAllocator *a = slab_allocator_create();
    zt_epoch e = zt_fill(a, EPOCH_CHURN, 100, 1000, 1);
    unsigned count = own_descriptors(fd);
    SUP_CHECK(count > 0, "no descriptor of %s", zt_path());
    /* A daemon that closes all, and opens a file of its own. */
    FILE *own = tmpfile();
    SUP_CHECK(own && fputs("of the program", own) > 0 && fflush(own) == 0, "%s", strerror(errno));
    for (unsigned i = 0; i < count; i++) SUP_CHECK(dup2(fileno(own), fd[i]) == fd[i], "%s", strerror(errno));
    SUP_CHECK(fstat(fileno(own), &file) == 0, "%s", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        are_the_programs(fd, count, &file);
        _exit(0);
    }
    int status;
    SUP_CHECK(waitpid(child, &status, 0) == child && status == 0, "the child: %#x", (unsigned)status);
    ZT_ERRNO(epoch_spill(a, e.id, zones), EIO);
    SUP_CHECK(epoch_state(a, e.id) == EPOCH_CLOSING && zt_is_right(&e), "lost");
    slab_allocator_free(a);
    SUP_CHECK(slab_zones_close(zones), "%s", strerror(errno));
    are_the_programs(fd, count, &file);
}

int main(void) {
    in_child(full);
    bool mounts = said[0] == 0;
    cut(0);
    cut(((off_t)1 << 20) + 4096);
    in_child(limited);
    SUP_CHECK(strstr(said, "ulimit -f allows no file of") && sup_count_lines(said) == 1, "said: %s", said);
    in_child(descriptors);
    if (!mounts) (void)printf("file_test: without a full file system, which this user may not mount\n");
    return 0;
}
