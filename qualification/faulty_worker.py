#!/usr/bin/env python3
"""A kernel compiler that misbehaves: stands where poot-kernelc does and passes frames to the real one.

QUALIFICATION_FAULT is FAULT:COUNT:FILE:WORKER: on the first COUNT requests (over all processes; FILE counts them) it
does what FAULT names, otherwise what the real WORKER does. Frames are those of csrc/runtime/worker_protocol.h.
"""

import os
import signal
import struct
import subprocess
import sys
import time

HEADER = struct.Struct("<IQ")  # payload length, checksum


def whole(stream, n):
    data = b""
    while len(data) < n:
        more = stream.read(n - len(data))
        if not more:
            return None
        data += more
    return data


def frame(stream):
    head = whole(stream, HEADER.size)
    body = whole(stream, HEADER.unpack(head)[0]) if head else None
    return head + body if body is not None else None


def misbehave(fault, out, reply):
    if fault == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif fault == "exit":
        os._exit(0)
    elif fault == "hang":
        time.sleep(3600)
    elif fault == "garbage":
        out.write(b"\xff" * 400)
    elif fault == "empty":
        out.write(HEADER.pack(0, 0))
    elif fault == "huge":
        out.write(HEADER.pack(0xFFFFFFFF, 7) + reply)
    elif fault == "truncated":
        out.write(reply[: len(reply) // 2])
        out.flush()
        os._exit(1)
    elif fault == "flipped":  # one bit, so that the checksum is wrong
        at = len(reply) // 2
        out.write(reply[:at] + bytes((reply[at] ^ 1,)) + reply[at + 1 :])
    elif fault == "twice":
        out.write(reply + reply)
    out.flush()


def main():
    fault, count, file, worker = os.environ["QUALIFICATION_FAULT"].split(":", 3)
    real = subprocess.Popen([worker, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out = sys.stdout.buffer
    hello = frame(real.stdout)
    if hello is None:
        return 1
    out.write(hello)
    out.flush()
    while (request := frame(sys.stdin.buffer)) is not None:
        real.stdin.write(request)
        real.stdin.flush()
        reply = frame(real.stdout)
        if reply is None:
            return 1
        with open(file, "ab") as f:
            f.write(b".")
            done = f.tell()
        if done <= int(count):
            misbehave(fault, out, reply)
        else:
            out.write(reply)
            out.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
