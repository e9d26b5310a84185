/* A program of the GPU runs on 640 lanes through the user-mode driver: `squares squares.bin`, where `campanile asm squares.txt -o squares.bin` made the program. */
#include "campanile.h"
#include <stdio.h>
#include <stdlib.h>

const void *campanile_kmt_thunks(void); /* of libcampanile_kmt; on Windows it is campanile_thunks of campanile.h */

enum { GROUPS = 10, LANES = 64 * GROUPS };

static void check(int32_t status, const char *what)
{
    if (status != CAMPANILE_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", what, campanile_status_text(status));
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static char code[1 << 16];
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    if (!file) {
        fprintf(stderr, "usage: squares PROGRAM\n");
        return 2;
    }
    size_t size = fread(code, 1, sizeof code, file);
    fclose(file);

    campanile_adapter adapter;
    campanile_device device;
    check(campanile_adapter_open(campanile_kmt_thunks(), &adapter), "adapter");
    check(campanile_device_create(adapter, &device), "device");

    campanile_program program;
    campanile_buffer results;
    campanile_queue queue;
    campanile_dispatch dispatch = { .program_size = size, .groups = { GROUPS, 1, 1 } };
    uint32_t *squares;
    check(campanile_program_create(device, code, size, &program), "program");
    check(campanile_program_address(program, &dispatch.program), "address of the program");
    check(campanile_buffer_create(device, LANES * 4, CAMPANILE_PLACEMENT_SYSTEM, &results), "buffer");
    check(campanile_buffer_gpu_address(results, &dispatch.arguments), "address of the buffer");
    check(campanile_buffer_map(results, (void **)&squares), "map");
    check(campanile_queue_create(device, CAMPANILE_NODE_COMPUTE, NULL, &queue), "queue");

    uint64_t done;
    check(campanile_begin(queue), "begin");
    check(campanile_record_dispatch(queue, &dispatch), "dispatch");
    check(campanile_submit(queue, &done), "submit");
    check(campanile_queue_wait(queue, done, UINT64_MAX), "wait");
    check(campanile_buffer_synchronize(results, 0, LANES * 4), "synchronize");
    for (uint32_t lane = 0; lane < LANES; lane++) {
        if (squares[lane] != lane * lane) {
            fprintf(stderr, "lane %u stored %u\n", lane, squares[lane]);
            return 1;
        }
    }
    printf("%d lanes, every square verified\n", LANES);
    return 0;
}
