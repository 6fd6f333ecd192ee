#!/usr/bin/env bash
# Library: unicorn 2.1.4, an emulator of processors, from Python
# Guess: `emu_start(.., timeout=..)` raises `UcError` where the time is up before the end is reached.
# Seen: it returns as if the end were reached. Only `query(UC_QUERY_TIMEOUT)` tells, and the program
#   counter is not at the end.
# Date: 2026-11-28
. "$(dirname "$0")/common.sh"
python_packages unicorn==2.1.4
cat >program.py <<'END'
from unicorn import UC_ARCH_X86, UC_MODE_64, UC_QUERY_TIMEOUT, Uc
from unicorn.x86_const import UC_X86_REG_RIP

BEGIN, END = 0x1000, 0x1100
CODE = {"a loop": b"\xeb\xfe", "a straight line": b"\x90" * (END - BEGIN)}
for name, code in CODE.items():
    emulator = Uc(UC_ARCH_X86, UC_MODE_64)
    emulator.mem_map(BEGIN, 0x1000)
    emulator.mem_write(BEGIN, code)
    result = emulator.emu_start(BEGIN, END, timeout=2_000_000 if name != "a loop" else 100_000)
    is_at_end = emulator.reg_read(UC_X86_REG_RIP) == END
    print(f"{name}: returns {result}, at the end {is_at_end}, timeout {emulator.query(UC_QUERY_TIMEOUT)}")
END
expect "$(python program.py)" <<'END'
a loop: returns None, at the end False, timeout 1
a straight line: returns None, at the end True, timeout 0
END
