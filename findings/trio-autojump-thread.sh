#!/usr/bin/env bash
# Library: trio 0.35.0, with `MockClock(autojump_threshold=0)`
# Guess: the clock jumps while a thread works, and `move_on_after(3600)` around it is cancelled.
# Seen: the clock jumps by the hour, and the call succeeds all the same: its deadline has passed, and
#   nothing is cancelled. With `abandon_on_cancel=True` it is cancelled at once.
# Date: 2026-11-28
. "$(dirname "$0")/common.sh"
python_packages trio==0.35.0
cat >program.py <<'END'
import time

import trio
from trio.testing import MockClock


async def main():
    for abandon in (False, True):
        start = trio.current_time()
        with trio.move_on_after(3600) as scope:
            await trio.to_thread.run_sync(time.sleep, 0.3, abandon_on_cancel=abandon)
        took = trio.current_time() - start
        print(f"abandon {abandon}: cancelled {scope.cancelled_caught} after {took:.0f} s")


trio.run(main, clock=MockClock(autojump_threshold=0))
END
expect "$(python program.py)" <<'END'
abandon False: cancelled False after 3600 s
abandon True: cancelled True after 3600 s
END
