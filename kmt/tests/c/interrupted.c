/* A program that submits as examples/c/user_mode_submission.c does, with a timer whose signals interrupt whatever waits in the host's kernel: SIGRTMIN, several thousand times a second. */
#define _GNU_SOURCE
#include <campanile_gpu.h>
#include <campanile_kmt.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

#define main submit
#include "../../../examples/c/user_mode_submission.c"
#undef main

static void interrupt(int signal)
{
    (void)signal;
}

int main(int count, char **arguments)
{
    struct sigaction action = {0};
    struct sigevent event = {0};
    struct itimerspec often = {{0, 200000}, {0, 200000}};
    timer_t timer;

    /* Without SA_RESTART. */
    action.sa_handler = interrupt;
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGRTMIN;
    if (sigaction(SIGRTMIN, &action, NULL) || timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &often, NULL))
        return EXIT_FAILURE;
    return submit(count, arguments);
}
