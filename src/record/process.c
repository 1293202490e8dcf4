/*
 * Attaches the process to the tool's memory at its first allocation, tells of its modules, and follows forks.
 */
#define _GNU_SOURCE
#include "record/inside.h"
#include "record/next.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COMMAND_BYTES = 1024, RANGES = 512, LINE = 4096 + 256 };

uint32_t record_process_number, record_image;
uintptr_t record_own_start, record_own_end;

/* ---- modules ----------------------------------------------------------------------------------------------------- */

static unsigned long long seen_adds; /* of the loader, when the modules were last told */

static void hex_build_id(const struct dl_phdr_info *info, char *out, size_t room) {
    out[0] = '-', out[1] = 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_NOTE) continue;
        const char *at = (const char *)(info->dlpi_addr + p->p_vaddr), *end = at + p->p_memsz;
        while (end - at >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
            const ElfW(Nhdr) *n = (const void *)at;
            const unsigned char *id = (const unsigned char *)at + sizeof *n + ((n->n_namesz + 3u) & ~3u);
            if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 && memcmp(at + sizeof *n, "GNU", 4) == 0) {
                for (unsigned k = 0; id + k < (const unsigned char *)end && k < n->n_descsz && 2 * k + 3 < room; k++)
                    snprintf(out + 2 * k, 3, "%02x", id[k]);
                return;
            }
            at = (const char *)id + ((n->n_descsz + 3u) & ~3u);
        }
    }
}

static int tell_module(struct dl_phdr_info *info, size_t bytes, void *arg) {
    char line[LINE], build_id[80], program[4096] = "";
    const char *path = info->dlpi_name;
    (void)bytes, (void)arg;
    seen_adds = info->dlpi_adds;
    if (!path || !*path) {
        ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
        program[n > 0 ? n : 0] = 0;
        path = program;
    }
    hex_build_id(info, build_id, sizeof build_id);
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t start = info->dlpi_addr + p->p_vaddr, here = (uintptr_t)tell_module;
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
        if (here - start < p->p_memsz) {
            record_own_start = start;
            record_own_end = start + p->p_memsz;
        }
        int n = snprintf(line, sizeof line, "%u %lx %lx %lx %lx %s %s\n", (unsigned)record_image, (unsigned long)start,
                         (unsigned long)(start + p->p_memsz), (unsigned long)p->p_offset,
                         (unsigned long)info->dlpi_addr, build_id, path);
        raw_event e = {.time_ns = record_now(), .kind = NOTE_MODULES};
        if (n > 0 && (size_t)n < sizeof line) record_put_text(&e, line, (size_t)n);
    }
    return 0;
}

static int look_at_adds(struct dl_phdr_info *info, size_t bytes, void *arg) {
    (void)bytes;
    *(unsigned long long *)arg = info->dlpi_adds;
    return 1;
}

/* A stack has an address that it had not before: other modules may have been loaded. */
void record_check_modules(uintptr_t address) {
    unsigned long long adds = seen_adds;
    (void)address;
    (void)dl_iterate_phdr(look_at_adds, &adds);
    if (adds != seen_adds) (void)dl_iterate_phdr(tell_module, NULL);
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

static size_t read_command(char *out, size_t room) {
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, out, room);
    if (fd >= 0) (void)close(fd);
    if (n <= 0) return 0;
    while (n > 0 && out[n - 1] == 0) n--;
    for (ssize_t i = 0; i < n; i++)
        if (out[i] == 0 || out[i] == '\n') out[i] = ' ';
    return (size_t)n;
}

static bool is_untold;
static uint32_t parent_process;

/* Of the first thread's slot: so the note comes before all other events of the process. */
void record_slot_is_new(void) {
    char note[COMMAND_BYTES + 64];
    if (!is_untold) return;
    is_untold = false;
    int n = snprintf(note, sizeof note, "%u %u %ld %ld ", (unsigned)parent_process, (unsigned)record_image,
                     (long)getpid(), (long)getppid());
    size_t bytes = (size_t)n + read_command(note + n, COMMAND_BYTES);
    raw_event e = {.time_ns = record_now(), .kind = NOTE_PROCESS};
    record_put_text(&e, note, bytes);
}

/* Takes the thread's first slot. */
static bool tell(uint32_t parent) {
    record_process_number = atomic_fetch_add(&record_memory->processes, 1);
    parent_process = parent;
    is_untold = true;
    return record_begin_slow();
}

static void before_fork(void) {
    if (atomic_load(&record_state) == RECORD_ON) record_threads_pause();
}

static void in_parent(void) { record_threads_go_on(); }

static void in_child(void) {
    if (atomic_load(&record_state) != RECORD_ON) {
        record_threads_go_on();
        return;
    }
    uint32_t parent = record_process_number;
    record_threads_forget();
    record_forget_sampled();
    if (!record_memory->with_children) {
        atomic_store(&record_state, RECORD_OFF);
    } else if (tell(parent)) {
        record_self.inside = true;
        record_end();
    }
    record_threads_go_on();
}

/* ---- attaching --------------------------------------------------------------------------------------------------- */

static record_shared *map_memory(const char *path) {
    struct stat s;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return NULL;
    void *p = MAP_FAILED;
    if (fstat(fd, &s) == 0 && (uint64_t)s.st_size >= sizeof(record_shared))
        p = mmap(NULL, sizeof(record_shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    (void)close(fd);
    if (p == MAP_FAILED) return NULL;
    record_shared *m = p;
    if (m->version == RECORD_VERSION && m->bytes == sizeof *m && !atomic_load(&m->is_over) &&
        (m->with_children || atomic_load(&m->root_pid) == getpid()))
        return m;
    (void)munmap(p, sizeof *m);
    return NULL;
}

/* In the thread that allocates first; `inside` is set. Others that come meanwhile are not recorded. */
void record_attach(void) {
    int was = RECORD_NEW;
    if (!environ || !atomic_compare_exchange_strong(&record_state, &was, RECORD_ATTACHING)) return;
    const char *path = getenv(RECORD_VARIABLE);
    record_shared *m = path && *path ? map_memory(path) : NULL;
    if (!m) {
        atomic_store(&record_state, RECORD_OFF);
        return;
    }
    if (record_calls_own_malloc()) atomic_store(&m->has_own_malloc, 1);
    record_memory = m;
    record_image = atomic_fetch_add(&m->images, 1) + 1;
    record_threads_init();
    atomic_store(&record_state, RECORD_ON);
    if (!tell(UINT32_MAX)) {
        atomic_store(&record_state, RECORD_OFF);
        return;
    }
    (void)dl_iterate_phdr(tell_module, NULL);
    record_end();
    record_self.inside = true;
    (void)pthread_atfork(before_fork, in_parent, in_child);
}

/* A program that allocates nothing is a process, too. */
__attribute__((constructor)) static void at_load(void) {
    if (record_begin()) record_end();
}
