#!/usr/bin/env bash
# Library: dramatiq 2.2.1, with the `StubBroker` and the `Worker` of its guide to testing
# Guess: `time_limit=500` ends a busy actor after 0.5 to 0.7 s.
# Seen: it never does. Only the command `dramatiq` starts what watches the limit. After
#   `broker.emit_after("process_boot")` it ends the actor.
# Date: 2026-11-28
. "$(dirname "$0")/common.sh"
python_packages dramatiq==2.2.1
cat >program.py <<'END'
import time

import dramatiq
from dramatiq import Worker
from dramatiq.brokers.stub import StubBroker

broker = StubBroker()
dramatiq.set_broker(broker)


@dramatiq.actor(max_retries=0, time_limit=500)
def busy(boot):
    start = time.monotonic()
    try:
        while time.monotonic() - start < 4:
            pass
        print(f"boot {boot}: no limit")
    except BaseException as error:
        print(f"boot {boot}: {type(error).__name__}")


worker = Worker(broker, worker_timeout=100)
worker.start()
for boot in (False, True):
    if boot:
        broker.emit_after("process_boot")
    busy.send(boot)
    broker.join(busy.queue_name)
    worker.join()
worker.stop()
END
expect "$(python program.py 2>/dev/null)" <<'END'
boot False: no limit
boot True: TimeLimitExceeded
END
