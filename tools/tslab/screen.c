#include "tslab/screen.h"
#include "common/target.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;
static volatile sig_atomic_t screen_taken;

/* Functions for signal handlers too. */
void screen_give_back(void) {
    if (!screen_taken) return;
    screen_taken = 0;
    (void)!write(STDOUT_FILENO, "\033[0m\033[?25h\033[?1049l", 18);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static bool take_screen(void) {
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) return false;
    screen_taken = 1;
    (void)!write(STDOUT_FILENO, "\033[?1049h\033[?25l", 14);
    return true;
}

static void on_resize(int number) { (void)number; } /* ends the wait for keys */

static void on_end(int number) {
    screen_give_back();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* Ctrl-Z: stops with the shell's screen, and takes its own again afterwards. */
static void on_stop(int number) {
    int error = errno;
    sigset_t stop;
    struct sigaction again, stopping = {.sa_handler = SIG_DFL};
    screen_give_back();
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, number);
    (void)sigaction(number, &stopping, &again);
    (void)raise(number);
    (void)sigprocmask(SIG_UNBLOCK, &stop, NULL); /* it stops here */
    (void)sigprocmask(SIG_BLOCK, &stop, NULL);
    (void)sigaction(number, &again, NULL);
    (void)take_screen();
    errno = error;
}

static void handle(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler}, old;
    (void)sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler == SIG_IGN) return; /* as nohup wants it */
    (void)sigaction(number, &action, NULL);
}

bool screen_begin(void) {
    if (screen_taken) return true;
    if (tcgetattr(STDIN_FILENO, &before) != 0) return false;
    before_saying = screen_give_back;
    (void)atexit(screen_give_back);
    handle(SIGINT, on_end);
    handle(SIGTERM, on_end);
    handle(SIGHUP, on_end);
    handle(SIGQUIT, on_end);
    handle(SIGTSTP, on_stop);
    handle(SIGWINCH, on_resize);
    return take_screen();
}
