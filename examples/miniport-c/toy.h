/*
 * The toy: a PCI function that fills, copies and adds. Its registers, its commands and its page tables, for the driver, for programs, and for whoever
 * builds one; toy_function.py is one.
 */
#ifndef TOY_H
#define TOY_H

#define TOY_VENDOR 0x1234
#define TOY_DEVICE 0xcafe

/* BAR0: registers of 32 bits. */
#define TOY_ID 0x00             /* reads TOY_ID_VALUE */
#define TOY_ADDRESS_LOW 0x04    /* GPU virtual address of the commands that SUBMIT starts */
#define TOY_ADDRESS_HIGH 0x08
#define TOY_SIZE 0x0c           /* their bytes */
#define TOY_ROOT_LOW 0x10       /* their root page table, as an entry of a directory names a table */
#define TOY_ROOT_HIGH 0x14
#define TOY_SUBMIT 0x18         /* written: queues the commands under this number, which is not 0 */
#define TOY_PREEMPT 0x1c        /* written: forgets what is queued and has not begun, and reports this number */
#define TOY_RESET 0x20          /* written: stops, forgets everything; reads the number of what was stopped last, 0 if nothing was */
#define TOY_REPORT 0x24         /* kind of the first report, 0 without one */
#define TOY_REPORT_NUMBER 0x28  /* its number */
#define TOY_REPORT_LOW 0x2c     /* its address */
#define TOY_REPORT_HIGH 0x30
#define TOY_REPORT_TAKE 0x34    /* written: drops the first report */
#define TOY_COMPLETED 0x38      /* number of the commands completed last */
#define TOY_BUSY 0x3c           /* 1 while commands run or wait */
#define TOY_REGISTERS 0x1000

/* Hardware queues: the toy takes the commands of a hardware context in their order, and those of several contexts in turn. */
#define TOY_FENCE_LOW 0x40      /* GPU virtual address of the progress fence */
#define TOY_FENCE_HIGH 0x44
#define TOY_VALUE_LOW 0x48      /* its value when the commands are done; the value that SUSPEND reports */
#define TOY_VALUE_HIGH 0x4c
#define TOY_SUBMIT_QUEUE 0x50   /* written: queues the commands to the hardware context of this number, which is not 0 */
#define TOY_SUSPEND 0x54        /* written: the context of this number begins no commands any more, which is reported when none of them runs */
#define TOY_RESUME 0x58         /* written: it begins commands again */
#define TOY_FORGET 0x5c         /* written: forgets the context of this number with everything of it */
#define TOY_STOP 0x60           /* written: ends commands that do not end, forgets those of their context and begins none; reads its number, 0 if nothing hung */
#define TOY_GO 0x64             /* written: begins commands again after STOP */
#define TOY_HUNG 0x68           /* number of the context whose commands do not end, 0 without one */
#define TOY_CONTEXTS 256        /* numbers are 1 to this */

#define TOY_ID_VALUE 0x31594f54

/* Kinds of reports. Each sends the function's one message. */
#define TOY_REPORT_COMPLETED 1
#define TOY_REPORT_PREEMPTED 2
#define TOY_REPORT_FAULT 3
#define TOY_REPORT_PROGRESS 4     /* of a hardware context: a progress fence has a new value */
#define TOY_REPORT_QUEUE_FAULT 5  /* of a hardware context: a page fault */
#define TOY_REPORT_SUSPENDED 6    /* of a hardware context: it has left the engine; the address is the value of SUSPEND */

/* BAR2: memory. */
#define TOY_MEMORY 0x800000

/*
 * Page tables lie in BAR2 or in system memory: three levels of 512 entries, 9 bits of the address each, above pages of 4 KiB. An entry is a page number << 12,
 * of BAR2 or, with TOY_PTE_SYSTEM, of system memory, and these bits.
 */
#define TOY_PTE_VALID 1ull
#define TOY_PTE_READ_ONLY 2ull
#define TOY_PTE_SYSTEM 4ull
#define TOY_PTE_ZERO 8ull /* with VALID: loads find zeros, of whatever level the entry is, and stores fault */
#define TOY_LEVELS 3
#define TOY_ADDRESS_BITS 39

/* A command. Whole 32-bit words; sizes are multiples of 4. */
#define TOY_FILL 1   /* `value` to every word of `size` bytes at `to` */
#define TOY_COPY 2   /* `size` bytes from `from` to `to` */
#define TOY_ADD 3    /* as COPY, with `value` added to every word */
#define TOY_STORE 4  /* the 64 bits of `from` to `to` */
#define TOY_HANG 5   /* does not end before RESET */

struct toy_command {
    unsigned int operation;
    unsigned int value;
    unsigned long long to;
    unsigned long long from;
    unsigned long long size;
};

/* Private data of an allocation: what a user-mode driver, here a test program, tells the kernel-mode driver about it. */
struct toy_allocation {
    unsigned long long size; /* bytes */
    unsigned int local;      /* 1: in BAR2, 0: in system memory */
    unsigned int reserved;
};

#endif
