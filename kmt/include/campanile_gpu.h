/*
 * What a user-mode driver must know of the Campanile GPU: private data of the thunks, rings and command packets. docs/hardware.md explains them.
 *
 * Generated from the Rust sources; do not edit.
 */
#ifndef CAMPANILE_GPU_H
#define CAMPANILE_GPU_H

#include <stdint.h>

/* First word of private data. */
#define CAMPANILE_MAGIC 0x44445043u

/* Where an allocation lives. */
#define CAMPANILE_PLACEMENT_SYSTEM 0u
#define CAMPANILE_PLACEMENT_VRAM_VISIBLE 1u
#define CAMPANILE_PLACEMENT_VRAM 2u
#define CAMPANILE_PLACEMENT_VRAM_LOCKABLE 3u
#define CAMPANILE_PLACEMENT_SYSTEM_UNCACHED 4u

/* Nodes. */
#define CAMPANILE_NODE_COMPUTE 0u
#define CAMPANILE_NODE_COPY 1u

/* Pointers in the ring-control page, which count entries. */
#define CAMPANILE_WRITE_POINTER 0u
#define CAMPANILE_READ_POINTER 64u

/* What a doorbell is rung with: the write pointer, and the queue's number where all queues share a doorbell. */
#define CAMPANILE_DOORBELL_VALUE(write_pointer, queue) \
    (((uint64_t)(write_pointer) & 0xffffffffffffull) | (uint64_t)(queue) << 48)

/* Answer to a UMDRIVERPRIVATE query (KMTQAITYPE_UMDRIVERPRIVATE). */
struct campanile_adapter_data {
    /* MAGIC. */
    uint32_t magic;
    /* INTERFACE_VERSION of the hardware. */
    uint32_t version;
    /* Caps word of the hardware. */
    uint32_t caps;
    /* Number of doorbells. */
    uint32_t doorbells;
    /* Frequency of the GPU clock in hertz. */
    uint64_t clock_hz;
    /* Size of VRAM in bytes that allocations can use. */
    uint64_t vram;
    /* Bit 0 native fences, bit 1 user-mode submission: features the operating system enabled for this adapter. */
    uint32_t features;
    uint8_t reserved_0[28];
};

/* Private data of one allocation in D3DKMTCreateAllocation2. */
struct campanile_allocation_data {
    /* MAGIC. */
    uint32_t magic;
    /* A Placement number. */
    uint32_t placement;
    /* Size in bytes, above 0; rounded up to pages. */
    uint64_t size;
    /* Number of the linked GPU in whose VRAM the allocation is placed, 0 on a GPU that is not linked. */
    uint32_t adapter;
    /* Reserved, zero. */
    uint32_t reserved;
    uint8_t reserved_0[8];
};

/* Private data of D3DKMTCreateHwQueue for a queue that is to run programs. Without it the queue has no save area. */
struct campanile_hw_queue_data {
    /* MAGIC. */
    uint32_t magic;
    /* Bytes of the save area, which the kernel-mode driver allocates: at least what the header of each program of the queue asks for, at most SAVE_SIZE. Ignored where the compute node is left in no DISPATCH, and on other nodes. */
    uint32_t save_size;
    uint8_t reserved_0[8];
};

/* Private data of D3DKMTCreateNativeFence, and of D3DKMTOpenNativeFenceFromNtHandle: what user mode takes the values of the fence for. The kernel-mode driver keeps the number of the creation, and answers it to an opening whose data have the magic; data without it stay as they were. */
struct campanile_fence_data {
    /* MAGIC. */
    uint32_t magic;
    /* A number of the creator's choice; 0 for a fence that was created without it. */
    uint32_t purpose;
    uint8_t reserved_0[56];
};

/* Private data of D3DKMTCreateDoorbell: where the ring lies in the process. */
struct campanile_doorbell_data {
    /* GPU virtual address of the ring buffer allocation. */
    uint64_t ring;
    /* GPU virtual address of the ring-control allocation. */
    uint64_t control;
};

/* What the kernel-mode driver leaves in the private data of D3DKMTCreateDoorbell on a variant with one global doorbell, where the value rung must name the queue. Other variants leave the data as it was. */
struct campanile_doorbell_answer {
    /* Queue number, for DoorbellValue. */
    uint32_t queue;
    uint8_t reserved_0[12];
};

/* Ring entry: one command buffer. */
struct campanile_ring_entry {
    /* GPU virtual address of the command buffer, a multiple of 16. */
    uint64_t commands;
    /* Size of the command buffer, a multiple of 16, at most 1 MiB. Zero is a buffer without packets. */
    uint32_t size;
    /* A RingFlags word. */
    uint32_t flags;
    /* Reported in the Retired event; the value of the progress fence with WRITE_PROGRESS. */
    uint64_t tag;
    /* Page-table root, a location, when OWN_ROOT is set. */
    uint64_t root;
};

#define CAMPANILE_OPCODE_NOP 0x01u
/* Does nothing. */
struct campanile_packet_nop {
    /* Opcode number. */
    uint8_t opcode;
    /* Length of the packet in units of 16 bytes. */
    uint8_t length;
    uint8_t reserved_0[14];
};

#define CAMPANILE_OPCODE_COPY 0x02u
/* Copies rows runs of row_bytes bytes; run i goes from source + i * source_pitch to destination + i * destination_pitch. Runs are copied in order; within a run, overlap is undefined. At most 256 MiB in all. */
struct campanile_packet_copy {
    /* Opcode number. */
    uint8_t opcode;
    /* Length of the packet in units of 16 bytes. */
    uint8_t length;
    uint8_t reserved_0[6];
    /* Source address. */
    uint64_t source;
    /* Destination address. */
    uint64_t destination;
    /* Bytes of one run. */
    uint32_t row_bytes;
    /* Runs, at least 1. */
    uint32_t rows;
    /* Distance of source runs. */
    uint32_t source_pitch;
    /* Distance of destination runs. */
    uint32_t destination_pitch;
    uint8_t reserved_1[8];
};

#define CAMPANILE_OPCODE_FILL 0x03u
/* Fills memory with a 32-bit pattern. At most 4 GiB. */
struct campanile_packet_fill {
    /* Opcode number. */
    uint8_t opcode;
    /* Length of the packet in units of 16 bytes. */
    uint8_t length;
    uint8_t reserved_0[6];
    /* Destination address, 4-aligned. */
    uint64_t destination;
    /* Bytes, a multiple of 4. */
    uint64_t size;
    /* Pattern. */
    uint32_t pattern;
    uint8_t reserved_1[4];
};

#define CAMPANILE_OPCODE_SIGNAL 0x04u
/* Sets a fence's current value after every earlier effect of the queue, releases the queues that wait for it, and sends a FenceSignaled event if the value is greater than the monitored value. The value may be smaller than the one before. With neither handle nor monitored value it writes a word that need be no fence. */
struct campanile_packet_signal {
    /* Opcode number. */
    uint8_t opcode;
    /* Length of the packet in units of 16 bytes. */
    uint8_t length;
    uint8_t reserved_0[2];
    /* Handle of the fence in user mode, for the log; 0 for none. */
    uint32_t handle;
    /* Address of the current value, 8-aligned. */
    uint64_t current;
    /* Address of the monitored value, 8-aligned; 0 for a fence that the CPU never waits for. */
    uint64_t monitored;
    /* New value. */
    uint64_t value;
};

#define CAMPANILE_OPCODE_WAIT 0x05u
/* Has the queue wait until the fence's current value is at least value. */
struct campanile_packet_wait {
    /* Opcode number. */
    uint8_t opcode;
    /* Length of the packet in units of 16 bytes. */
    uint8_t length;
    uint8_t reserved_0[2];
    /* Handle of the fence in user mode, for the log. */
    uint32_t handle;
    /* Address of the current value, 8-aligned. */
    uint64_t current;
    /* Value waited for. */
    uint64_t value;
    uint8_t reserved_1[8];
};

#define CAMPANILE_OPCODE_PROGRESS 0x06u
/* Writes the queue's progress fence, as SIGNAL does with the addresses of the descriptor. */
struct campanile_packet_progress {
    /* Opcode number. */
    uint8_t opcode;
    /* Length of the packet in units of 16 bytes. */
    uint8_t length;
    uint8_t reserved_0[2];
    /* Handle of the progress fence in user mode, for the log. */
    uint32_t handle;
    /* New value. */
    uint64_t value;
};

#define CAMPANILE_OPCODE_TIMESTAMP 0x07u
/* Writes the GPU clock, in ticks of CLOCK_HZ. */
struct campanile_packet_timestamp {
    /* Opcode number. */
    uint8_t opcode;
    /* Length of the packet in units of 16 bytes. */
    uint8_t length;
    uint8_t reserved_0[6];
    /* Destination address, 8-aligned. */
    uint64_t destination;
};

#define CAMPANILE_OPCODE_WRITE 0x08u
/* Writes 64-bit words that the packet holds, repeat times behind each other. Each word is one store, as page tables that are in use need it. At most 512 words in all. No queue that waits for a fence there is released. */
struct campanile_packet_write {
    /* Opcode number. */
    uint8_t opcode;
    /* Length of the packet in units of 16 bytes. */
    uint8_t length;
    uint8_t reserved_0[2];
    /* Words that the packet holds, 1 to 6. */
    uint16_t count;
    /* Number of times that the values are written one behind the other, at least 1. */
    uint16_t repeat;
    /* Destination address, 8-aligned. */
    uint64_t destination;
    /* First word. */
    uint64_t word0;
    /* Second word; like those after it zero if COUNT does not reach it. */
    uint64_t word1;
    /* Third word. */
    uint64_t word2;
    /* Fourth word. */
    uint64_t word3;
    /* Fifth word. */
    uint64_t word4;
    /* Sixth word. */
    uint64_t word5;
};

#define CAMPANILE_OPCODE_WRITEPHYSICAL 0x09u
/* As WRITE, at a location of VRAM or system memory instead of an address. Privileged. */
struct campanile_packet_writephysical {
    /* Opcode number. */
    uint8_t opcode;
    /* Length of the packet in units of 16 bytes. */
    uint8_t length;
    uint8_t reserved_0[2];
    /* Words that the packet holds, 1 to 6. */
    uint16_t count;
    /* Number of times that the values are written one behind the other, at least 1. */
    uint16_t repeat;
    /* Destination, a location, 8-aligned. */
    uint64_t destination;
    /* First word. */
    uint64_t word0;
    /* Second word; like those after it zero if COUNT does not reach it. */
    uint64_t word1;
    /* Third word. */
    uint64_t word2;
    /* Fourth word. */
    uint64_t word3;
    /* Fifth word. */
    uint64_t word4;
    /* Sixth word. */
    uint64_t word5;
};

#define CAMPANILE_OPCODE_INVALIDATETLB 0x0au
/* Does on every node what the command InvalidateTlb does: invalidates the translations of the address space with this root from start to end (exclusive), all of them if both are 0. Later packets of the queue use none of them. Privileged. */
struct campanile_packet_invalidatetlb {
    /* Opcode number. */
    uint8_t opcode;
    /* Length of the packet in units of 16 bytes. */
    uint8_t length;
    uint8_t reserved_0[6];
    /* Page-table root of the address space, a location and a multiple of 4096. */
    uint64_t root;
    /* First address. */
    uint64_t start;
    /* End of the addresses. */
    uint64_t end;
};

#define CAMPANILE_OPCODE_LOG 0x0bu
/* Says what the SIGNAL, WAIT or PROGRESS directly before it in the buffer leaves in the queue's log, and in which entry; the two are done as one. Anywhere else, and with an operation that is not the one of the packet before, it breaks rule Opcode. */
struct campanile_packet_log {
    /* Opcode number. */
    uint8_t opcode;
    /* Length of the packet in units of 16 bytes. */
    uint8_t length;
    uint8_t reserved_0[2];
    /* Handle of the fence in user mode. */
    uint32_t handle;
    /* GPU virtual address of the log in the process, 8-aligned. */
    uint64_t log;
    /* Value signalled or waited for. */
    uint64_t value;
    /* Number of the entry. */
    uint32_t entry;
    /* A LogOperation number. */
    uint32_t operation;
};

#define CAMPANILE_OPCODE_DISPATCH 0x0cu
/* Runs a program in a grid of workgroups, after every earlier effect of the queue; the next packet begins when all workgroups have ended. The program is fetched, copied and checked whole before its first instruction runs, and not looked at again until the queue has left the node in the DISPATCH and comes back: then it is fetched once more, and one that is another program faults the queue (SaveArea). Stores release no queue that waits for a fence there. Compute node only. */
struct campanile_packet_dispatch {
    /* Opcode number. */
    uint8_t opcode;
    /* Length of the packet in units of 16 bytes. */
    uint8_t length;
    uint8_t reserved_0[2];
    /* Bytes of the program. */
    uint32_t program_size;
    /* Address of the program, 16-aligned. Its pages may not forbid execution. */
    uint64_t program;
    /* Address that ARGUMENTS gives to the program. It is not looked at. */
    uint64_t arguments;
    /* Address of the numbers of workgroups in three dimensions, u32 each, 4-aligned, read when the dispatch begins; 0 if the packet has them. */
    uint64_t indirect;
    /* Workgroups in the first dimension, at most 65535; with INDIRECT zero, as the next two. Nothing runs if one is zero. */
    uint32_t grid_x;
    /* Workgroups in the second dimension. */
    uint32_t grid_y;
    /* Workgroups in the third dimension. */
    uint32_t grid_z;
    uint8_t reserved_1[4];
    /* Address of a DispatchReport, 8-aligned, that is written when the dispatch ends or faults; 0 for none. */
    uint64_t report;
    uint8_t reserved_2[8];
};

#endif /* CAMPANILE_GPU_H */
