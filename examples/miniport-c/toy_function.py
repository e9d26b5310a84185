#!/usr/bin/env python3
"""The toy of toy.h as a PCI function behind vfio-user: `toy_function.py SOCKET` serves one client after the other until it is killed.

It is as small as such a server can be: the introduction, regions, memory of the client, one MSI message. The commands run where SUBMIT is written.
"""

import array
import fcntl
import mmap
import os
import re
import socket
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOY = {
    name: int(value.rstrip("ul"), 0)
    for name, value in re.findall(r"^#define (TOY_\w+) (\w+)", open(os.path.join(HERE, "toy.h")).read(), re.M)
}
globals().update(TOY)

PAGE = 0x1000
CONFIG, MSI = 7, 1
VERSION, MAP, UNMAP, INFO, REGION_INFO, IRQ_INFO, SET_IRQS, READ, WRITE, RESET = 1, 2, 3, 4, 5, 7, 8, 9, 10, 13

# Of linux/fcntl.h.
F_ADD_SEALS, F_SEAL_SHRINK, F_SEAL_GROW = 1033, 2, 4


class Fault(Exception):
    """An address that does not translate."""


class Toy:
    def __init__(self):
        self.memory_file = os.memfd_create("toy-memory", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.memory_file, TOY_MEMORY)
        # A client maps only what nobody can take away from under it.
        fcntl.fcntl(self.memory_file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)
        self.memory = mmap.mmap(self.memory_file, TOY_MEMORY)
        self.maps = {}
        self.trigger = None
        self.config = bytearray(256)
        struct.pack_into("<HHHHI", self.config, 0, TOY_VENDOR, TOY_DEVICE, 0, 0x10, 0x12 << 24)
        struct.pack_into("<III", self.config, 0x10, 0, 0, 0x8)
        self.config[0x34] = 0x40
        struct.pack_into("<BBH", self.config, 0x40, 5, 0, 0x80)
        self.reset()

    def close(self):
        os.close(self.memory_file)
        if self.trigger is not None:
            os.close(self.trigger)

    def reset(self):
        self.registers = dict.fromkeys(range(0, 0x80, 4), 0)
        self.registers[TOY_ID] = TOY_ID_VALUE
        self.queue, self.reports, self.hung = [], [], None
        self.hardware, self.suspended, self.hung_context, self.stands = [], set(), 0, False

    def bar_mask(self, offset):
        """What of a word of configuration space can be written."""
        return {0x04: 0x0406, 0x10: ~(TOY_REGISTERS - 1), 0x18: ~(TOY_MEMORY - 1), 0x1C: -1, 0x3C: 0xFF, 0x40: 0x10000,
                0x44: -1, 0x48: -1, 0x4C: -1}.get(offset, 0) & 0xFFFFFFFF

    def config_write(self, offset, data):
        for at, byte in enumerate(data, offset):
            mask = self.bar_mask(at & ~3) >> 8 * (at & 3) & 0xFF
            self.config[at] = self.config[at] & ~mask & 0xFF | byte & mask

    # Registers.

    def register_read(self, offset):
        first = self.reports[0] if self.reports else (0, 0, 0)
        special = {
            TOY_REPORT: first[0], TOY_REPORT_NUMBER: first[1], TOY_REPORT_LOW: first[2] & 0xFFFFFFFF,
            TOY_REPORT_HIGH: first[2] >> 32, TOY_BUSY: int(self.hung is not None or self.hung_context != 0),
            TOY_HUNG: self.hung_context,
        }
        return special.get(offset, self.registers.get(offset, 0))

    def register_write(self, offset, value):
        if offset == TOY_SUBMIT:
            word = self.registers
            address = word[TOY_ADDRESS_LOW] | word[TOY_ADDRESS_HIGH] << 32
            root = word[TOY_ROOT_LOW] | word[TOY_ROOT_HIGH] << 32
            self.queue.append((value, root, address, word[TOY_SIZE]))
            self.work()
        elif offset == TOY_PREEMPT:
            self.queue = []
            if self.hung is None:
                self.report(TOY_REPORT_PREEMPTED, value)
        elif offset == TOY_RESET:
            stopped = max([number for number, *_ in self.queue] + [self.hung or 0])
            self.queue, self.hung = [], None
            self.reports = [report for report in self.reports if report[0] >= TOY_REPORT_PROGRESS]
            self.registers[TOY_RESET] = stopped
        elif offset == TOY_REPORT_TAKE:
            del self.reports[:1]
        elif offset in (TOY_ADDRESS_LOW, TOY_ADDRESS_HIGH, TOY_SIZE, TOY_ROOT_LOW, TOY_ROOT_HIGH,
                        TOY_FENCE_LOW, TOY_FENCE_HIGH, TOY_VALUE_LOW, TOY_VALUE_HIGH):
            self.registers[offset] = value
        else:
            self.queues_write(offset, value)
            self.work_of_queues()

    def queues_write(self, offset, value):
        word = self.registers
        if offset == TOY_SUBMIT_QUEUE:
            pairs = ((TOY_ROOT_LOW, TOY_ROOT_HIGH), (TOY_ADDRESS_LOW, TOY_ADDRESS_HIGH), (TOY_FENCE_LOW, TOY_FENCE_HIGH),
                     (TOY_VALUE_LOW, TOY_VALUE_HIGH))
            self.hardware.append((value, word[TOY_SIZE], *(word[low] | word[high] << 32 for low, high in pairs)))
        elif offset == TOY_SUSPEND:
            self.suspended.add(value)
            if self.hung_context != value:
                self.report(TOY_REPORT_SUSPENDED, value, word[TOY_VALUE_LOW] | word[TOY_VALUE_HIGH] << 32)
        elif offset == TOY_RESUME:
            self.suspended.discard(value)
        elif offset == TOY_FORGET:
            self.forget(value)
            self.suspended.discard(value)
            of_context = ((TOY_REPORT_QUEUE_FAULT, value), (TOY_REPORT_SUSPENDED, value))
            self.reports = [report for report in self.reports if report[:2] not in of_context]
        elif offset == TOY_STOP:
            word[TOY_STOP] = self.hung_context
            self.forget(self.hung_context)
            self.stands = True
        elif offset == TOY_GO:
            self.stands = False

    def forget(self, context):
        self.hardware = [work for work in self.hardware if work[0] != context]
        if self.hung_context == context:
            self.hung_context = 0

    def report(self, kind, number, address=0):
        self.reports.append((kind, number, address))
        if self.trigger is not None:
            os.write(self.trigger, struct.pack("<Q", 1))

    # The engine.

    def work(self):
        while self.queue and self.hung is None:
            number, root, address, size = self.queue.pop(0)
            try:
                for at in range(address, address + size, 32):
                    operation, value, to, source, count = struct.unpack("<IIQQQ", self.load(root, at, 32))
                    if operation == TOY_HANG:
                        self.hung = number
                        return
                    self.execute(root, operation, value, to, source, count)
            except Fault as fault:
                self.report(TOY_REPORT_FAULT, number, fault.args[0])
                continue
            self.registers[TOY_COMPLETED] = number
            self.report(TOY_REPORT_COMPLETED, number)

    def work_of_queues(self):
        while not self.stands and not self.hung_context:
            work = next((work for work in self.hardware if work[0] not in self.suspended), None)
            if work is None:
                return
            self.hardware.remove(work)
            context, size, root, address, fence, value = work
            try:
                for at in range(address, address + size, 32):
                    operation, word, to, source, count = struct.unpack("<IIQQQ", self.load(root, at, 32))
                    if operation == TOY_HANG:
                        self.hung_context = context
                        return
                    self.execute(root, operation, word, to, source, count)
                self.store(root, fence, struct.pack("<Q", value))
            except Fault as fault:
                self.forget(context)
                self.report(TOY_REPORT_QUEUE_FAULT, context, fault.args[0])
                continue
            self.report(TOY_REPORT_PROGRESS, context)

    def execute(self, root, operation, value, to, source, count):
        if operation == TOY_STORE:
            self.store(root, to, struct.pack("<Q", source))
        elif operation == TOY_FILL:
            self.store(root, to, struct.pack("<I", value) * (count // 4))
        elif operation == TOY_COPY:
            self.store(root, to, self.load(root, source, count))
        elif operation == TOY_ADD:
            words = array.array("I", self.load(root, source, count))
            self.store(root, to, array.array("I", ((word + value) & 0xFFFFFFFF for word in words)).tobytes())
        else:
            raise Fault(0)

    def place(self, entry, offset, length, address):
        """Where an entry leads: the memory, and `offset` behind the start of its page there. `address` is that of the access."""
        where = (entry & ~0xFFF) + offset
        for start, memory in self.maps.items() if entry & TOY_PTE_SYSTEM else [(0, self.memory)]:
            if 0 <= where - start and where - start + length <= len(memory):
                return memory, where - start
        raise Fault(address)

    def pieces(self, root, address, size, writes):
        """The places of `size` bytes at an address, page by page: the memory, the offset in it and the length."""
        while size:
            entry = root
            for level in reversed(range(TOY_LEVELS)):
                memory, at = self.place(entry, 8 * (address >> 12 + 9 * level & 511), 8, address)
                (entry,) = struct.unpack_from("<Q", memory, at)
                if entry & TOY_PTE_VALID and entry & TOY_PTE_ZERO and not writes:
                    break
                if not entry & TOY_PTE_VALID or entry & TOY_PTE_ZERO or writes and entry & TOY_PTE_READ_ONLY:
                    raise Fault(address)
            length = min(size, PAGE - address % PAGE)
            if entry & TOY_PTE_ZERO:
                yield bytes(length), 0, length
            else:
                yield *self.place(entry, address % PAGE, length, address), length
            address, size = address + length, size - length

    def load(self, root, address, size):
        return b"".join(memory[at:at + length] for memory, at, length in self.pieces(root, address, size, False))

    def store(self, root, address, data):
        for memory, at, length in list(self.pieces(root, address, len(data), True)):
            memory[at:at + length] = data[:length]
            data = data[length:]

    # The protocol.

    def answer(self, command, body, fds):
        """The body of an answer and the descriptors that go with it; OSError refuses."""
        if command == VERSION:
            return struct.pack("<HH", 0, 1) + b'{"capabilities":{"max_msg_fds":1}}\0', []
        if command == MAP:
            _, _, offset, address, size = struct.unpack_from("<IIQQQ", body)
            if fds:
                self.maps[address] = mmap.mmap(fds[0], size, offset=offset)
            return b"", []
        if command == UNMAP:
            _, flags, address, size = struct.unpack_from("<IIQQ", body)
            for start in [at for at in self.maps if flags or address <= at < address + size]:
                self.maps.pop(start).close()
            return body[:24], []
        if command == INFO:
            return struct.pack("<IIII", 16, 3, 9, 5), []
        if command == REGION_INFO:
            (index,) = struct.unpack_from("<I", body, 8)
            size = {0: TOY_REGISTERS, 2: TOY_MEMORY, CONFIG: 256}.get(index, 0)
            flags = (3 if size else 0) | (4 if index == 2 else 0)
            return struct.pack("<IIIIQQ", 32, flags, index, 0, size, 0), [self.memory_file] if index == 2 else []
        if command == IRQ_INFO:
            (index,) = struct.unpack_from("<I", body, 8)
            return struct.pack("<IIII", 16, 1, index, int(index == MSI)), []
        if command == SET_IRQS:
            if self.trigger is not None:
                os.close(self.trigger)
            self.trigger = os.dup(fds[0]) if fds else None
            return b"", []
        if command in (READ, WRITE):
            offset, region, count = struct.unpack_from("<QII", body)
            head, data = body[:16], body[16:]
            if region == CONFIG and command == READ:
                return head + bytes(self.config[offset:offset + count]), []
            if region == CONFIG:
                self.config_write(offset, data)
            elif region == 0 and command == READ:
                return head + self.register_read(offset & ~3).to_bytes(8, "little")[:count], []
            elif region == 0:
                self.register_write(offset, int.from_bytes(data[:4], "little"))
            else:
                raise OSError(22, "no such region")
            return head, []
        if command == RESET:
            self.reset()
            return b"", []
        raise OSError(95, "no such command")


def receive(connection, size, fds):
    data = b""
    while len(data) < size:
        part, more, _, _ = socket.recv_fds(connection, size - len(data), 8)
        fds += more
        if not part:
            return None
        data += part
    return data


def serve(connection, toy):
    while True:
        fds = []
        header = receive(connection, 16, fds)
        if header is None:
            return
        number, command, size, flags, _ = struct.unpack("<HHIII", header)
        body = receive(connection, size - 16, fds) if size > 16 else b""
        if body is None:
            return
        try:
            (out, out_fds), error = toy.answer(command, body, fds), 0
        except OSError as refused:
            out, out_fds, error = b"", [], refused.errno
        for fd in fds:
            os.close(fd)
        if not flags & 0x10:
            reply = struct.pack("<HHIII", number, command, 16 + len(out), 1 | (0x20 if error else 0), error) + out
            socket.send_fds(connection, [reply], out_fds) if out_fds else connection.sendall(reply)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: toy_function.py SOCKET")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[1])
    listener.listen()
    print("serving at", sys.argv[1], flush=True)
    while True:
        connection, _ = listener.accept()
        toy = Toy()
        with connection:
            try:
                serve(connection, toy)
            except ConnectionError:
                pass
            finally:
                toy.close()


main()
