/*
 * DxgkInitialize as displib.lib of the WDK has it, for drivers that are built without one: the graphics kernel is loaded as a service, its device is
 * opened, and an internal request returns the function that registers. With the WDK, link displib.lib and leave this file out.
 */
#include <ntddk.h>
#include <dispmprt.h>

/* What the compiler names in code with floating point, which x64 lets a driver use; with the WDK it is in the kit's libraries. */
int _fltused = 0x9875;

/* Requests of Windows 8 and later, and of Windows 7. */
#define REGISTER_WINDOWS_8 0x230047
#define REGISTER_WINDOWS_7 0x23003f
#define FILE_ALL_ACCESS 0x1f01ff

typedef NTSTATUS REGISTER(PDRIVER_OBJECT, PUNICODE_STRING, DRIVER_INITIALIZATION_DATA *);

static NTSTATUS ask(PDEVICE_OBJECT device, ULONG request, REGISTER **function)
{
    KEVENT event;
    IO_STATUS_BLOCK block = { .Information = 0 };
    NTSTATUS status;
    KeInitializeEvent(&event, NotificationEvent, FALSE);
    PIRP irp = IoBuildDeviceIoControlRequest(request, device, NULL, 0, function, sizeof(*function), TRUE, &event, &block);
    if (!irp)
        return STATUS_INSUFFICIENT_RESOURCES;
    status = IofCallDriver(device, irp);
    if (status == STATUS_PENDING) {
        KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, NULL);
        status = block.Status;
    }
    return status;
}

NTSTATUS DxgkInitialize(PDRIVER_OBJECT DriverObject, PUNICODE_STRING RegistryPath, DRIVER_INITIALIZATION_DATA *DriverInitializationData)
{
    UNICODE_STRING name;
    PFILE_OBJECT file;
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
