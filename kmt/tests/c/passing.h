/*
 * A device of the first adapter, and descriptors that programs pass each other over a socket. Whoever includes this has a function check(right, what) that ends the program with what is
 * wrong.
 */
#pragma once

#include <campanile_kmt.h>
#include <string.h>
#include <sys/socket.h>

static D3DKMT_HANDLE open_device(void)
{
    D3DKMT_ADAPTERINFO found = {0};
    D3DKMT_ENUMADAPTERS3 list = {0};
    D3DKMT_CREATEDEVICE create = {0};

    list.Filter.IncludeComputeOnly = 1;
    list.NumAdapters = 1;
    list.pAdapters = &found;
    check(NT_SUCCESS(D3DKMTEnumAdapters3(&list)), "no adapter");
    create.hAdapter = found.hAdapter;
    check(NT_SUCCESS(D3DKMTCreateDevice(&create)), "no device");
    return create.hDevice;
}

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static void send_file(int to, int file)
{
    char byte = 0;
    union control control = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {0};

    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&control.header), &file, sizeof(file));
    check(sendmsg(to, &message, 0) == 1, "a descriptor could not be sent");
}

static int receive_file(int from)
{
    int file;
    char byte;
    union control control = {0};
    struct iovec data = {&byte, 1};
    struct msghdr message = {0};

    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    check(recvmsg(from, &message, 0) == 1 && control.header.cmsg_type == SCM_RIGHTS, "no descriptor came");
    memcpy(&file, CMSG_DATA(&control.header), sizeof(file));
    return file;
}
