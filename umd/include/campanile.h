// C API of the Campanile GPU's user-mode driver.
//
// Every function returns 0 or says what went wrong: a positive number is a campanile_status, a negative one the NTSTATUS with
// which the operating system refused; campanile_status_text explains both. Handles are numbers; stale, foreign and invented
// ones are refused. Results are written only on success. Pointers are good for what they point to, or null.
//
// Generated from the Rust source; do not edit.
//
// The table of thunks has one pointer for each of these functions, in this order; the last is one of winternl.h, the
// others of d3dkmthk.h:
//   D3DKMTEnumAdapters3
//   D3DKMTOpenAdapterFromLuid
//   D3DKMTCloseAdapter
//   D3DKMTQueryAdapterInfo
//   D3DKMTQueryClockCalibration
//   D3DKMTCreateDevice
//   D3DKMTDestroyDevice
//   D3DKMTGetDeviceState
//   D3DKMTCreatePagingQueue
//   D3DKMTDestroyPagingQueue
//   D3DKMTCreateAllocation2
//   D3DKMTDestroyAllocation2
//   D3DKMTMakeResident
//   D3DKMTEvict
//   D3DKMTOfferAllocations
//   D3DKMTReclaimAllocations2
//   D3DKMTReserveGpuVirtualAddress
//   D3DKMTMapGpuVirtualAddress
//   D3DKMTFreeGpuVirtualAddress
//   D3DKMTLock2
//   D3DKMTUnlock2
//   D3DKMTInvalidateCache
//   D3DKMTQueryVideoMemoryInfo
//   D3DKMTChangeVideoMemoryReservation
//   D3DKMTRegisterTrimNotification
//   D3DKMTUnregisterTrimNotification
//   D3DKMTCreateContextVirtual
//   D3DKMTDestroyContext
//   D3DKMTSubmitCommand
//   D3DKMTCreateHwContext
//   D3DKMTDestroyHwContext
//   D3DKMTSetContextSchedulingPriority
//   D3DKMTCreateHwQueue
//   D3DKMTDestroyHwQueue
//   D3DKMTSubmitCommandToHwQueue
//   D3DKMTCreateDoorbell
//   D3DKMTConnectDoorbell
//   D3DKMTDestroyDoorbell
//   D3DKMTNotifyWorkSubmission
//   D3DKMTGetNativeFenceLogDetail
//   D3DKMTCreateNativeFence
//   D3DKMTDestroySynchronizationObject
//   D3DKMTWaitForSynchronizationObjectFromCpu
//   D3DKMTSignalSynchronizationObjectFromCpu
//   D3DKMTShareObjects
//   D3DKMTQueryResourceInfoFromNtHandle
//   D3DKMTOpenResourceFromNtHandle
//   D3DKMTOpenNativeFenceFromNtHandle
//   D3DKMTCreateSynchronizationObject2
//   D3DKMTOpenSyncObjectFromNtHandle2
//   D3DKMTWaitForSynchronizationObjectFromGpu
//   D3DKMTSignalSynchronizationObjectFromGpu
//   D3DKMTSubmitWaitForSyncObjectsToHwQueue
//   D3DKMTSubmitSignalSyncObjectsToHwQueue
//   NtClose

#ifndef CAMPANILE_H
#define CAMPANILE_H

#include <stdint.h>

// Result of a function.
enum campanile_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Nothing.
  CAMPANILE_STATUS_OK = 0,
  // A pointer that must not be null is null, or is not aligned for what it points to.
  CAMPANILE_STATUS_BAD_POINTER = 1,
  // The handle was never given out, was destroyed, or stands for an object of another kind.
  CAMPANILE_STATUS_BAD_HANDLE = 2,
  // Another thread uses the object.
  CAMPANILE_STATUS_BUSY = 3,
  // An argument is out of range.
  CAMPANILE_STATUS_BAD_ARGUMENT = 4,
  // No Campanile GPU found.
  CAMPANILE_STATUS_NO_ADAPTER = 5,
  // The kernel-mode driver has another version.
  CAMPANILE_STATUS_VERSION = 6,
  // The GPU was reset or removed: destroy everything but the adapter and create it anew.
  CAMPANILE_STATUS_DEVICE_LOST = 7,
  // A native fence was asked for by name, and they are not enabled.
  CAMPANILE_STATUS_NATIVE_FENCES_DISABLED = 8,
  // User-mode submission is not enabled.
  CAMPANILE_STATUS_USER_SUBMISSION_DISABLED = 9,
  // The command would fault the queue.
  CAMPANILE_STATUS_BAD_PACKET = 10,
  // The buffer lies in memory that the CPU cannot map.
  CAMPANILE_STATUS_NOT_MAPPABLE = 11,
  // The fence belongs to another adapter.
  CAMPANILE_STATUS_FOREIGN_FENCE = 12,
  // The submission is too large for the queue's command memory or above 1 MiB.
  CAMPANILE_STATUS_COMMANDS_TOO_LARGE = 13,
  // Every ring entry is in use.
  CAMPANILE_STATUS_RING_FULL = 14,
  // Command memory is in use.
  CAMPANILE_STATUS_COMMAND_MEMORY_FULL = 15,
  // The time limit passed first.
  CAMPANILE_STATUS_TIMEOUT = 16,
  // The doorbell's status is unknown.
  CAMPANILE_STATUS_DOORBELL_STATUS = 17,
  // The operating system broke its contract.
  CAMPANILE_STATUS_BAD_ANSWER = 18,
  // Nothing is being recorded: call campanile_begin first.
  CAMPANILE_STATUS_NOT_RECORDING = 19,
  // A recording is open: submit or cancel it first.
  CAMPANILE_STATUS_RECORDING = 20,
  // The buffer is not mapped.
  CAMPANILE_STATUS_NOT_MAPPED = 21,
  // Too many objects.
  CAMPANILE_STATUS_TOO_MANY_HANDLES = 22,
  // Queued work uses the buffer, and the call was not to wait.
  CAMPANILE_STATUS_WAS_STILL_DRAWING = 23,
  // All that the buffer could be renamed to is mapped.
  CAMPANILE_STATUS_ALL_MAPPED = 24,
  // The fence was opened to be waited for only.
  CAMPANILE_STATUS_WAIT_ONLY_FENCE = 25,
  // The fence was not created to be shared.
  CAMPANILE_STATUS_NOT_SHARED = 26,
  // The fence was created or opened to be signalled only.
  CAMPANILE_STATUS_SIGNAL_ONLY_FENCE = 27,
  // A monitored fence, or a wait or signal of the operating system, for a queue with user-mode submission.
  CAMPANILE_STATUS_NEEDS_KERNEL_SUBMISSION = 28,
  // On a GPU that writes 32 bits of a monitored fence at once: a value further from the last one than UINT_MAX / 2.
  CAMPANILE_STATUS_OUT_OF_REACH = 29,
  // The program breaks a rule of the instruction set.
  CAMPANILE_STATUS_BAD_PROGRAM = 30,
  // The first of a row, one for each function of the table of thunks and in its order: the call needs that function, and the Windows of this
  // machine is older than it. campanile_status_text names it.
  CAMPANILE_STATUS_MISSING_THUNK = 256,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_status campanile_status;
#else
typedef int32_t campanile_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Memory of a buffer, and the CPU's access to it.
enum campanile_placement
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // System memory.
  CAMPANILE_PLACEMENT_SYSTEM = 0,
  // VRAM that the CPU can map.
  CAMPANILE_PLACEMENT_VRAM_VISIBLE = 1,
  // VRAM that the CPU never maps.
  CAMPANILE_PLACEMENT_VRAM = 2,
  // VRAM that the CPU maps at times: through the window, the host aperture, or from system memory. A map can fail.
  CAMPANILE_PLACEMENT_VRAM_LOCKABLE = 3,
  // System memory that the CPU does not cache.
  CAMPANILE_PLACEMENT_SYSTEM_UNCACHED = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_placement campanile_placement;
#else
typedef int32_t campanile_placement;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Engine that runs a queue.
enum campanile_node
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // General work.
  CAMPANILE_NODE_COMPUTE = 0,
  // Transfers.
  CAMPANILE_NODE_COPY = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_node campanile_node;
#else
typedef int32_t campanile_node;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Submission model of a queue.
enum campanile_model
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // User mode where it works, the kernel's otherwise; packets where the system does not schedule in hardware.
  CAMPANILE_MODEL_AUTO = 0,
  // By ring and doorbell.
  CAMPANILE_MODEL_USER = 1,
  // By a call for every submission to a hardware queue.
  CAMPANILE_MODEL_KERNEL = 2,
  // By a call for every submission to a context that the operating system schedules packet by packet.
  CAMPANILE_MODEL_PACKET = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_model campanile_model;
#else
typedef int32_t campanile_model;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The reason why a device was lost.
enum campanile_loss
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // It works.
  CAMPANILE_LOSS_NONE = 0,
  // Its own work did not end, and its engine was reset.
  CAMPANILE_LOSS_HUNG = 1,
  // An engine or the adapter was reset because of work of another device.
  CAMPANILE_LOSS_RESET = 2,
  // It touched memory that is not there, or its commands made no sense.
  CAMPANILE_LOSS_FAULT = 3,
  // The adapter is gone, or was stopped.
  CAMPANILE_LOSS_REMOVED = 4,
  // The operating system gives another reason.
  CAMPANILE_LOSS_OTHER = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_loss campanile_loss;
#else
typedef int32_t campanile_loss;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Promise of the application about the accesses to a mapping.
enum campanile_dynamic_mode
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // To read or change the present contents, once no queued work uses them.
  CAMPANILE_DYNAMIC_MODE_PLAIN = 0,
  // To write at once what no queued work uses; all other bytes stay as they are.
  CAMPANILE_DYNAMIC_MODE_NO_OVERWRITE = 1,
  // To write everything anew; another contents of the pool if queued work uses the present ones.
  CAMPANILE_DYNAMIC_MODE_DISCARD = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_dynamic_mode campanile_dynamic_mode;
#else
typedef int32_t campanile_dynamic_mode;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Order in which the system reclaims offered memory.
enum campanile_offer_priority
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Before anything else.
  CAMPANILE_OFFER_PRIORITY_LOW = 0,
  // In between.
  CAMPANILE_OFFER_PRIORITY_NORMAL = 1,
  // After the others.
  CAMPANILE_OFFER_PRIORITY_HIGH = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_offer_priority campanile_offer_priority;
#else
typedef int32_t campanile_offer_priority;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Access that an opening of a shared fence has.
enum campanile_access
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Read the value and wait for it.
  CAMPANILE_ACCESS_WAIT = 0,
  // Signal it too.
  CAMPANILE_ACCESS_FULL = 1,
  // Read the value and signal it; wait for nothing.
  CAMPANILE_ACCESS_SIGNAL = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_access campanile_access;
#else
typedef int32_t campanile_access;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Type of a fence in the operating system.
enum campanile_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Native where the GPU has them, monitored elsewhere. No fence is of this kind.
  CAMPANILE_KIND_AUTO = 0,
  // The GPU waits for it by itself.
  CAMPANILE_KIND_NATIVE = 1,
  // The GPU signals it; the operating system delays work that waits for it. Not for queues with user-mode submission.
  CAMPANILE_KIND_MONITORED = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_kind campanile_kind;
#else
typedef int32_t campanile_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The devices and processes that can have a fence besides the device it is created on.
enum campanile_sharing
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // No other device.
  CAMPANILE_SHARING_PRIVATE = 0,
  // Devices of the same GPU, in this process and others.
  CAMPANILE_SHARING_ADAPTER = 1,
  // Devices of other GPUs too, as for campanile_fence_create_cross_adapter.
  CAMPANILE_SHARING_CROSS_ADAPTER = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_sharing campanile_sharing;
#else
typedef int32_t campanile_sharing;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a command does. It uses the members named; the others are ignored.
enum campanile_command_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Nothing.
  CAMPANILE_COMMAND_KIND_NOP = 0,
  // As campanile_record_copy: destination, source, size.
  CAMPANILE_COMMAND_KIND_COPY = 1,
  // As campanile_record_copy_rows: destination, source, row_bytes, rows, source_pitch, destination_pitch.
  CAMPANILE_COMMAND_KIND_COPY_ROWS = 2,
  // As campanile_record_fill: destination, size, pattern.
  CAMPANILE_COMMAND_KIND_FILL = 3,
  // As campanile_record_signal: fence, value.
  CAMPANILE_COMMAND_KIND_SIGNAL = 4,
  // As campanile_record_wait: fence, value.
  CAMPANILE_COMMAND_KIND_WAIT = 5,
  // As campanile_record_timestamp: destination.
  CAMPANILE_COMMAND_KIND_TIMESTAMP = 6,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_command_kind campanile_command_kind;
#else
typedef int32_t campanile_command_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What happened on a queue. It uses the members named.
enum campanile_event_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // A wait of the GPU for a fence was recorded: fence, value.
  CAMPANILE_EVENT_KIND_WAIT_QUEUED = 0,
  // A signal of a fence by the GPU was recorded: fence, value.
  CAMPANILE_EVENT_KIND_SIGNAL_QUEUED = 1,
  // A submission was handed over: value is its progress value; rung is 1 if a doorbell was rung for it, 0 if it went through
  // the kernel.
  CAMPANILE_EVENT_KIND_SUBMITTED = 2,
  // The doorbell had been taken away and was connected again: value is the progress value that was submitted last.
  CAMPANILE_EVENT_KIND_RECONNECTED = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum campanile_event_kind campanile_event_kind;
#else
typedef int32_t campanile_event_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// An adapter.
typedef struct {
  // The handle; 0 is none.
  uint64_t id;
} campanile_adapter;

// A device.
typedef struct {
  // The handle; 0 is none.
  uint64_t id;
} campanile_device;

// A buffer.
typedef struct {
  // The handle; 0 is none.
  uint64_t id;
} campanile_buffer;

// A fence, native or monitored.
typedef struct {
  // The handle; 0 is none.
  uint64_t id;
} campanile_fence;

// Properties of a new queue.
typedef struct {
  // Most submissions in flight: a power of two, 128 to 65536; 0 means 256.
  uint32_t ring_entries;
  // Bytes of command memory: a multiple of 4096, up to 256 MiB; 0 means 1 MiB.
  uint32_t command_bytes;
  // A campanile_model.
  int32_t model;
  // Bytes of memory that keep the state of a program while the queue is off the compute node, up to 7471992; 0 means 256 KiB. A program with more state than that (campanile_program_save_bytes) is a fault.
  uint32_t save_bytes;
} campanile_queue_options;

// A queue.
typedef struct {
  // The handle; 0 is none.
  uint64_t id;
} campanile_queue;

// One command of campanile_submit_commands.
typedef struct {
  // A campanile_command_kind.
  int32_t kind;
  // Pattern of a fill.
  uint32_t pattern;
  // Address written.
  uint64_t destination;
  // Address read.
  uint64_t source;
  // Bytes copied or filled.
  uint64_t size;
  // Fence of a signal or wait.
  campanile_fence fence;
  // Value signalled or waited for.
  uint64_t value;
  // Bytes of one row.
  uint32_t row_bytes;
  // Rows, at least 1.
  uint32_t rows;
  // Distance of source rows.
  uint32_t source_pitch;
  // Distance of destination rows.
  uint32_t destination_pitch;
} campanile_command;

// A buffer that the CPU rewrites while the GPU is at work on it. Any number of threads may map it.
typedef struct {
  // The handle; 0 is none.
  uint64_t id;
} campanile_dynamic;

// Contents of a dynamic buffer that are mapped.
typedef struct {
  // The handle; 0 is none.
  uint64_t id;
} campanile_contents;

// Properties of a new fence.
typedef struct {
  // The value at first.
  uint64_t initial;
  // A campanile_kind.
  int32_t kind;
  // A campanile_sharing.
  int32_t sharing;
  // What may be done with the fence through this handle: a campanile_access.
  int32_t access;
  // Not 0 if the fence keeps its value when its device is lost; the value of others becomes all ones.
  int32_t keeps_value;
} campanile_fence_options;

// A program in memory that the GPU executes.
typedef struct {
  // The handle; 0 is none.
  uint64_t id;
} campanile_program;

// Copies `rows` runs of `row_bytes` bytes; run i goes from `source + i * source_pitch` to
// `destination + i * destination_pitch`.
typedef struct {
  // Source address.
  uint64_t source;
  // Destination address.
  uint64_t destination;
  // Bytes of one run.
  uint32_t row_bytes;
  // Runs, at least 1.
  uint32_t rows;
  // Distance of source runs.
  uint32_t source_pitch;
  // Distance of destination runs.
  uint32_t destination_pitch;
} campanile_copy_rows;

// A program that runs in a grid of workgroups, for campanile_record_dispatch.
typedef struct {
  // Address of the program, from campanile_program_address; a multiple of 16.
  uint64_t program;
  // Bytes of the program.
  uint32_t program_size;
  // Workgroups in three dimensions, each at most 65535; zero with `indirect`.
  uint32_t groups[3];
  // Address that the program is given.
  uint64_t arguments;
  // Address of three 32-bit numbers of workgroups that are read when the program starts, a multiple of 4; 0 for none.
  uint64_t indirect;
  // Address of 96 bytes that say what became of it, a multiple of 8; 0 for none.
  uint64_t report;
} campanile_dispatch;

// Counts of a queue since it was created.
typedef struct {
  // Submissions made.
  uint64_t submissions;
  // Stores to the doorbell.
  uint64_t doorbell_rings;
  // Connections asked for because a doorbell had been taken away.
  uint64_t doorbell_reconnects;
  // Submissions that the kernel-mode driver had to be told of.
  uint64_t notifications;
} campanile_queue_stats_t;

// One thing that happened on a queue.
typedef struct {
  // A campanile_event_kind.
  int32_t kind;
  // The operating system's handle of the fence.
  uint32_t fence;
  // Value of the fence or progress value.
  uint64_t value;
  // 1 if a doorbell was rung, otherwise 0.
  int32_t rung;
} campanile_queue_event;

// Is told of an event, on the thread that uses the queue. It should note and return; the queue is busy meanwhile.
typedef void (*campanile_tracer)(void *context, const campanile_queue_event *event);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// What a status means, as a sentence that says what to do. Never null; any number is allowed.
const char *campanile_status_text(int32_t status);

// The operating system's own table of thunks, valid for ever; null where it has none, which is everywhere but on Windows. The functions are looked up
// by the first call. Those that the Windows of this machine lacks answer STATUS_PROCEDURE_NOT_FOUND, and what needs them a status from
// CAMPANILE_STATUS_MISSING_THUNK on.
const void *campanile_thunks(void);

// Opens the first Campanile GPU. `thunks` is the table of D3DKMT functions listed at the top, each with the calling
// convention of Windows; it must stay valid for ever.
int32_t campanile_adapter_open(const void *thunks, campanile_adapter *adapter);

// Opens the Campanile GPU with a LUID.
int32_t campanile_adapter_open_luid(const void *thunks, uint32_t low, int32_t high, campanile_adapter *adapter);

// Closes an adapter. What was made on it stays usable.
int32_t campanile_adapter_close(campanile_adapter adapter);

// Creates a device.
int32_t campanile_device_create(campanile_adapter adapter, campanile_device *device);

// Destroys a device, once everything made on it is destroyed.
int32_t campanile_device_destroy(campanile_device device);

// Succeeds as long as the device works; CAMPANILE_STATUS_DEVICE_LOST otherwise.
int32_t campanile_device_check(campanile_device device);

// Creates a buffer of `size` bytes that the GPU can use; `placement` is a campanile_placement.
int32_t campanile_buffer_create(campanile_device device, uint64_t size, int32_t placement, campanile_buffer *buffer);

// Destroys a buffer and its mapping. Work that uses it must be done.
int32_t campanile_buffer_destroy(campanile_buffer buffer);

// First GPU address of a buffer.
int32_t campanile_buffer_gpu_address(campanile_buffer buffer, uint64_t *address);

// Maps a buffer for the CPU. Mapping it again gives the same address; one campanile_buffer_unmap ends it.
int32_t campanile_buffer_map(campanile_buffer buffer, void **address);

// Lets the system take the memory of a buffer when it is short, without saving its contents, until campanile_buffer_reclaim; `priority`
// is a campanile_offer_priority. Work that is queued by now may still use it. A buffer that is mapped is refused.
int32_t campanile_buffer_offer(campanile_buffer buffer,
                               int32_t priority);

// Takes the memory of a buffer back; it may be used when the call returns. `discarded` becomes 1 if the contents are lost, 0 otherwise.
int32_t campanile_buffer_reclaim(campanile_buffer buffer,
                                 int32_t *discarded);

// Makes stores of the CPU to a range of a mapped buffer visible to the GPU, and those of the GPU to the CPU: after the CPU has written
// and before the GPU reads, and after the GPU has written and before the CPU reads. Does nothing on an adapter whose DMA snoops
// the CPU's caches.
int32_t campanile_buffer_synchronize(campanile_buffer buffer,
                                     uint64_t offset,
                                     uint64_t length);

// Ends a buffer's mapping; the address is not to be used any more.
int32_t campanile_buffer_unmap(campanile_buffer buffer);

// Creates a fence with an initial value: a native one where the GPU has them, a monitored one elsewhere.
int32_t campanile_fence_create(campanile_device device, uint64_t initial, campanile_fence *fence);

// Destroys a fence. Work that names it must be done; CAMPANILE_STATUS_BUSY while a thread waits for it.
int32_t campanile_fence_destroy(campanile_fence fence);

// The fence's current value.
int32_t campanile_fence_value(campanile_fence fence, uint64_t *value);

// Where the fence's current value can be read, an aligned word that only the GPU and the operating system write; read it
// as volatile or atomic. Good until campanile_fence_destroy.
int32_t campanile_fence_mapping(campanile_fence fence,
                                const uint64_t **address);

// Waits until the fence's value is at least `value`, for `nanoseconds` at most; all ones waits as long as the device lives.
int32_t campanile_fence_wait(campanile_fence fence,
                             uint64_t value,
                             uint64_t nanoseconds);

// Sets the fence's value from the CPU.
int32_t campanile_fence_signal(campanile_fence fence, uint64_t value);

// Creates a queue; `node` is a campanile_node, `options` may be null.
int32_t campanile_queue_create(campanile_device device,
                               int32_t node,
                               const campanile_queue_options *options,
                               campanile_queue *queue);

// Gives a queue a ring of another number of entries, a power of two from 128 to 65536, with whatever is under way: what was
// submitted ends in the old ring, and progress values go on. CAMPANILE_STATUS_TIMEOUT if it does not end within two seconds;
// CAMPANILE_STATUS_RECORDING while a recording is open.
int32_t campanile_queue_resize(campanile_queue queue,
                               uint32_t ring_entries);

// Destroys a queue. A recording that is open is dropped.
int32_t campanile_queue_destroy(campanile_queue queue);

// Records and submits `count` commands in one call, which is cheaper than campanile_begin, a call for each command, and
// campanile_submit. If a command is refused, none is submitted. `progress` may be null.
int32_t campanile_submit_commands(campanile_queue queue,
                                  const campanile_command *commands,
                                  uint32_t count,
                                  uint64_t *progress);

// Creates a dynamic buffer of `size` bytes with 1 to 64 `contents`, of which the first is made now; `placement` is a
// campanile_placement, not CAMPANILE_PLACEMENT_VRAM.
int32_t campanile_dynamic_create(campanile_device device,
                                 uint64_t size,
                                 int32_t placement,
                                 uint32_t contents,
                                 campanile_dynamic *dynamic);

// Destroys a dynamic buffer. Contents that are mapped stay until they are unmapped; work that uses any must be done.
int32_t campanile_dynamic_destroy(campanile_dynamic dynamic);

// Maps a dynamic buffer; `mode` is a campanile_dynamic_mode. With `wait` 0 the answer comes at once:
// CAMPANILE_STATUS_WAS_STILL_DRAWING if queued work is in the way. The contents stay mapped, and are not renamed, until
// campanile_contents_unmap.
int32_t campanile_dynamic_map(campanile_dynamic dynamic,
                              int32_t mode,
                              int32_t wait,
                              campanile_contents *contents,
                              void **address,
                              uint64_t *gpu_address);

// Says that queued work uses mapped contents until `fence` reaches `value`. To be said before they are unmapped.
int32_t campanile_contents_use_until(campanile_contents contents, campanile_fence fence, uint64_t value);

// As campanile_buffer_synchronize, for mapped contents.
int32_t campanile_contents_synchronize(campanile_contents contents, uint64_t offset, uint64_t length);

// Ends a map of contents; the address is not to be used any more.
int32_t campanile_contents_unmap(campanile_contents contents);

// Creates a fence with these properties. CAMPANILE_STATUS_NATIVE_FENCES_DISABLED if a native one was asked for by name and the GPU has none.
int32_t campanile_fence_create_with(campanile_device device,
                                    const campanile_fence_options *options,
                                    campanile_fence *fence);

// What a fence is: CAMPANILE_KIND_NATIVE or CAMPANILE_KIND_MONITORED.
int32_t campanile_fence_kind(campanile_fence fence, int32_t *kind);

// Has the operating system delay what is submitted to a queue from now on until the fence's value is at least `value`. Returns at once.
// CAMPANILE_STATUS_NEEDS_KERNEL_SUBMISSION for a queue with user-mode submission, CAMPANILE_STATUS_RECORDING while a recording is open.
int32_t campanile_queue_enqueue_wait(campanile_queue queue,
                                     campanile_fence fence,
                                     uint64_t value);

// Has the operating system signal the fence when all is done that was submitted to a queue so far. Returns at once. Statuses as for
// campanile_queue_enqueue_wait.
int32_t campanile_queue_enqueue_signal(campanile_queue queue,
                                       campanile_fence fence,
                                       uint64_t value);

// Copies a program of `size` bytes to memory that the GPU executes. Programs are what `campanile asm` writes, and what the crate campanile-compiler makes of SPIR-V.
// CAMPANILE_STATUS_BAD_PROGRAM for one that breaks a rule of the instruction set.
int32_t campanile_program_create(campanile_device device,
                                 const void *bytes,
                                 uint64_t size,
                                 campanile_program *program);

// Destroys a program. Work that runs it must be done.
int32_t campanile_program_destroy(campanile_program program);

// First GPU address of a program, for campanile_record_dispatch.
int32_t campanile_program_address(campanile_program program, uint64_t *address);

// Bytes that the state of a dispatch of a program takes at most while its queue is off the compute node: what save_bytes of campanile_queue_options has to be at least.
int32_t campanile_program_save_bytes(campanile_program program,
                                     uint32_t *bytes);

// Starts recording a submission. Waits for the GPU when the ring is full.
int32_t campanile_begin(campanile_queue queue);

// As campanile_begin for a submission that never waits: where it would have to, the functions that record or submit it return
// CAMPANILE_STATUS_RING_FULL or CAMPANILE_STATUS_COMMAND_MEMORY_FULL.
int32_t campanile_try_begin(campanile_queue queue);

// Drops the open recording.
int32_t campanile_cancel(campanile_queue queue);

// Submits the open recording and ends it, also when it fails. The progress value says when the work is done; `progress` may
// be null.
int32_t campanile_submit(campanile_queue queue,
                         uint64_t *progress);

// Records a copy of `size` bytes between GPU addresses that do not overlap.
int32_t campanile_record_copy(campanile_queue queue, uint64_t destination, uint64_t source, uint64_t size);

// Records a copy of rows, 256 MiB at most.
int32_t campanile_record_copy_rows(campanile_queue queue, const campanile_copy_rows *copy);

// Records a fill of `size` bytes with a 32-bit pattern; address and size are multiples of 4.
int32_t campanile_record_fill(campanile_queue queue, uint64_t destination, uint64_t size, uint32_t pattern);

// Records that the GPU sets the fence's value, without the kernel. CAMPANILE_STATUS_NEEDS_KERNEL_SUBMISSION for a monitored fence on a
// queue with user-mode submission, CAMPANILE_STATUS_OUT_OF_REACH for a value of a monitored fence that the GPU cannot tell from others.
int32_t campanile_record_signal(campanile_queue queue,
                                campanile_fence fence,
                                uint64_t value);

// Records that the queue waits, on the GPU, until the fence's value is at least `value`. For a monitored fence the operating system delays
// what is recorded after the wait; what is recorded before it becomes a command buffer of its own, with a progress value of its own. Statuses
// as for campanile_record_signal, and CAMPANILE_STATUS_COMMANDS_TOO_LARGE for more waits than the queue has ring entries.
int32_t campanile_record_wait(campanile_queue queue,
                              campanile_fence fence,
                              uint64_t value);

// Records that the GPU writes its clock to an address that is a multiple of 8.
int32_t campanile_record_timestamp(campanile_queue queue, uint64_t destination);

// Frequency of the clock that the GPU writes to timestamps and reports, in hertz.
int32_t campanile_adapter_clock(campanile_adapter adapter, uint64_t *hertz);

// Records that a program runs, on a queue of the compute node. The next command begins when it has ended.
int32_t campanile_record_dispatch(campanile_queue queue, const campanile_dispatch *dispatch);

// Records a command that does nothing.
int32_t campanile_record_nop(campanile_queue queue);

// The progress value that the queue has reached.
int32_t campanile_queue_progress(campanile_queue queue, uint64_t *value);

// The progress value of the latest submission; of a queue without any, the value it started with.
int32_t campanile_queue_last_submitted(campanile_queue queue, uint64_t *value);

// Waits until the submission with this progress value is done, for `nanoseconds` at most; all ones waits as long as the
// device lives.
int32_t campanile_queue_wait(campanile_queue queue, uint64_t value, uint64_t nanoseconds);

// The model that the queue chose: CAMPANILE_MODEL_USER, CAMPANILE_MODEL_KERNEL or CAMPANILE_MODEL_PACKET.
int32_t campanile_queue_model(campanile_queue queue, int32_t *model);

// Why the queue submits as it does, as a sentence in ASCII: which feature the operating system or the driver withholds, or which call
// failed. Writes as much of the text as fits into `size` bytes, always with a terminating zero, and to `needed` the bytes of the whole text
// with its zero. With a `size` of 0 `text` may be null.
int32_t campanile_queue_model_reason(campanile_queue queue,
                                     char *text,
                                     uint64_t size,
                                     uint64_t *needed);

// Writes the counts of a queue since it was created to `stats`.
int32_t campanile_queue_stats(campanile_queue queue, campanile_queue_stats_t *stats);

// Why a device was lost: a campanile_loss.
int32_t campanile_device_loss(campanile_device device, int32_t *loss);

// Creates a device in the place of one that is lost, on its adapter or on one that is found in its place. The lost one is destroyed as
// any other, with its buffers and fences; its queues may be moved to the new one by campanile_queue_recover before. May be tried again.
int32_t campanile_device_replace(campanile_device device,
                                 campanile_device *replacement);

// Goes on in a queue on another device; `model` is a campanile_model, CAMPANILE_MODEL_KERNEL the way around a doorbell. Progress
// starts over. `count` submissions from progress value `first` on were not seen done: those that may be done twice can be recorded
// again. A recording that is open is dropped. On failure the queue is as it was.
int32_t campanile_queue_recover(campanile_queue queue,
                                campanile_device device,
                                int32_t model,
                                uint64_t *first,
                                uint64_t *count);

// As campanile_fence_create, for a fence that campanile_fence_share gives to other devices and processes.
int32_t campanile_fence_create_shared(campanile_device device, uint64_t initial, campanile_fence *fence);

// As campanile_fence_create_shared, for a fence that devices of other GPUs open too. There is one value, in system memory, and every
// signal of a GPU interrupts the processor, which tells the other GPUs: use it only between GPUs.
int32_t campanile_fence_create_cross_adapter(campanile_device device,
                                             uint64_t initial,
                                             campanile_fence *fence);

// Gives a shared fence a kernel handle in this process, by which it is opened with at most `access`, a campanile_access. The
// handle keeps the fence until it is closed. Another process opens the fence by a handle of its own, made by DuplicateHandle.
int32_t campanile_fence_share(campanile_fence fence,
                              int32_t access,
                              void **handle);

// Opens a shared fence on a device of the fence's GPU, or of any GPU if it was created by campanile_fence_create_cross_adapter, by a
// kernel handle of this process, for `access`, a campanile_access. The handle stays open. The fence keeps its kind; one of several GPUs is
// opened as a native fence where the GPU has them and as a monitored one elsewhere. The opening has no right that the handle does
// not grant: a signal that the system refuses faults the queue.
int32_t campanile_fence_open(campanile_device device,
                             void *handle,
                             int32_t access,
                             campanile_fence *fence);

// Closes a kernel handle of this process by the thunks of `device`, which may be any device of the process. On Windows it is what
// CloseHandle does.
int32_t campanile_handle_close(campanile_device device,
                               void *handle);

// Tells `tracer` of everything that happens on the queue from now on; null ends it.
int32_t campanile_queue_set_tracer(campanile_queue queue,
                                   campanile_tracer tracer,
                                   void *context);

// The operating system's handle of the queue, by which logs and traces name it.
int32_t campanile_queue_object(campanile_queue queue, uint32_t *object);

// The operating system's handle of the fence, by which logs and traces name it.
int32_t campanile_fence_object(campanile_fence fence, uint32_t *object);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* CAMPANILE_H */
