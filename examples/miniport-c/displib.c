/*
 * DxgkInitialize as displib.lib of the WDK has it, for drivers that are built without one: the graphics kernel is loaded as a service, its device is
 * opened, and an internal request returns the function that registers. With the WDK, link displib.lib and leave this file out.
 */
#include <ntddk.h>
#include <dispmprt.h>

/* Requests of Windows 8 and later, and of Windows 7. */
#define REGISTER_WINDOWS_8 0x230047
#define REGISTER_WINDOWS_7 0x23003f
#define FILE_ALL_ACCESS 0x1f01ff

typedef struct {
    UINT64 words[3];
} EVENT; /* KEVENT */

typedef struct {
    ULONG_PTR status;
    ULONG_PTR information;
} STATUS_BLOCK; /* IO_STATUS_BLOCK */

typedef NTSTATUS REGISTER(PDRIVER_OBJECT, PUNICODE_STRING, DRIVER_INITIALIZATION_DATA *);

NTSYSAPI VOID RtlInitUnicodeString(PUNICODE_STRING string, PCWSTR text);
NTSYSAPI NTSTATUS ZwLoadDriver(PUNICODE_STRING service);
NTSYSAPI NTSTATUS IoGetDeviceObjectPointer(PUNICODE_STRING name, ULONG access, PVOID *file, PDEVICE_OBJECT *device);
NTSYSAPI VOID KeInitializeEvent(EVENT *event, int kind, BOOLEAN state);
NTSYSAPI PVOID IoBuildDeviceIoControlRequest(ULONG code, PDEVICE_OBJECT device, PVOID in, ULONG in_size, PVOID out, ULONG out_size,
                                             BOOLEAN internal, EVENT *event, STATUS_BLOCK *status);
NTSYSAPI NTSTATUS IofCallDriver(PDEVICE_OBJECT device, PVOID irp);
NTSYSAPI NTSTATUS KeWaitForSingleObject(PVOID object, int reason, CHAR mode, BOOLEAN alertable, PLARGE_INTEGER timeout);
NTSYSAPI LONG ObfDereferenceObject(PVOID object);

static NTSTATUS ask(PDEVICE_OBJECT device, ULONG request, REGISTER **function)
{
    EVENT event;
    STATUS_BLOCK block = { 0, 0 };
    NTSTATUS status;
    KeInitializeEvent(&event, 0, FALSE);
    PVOID irp = IoBuildDeviceIoControlRequest(request, device, NULL, 0, function, sizeof(*function), TRUE, &event, &block);
    if (!irp)
        return STATUS_INSUFFICIENT_RESOURCES;
    status = IofCallDriver(device, irp);
    if (status == STATUS_PENDING) {
        KeWaitForSingleObject(&event, 0, 0, FALSE, NULL);
        status = (NTSTATUS)block.status;
    }
    return status;
}

NTSTATUS DxgkInitialize(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, DRIVER_INITIALIZATION_DATA *DriverInitializationData)
{
    UNICODE_STRING name;
    PVOID file;
    PDEVICE_OBJECT device;
    REGISTER *function = NULL;
    NTSTATUS status;

    RtlInitUnicodeString(&name, L"\\Registry\\Machine\\System\\CurrentControlSet\\Services\\DXGKrnl");
    ZwLoadDriver(&name); /* it runs already on most machines, which is an error here and no obstacle */
    RtlInitUnicodeString(&name, L"\\Device\\DxgKrnl");
    status = IoGetDeviceObjectPointer(&name, FILE_ALL_ACCESS, &file, &device);
    if (!NT_SUCCESS(status))
        return status;
    status = ask(device, REGISTER_WINDOWS_8, &function);
    if (status == STATUS_INVALID_DEVICE_REQUEST)
        status = ask(device, REGISTER_WINDOWS_7, &function);
    ObfDereferenceObject(file);
    return NT_SUCCESS(status) && function ? function(DriverObject, RegistryPath, DriverInitializationData) : status;
}
