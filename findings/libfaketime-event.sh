#!/usr/bin/env bash
# Library: libfaketime 0.9.10-2.1 of Debian 12, a clock that runs 100 times as fast; CPython 3.11
# Guess: each wait of 5 s takes 50 ms and the start of the interpreter.
# Seen: `time.sleep`, `select` and asyncio do. `setitimer` takes the 5 s. `Event.wait` takes longer
#   than that, up to minutes: its due is an instant of the fast clock, and is awaited by the slow one.
# Date: 2026-11-28
. "$(dirname "$0")/common.sh"
apt-get download -qq -o APT::Sandbox::User=root libfaketime=0.9.10-2.1
dpkg -x libfaketime_*.deb .
cat >program.py <<'END'
import asyncio
import select
import signal
import sys
import threading
import time

signal.signal(signal.SIGALRM, lambda *_: None)


def by_itimer():
    signal.setitimer(signal.ITIMER_REAL, 5)
    signal.pause()


waits = {
    "sleep": lambda: time.sleep(5),
    "select": lambda: select.select([], [], [], 5),
    "asyncio": lambda: asyncio.run(asyncio.sleep(5)),
    "setitimer": by_itimer,
    "Event.wait": lambda: threading.Event().wait(5),
}
waits[sys.argv[1]]()
END
export FAKETIME='+0 x100'
library=$(find . -name libfaketime.so.1 | head -n 1)
seen=
for wait in sleep select asyncio setitimer Event.wait; do
    begin=$(date +%s%N)
    LD_PRELOAD=$PWD/$library timeout 10 python3 program.py "$wait" || true # it may take a minute
    took=$((($(date +%s%N) - begin) / 1000000))
    seen+="$wait: $([[ $took -ge 5000 ]] && echo '5 s or more' || echo 'less than 5 s')"$'\n'
done
expect "${seen%$'\n'}" <<'END'
sleep: less than 5 s
select: less than 5 s
asyncio: less than 5 s
setitimer: 5 s or more
Event.wait: 5 s or more
END
