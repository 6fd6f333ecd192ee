#!/usr/bin/env bash
# Library: uvloop 0.23.0, on CPython 3.11
# Guess: `call_later(0.0104, ..)` never calls before 10.4 ms, as in asyncio's own loop.
# Seen: it calls up to 1.3 ms early: it rounds to the nearest millisecond, and counts in whole ones.
#   `call_later(0.0004, ..)` waits for nothing at all.
# Date: 2026-11-28
. "$(dirname "$0")/common.sh"
python_packages uvloop==0.23.0
cat >program.py <<'END'
import asyncio
import time

import uvloop


async def count_early(delay):
    loop = asyncio.get_running_loop()
    early = 0
    for _ in range(200):
        called = loop.create_future()
        start = time.monotonic()
        loop.call_later(delay, called.set_result, None)
        await called
        early += time.monotonic() - start < delay
    return early > 0


async def main():
    return [await count_early(delay) for delay in (0.0104, 0.0004)]


print("asyncio is early:", asyncio.run(main()))
print("uvloop is early:", uvloop.run(main()))
END
expect "$(python program.py)" <<'END'
asyncio is early: [False, False]
uvloop is early: [True, True]
END
