/*
 * A program that says hello to a machine by the wire of remote/src/wire.rs, and then breaks a rule: half, kind, answer, descriptor, unused, argument, close, mark and
 * flood. The mode "version" says hello with the version of another release, "silent" and "rude" say none, "crowd" connects many times and says none until its
 * input ends, "twice" says hello on two connections, and "exec" becomes another program again and again and says hello each time. "descriptor" says so
 * where the host refuses to send it. The declarations that both ends must share are the second argument, the version of the wire is the third.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Words of a message: see remote/src/wire.rs. */
enum { WORDS = 12 };

static uint64_t mark = 0x1234567887654321ull;
static uint64_t spoken;
static int machine;

static void send_words(const uint64_t *words, size_t bytes)
{
    assert(send(machine, words, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
}

static void connect_to_machine(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    strncpy(address.sun_path, getenv("CAMPANILE_MACHINE"), sizeof(address.sun_path) - 1);
    machine = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert(machine >= 0 && connect(machine, (struct sockaddr *)&address, sizeof(address)) == 0);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
}

/* Waits for a message, and gives its kind and its first word. */
static uint64_t answer(uint64_t *word)
{
    uint64_t words[WORDS] = {0};

    assert(recv(machine, words, sizeof(words), 0) == sizeof(words));
    *word = words[1];
    return words[0];
}

/* Connects, says hello, and gives the answer. */
static uint64_t hello(uint64_t version, uint64_t declarations, uint64_t *word)
{
    uint64_t words[WORDS] = {1, version, declarations, (uint64_t)(uintptr_t)&mark, mark};

    memcpy(&words[5], "misbehave", 9);
    connect_to_machine();
    send_words(words, sizeof(words));
    return answer(word);
}

/* Calls that take their time or none, and answers that nobody takes: until the machine takes no more. */
static void flood(void)
{
    uint64_t words[WORDS] = {2};

    for (;;) {
        words[1]++;
        words[2] = words[1] % 64;
        if (send(machine, words, sizeof(words), MSG_NOSIGNAL) < 0)
            return;
    }
}

/* Connections that say nothing, more than a machine has places. */
static void crowd(void)
{
    for (int count = 0; count < 100; count++)
        connect_to_machine();
    puts("connected");
    fflush(stdout);
    getchar();
}

/* Says hello, and becomes the same program with one mode less to go. */
static void become_another(char **argv, uint64_t declarations)
{
    unsigned long left = strtoul(argv[1] + 4, NULL, 0);
    uint64_t word, kind = hello(spoken, declarations, &word);
    char mode[32];

    if (kind != 16 || left == 0) {
        printf("%llu %llu\n", (unsigned long long)kind, (unsigned long long)word);
        fflush(stdout);
        _exit(0);
    }
    snprintf(mode, sizeof(mode), "exec%lu", left - 1);
    execl("/proc/self/exe", argv[0], mode, argv[2], argv[3], (char *)NULL);
}

static void send_descriptor(void)
{
    uint64_t words[WORDS] = {2};
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {words, sizeof(words)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    memcpy(CMSG_DATA(&control.header), &machine, sizeof(int));
    if (sendmsg(machine, &message, MSG_NOSIGNAL) < 0) {
        assert(errno == EPERM);
        puts("refused by the host");
        exit(EXIT_SUCCESS);
    }
}

int main(int argc, char **argv)
{
    uint64_t words[WORDS] = {0}, word;
    uint64_t declarations;
    const char *mode;

    assert(argc == 4);
    mode = argv[1];
    declarations = strtoull(argv[2], NULL, 0);
    spoken = strtoull(argv[3], NULL, 0);
    if (strcmp(mode, "version") == 0) {
        uint64_t kind = hello(spoken + 1, declarations, &word);
        printf("%llu %llu\n", (unsigned long long)kind, (unsigned long long)word);
        return 0;
    }
    if (strcmp(mode, "silent") == 0 || strcmp(mode, "rude") == 0) {
        connect_to_machine();
        words[0] = 2;
        if (strcmp(mode, "rude") == 0)
            send_words(words, sizeof(words));
        uint64_t kind = answer(&word);
        printf("%llu %llu\n", (unsigned long long)kind, (unsigned long long)word);
        return 0;
    }
    if (strcmp(mode, "crowd") == 0) {
        crowd();
        return 0;
    }
    if (strncmp(mode, "exec", 4) == 0)
        become_another(argv, declarations);
    assert(hello(spoken, declarations, &word) == 16);
    if (strcmp(mode, "twice") == 0) {
        uint64_t kind = hello(spoken, declarations, &word);
        printf("%llu %llu\n", (unsigned long long)kind, (unsigned long long)word);
        return 0;
    }
    if (strcmp(mode, "half") == 0) {
        send_words(words, sizeof(words) / 2);
    } else if (strcmp(mode, "kind") == 0) {
        words[0] = 99;
        send_words(words, sizeof(words));
    } else if (strcmp(mode, "answer") == 0) {
        words[0] = 3;
        words[1] = 7;
        send_words(words, sizeof(words));
    } else if (strcmp(mode, "unused") == 0) {
        words[0] = 2;
        words[11] = 1;
        send_words(words, sizeof(words));
    } else if (strcmp(mode, "argument") == 0) {
        /* The first thunk has one argument. */
        words[0] = 2;
        words[5] = 1;
        send_words(words, sizeof(words));
    } else if (strcmp(mode, "descriptor") == 0) {
        send_descriptor();
    } else if (strcmp(mode, "mark") == 0) {
        mark = ~mark;
        close(machine);
    } else if (strcmp(mode, "flood") == 0) {
        flood();
    } else {
        assert(strcmp(mode, "close") == 0);
        close(machine);
    }
    for (;;)
        pause();
}
